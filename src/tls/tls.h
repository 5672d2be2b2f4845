/*
 * TLS inside. A weft_tls has a config, which is what its files said when they were last read; a
 * connection takes a reference to it and keeps it.
 *
 *     tls.c        making, changing and freeing a weft_tls      config.c    an SSL_CTX from options
 *     identity.c   certificates and keys, and their names       sessions.c  what a client resumes
 *     conn.c       buffers to and from the descriptor           bio.c       OpenSSL's side of them
 *     handshake.c  accept and connect                           stream.c    the stream's functions
 *     words.c      why something failed                         none.c      without OpenSSL
 *
 * An SSL object is not to be entered twice, so no fiber is ever switched inside a call of OpenSSL:
 * its input and output are buffers (bio.c), which conn.c fills and empties between the calls.
 * OpenSSL's queue of errors is the thread's: it is cleared before a call, and read right after it.
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

/*
 * A server name has at most 253 bytes (RFC 1035); one more for a dot at its end, one for the NUL.
 */
#define SERVER_NAME_ROOM 256

/* Certificates, their chain and key, ready to be used by any number of connections. */
typedef struct weft__tls_cert {
    _Atomic unsigned refs;
    X509 *leaf;
    STACK_OF(X509) * chain; /* without the leaf */
    EVP_PKEY *key;
    char **names; /* that it is for, in lower case; may begin with "*." */
    size_t name_count;
} weft__tls_cert;

/* How connections begin. Nothing in it changes. */
typedef struct weft__tls_config {
    _Atomic unsigned refs;
    SSL_CTX *ctx;        /* with the first certificate, if there is one */
    unsigned char *alpn; /* as on the wire: a length, a name, ... */
    size_t alpn_bytes;
    weft__tls_cert **certs; /* in the order in which they were added */
    size_t cert_count;
} weft__tls_config;

/* A session that a client may resume, once if it is of TLS 1.3. */
typedef struct weft__tls_session {
    char *place; /* name and port; NULL: the slot is free */
    SSL_SESSION *session;
    uint64_t number; /* the higher, the newer */
} weft__tls_session;

#define SESSIONS_MAX 64

struct weft_tls {
    _Atomic unsigned refs; /* the owner's, and one of each connection */
    bool is_server;
    weft_tls_options options; /* a copy, with the texts */
    pthread_mutex_t change;   /* held by an offloaded thread while it reads files */
    weft_tls_identity *added; /* guarded by change */
    size_t added_count;
    pthread_mutex_t lock; /* guards what follows; held for a moment only */
    weft__tls_config *config;
    weft__tls_session sessions[SESSIONS_MAX];
    uint64_t session_number;
};

/* The bytes from head to tail are held. */
typedef struct weft__tls_buffer {
    char *data; /* NULL: none */
    size_t bytes;
    size_t head;
    size_t tail;
} weft__tls_buffer;

/* What only a handshake needs. */
typedef struct weft__tls_handshake {
    weft__tls_cert *chosen; /* by the choose function; a reference */
    int refusal;            /* why there is no certificate for this client; 0: there is */
    bool has_chosen;        /* choose has been asked */
    char names[128];        /* that a certificate is for, which is not the one we want; "" */
} weft__tls_handshake;

typedef struct weft__tls_conn {
    SSL *ssl;
    weft_tls *tls;
    weft__tls_config *config;
    weft__tls_handshake *handshake; /* NULL: it is over */
    int fd;
    unsigned users; /* the stream, and the fibers that are in it; the last one frees it */
    int broken;     /* the error after which nothing of TLS can be had any more; 0: none */
    int unsaid;     /* an error of sending what a write had taken, for the next call; 0: none */
    bool is_closed;
    bool is_finished;         /* our last word is said: nothing is written any more */
    bool is_ended;            /* nothing more will come from the descriptor */
    weft_mutex in_lock;       /* held while the descriptor is read */
    weft_mutex out_lock;      /* held while the descriptor is written */
    weft__tls_buffer in;      /* read, and not taken by OpenSSL yet */
    weft__tls_buffer out;     /* what OpenSSL has written */
    weft__tls_buffer sending; /* taken from out before; its memory stays where it is */
    char *server_name;        /* NULL: none */
    char *place;              /* a client's key to the sessions; NULL: none */
    char *alpn;               /* made by describe */
    char *subject;            /* the same */
} weft__tls_conn;

