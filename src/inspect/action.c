/* Actions that need the token: stop a fiber, write a dump of a fiber. */
#include "inspect/inspect.h"

#include <weft/cord.h>
#include <weft/scope.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STOP_S 2.0 /* the time for the cord of the fiber to reply */

static weft_value stop_fiber(void *arg)
{
    return weft_cancel(*(weft_fiber *)arg);
}

/* Stop a fiber in its cord. Returns 0 or an error. */
static int stop_in_cord(weft_cord cord, weft_fiber fiber)
{
    weft_value rc = 0;
    int timed_out;
    WEFT_CANCEL_AFTER(STOP_S, timed_out) {
        rc = cord == weft_cord_self()
                 ? weft_cancel(fiber)
                 : weft_cord_call_with(
                       cord, stop_fiber, &fiber,
                       &(weft_call_options){.arg_bytes = sizeof fiber, .name = "inspector"});
    }
    return timed_out < 0 ? -ETIMEDOUT : (int)rc;
}

/* Check the token and the origin. Returns 0, or the status of a refusal. */
static int action_refusal(weft_http_request *r, const weft_inspector *i)
{
    if (i->token == NULL)
        return 404;
    if (strcmp(weft_http_method(r), "POST") != 0)
        return 405;
    if (!weft__access_is_same_origin(r))
        return 403;
    return weft__access_has_token(r, i) ? 0 : 401;
}

static int refuse_action(weft_http_request *r, int status)
{
    if (status == 405)
        weft_http_set(r, "Allow", "POST");
    if (status == 401)
        weft_http_set(r, "WWW-Authenticate", "Bearer");
    return weft_http_reply_status(r, status);
}

static int reply_failure(weft_http_request *r, int rc)
{
    if (rc == -ESRCH)
        return weft_http_reply_text(r, 404, "The fiber has ended.\n");
    if (rc == -EINVAL)
        return weft_http_reply_text(r, 409, "The fiber is the main fiber of its cord.\n");
    if (rc == -ETIMEDOUT)
        return weft_http_reply_text(r, 504, "The cord of the fiber is stalled.\n");
    return rc;
}

/* Get a snapshot of the fiber in the form. Replies, and returns NULL, if there is none. */
static weft_snapshot *snapshot_of_form(weft_http_request *r, weft_inspector *i, int *rc)
{
    weft_snapshot *s = NULL;
    const char *id = weft_http_form(r, "id", rc);
    if (*rc == 0)
        *rc = weft__fiber_snapshot(i, id, &s);
    if (*rc < 0)
        *rc = reply_failure(r, *rc);
    return s;
}

int weft__serve_stop(weft_http_request *r, weft_inspector *i)
{
    int rc = action_refusal(r, i);
    if (rc != 0)
        return refuse_action(r, rc);
    weft_snapshot *s = snapshot_of_form(r, i, &rc);
    if (s == NULL)
        return rc;
    rc = stop_in_cord(s->cords[s->fibers[0].cord].id, s->fibers[0].info.id);
    weft_snapshot_free(s);
    return rc < 0 ? reply_failure(r, rc) : weft_http_reply_text(r, 200, "Stopped.\n");
}

/* A name such as "f (a.c:12)", or an address if it has no name. */
static void add_symbol(weft__strbuf *out, weft_inspector *i, const void *address)
{
    weft_symbol s = weft__symbol_get(i, address);
    if (s.function[0] != '\0')
        weft__strbuf_printf(out, "%s", s.function);
    else
        weft__strbuf_printf(out, "%s+%#llx", s.module, (unsigned long long)s.offset);
    if (s.file[0] != '\0')
        weft__strbuf_printf(out, " (%s:%u)", s.file, s.line);
}

static void add_dump(weft__strbuf *out, weft_inspector *i, const weft_snapshot_fiber *f)
{
    const weft_info *info = &f->info;
    weft__strbuf_printf(out, "#%llu '%s' %s", (unsigned long long)info->id, info->name,
                        weft__state_name(info->state));
    if (info->waits_for[0] != '\0')
        weft__strbuf_printf(out, ": %s for %.1f s", info->waits_for, info->waiting_s);
    if (info->waits_for_fiber != 0)
        weft__strbuf_printf(out, ", fiber #%llu", (unsigned long long)info->waits_for_fiber);
    if (info->fd >= 0)
        weft__strbuf_printf(out, ", descriptor %d %s %s", info->fd, f->local, f->peer);
    weft__strbuf_printf(out, "; stack %zu of %zu; %llu switches\n", info->stack_used,
                        info->stack_bytes, (unsigned long long)info->switches);
    for (size_t n = 0; n < f->frames_count; n++) {
        weft__strbuf_printf(out, "    %p ", f->frames[n]);
        add_symbol(out, i, (const char *)f->frames[n] - 1);
        weft__strbuf_add(out, "\n", 1);
    }
}

int weft__serve_dump(weft_http_request *r, weft_inspector *i)
{
    int rc = action_refusal(r, i);
    if (rc != 0)
        return refuse_action(r, rc);
    weft_snapshot *s = snapshot_of_form(r, i, &rc);
    if (s == NULL)
        return rc;
    weft__strbuf text = {0};
    add_dump(&text, i, &s->fibers[0]);
    weft_snapshot_free(s);
    if (!text.has_failed && write(STDERR_FILENO, text.data, text.bytes) >= 0)
        rc = weft_http_reply(r, 200, "text/plain; charset=utf-8", text.data, text.bytes);
    else
        rc = text.has_failed ? -ENOMEM : -errno;
    free(text.data);
    return rc;
}
