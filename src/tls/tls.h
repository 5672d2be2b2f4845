/*
 * The implementation of TLS, over OpenSSL. A weft_tls has a config: its options and the contents of
 * its files, as last read. A connection keeps a reference to the config with which it started.
 *
 *     tls.c        create, change and free a weft_tls  config.c       an SSL_CTX from options
 *     identity.c   certificates, keys and their names  sessions.c     sessions of clients
 *     conn.c       buffers to and from the descriptor  bio.c          OpenSSL's BIO
 *     handshake.c  accept and connect                  stream.c       the functions of the stream
 *     info.c       descriptions of connections         self_signed.c  certificates for tests
 *     errors.c     error messages                      none.c         a build without OpenSSL
 *
 * An SSL object is not reentrant. Fibers therefore never switch inside a call of OpenSSL. OpenSSL
 * reads and writes buffers (bio.c). conn.c fills and empties these buffers between the calls.
 * OpenSSL has one error queue per thread. Clear the queue before a call, and read the queue
 * directly after the call.
 */
#ifndef WEFT_TLS_TLS_H
#define WEFT_TLS_TLS_H

#include <weft/stream.h>
#include <weft/sync.h>
#include <weft/tls.h>

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

/* The size of a server name: at most 253 bytes (RFC 1035), a final dot and the NUL, rounded up. */
#define SERVER_NAME_BYTES 256

/* A certificate with its chain and key. Connections share certificates. */
typedef struct weft__tls_cert {
    _Atomic unsigned refs;
    X509 *leaf;
    STACK_OF(X509) * chain; /* without the leaf */
    EVP_PKEY *key;
    char **names; /* in lower case; may start with "*." */
    size_t name_count;
} weft__tls_cert;

/* The configuration of new connections. Immutable. */
typedef struct weft__tls_config {
    _Atomic unsigned refs;
    SSL_CTX *ctx;        /* with the first certificate, if certs is not empty */
    unsigned char *alpn; /* in wire format: a length, a name, ...; NULL: none */
    size_t alpn_bytes;
    weft__tls_cert **certs; /* in the order of weft_tls_add */
    size_t cert_count;
} weft__tls_config;

/* A session that a client may resume. A client resumes a TLS 1.3 session only once. */
typedef struct weft__tls_session {
    char *server_key; /* name and port of the server; NULL: the slot is free */
    SSL_SESSION *session;
    uint64_t number; /* increases with each new session; 0: the slot is free */
} weft__tls_session;

/* The number of sessions that a client keeps. */
#define SESSIONS_MAX 64

struct weft_tls {
    _Atomic unsigned refs; /* 1 for the owner, and 1 per connection */
    bool is_server;
    weft_tls_options options;    /* with copied strings */
    pthread_mutex_t change_lock; /* held while a worker thread reads files; guards added */
    weft_tls_identity *added;    /* the arguments of weft_tls_add */
    size_t added_count;
    pthread_mutex_t lock; /* guards the fields below; never held across a blocking call */
    weft__tls_config *config;
    weft__tls_session sessions[SESSIONS_MAX];
    uint64_t session_number; /* of the last session */
};

/* A buffer. The bytes from head to tail are in use. */
typedef struct weft__tls_buffer {
    char *data;   /* NULL: not allocated */
    size_t bytes; /* the size of data */
    size_t head;
    size_t tail;
} weft__tls_buffer;

/* The state that only a handshake needs. */
typedef struct weft__tls_handshake {
    weft__tls_cert *chosen_cert; /* the certificate from choose, with a reference; NULL: none */
    int choose_error;            /* the error of choose or of loading its certificate; 0: none */
    bool has_called_choose;
    char cert_names[128]; /* the names of an invalid certificate, for messages; "": none */
} weft__tls_handshake;

typedef struct weft__tls_conn {
    SSL *ssl;
    weft_tls *tls;
    weft__tls_config *config;
    weft__tls_handshake *handshake; /* NULL: not in a handshake */
    int fd;
    unsigned users; /* 1 for the stream, and 1 per call in progress; the last user frees */
    int failure;    /* the error after which TLS is unusable; 0: none */
    /* the error of sending bytes after their write; the next write or flush returns it; 0: none */
    int deferred_error;
    bool is_closed;
    bool is_output_ended;     /* close_notify is in the output; further writes fail */
    bool is_input_ended;      /* a read from the descriptor has returned 0 */
    weft_mutex in_lock;       /* held during a read from the descriptor */
    weft_mutex out_lock;      /* held during a write to the descriptor */
    weft__tls_buffer in;      /* input from the descriptor, not yet read by OpenSSL */
    weft__tls_buffer out;     /* output of OpenSSL */
    weft__tls_buffer sending; /* output that a sender has moved from out; see conn.c */
    char *server_name;        /* NULL: none */
    char *server_key;         /* a client's key to the sessions; NULL: none */
    char *alpn;               /* set by weft_tls_describe; NULL: not set */
    char *subject;            /* set by weft_tls_describe; NULL: not set */
} weft__tls_conn;

