/* The state of a hub. Only the files of src/hub/client use this header. */
#ifndef WEFT_HUB_CLIENT_HUB_H
#define WEFT_HUB_CLIENT_HUB_H

#include "base/list.h"
#include "hub/client/client.h"
#include "hub/client/servers.h"
#include "hub/client/slots.h"
#include "hub/text/hash.h"
#include "hub/wire/parse.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/group.h>
#include <weft/sync.h>

#include <errno.h>
#include <syslog.h>

#define WEFT__HUB_ID_BYTES 22
#define WEFT__INBOX_PREFIX_BYTES (sizeof "_INBOX.." + WEFT__HUB_ID_BYTES)
#define WEFT__NONCE_BYTES_MAX 128

/* What a server has said about itself (INFO). */
typedef struct weft__server_info {
    size_t payload_bytes_max;
    bool has_headers;
    bool has_tls, needs_tls;
    weft__hub_server server;
    bool is_lame;                          /* the server ends soon */
    char nonce[WEFT__NONCE_BYTES_MAX + 1]; /* "": none */
} weft__server_info;

/* The connection. The root fiber opens, reads and closes it. */
typedef struct weft__session {
    weft_stream stream;   /* not open: no connection */
    int fd;               /* of the stream; -1: none */
    bool has_tls;         /* the writer then writes to the stream instead of to fd */
    weft__server *server; /* of the stream; NULL: none */
    uint64_t serial;      /* incremented when a connection is opened */
    double since;         /* weft_now when the handshake was complete */
    bool is_reading;      /* the root fiber is in weft__reader_run */
    int break_code;       /* the reason for which another fiber ends the connection; 0: none */
} weft__session;

/* The output. Publishers append to next; the writer sends current. */
typedef struct weft__out {
    weft__buffer next, current;
    size_t next_messages, current_messages;
    weft_event is_filled;  /* set if the writer sleeps and next is not empty */
    bool is_writer_asleep; /* the writer waits for is_filled */
    bool may_send;         /* the writer takes next: connected, and not moving to another server */
    weft_cond has_room;
} weft__out;

/* A wait for a reply, on the stack of the caller. */
typedef struct weft__pending {
    weft_cond is_done;
    /* Take the reply. Called by the reader. Must not switch. Returns 0 or an error. */
    int (*take)(struct weft__pending *pending, const weft__delivery *d);
    weft__slice subject; /* of the request */
    uint64_t key;        /* the last token of the reply subject */
    int rc;              /* WEFT__PENDING, or the result */
} weft__pending;

#define WEFT__PENDING 1

/* The requests that wait for a reply. */
typedef struct weft__requests {
    weft__slots pending; /* of weft__pending, by key */
    weft__subscription *inbox;
} weft__requests;

struct weft_hub {
    unsigned holds; /* the memory is freed at 0; weft_hub_open holds once */
    bool is_closing, is_closed;
    const void *thread; /* the thread that opened the hub (thread.c) */
    unsigned forks;     /* of the process, at that time */
    weft__list node;    /* in the hubs of the thread */

    weft_hub_options options; /* with defaults; name and credentials are copies */
    weft_tls *own_tls;        /* if no option has one, and a server demands TLS; NULL: none */
    char id[WEFT__HUB_ID_BYTES + 1];
    char inbox[WEFT__INBOX_PREFIX_BYTES]; /* "_INBOX.ID." */
    size_t inbox_bytes;
    uint64_t inboxes; /* subjects that weft__hub_inbox has made */
    weft_hub_counters counters;

    weft_fiber root;  /* 0: not started */
    weft_group group; /* the other fibers of the hub; the root fiber opens it */
    weft_event is_started;

    weft__servers servers;
    weft__session session;
    weft__server_info info;
    bool is_connected;    /* requests may start */
    uint64_t connections; /* incremented when is_connected becomes true */
    weft_cond has_connected;

    weft__out out;
    uint64_t pings, pongs; /* of this connection */
    uint64_t inputs;       /* operations received, for the keep-alive */
    weft_cond has_pong;

    weft__slots subscriptions; /* of weft__subscription, by sid */
    weft__requests requests;

    weft__list messages;   /* of no living fiber */
    weft__hash exposures;  /* by name */
    weft__hash recipients; /* by fiber */
    weft__list recipient_list;
    weft_fiber monitor; /* told which fibers to monitor; 0: not started */
    weft__list watchers;
    void *parts[WEFT__HUB_PARTS];
};

/* Copy a slice, and return the end of the copy. */
static inline char *weft__slice_put(char *out, weft__slice s)
{
    if (s.bytes > 0)
        memcpy(out, s.data, s.bytes);
    return out + s.bytes;
}

/* hub.c */

/* Log a message with the name of the hub. level is a level of syslog(3). */
void weft__hub_say(const weft_hub *hub, int level, const char *format, ...) WEFT_PRINTF(3, 4);

/* Free the memory of a hub without fibers and without a connection. */
void weft__hub_free(weft_hub *hub);

/* Wake all fibers that wait in calls of the hub, with -EBADF. is_closed must be true. */
void weft__hub_wake_all(weft_hub *hub);

