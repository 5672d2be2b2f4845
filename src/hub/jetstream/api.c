/* Requests to JetStream: one attempt, and attempts until a server with a leader replies. */
#include "hub/jetstream/api.h"

#include "hub/text/subject.h"

#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* The waits between attempts double from the first to the longest. */
#define RETRY_FIRST_S 0.02
#define RETRY_LONGEST_S 1.0

/* A server that starts is without JetStream for a moment. Then a hub knows that there is none. */
#define NO_JETSTREAM_S 2.0

/* A server that starts joins its cluster within this time. Then replicas are too many. */
#define NO_PEERS_S 10.0
#define NO_PEERS 10005

void weft__js_answer_free(weft__js_answer *a)
{
    weft__json_free(&a->doc);
    weft__reply_free(&a->reply);
    *a = (weft__js_answer){0};
}

int weft__js_check_name(const weft_hub *hub, const char *function, const char *name)
{
    int rc = weft__hub_check_start(hub);
    if (rc < 0)
        return rc;
    if (name == NULL || !weft__name_is_valid(name))
        return weft_fail(-EINVAL, "%s: the name %.40s is not valid", function,
                         name == NULL ? "NULL" : name);
    return 0;
}

int weft__js_check_token(const weft_hub *hub, const char *function, const char *name)
{
    int rc = weft__hub_check_start(hub);
    if (rc < 0)
        return rc;
    if (name == NULL || !weft__token_is_valid(name))
        return weft_fail(-EINVAL, "%s: the name %.70s is not one token", function,
                         name == NULL ? "NULL" : name);
    return 0;
}

/* The errors of JetStream (err_code) that are not described by their code of HTTP. */
static const struct {
    int err_code, code;
} js_errors[] = {
    {10002, -ENOSPC}, /* resource limits exceeded for account */
    {NO_PEERS, -EAGAIN},
    {10007, -EAGAIN},  /* cluster not assigned to this server */
    {10009, -EAGAIN},  /* not the leader */
    {10013, -EEXIST},  /* consumer name already in use */
    {10028, -ENOSPC},  /* insufficient memory resources */
    {10036, -ENOTSUP}, /* not supported in clustered mode */
    {10039, -ENOTSUP}, /* JetStream not enabled for account */
    {10043, -ENOENT},  /* sequence not found */
    {10047, -ENOSPC},  /* insufficient storage resources */
    {10054, -EMSGSIZE},
    {10058, -EEXIST}, /* stream name already in use */
    {10065, -EEXIST}, /* subjects overlap with an existing stream */
    {WEFT__JS_WRONG_SEQUENCE, -ESTALE},
    {10074, -EINVAL},   /* replicas without a cluster */
    {10076, -ENOTSUP},  /* JetStream not enabled */
    {10097, -EMSGSIZE}, /* headers */
    {10118, -EAGAIN},   /* stream is offline */
    {10119, -EAGAIN},   /* consumer is offline */
    {10148, -EEXIST},   /* consumer already exists */
    {10158, -EAGAIN},   /* duplicate message id is in process */
    {10164, -ESTALE},   /* wrong last sequence, of newer servers */
    {10167, -EAGAIN},   /* too many requests */
};

static int js_error_code(int64_t status, int64_t err_code)
{
    for (size_t i = 0; i < sizeof js_errors / sizeof js_errors[0]; i++) {
        if (js_errors[i].err_code == err_code)
            return js_errors[i].code;
    }
    switch (status) {
    case 400:
        return -EINVAL;
    case 403:
        return -EPERM;
    case 404:
        return -ENOENT;
    case 503: /* temporarily unavailable; also: a queue is full */
        return -EAGAIN;
    default:
        return -EIO;
    }
}

