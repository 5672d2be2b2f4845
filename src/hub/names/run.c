/* Run a child in another process: weft_hub_run. */
#include "hub/jetstream/keys.h"
#include "hub/names/place.h"
#include "hub/text/header.h"
#include "hub/text/subject.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A hub that has lost its connection returns in this time, if its process has not ended. */
#define GONE_S 2.0

/* Hubs that reply that they are busy, before a run gives up. Each one has left the queue group. */
#define BUSY_MAX 64

/* A cancelled run waits so long for the end of its child. */
#define CANCEL_S 5.0

#define MESSAGE_BYTES 256 /* of the error of a child */

typedef enum run_state {
    RUN_OFFERED,  /* no reply yet */
    RUN_BUSY,     /* the hub that got the job has too many children */
    RUN_NO_OFFER, /* no hub offers the kind */
    RUN_ACCEPTED, /* the child has started */
    RUN_ENDED     /* value is valid */
} run_state;

typedef struct remote_run {
    weft_hub *hub;
    const weft_hub_child *job;
    uint64_t token;
    weft__subscription *subscription;
    char inbox[WEFT__INBOX_BYTES];
    run_state state;
    weft_event changed;
    char child[WEFT__INBOX_BYTES]; /* the subject of the child, once accepted */
    double heard_s;                /* the last message of the child */
    double missing_s;              /* since when there are no responders; 0: there are */
    uint64_t connection;           /* of the hub, at the last ping */
    weft_value value;
    char message[MESSAGE_BYTES]; /* of the error in value; "": none */
} remote_run;

static void run_set_state(remote_run *r, run_state state)
{
    r->state = state;
    weft_event_set(&r->changed);
}

/* Copy a slice as text, cut to the room. */
static void slice_copy(char *out, size_t room, weft__slice s)
{
    snprintf(out, room, "%.*s", (int)(s.bytes < room ? s.bytes : room - 1),
             s.data == NULL ? "" : s.data);
}

static void run_on_reply_to_job(remote_run *r, const weft__delivery *d)
{
    weft__slice child = weft__header_find(d->headers, WEFT__HEADER_CHILD);
    if (weft__header_status(d->headers) == 503) {
        run_set_state(r, RUN_NO_OFFER);
    } else if (child.bytes > 0 && child.bytes < sizeof r->child) {
        slice_copy(r->child, sizeof r->child, child);
        r->heard_s = weft_now();
        run_set_state(r, RUN_ACCEPTED);
    } else if (weft__header_find(d->headers, WEFT__HEADER_BUSY).data != NULL) {
        run_set_state(r, RUN_BUSY);
    }
}

static void run_on_end(remote_run *r, const weft__delivery *d, weft__slice value)
{
    char text[24];
    slice_copy(text, sizeof text, value);
    r->value = (weft_value)strtoll(text, NULL, 10);
    slice_copy(r->message, sizeof r->message, d->payload);
    run_set_state(r, RUN_ENDED);
}

static void run_on_delivery(void *ctx, const weft__delivery *d)
{
    remote_run *r = ctx;
    weft__slice value = weft__header_find(d->headers, WEFT__HEADER_VALUE);
    if (value.data != NULL) {
        weft__hub_publish_now(r->hub, &(weft__publication){.subject = d->reply});
        if (r->state != RUN_ENDED)
            run_on_end(r, d, value);
    } else if (r->state == RUN_OFFERED) {
        run_on_reply_to_job(r, d);
    } else if (r->state == RUN_ACCEPTED && weft__header_status(d->headers) == 503) {
        r->missing_s = r->missing_s == 0 ? weft_now() : r->missing_s;
    } else if (r->state == RUN_ACCEPTED) {
        r->heard_s = weft_now();
        r->missing_s = 0;
    }
}

/* Send the job to one of the hubs that offer the kind. */
static int run_offer(remote_run *r)
{
    char subject[WEFT__JS_SUBJECT_BYTES], headers[96];
    snprintf(subject, sizeof subject, WEFT__OFFER_SUBJECT, r->job->kind);
    snprintf(headers, sizeof headers, "NATS/1.0\r\n" WEFT__HEADER_TOKEN ": %" PRIu64 "\r\n\r\n",
             r->token);
    weft__publication p = {.subject = weft__slice_of(subject),
                           .reply = weft__slice_of(r->inbox),
                           .headers = weft__slice_of(headers),
                           .payload = {r->job->data, r->job->bytes}};
    int rc = weft__hub_wait_connected(r->hub);
    if (rc < 0)
        return rc;
    r->state = RUN_OFFERED;
    r->connection = weft__hub_connection(r->hub);
    return weft__hub_publish(r->hub, &p);
}

static double run_lease_s(const remote_run *r)
{
    return weft__hub_options(r->hub)->lease_s;
}

static int run_owner_dead(const remote_run *r, const char *reason)
{
    return weft_fail(-EOWNERDEAD, "weft_hub_run: the child of kind %.100s %s", r->job->kind,
                     reason);
}

