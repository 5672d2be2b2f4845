/*
 * The bridge between the HTTP server of weft and Ruby.
 *
 * The server runs in a cord: a thread of its own that never holds the GVL and never touches a Ruby
 * object. Ruby runs in other threads. An exchange is a request with its reply. The handler of the
 * server creates the exchange, and waits in the cord until Ruby has replied.
 *
 *     cord                                     Ruby
 *     handler: exchange_new, bridge_announce   bridge_take: NEW
 *     handler waits for kicked                 exchange_put_head, exchange_put_output, bridge_kick
 *     inbox fiber: kicked is set
 *     handler: exchange_take_work, reply       bridge_take: CHANGED
 *
 * Two lock-free stacks carry exchanges from one side to the other. An exchange is on each stack at
 * most once. An eventfd wakes Ruby, a weft_event wakes the cord: both once per batch.
 *
 * Fields of an exchange belong to one side, or are guarded by its lock. Each side and each stack
 * holds a reference.
 */
#ifndef WEFT_SERVER_BRIDGE_H
#define WEFT_SERVER_BRIDGE_H

#include <weft/fiber.h>
#include <weft/http.h>
#include <weft/scope.h>
#include <weft/sync.h>
#include <weft/ws.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Bytes that one side may hold for the other before the sender waits. */
#define WINDOW_BYTES ((size_t)64 << 10)
/* Bodies up to this length arrive with their request, in one notice. */
#define SMALL_BODY_BYTES ((int64_t)16 << 10)

/* A part of a body, or a message of a WebSocket connection. */
typedef struct chunk {
    struct chunk *next;
    int kind; /* of a message: weft_ws_kind; otherwise 0 */
    size_t bytes;
    size_t taken; /* bytes at the front that the reader has taken */
    size_t capacity;
    char data[];
} chunk;

/* Chunks in FIFO order. All-zero is empty. */
typedef struct chunk_queue {
    chunk *first, *last;
    size_t bytes; /* not taken */
} chunk_queue;

/* The status and the headers of a reply, in one allocation. */
typedef struct reply_head {
    int status;
    int64_t length;       /* of the body; -1: unknown */
    const char *path;     /* in text: a file that is the body; NULL: none */
    const char *protocol; /* in text: switch to this protocol; NULL: do not switch */
    size_t fields_count;
    const char *fields; /* in text: name, NUL, value, NUL, and so on */
    char text[];
} reply_head;

/* A header of a request as Ruby needs it. */
typedef struct request_field {
    int known;        /* index in known_fields, or -1 */
    bool is_repeated; /* append to the value of an earlier field */
    const char *key;  /* "HTTP_X_NAME", if known is -1 */
    const char *value;
    size_t key_bytes, value_bytes;
} request_field;

/* What the bytes of an exchange mean. The cord changes the mode once. */
typedef enum exchange_mode {
    MODE_HTTP,      /* bodies of the request and of the reply */
    MODE_UPGRADED,  /* bytes of another protocol */
    MODE_HIJACKED,  /* a socket pair carries all bytes */
    MODE_WEBSOCKET, /* messages */
} exchange_mode;

/* Notices for Ruby: bits of exchange.notices. */
enum { NOTICE_NEW = 1, NOTICE_CHANGED = 2 };

typedef struct bridge bridge;

typedef struct websocket_options {
    char *protocols, *origins; /* owned, or NULL */
    size_t message_bytes_max;
    bool has_no_deflate;
} websocket_options;

typedef struct exchange {
    bridge *bridge;
    atomic_int refs;
    struct exchange *next_for_ruby; /* in bridge.for_ruby, and then in bridge.taken */
    struct exchange *next_for_cord; /* in bridge.for_cord */
    atomic_uint notices;            /* not 0: in bridge.for_ruby */
    atomic_bool is_kicked;          /* in bridge.for_cord */

    /* Of Ruby, with the GVL */
    void *owner;                   /* the request object; NULL: none */
    struct exchange *next_owned;   /* in bridge.owned */
    struct exchange **owned_link;  /* the pointer to this exchange in bridge.owned */
    struct exchange *next_pending; /* requests that no fiber has taken */

    /* Of the cord */
    weft_http_request *request; /* valid while the handler runs */
    weft_event kicked;
    weft_event sender_kicked; /* for the fiber that sends messages */
    weft_scope *read_scope;   /* a read that a kick cancels; NULL: none */
    weft_stream *stream;      /* of MODE_UPGRADED */
    weft_ws *ws;
    bool has_begun; /* the reply */

    /* The head of the request. Constant after NOTICE_NEW. */
    const char *method, *path, *query, *host, *peer;
    int version;
    int64_t length; /* of the body; -1: unknown */
    bool is_https;
    bool is_upgrade;
    size_t fields_count;
    request_field *fields;

    pthread_mutex_t lock;
    exchange_mode mode;
    chunk_queue input;
    bool input_is_wanted; /* Ruby has less than WINDOW_BYTES */
    bool input_is_complete;
    int input_error;     /* 0: none */
    reply_head *interim; /* an informational response; NULL: none */
    reply_head *head;    /* NULL: Ruby has not replied, or the cord has taken the head */
    chunk_queue output;
    size_t output_bytes; /* that Ruby has put and the cord has not sent */
    bool output_is_complete;
    bool is_aborted;              /* the reply ends here, and is not complete */
    bool is_over;                 /* the handler has ended */
    int error;                    /* why the handler has ended; 0: the reply is complete */
    int hijack_fd;                /* the socket of the cord; -1: none */
    websocket_options *websocket; /* accept a connection; NULL: do not */
    bool websocket_is_open;
    char *websocket_protocol;
    int close_code; /* of the side that closes first */
    char *close_reason;
} exchange;

