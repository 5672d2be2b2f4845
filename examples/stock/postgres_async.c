/*
 * PostgreSQL with the asynchronous functions of libpq, without libweft-posix.
 * usage: postgres_async [CONNECTION-STRING]
 */
#include <weft.h>

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static int done; /* queries */

static void close_connection(PGconn *c)
{
    weft_fd_forget(PQsocket(c)); /* libpq closes the socket */
    PQfinish(c);
}

/* Connect. libpq may replace the socket in each step, and weft then forgets the old descriptor. */
static PGconn *open_connection(const char *address)
{
    PGconn *c = PQconnectStart(address);
    PostgresPollingStatusType step = PGRES_POLLING_WRITING;
    while (c != NULL && (step == PGRES_POLLING_READING || step == PGRES_POLLING_WRITING)) {
        int fd = PQsocket(c);
        if (fd < 0 || weft_wait_fd(fd, step == PGRES_POLLING_READING ? POLLIN : POLLOUT) < 0)
            break;
        weft_fd_forget(fd);
        step = PQconnectPoll(c);
    }
    if (step == PGRES_POLLING_OK)
        return c;
    weft_fail(-ECONNREFUSED, "%s", PQerrorMessage(c));
    close_connection(c);
    return NULL;
}

static int wait_and_read(PGconn *c, int events)
{
    int rc = weft_wait_fd(PQsocket(c), events);
    return rc < 0 ? rc : PQconsumeInput(c) == 1 ? 0 : -EIO;
}

/* Send a query and wait for its result. If the result is NULL, close the connection. */
static PGresult *query(PGconn *c, const char *text)
{
    int rc = PQsendQuery(c, text) == 1 ? 0 : -EIO;
    while (rc == 0 && PQflush(c) > 0)
        rc = wait_and_read(c, POLLIN | POLLOUT);
    while (rc == 0 && PQisBusy(c))
        rc = wait_and_read(c, POLLIN);
    PGresult *result = rc == 0 ? PQgetResult(c) : NULL;
    if (result != NULL)
        PQclear(PQgetResult(c)); /* NULL: the query is complete */
    return result;
}

static weft_value ask(void *address)
{
    PGconn *c = open_connection(address);
    if (c == NULL)
        return -ECONNREFUSED;
    PQsetnonblocking(c, 1);
    PGresult *r = query(c, "select 1 from pg_sleep(0.1)");
    done += PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    close_connection(c);
    return 0;
}

int main(int argc, char **argv)
{
    char *address = argc > 1 ? argv[1] : getenv("STOCK_POSTGRES");
    for (int i = 0; i < 100; i++)
        weft_go_with(ask, address, &(weft_spin_options){.stack_bytes = 256 * 1024});
    weft_await_children();
    printf("%d queries\n", done);
}