/* Wait for the first reply. Returns 0 if the child has started, or an error. */
static int run_wait_accepted(remote_run *r)
{
    double end_s = weft_now() + run_lease_s(r);
    while (r->state == RUN_OFFERED) {
        int rc = weft__js_event_wait(&r->changed, WEFT__PLACE_PING_S);
        if (rc == 0)
            rc = weft__hub_check(r->hub);
        if (rc < 0)
            return rc;
        bool is_lost = r->connection != weft__hub_connection(r->hub);
        if (r->state == RUN_OFFERED && (is_lost || weft_now() > end_s))
            return run_owner_dead(r, "may have started, but did not reply");
    }
    return r->state >= RUN_ACCEPTED ? 0 : -EHOSTUNREACH;
}

/* Find a hub for the job. Returns 0 if the child has started, or an error. */
static int run_start(remote_run *r)
{
    int rc = -EHOSTUNREACH;
    for (int i = 0; i < BUSY_MAX; i++) {
        rc = run_offer(r);
        if (rc == 0)
            rc = run_wait_accepted(r);
        if (rc == 0 || r->state != RUN_BUSY)
            break;
    }
    if (rc == -EHOSTUNREACH)
        return weft_fail(rc, "weft_hub_run: no process offers the kind %.100s, or all are busy",
                         r->job->kind);
    return rc;
}

static void run_send(const remote_run *r, const char *text)
{
    weft__publication p = {.subject = weft__slice_of(r->child),
                           .reply = weft__slice_of(r->inbox),
                           .payload = weft__slice_of(text)};
    if (weft__hub_is_connected(r->hub))
        weft__hub_publish_now(r->hub, &p);
}

/* Return -EOWNERDEAD if the process of the child is gone. */
static int run_check_child(remote_run *r)
{
    double now_s = weft_now();
    if (r->connection != weft__hub_connection(r->hub)) { /* the other hub may be connecting, too */
        r->connection = weft__hub_connection(r->hub);
        r->missing_s = 0;
    }
    if (r->missing_s != 0 && now_s - r->missing_s > GONE_S)
        return run_owner_dead(r, "has ended, or lost its connection");
    if (now_s - r->heard_s > run_lease_s(r))
        return run_owner_dead(r, "is silent");
    return 0;
}

/* Wait for the end of the child, and send it a text once in a while. Returns 0 or an error. */
static int run_wait_ended(remote_run *r, const char *text)
{
    while (r->state != RUN_ENDED) {
        run_send(r, text);
        int rc = weft__js_event_wait(&r->changed, WEFT__PLACE_PING_S);
        if (rc == 0)
            rc = weft__hub_check(r->hub);
        if (rc == 0 && r->state != RUN_ENDED)
            rc = run_check_child(r);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The caller is cancelled. Cancel the child, and wait for its end. */
static void run_cancel(remote_run *r)
{
    WEFT_SHIELD(CANCEL_S) {
        if (r->state == RUN_OFFERED)
            run_wait_accepted(r);
        if (r->state == RUN_ACCEPTED)
            run_wait_ended(r, WEFT__CHILD_CANCEL);
    }
}

static weft_value run_result(const remote_run *r)
{
    if (!weft_is_error(r->value))
        return r->value;
    return weft_fail((int)r->value, "%s", r->message[0] == '\0' ? "the child failed" : r->message);
}

static weft_value run_child(remote_run *r)
{
    weft__hub_inbox(r->hub, r->inbox);
    r->subscription = weft__hub_subscribe(r->hub, r->inbox, NULL, run_on_delivery, r);
    if (r->subscription == NULL)
        return weft_error()->code;
    int rc = run_start(r);
    if (rc == 0)
        rc = run_wait_ended(r, "");
    if (rc < 0 && weft_is_cancelled())
        run_cancel(r);
    weft__hub_unsubscribe(r->subscription);
    return rc < 0 ? rc : run_result(r);
}

/*
 * The token is a revision of a key: it grows with each run. Programs cannot use the key, because
 * its name is reserved.
 */
static int run_take_token(remote_run *r)
{
    char key[WEFT__NAME_BYTES_MAX + 32];
    snprintf(key, sizeof key, "weft.place.%s", r->job->kind);
    r->token = WEFT_HUB_ANY_REVISION;
    return weft__key_set(r->hub, key, (weft__slice){0}, &r->token);
}

weft_value weft_hub_run(void *arg)
{
    const weft_hub_child *job = arg;
    if (job == NULL)
        return weft_fail(-EINVAL, "weft_hub_run: arg is NULL");
    int rc = weft__js_check_name(job->hub, "weft_hub_run", job->kind);
    if (rc < 0)
        return rc;
    if (job->data == NULL && job->bytes > 0)
        return weft_fail(-EINVAL, "weft_hub_run: data is NULL");
    remote_run run = {.hub = job->hub, .job = job};
    weft__hub_hold(job->hub);
    rc = run_take_token(&run);
    weft_value value = rc < 0 ? rc : run_child(&run);
    weft__hub_release(run.hub);
    return value;
}