typedef struct bridge_options {
    int listener;               /* the bridge does not close it */
    char *cert_file, *key_file; /* NULL: no TLS */
    weft_http_options http;
} bridge_options;

struct bridge {
    bridge_options options;
    int event_fd;
    pid_t process; /* that has the thread: not a child of fork */
    pthread_t thread;
    sem_t started;
    _Atomic(exchange *) for_ruby;
    _Atomic(exchange *) for_cord;
    weft_event for_cord_event;
    weft_event stop_event;
    atomic_bool is_ended;
    atomic_int refs; /* of its owner and of all exchanges */
    int result;      /* of the server, after the end; or of the start */
    char *failure;   /* the message of a failed start; NULL: none */

    /* Of Ruby, with the GVL */
    exchange *taken; /* in FIFO order */
    exchange *owned; /* exchanges with a request object */
    bool is_joined;  /* no handler exists, and kicks have no effect */
    bool is_corked;
    bool has_unsent; /* for_cord has exchanges, and the cord does not know */
    int64_t corked_at_ns;
};

/* bridge.c */

/* Create a bridge and start its thread. The bridge owns the strings of options, even on failure. */
int bridge_start(bridge **out, const bridge_options *options);

/* Let the server stop: it drains, and then the bridge ends. Any thread may call this function. */
void bridge_stop(bridge *b);

/* Wait until the thread has ended. Return its result. */
int bridge_join(bridge *b);

/* In Ruby, after bridge_join: drop the kicks that no handler has seen, and ignore further ones. */
void bridge_drop_kicks(bridge *b);

/* Drop a reference, of an exchange or of the owner after the end of the thread. */
void bridge_release(bridge *b);

/* In the cord: notify Ruby that an exchange is new or has changed. */
void bridge_announce(exchange *x, unsigned notice);

/*
 * In Ruby: return the next exchange that has notices, or NULL. The caller gets the reference of the
 * stack and the notices.
 */
exchange *bridge_take(bridge *b, unsigned *notices);

/* In Ruby: let the handler of an exchange look at its work. */
void bridge_kick(exchange *x);

/* In Ruby: delay wake-ups of the cord until bridge_uncork, or for a moment. */
void bridge_cork(bridge *b);
void bridge_uncork(bridge *b);

/* exchange.c */

exchange *exchange_new(bridge *b, weft_http_request *r);
void exchange_hold(exchange *x);
void exchange_release(exchange *x);

chunk *chunk_new(const void *data, size_t bytes, size_t capacity, int kind);
void chunks_put(chunk_queue *q, chunk *c);
/* Append bytes to the last chunk if it has room, else in a new chunk. Return 0 or -ENOMEM. */
int chunks_append(chunk_queue *q, const void *data, size_t bytes);
/* Remove the first chunk, or return NULL. */
chunk *chunks_take(chunk_queue *q);
void chunks_free(chunk_queue *q);

/* handler.c: the handler of the server. ctx is the bridge. */
int handle_request(weft_http_request *r, void *ctx);

/* In the cord, with the result of a read: put input for Ruby, and note the end or the error. */
void input_put(exchange *x, chunk *c);
void input_end(exchange *x, int error);

/* In the cord: note that output was sent. Wake Ruby if it may wait for space. */
void output_sent(exchange *x, size_t bytes);

/* reply.c */

/* Send the head of a reply, and the body if it is complete. Return 0, or an error. */
int reply_begin(exchange *x, reply_head *head, chunk_queue *body, bool is_complete);
int reply_add_fields(weft_http_request *r, const reply_head *head);
int reply_upgrade(exchange *x, const reply_head *head);

/* hijack.c: carry the bytes of a connection until one side ends. */
int hijack_run(exchange *x, int fd);

/* websocket.c: accept a connection, and carry messages until it ends. */
int websocket_run(exchange *x, const websocket_options *options);
void websocket_options_free(websocket_options *options);

/* fields.c */

/* A header whose key in the environment of Rack is known. */
typedef struct known_field {
    const char *name; /* in lower case */
    const char *key;
} known_field;

extern const known_field known_fields[];
extern const size_t known_fields_count;

/* Return the index of a header in known_fields, or -1. */
int known_field_find(const char *name, size_t bytes);

#endif
