/* The switch of a connection to another protocol (RFC 9110, 7.8). */
#include "http/server/server.h"
#include "http/text/field.h"

#include <weft/error.h>

int weft__upgrade_is_requested(weft_http_request *r, const char *protocol)
{
    if (!r->is_upgrade)
        return 0;
    const char *requested = weft__request_join(r, "Upgrade");
    if (requested == NULL)
        return -ENOMEM;
    return weft__field_has_token(requested, strlen(requested), protocol);
}

static int upgrade_check(weft_http_request *r, const char *protocol)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (!weft__field_is_value(protocol, strlen(protocol)))
        return weft_fail(-EINVAL, "weft_http_upgrade: protocol is not a valid field value");
    int rc = weft__upgrade_is_requested(r, protocol);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return weft_fail(-EINVAL, "weft_http_upgrade: the client did not request protocol %s",
                         protocol);
    if (!r->is_body_complete)
        return weft_fail(-EINVAL, "weft_http_upgrade: the request has an unread body");
    return 0;
}

int weft_http_upgrade(weft_http_request *r, const char *protocol, weft_stream **stream)
{
    int rc = upgrade_check(r, protocol);
    if (rc < 0)
        return rc;
    rc = r->codec->upgrade(r, protocol, stream);
    if (rc == 0)
        r->state = WEFT__REPLY_UPGRADED;
    return rc;
}

int weft_http_hijack(weft_http_request *r, weft_stream **stream)
{
    bool is_read_in_part = r->body_bytes > 0 && (!r->is_body_complete || r->piece_bytes > 0);
    if (r->state != WEFT__REPLY_NONE || is_read_in_part)
        return -EALREADY;
    if (r->codec->hijack == NULL)
        return weft_fail(-ENOTSUP, "weft_http_hijack: other requests share the connection");
    *stream = r->codec->hijack(r);
    r->state = WEFT__REPLY_UPGRADED;
    return 0;
}

void weft__drain_wait_begin(weft__drain_wait *w, weft_http_request *r, weft_scope *scope)
{
    w->scope = scope;
    weft__list_insert(&r->server->drain_waits, &w->link);
}

void weft__drain_wait_end(weft__drain_wait *w)
{
    weft__list_remove(&w->link);
}

void weft__upgraded_abandon_input(weft_http_request *r)
{
    r->is_body_abandoned = true;
}