/* thread.c */

/* Register a hub with the calling thread. Returns 0 or -ENOMEM. */
int weft__thread_add_hub(weft_hub *hub);
bool weft__thread_is_own(const weft_hub *hub);
bool weft__thread_is_forked(const weft_hub *hub); /* in a child of weft_fork */

/* root.c */

/* Start the fibers of a connected hub. Returns 0 or an error. */
int weft__root_start(weft_hub *hub);

/* End the fibers of a hub. If the thread ends, they may have ended. */
void weft__root_end(weft_hub *hub, double grace_s);

/* Make the root fiber drop the connection, for a reason. Does not switch. */
void weft__root_break(weft_hub *hub, int code);

/* Begin to move to another server. Requests in flight get their replies if they come soon. */
void weft__root_move(weft_hub *hub);

/* Return whether the hub can leave the server that it moves away from. */
bool weft__root_is_moved(const weft_hub *hub);

/*
 * Like weft__hub_spin. If the fiber ends before fn is called, call drop(arg). On failure, the
 * caller still owns arg.
 */
weft_fiber weft__root_spin(weft_hub *hub, weft_fn *fn, void *arg, void (*drop)(void *),
                           const char *name);

/* session.c */

/*
 * Connect to a server, within connect_s. Returns 0, or:
 * -EACCES if the server rejects the credentials, or its certificate is not trusted
 * -EPROTO if the server does not speak the protocol
 * another error if the server cannot be reached
 */
int weft__session_open(weft_hub *hub, weft__server *server);
void weft__session_close(weft_hub *hub);

/* Read the next operation, valid until the next call. Returns its bytes for weft_stream_skip. */
ssize_t weft__session_read(weft_hub *hub, weft__op_line *op);

/* Write all bytes. Returns 0 or an error. */
int weft__session_write(weft_hub *hub, const void *data, size_t bytes);

/* info.c */

/* Parse an INFO, and note the servers that it announces. Returns 0, -EPROTO or -ENOMEM. */
int weft__info_read(weft_hub *hub, weft__slice json);

/* writer.c */
weft_value weft__writer_run(void *hub);

/* Wake the writer if it sleeps. Call after appending to out.next. */
void weft__writer_wake(weft_hub *hub);

/* Discard the output of a broken connection, and count it as lost. */
void weft__writer_discard(weft_hub *hub);

/* Wait while the output is full. Returns 0, -EBADF or a cancellation. */
int weft__writer_wait_room(weft_hub *hub);

/* Append an operation without a message. Returns 0 or -ENOMEM. */
int weft__writer_append(weft_hub *hub, const char *text);

/* reader.c */

/* Handle the input until the connection ends. Returns the reason. */
int weft__reader_run(weft_hub *hub);

/* server_error.c */

/* Return the error code of the text of an -ERR in a handshake. */
int weft__server_error_code(weft__slice text);

/* Handle an -ERR after the handshake. */
void weft__server_error_note(weft_hub *hub, weft__slice text);

/* keep_alive.c */
weft_value weft__keep_alive_run(void *hub);

/* subscriptions.c */

/* Return the subscription with a sid, or NULL. */
weft__subscription *weft__subscription_find(const weft_hub *hub, uint64_t sid);
void weft__subscription_deliver(weft__subscription *s, const weft__delivery *d);

/* Append SUB operations for all subscriptions. Returns 0 or -ENOMEM. */
int weft__subscriptions_send(const weft_hub *hub, weft__buffer *out);

/* The server refuses the subscriptions to a subject. */
void weft__subscriptions_refuse(weft_hub *hub, weft__slice subject);
void weft__subscriptions_free(weft_hub *hub);

/* requests.c */
int weft__requests_init(weft_hub *hub);
void weft__requests_free(weft_hub *hub);

/* End all requests, or those to a subject, with an error. */
void weft__requests_fail(weft_hub *hub, int code);
void weft__requests_fail_to(weft_hub *hub, weft__slice subject, int code);

/* Publish a request and wait. pending->take gets the reply. Returns pending->rc or an error. */
int weft__request_run(weft_hub *hub, weft__pending *pending, const weft__publication *p);

/* message.c */
typedef struct weft__message {
    weft_hub_msg base;
    weft_hub *hub;
    weft__list node;   /* in a list of the hub, of a recipient or of an exposure */
    const char *reply; /* the subject of the reply; "": not a call */
    bool is_answered;
} weft__message;

static inline weft__message *weft__message_of(weft__list *node)
{
    return CONTAINER_OF(node, weft__message, node);
}

/* Reply to a call with an error. Does not switch. */
void weft__hub_refuse(weft_hub *hub, weft__slice reply, int code, const char *text);

/* Reply with an error if the message is a call without a reply. Does not switch. */
void weft__message_refuse(weft__message *m, int code, const char *text);

/* Free all messages of a list. */
void weft__messages_free(weft__list *messages);

/* expose.c */
weft_value weft__monitor_run(void *hub);

/* End all exposures. The messages of their fibers then belong to the hub. */
void weft__exposures_end_all(weft_hub *hub);

#endif
