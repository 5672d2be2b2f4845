/* libpq: blocking functions, and asynchronous functions with weft_wait_fd. */
#include "stock.h"

#include <weft.h>

#include <libpq-fe.h>
#include <poll.h>

static void *open_unix(void)
{
    PGconn *c = PQconnectdb(setting("STOCK_POSTGRES"));
    require(PQstatus(c) == CONNECTION_OK, PQerrorMessage(c));
    return c;
}

static void *open_tls(void)
{
    PGconn *c = PQconnectdb(setting("STOCK_POSTGRES_TLS"));
    require(PQstatus(c) == CONNECTION_OK, PQerrorMessage(c));
    return c;
}

static void query(PGconn *c, const char *text)
{
    PGresult *r = PQexec(c, text);
    require(PQresultStatus(r) == PGRES_TUPLES_OK, PQerrorMessage(c));
    PQclear(r);
}

static void pg_request(void *conn)
{
    query(conn, "select 1");
}

static void pg_wait(void *conn)
{
    query(conn, "select pg_sleep(1)");
}

static void pg_close(void *conn)
{
    PQfinish(conn);
}

/* Connections of the asynchronous client open one after the other, before the measurement. */
static void *open_async(void)
{
    PGconn *c = open_unix();
    require(PQsetnonblocking(c, 1) == 0, PQerrorMessage(c));
    return c;
}

static void request_async(void *conn)
{
    require(PQsendQuery(conn, "select 1") == 1, PQerrorMessage(conn));
    while (PQflush(conn) > 0)
        require(weft_wait_fd(PQsocket(conn), POLLOUT) > 0, "weft_wait_fd");
    while (PQisBusy(conn)) {
        require(weft_wait_fd(PQsocket(conn), POLLIN) > 0, "weft_wait_fd");
        require(PQconsumeInput(conn) == 1, PQerrorMessage(conn));
    }
    PGresult *r = PQgetResult(conn);
    require(PQresultStatus(r) == PGRES_TUPLES_OK, PQerrorMessage(conn));
    PQclear(r);
    PQclear(PQgetResult(conn));
}

static void close_async(void *conn)
{
    weft_fd_forget(PQsocket(conn));
    PQfinish(conn);
}

const client postgres_client = {"libpq.so", open_unix, pg_request, pg_wait, pg_close};
const client postgres_tls_client = {"libpq.so", open_tls, pg_request, pg_wait, pg_close};
const client postgres_async_client = {NULL, open_async, request_async, NULL, close_async};