/* Return the error of a reply, with the words of the server unless the request is repeated. */
static int answer_error(const weft__js_answer *a, weft__slice subject)
{
    if (weft__json_find(&a->doc, "error") == NULL)
        return 0;
    int code = js_error_code(weft__json_integer(&a->doc, "error.code", 0),
                             weft__json_integer(&a->doc, "error.err_code", 0));
    if (code == -EAGAIN || code == -ESTALE || code == -ENOENT)
        return code;
    char text[160] = "";
    weft__json_copy_string(&a->doc, "error.description", text, sizeof text);
    return weft_fail(code, "%.*s: %s", (int)(subject.bytes < 80 ? subject.bytes : 80), subject.data,
                     text);
}

/* The part of a hub is not NULL after a server has replied as JetStream does. */
static void note_jetstream(weft_hub *hub)
{
    static char has_jetstream;
    *weft__hub_part_at(hub, WEFT__HUB_KEYS) = &has_jetstream;
}

int weft__js_attempt(weft_hub *hub, const weft__publication *p, double attempt_s,
                     weft__js_answer *out)
{
    *out = (weft__js_answer){0};
    int rc = weft__hub_request(hub, p, attempt_s, &out->reply);
    if (rc < 0)
        return rc;
    rc = weft__json_parse(&out->doc, out->reply.payload.data, out->reply.payload.bytes);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return weft_fail(-EPROTO, "a reply of JetStream is not JSON");
    note_jetstream(hub);
    return answer_error(out, p->subject);
}

bool weft__js_is_lost(int code)
{
    return code == -ETIMEDOUT || code == -ECONNRESET;
}

int weft__js_retry_wait(weft__js_retry *r, weft_hub *hub)
{
    if (r->delay_s == 0) {
        r->delay_s = RETRY_FIRST_S;
        r->begin_s = weft_now();
    }
    int rc = weft_sleep(r->delay_s);
    r->delay_s = 2 * r->delay_s < RETRY_LONGEST_S ? 2 * r->delay_s : RETRY_LONGEST_S;
    return rc < 0 ? rc : weft__hub_check(hub);
}

/* Return whether attempts have failed for a number of seconds. */
static bool retry_is_over(const weft__js_retry *r, double seconds)
{
    return r->delay_s != 0 && weft_now() - r->begin_s > seconds;
}

/* Return 0 if a failed request must be repeated, or the final error. */
static int api_failure(weft_hub *hub, int code, const weft__js_answer *a, const weft__js_retry *r)
{
    if (code == -EHOSTUNREACH) {
        bool has_jetstream = *weft__hub_part_at(hub, WEFT__HUB_KEYS) != NULL;
        return has_jetstream || !retry_is_over(r, NO_JETSTREAM_S)
                   ? 0
                   : weft_fail(-ENOTSUP, "the server has no JetStream");
    }
    if (code == -EAGAIN && weft__json_integer(&a->doc, "error.err_code", 0) == NO_PEERS &&
        retry_is_over(r, NO_PEERS_S))
        return weft_fail(-EAGAIN, "too few servers are running for the replicas");
    return code == -EAGAIN || weft__js_is_lost(code) ? 0 : code;
}

int weft__js_api(weft_hub *hub, const char *subject, const char *json, weft__js_answer *out)
{
    char full[WEFT__JS_SUBJECT_BYTES];
    snprintf(full, sizeof full, "$JS.API.%s", subject);
    weft__publication p = {.subject = weft__slice_of(full), .payload = weft__slice_of(json)};
    weft__js_retry retry = {0};
    for (;;) {
        int rc = weft__js_attempt(hub, &p, WEFT__JS_ATTEMPT_S, out);
        if (rc == 0)
            return 0;
        rc = api_failure(hub, rc, out, &retry);
        if (rc < 0)
            return rc;
        weft__js_answer_free(out);
        rc = weft__js_retry_wait(&retry, hub);
        if (rc < 0)
            return rc;
    }
}

int weft__js_event_wait(weft_event *event, double seconds)
{
    int rc = 0, timeout = 0;
    WEFT_CANCEL_AFTER(seconds > 0 ? seconds : 0, timeout) {
        rc = weft_event_wait(event);
    }
    return timeout == -ETIMEDOUT ? 0 : rc;
}
