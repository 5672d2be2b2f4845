/* Serve a broker on a listening socket. */
#include "hub/broker/conn.h"

#include <weft/group.h>
#include <weft/io.h>
#include <weft/net.h>

#include <errno.h>

typedef struct server {
    weft_hub_broker *broker;
    weft_group group; /* the connections of this server */
} server;

/* Accept a connection. A connection that memory is missing for is closed. */
static int serve_conn(int fd, void *ctx)
{
    server *s = ctx;
    const weft_spin_options options = {.name = "broker connection", .drop = weft__broker_conn_drop};
    weft__broker_conn *conn = weft__broker_conn_new(s->broker, fd);
    if (conn == NULL) {
        weft_close(fd);
        return 0;
    }
    weft__broker_hold(s->broker);
    if (weft_group_spin_with(&s->group, weft__broker_conn_run, conn, &options) == 0)
        weft__broker_conn_drop(conn);
    return 0;
}

int weft_hub_broker_serve(weft_hub_broker *broker, int fd)
{
    int rc = weft__broker_check(broker, "weft_hub_broker_serve");
    if (rc < 0)
        return rc;
    server s = {.broker = broker};
    rc = weft_group_open(&s.group);
    if (rc < 0)
        return rc;
    weft__broker_hold(broker); /* the caller may release the broker meanwhile */
    rc = weft_accept_loop(fd, serve_conn, &s);
    weft_group_cancel(&s.group);
    int closed = weft_group_close(&s.group);
    weft_hub_broker_release(broker);
    return rc < 0 ? rc : closed;
}
