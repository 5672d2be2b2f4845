/*
 * A request that switches its connection to another protocol (RFC 9110, 7.8), or a stream of HTTP/2
 * (RFC 8441).
 */
#include "http/client/fetch.h"

#include <weft/error.h>

#include <errno.h>
#include <string.h>
#include <strings.h>

static int check_upgrade(const weft_fetch_request *request, const char *protocol)
{
    if (protocol == NULL || *protocol == '\0' || !weft__fetch_is_field_value(protocol))
        return weft_fail(-EINVAL, "weft_fetch_upgrade: protocol is not a valid field value");
    int rc = weft__fetch_request_check(request);
    if (rc < 0)
        return rc;
    if (request->body != NULL)
        return weft_fail(-EINVAL, "weft_fetch_upgrade: request has a body");
    if (weft__fetch_request_field(request, "Connection") != NULL)
        return weft_fail(-EPERM, "weft_fetch_upgrade: the field Connection is reserved");
    return 0;
}

/*
 * Get a stream of HTTP/2, if the server supports extended CONNECT. Over TLS, use only a connection
 * that exists: a new connection is as fast with HTTP/1, which more servers support. Return 1, 0 if
 * the client must use HTTP/1, or an error.
 */
static int acquire_h2(weft_fetch *f)
{
    const char *protocol = f->upgrade;
    f->upgrade = NULL; /* so that the fetch may share a connection */
    int rc = weft__origin_enter(f);
    bool may_use = rc == 0 && weft__origin_may_share(f) &&
                   (f->origin->shared != NULL || strcmp(f->url.scheme, "http") == 0);
    if (rc == 0)
        weft__origin_leave(f);
    if (may_use)
        rc = weft__conn_pool_acquire(f, false);
    f->upgrade = protocol;
    if (rc < 0 || !may_use)
        return rc;
    rc = f->codec == &weft__fetch_h2 ? weft__h2_conn_allows_connect(f) : 0;
    if (rc <= 0)
        weft__conn_pool_release(f, false);
    return rc;
}

/* Open a tunnel over a stream of HTTP/2. Return the status, or an error. */
static int upgrade_exchange_h2(weft_fetch *f)
{
    int rc = f->codec->send(f);
    return rc < 0 ? rc : weft__fetch_response_await(f);
}

/* Send the request and wait for a final response or 101. Return the status, or an error. */
static int upgrade_exchange(weft_fetch *f)
{
    int joined = acquire_h2(f);
    if (joined != 0)
        return joined < 0 ? joined : upgrade_exchange_h2(f);
    f->response.is_to_upgrade = true;
    /* An idle connection to a proxy has no tunnel. No other request can reuse this connection. */
    int rc = weft__conn_pool_acquire(f, true);
    if (rc < 0)
        return rc;
    f->must_close = true;
    rc = f->codec->send(f);
    /* The server may have sent a response before it closed the connection. */
    return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? rc : weft__fetch_response_await(f);
}

/* Check the protocol of a 101 response. */
static int check_switch(const weft_fetch *f)
{
    const char *protocol = weft_fetch_header(f, "Upgrade");
    if (protocol != NULL && strcasecmp(protocol, f->upgrade) == 0)
        return 101;
    return weft_fail(-EBADMSG, "%s: the server switched to %s, not to %s", f->url_text,
                     protocol != NULL ? protocol : "no protocol", f->upgrade);
}

int weft_fetch_upgrade(weft_fetcher *fetcher, const weft_fetch_request *request,
                       const char *protocol, weft_fetch **fetch, weft_stream **stream)
{
    weft_fetch *f;
    *fetch = NULL;
    *stream = NULL;
    int rc = check_upgrade(request, protocol);
    if (rc == 0)
        rc = weft__fetch_make(fetcher, request, &f);
    if (rc < 0)
        return rc;
    f->upgrade = protocol;
    rc = upgrade_exchange(f);
    if (rc == 101)
        rc = check_switch(f);
    f->request = (weft_fetch_request){0}; /* the request and the protocol belong to the caller */
    f->upgrade = NULL;
    if (rc < 0) {
        (void)weft__fetch_fail(f, rc);
        weft_fetch_close(f);
        return rc;
    }
    if (f->codec == &weft__fetch_h2 && rc >= 200 && rc < 300)
        *stream = weft__h2_conn_tunnel(f);
    if (rc == 101) {
        weft__conn_pool_detach(f);
        *stream = &f->conn->stream;
    }
    *fetch = f;
    return rc;
}