static inline size_t weft__tls_buffer_held(const weft__tls_buffer *b)
{
    return b->tail - b->head;
}

/* Clear OpenSSL's error queue. A peek is cheaper than clearing an empty queue. */
static inline void weft__tls_clear_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* Return whether the connection has output to send. */
static inline bool weft__tls_conn_has_output(const weft__tls_conn *c)
{
    return weft__tls_buffer_held(&c->sending) + weft__tls_buffer_held(&c->out) > 0;
}

/* Reserve memory for more bytes after the tail. Return 0 or -ENOMEM. */
int weft__tls_buffer_reserve(weft__tls_buffer *b, size_t bytes);
void weft__tls_buffer_release(weft__tls_buffer *b);

/* Initialise OpenSSL once per process. Return 0 or -ENOMEM. */
int weft__tls_init(void);

/* Return whether OpenSSL has cleaned up at process exit. Do not call OpenSSL after that. */
bool weft__tls_is_cleaned_up(void);

/* Create the BIO between ssl and the buffers of c. Return 0 or -ENOMEM. */
int weft__tls_bio_attach(weft__tls_conn *c);

/* handshake.c. Set the callbacks that OpenSSL calls during a handshake. */
void weft__tls_set_callbacks(SSL_CTX *ctx, const weft_tls *tls, bool has_alpn);

/* config.c. The functions record all errors except -ENOMEM. */

/* Create a config from the options and files of tls. The call may block the thread. */
int weft__tls_config_load(const weft_tls *tls, weft__tls_config **out);
/* Create a config with all certificates of another config and one more certificate. */
int weft__tls_config_extend(const weft__tls_config *config, weft__tls_cert *cert,
                            weft__tls_config **out);
weft__tls_config *weft__tls_config_ref(weft__tls_config *config);
void weft__tls_config_unref(weft__tls_config *config);

/* identity.c. The functions record all errors except -ENOMEM. */

/* Load a certificate and its key. If the identity names files, the call may block the thread. */
int weft__tls_cert_load(const weft_tls_identity *identity, weft__tls_cert **out);
weft__tls_cert *weft__tls_cert_ref(weft__tls_cert *cert);
void weft__tls_cert_unref(weft__tls_cert *cert); /* cert may be NULL */
/* Return 2 if the certificate has this name, 1 if a wildcard matches, else 0. */
int weft__tls_cert_match(const weft__tls_cert *cert, const char *name);
/*
 * Read a file as a NUL-terminated text. The caller frees the text. The call may block the thread.
 */
int weft__tls_file_read(const char *path, char **text);
/*
 * Copy bytes to a new string. data may be NULL if bytes is 0. Return NULL if memory is exhausted.
 */
char *weft__tls_copy_text(const void *data, size_t bytes);
bool weft__tls_identity_is_empty(const weft_tls_identity *identity);
int weft__tls_identity_copy(weft_tls_identity *to, const weft_tls_identity *from);
void weft__tls_identity_free(weft_tls_identity *identity);

/* tls.c */
weft_tls *weft__tls_ref(weft_tls *tls);

/* sessions.c. Any thread may call these functions. */

void weft__tls_session_add(weft__tls_conn *c, SSL_SESSION *session);
/* Return the newest session for a server, with a reference. Return NULL if there is none. */
SSL_SESSION *weft__tls_session_take(weft_tls *tls, const char *server_key);
void weft__tls_sessions_clear(weft_tls *tls);

/* conn.c */

/* Read from the descriptor once. Return a positive number, 0 at the end, or an error. */
ssize_t weft__tls_conn_fill(weft__tls_conn *c);
/* Send all output. The caller must hold out_lock. */
int weft__tls_conn_send_all(weft__tls_conn *c);
/* Lock out_lock and send all output. */
int weft__tls_conn_drain(weft__tls_conn *c);
/*
 * Send as much output as possible without waiting, even if the fiber is cancelled. The call ignores
 * errors.
 */
void weft__tls_conn_try_send(weft__tls_conn *c);
/*
 * Send output before a wait for input, unless another fiber is sending. The call returns when input
 * arrives, because the peer may read nothing until this side has read the input.
 */
int weft__tls_conn_send_before_wait(weft__tls_conn *c);
/* Shut down the output of a failed connection and discard input, so that the last alert arrives. */
void weft__tls_conn_hang_up(weft__tls_conn *c);
void weft__tls_conn_free(weft__tls_conn *c);

/* stream.c */
extern const weft_stream_type weft__tls_stream;

/* errors.c */

/* Write ", only for" and the names of a certificate to text, truncated to bytes. */
void weft__tls_cert_names_text(X509 *x, char *text, size_t bytes);
/* Record the failure of the last call on c->ssl. Return the error. */
int weft__tls_error_explain(weft__tls_conn *c);
/*
 * Record the first error in OpenSSL's queue. The message is "action: reason". Return code,
 * or -ENOMEM if memory is exhausted.
 */
int weft__tls_fail(int code, const char *action);
/* Return a message for an errno. Any thread may call this function. */
const char *weft__tls_error_text(int code);

#endif
