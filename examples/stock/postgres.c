/* PostgreSQL with libpq: 100 fibers share 10 connections, and cancel slow queries. */
#include <weft.h>
#include <weft/posix.h>

#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_value open_connection(void *address)
{
    PGconn *c = PQconnectdb(address);
    if (PQstatus(c) == CONNECTION_OK)
        return (weft_value)c;
    weft_fail(-ECONNREFUSED, "%s", PQerrorMessage(c));
    PQfinish(c);
    return -ECONNREFUSED;
}

static void close_connection(weft_value c, void *arg)
{
    (void)arg;
    PQfinish((PGconn *)c);
}

/* PQexec failed, but the server still runs the query. The shield is for a cancelled fiber. */
static void stop_query(PGconn *c)
{
    char error[256];
    PGcancel *cancel = PQgetCancel(c);
    WEFT_SHIELD(1.0) {
        PQcancel(cancel, error, sizeof error);
    }
    PQfreeCancel(cancel);
}

/* Run a query for at most timeout_s seconds. Return its number, or an error. */
static int query(weft_pool *pool, const char *text, double timeout_s)
{
    weft_value c = weft_pool_acquire(pool);
    if (weft_is_error(c))
        return (int)c;
    PGresult *r = NULL;
    int rc = 0;
    WEFT_CANCEL_AFTER(timeout_s, rc) {
        r = PQexec((PGconn *)c, text);
    }
    if (PQresultStatus(r) == PGRES_TUPLES_OK) {
        rc = atoi(PQgetvalue(r, 0, 0));
        weft_pool_release(pool, c);
    } else { /* the reply may still arrive, so do not use the connection again */
        rc = rc < 0 ? rc : -EIO;
        stop_query((PGconn *)c);
        weft_pool_discard(pool, c);
    }
    PQclear(r);
    return rc;
}

static int done; /* queries */
static weft_value ask(void *pool)
{
    return done += query(pool, "select 1 from pg_sleep(0.01)", 10.0) == 1;
}

int main(int argc, char **argv)
{
    if (weft_adopt("libpq.so", NULL) < 0)
        return 1;
    char *address = argc > 1 ? argv[1] : getenv("STOCK_POSTGRES"); /* a connection string */
    weft_pool_options options = {10, open_connection, close_connection, address};
    weft_pool *pool = weft_pool_new(&options);
    for (int i = 0; i < 100; i++)
        weft_go_with(ask, pool, &(weft_spin_options){.stack_bytes = 256 * 1024});
    weft_await_children();
    printf("%d queries, %zu connections\n", done, weft_pool_size(pool));
    printf("a slow query: %s\n", strerror(-query(pool, "select 1 from pg_sleep(60)", 0.2)));
    return weft_pool_free(pool) < 0;
}
