/* HTTP/2 of the client in a build without nghttp2: no connection uses it. */
#include "http/client/fetch.h"

#include <errno.h>

const weft__fetch_codec weft__fetch_h2 = {0};

int weft__h2_conn_open(weft__fetch_conn *conn)
{
    (void)conn;
    return -ENOTSUP;
}

void weft__h2_conn_close(weft__fetch_conn *conn, bool is_aborted)
{
    (void)conn, (void)is_aborted;
}

bool weft__h2_conn_has_room(const weft__fetch_conn *conn)
{
    (void)conn;
    return false;
}

int weft__h2_conn_check(weft__fetch_conn *conn)
{
    (void)conn;
    return 1;
}

int weft__h2_conn_attach(weft__fetch_conn *conn, weft_fetch *f)
{
    (void)conn, (void)f;
    return -ENOTSUP;
}

int weft__h2_conn_allows_connect(weft_fetch *f)
{
    (void)f;
    return 0;
}

weft_stream *weft__h2_conn_tunnel(weft_fetch *f)
{
    (void)f;
    return NULL;
}

void weft__h2_conn_forget(weft__fetch_conn *conn)
{
    (void)conn;
}

void weft__h2_fetch_free(weft_fetch *f)
{
    (void)f;
}

weft__fetch_conn *weft__h2_fetch_conn(const weft_fetch *f)
{
    (void)f;
    return NULL;
}
