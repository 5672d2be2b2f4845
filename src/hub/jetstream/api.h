/*
 * Requests to JetStream: one attempt, and attempts until a server with a leader replies.
 *
 * A cluster without a leader does not reply, or replies with an error that is temporary. Such
 * requests are repeated until they succeed or until the scope of the caller ends. A request that is
 * repeated must have the same effect if it was processed before.
 */
#ifndef WEFT_HUB_JETSTREAM_API_H
#define WEFT_HUB_JETSTREAM_API_H

#include "hub/client/client.h"
#include "hub/text/json_read.h"

#include <weft/sync.h>

/* The longest subject and JSON text that this folder composes, with its NUL. */
#define WEFT__JS_SUBJECT_BYTES 320
#define WEFT__JS_JSON_BYTES 1024

/* Time limit of one attempt. */
#define WEFT__JS_ATTEMPT_S 5.0

/* The value of err_code if a stream does not have an expected sequence. */
#define WEFT__JS_WRONG_SEQUENCE 10071

/* A reply of JetStream. All-zero is empty. */
typedef struct weft__js_answer {
    weft__reply reply; /* the text that doc refers to */
    weft__json_doc doc;
} weft__js_answer;

void weft__js_answer_free(weft__js_answer *a);

/*
 * Check the hub and a name before a public function uses them. Returns 0, an error of
 * weft__hub_check, or:
 * -EINVAL if the name is not valid
 */
int weft__js_check_name(const weft_hub *hub, const char *function, const char *name);

/* Like weft__js_check_name, for the name of a queue or log, which is one token. */
int weft__js_check_token(const weft_hub *hub, const char *function, const char *name);

/*
 * Send a request once, and read the reply. Free *out also after an error. Returns 0, or:
 * -EAGAIN if the request had no effect, and may succeed later
 * -ECONNRESET if the reply is lost: the request may have taken effect
 * -EEXIST if a stream or consumer exists with another configuration
 * -EHOSTUNREACH if no server handles the subject
 * -EMSGSIZE if the server does not permit data of this size
 * -ENOENT if a stream, consumer or entry does not exist
 * -EPROTO if the reply is not a reply of JetStream
 * -ESTALE if the last sequence of the subject is not as expected
 * -ETIMEDOUT if the reply is lost
 */
int weft__js_attempt(weft_hub *hub, const weft__publication *p, double attempt_s,
                     weft__js_answer *out);

/* Return whether an error of weft__js_attempt leaves open if the request has taken effect. */
bool weft__js_is_lost(int code);

/* The waits between attempts. All-zero is the begin. */
typedef struct weft__js_retry {
    double delay_s; /* of the next wait; 0: the first one */
    double begin_s; /* the time of the first wait */
} weft__js_retry;

/* Wait before the next attempt. Returns 0, -EBADF if the hub is closed, or a cancellation. */
int weft__js_retry_wait(weft__js_retry *r, weft_hub *hub);

/*
 * Send a request to "$JS.API.<subject>" until a server replies. Free *out also after an error.
 * Returns 0, an error of weft__js_attempt that is final, or:
 * -EAGAIN if too few servers run for the replicas of a new stream
 * -ENOTSUP if the servers have no JetStream
 */
int weft__js_api(weft_hub *hub, const char *subject, const char *json, weft__js_answer *out);

/* Wait for an event, at most a number of seconds. Returns 0 in both cases, or a cancellation. */
int weft__js_event_wait(weft_event *event, double seconds);

#endif