static inline size_t weft__tls_held(const weft__tls_buffer *b)
{
    return b->tail - b->head;
}

/* Before a call of OpenSSL whose error will be asked for. To look is cheaper than to clear. */
static inline void weft__tls_begin(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* Whether something is to be sent, by whomever. */
static inline bool weft__tls_has_output(const weft__tls_conn *c)
{
    return weft__tls_held(&c->sending) + weft__tls_held(&c->out) > 0;
}

/* So many bytes more behind the tail. 0, or -ENOMEM. */
int weft__tls_reserve(weft__tls_buffer *b, size_t bytes);
void weft__tls_release(weft__tls_buffer *b);

/* Whatever of OpenSSL is to be made once in a process. 0, or -ENOMEM. */
int weft__tls_init(void);

/* OpenSSL has cleaned up at the end of the process: it must not be called any more. */
bool weft__tls_is_over(void);

/* The BIO between ssl and the buffers of c. 0, or -ENOMEM. */
int weft__tls_attach(weft__tls_conn *c);

/* handshake.c: what OpenSSL calls during one. */
void weft__tls_set_callbacks(SSL_CTX *ctx, const weft_tls *tls, bool has_alpn);

/* config.c: for threads that may block. Errors come with words. */
int weft__tls_config_load(const weft_tls *tls, weft__tls_config **out);
/* The same with one certificate more. */
int weft__tls_config_extend(const weft__tls_config *config, weft__tls_cert *cert,
                            weft__tls_config **out);
weft__tls_config *weft__tls_config_ref(weft__tls_config *config);
void weft__tls_config_unref(weft__tls_config *config);

/* identity.c. Loading reads files, if there are any, and may block the thread for that. */
int weft__tls_cert_load(const weft_tls_identity *identity, weft__tls_cert **out);
weft__tls_cert *weft__tls_cert_ref(weft__tls_cert *cert);
void weft__tls_cert_unref(weft__tls_cert *cert); /* NULL is nothing */
/* 2: for this very name; 1: by a wildcard; 0: not at all. */
int weft__tls_cert_match(const weft__tls_cert *cert, const char *name);
/* All of a file, NUL-terminated; free(3) it. */
int weft__tls_file_read(const char *path, char **text);
/* So many bytes as a string; NULL: no memory. (strndup may look for an end behind them.) */
char *weft__tls_text(const void *data, size_t bytes);
bool weft__tls_identity_is_empty(const weft_tls_identity *identity);
int weft__tls_identity_copy(weft_tls_identity *to, const weft_tls_identity *from);
void weft__tls_identity_free(weft_tls_identity *identity);

/* tls.c */
weft_tls *weft__tls_ref(weft_tls *tls);

/* sessions.c: any thread. */
void weft__tls_session_keep(weft__tls_conn *c, SSL_SESSION *session);
SSL_SESSION *weft__tls_session_take(weft_tls *tls, const char *place); /* NULL: none */
void weft__tls_sessions_forget(weft_tls *tls);

/* conn.c */
/* Read from the descriptor once: 1 or more, 0 at the end, or an error. */
ssize_t weft__tls_fill(weft__tls_conn *c);
/* Send all that is to go out, for one who holds out_lock. */
int weft__tls_send_all(weft__tls_conn *c);
/* The same for one who does not. */
int weft__tls_drain(weft__tls_conn *c);
/* The same as far as it needs no waiting, cancelled or not; nobody hears of errors. */
void weft__tls_push(weft__tls_conn *c);
/*
 * Before waiting for input: see that what is to be sent goes out, unless another fiber is at it,
 * but never wait for that alone: the other side may not read before we do.
 */
int weft__tls_send_meanwhile(weft__tls_conn *c);
/* End our side of a connection that has failed, so that what was said last (an alert) arrives. */
void weft__tls_hang_up(weft__tls_conn *c);
void weft__tls_conn_free(weft__tls_conn *c);

/* stream.c */
extern const weft_stream_type weft__tls_stream;

/* words.c */
/* The names that a certificate is for, as far as there is room, as the end of a sentence. */
void weft__tls_tell_names(X509 *x, char *text, size_t room);
/* What made a call on ssl fail, which returned just now: a code, recorded with words. */
int weft__tls_explain(weft__tls_conn *c);
/* OpenSSL's first error of a call that is not about a connection, with words before it. */
int weft__tls_fail(int code, const char *attempted);
const char *weft__tls_error_text(int code);

#endif
