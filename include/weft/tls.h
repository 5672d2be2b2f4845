/*
 * TLS 1.2 and 1.3 over OpenSSL: a stream that is encrypted underneath.
 *
 * A weft_tls is how one side behaves: certificates, whom it trusts, which protocols. It serves any
 * number of connections, in any thread. A connection keeps what it began with: the weft_tls may be
 * reloaded or freed meanwhile.
 *
 *     weft_tls *tls = weft_tls_client_new(NULL);
 *     weft_stream s;
 *     int rc = weft_tls_connect(&s, weft_dial("tcp", "example.org:443"), tls, "example.org");
 *
 * A handshake, as every read and write, blocks its fiber only, and ends with its scope. It takes
 * about 12 KiB of its stack. An open connection takes some 15 KiB, and 35 KiB more for buffers
 * while it is in use; weft_stream_wait gives those back.
 *
 * The end of the input is 0 only if the other side has said that it ends (close_notify). A
 * connection that is closed without that, which anybody on the way can do, is -ECONNRESET. Closing
 * a stream says it, and waits at most two seconds for room to.
 */
#ifndef WEFT_TLS_H
#define WEFT_TLS_H

#include <weft/base.h>
#include <weft/stream.h>

WEFT_BEGIN

typedef struct weft_tls weft_tls;

/*
 * A certificate, those that it is signed by, and its key, PEM: in files, or in memory. Without a
 * key of its own it is looked for where the certificates are.
 */
typedef struct weft_tls_identity {
    const char *cert_file;
    const char *key_file;
    const char *cert_pem; /* NUL-terminated; copied */
    const char *key_pem;
} weft_tls_identity;

/* What is asked of the other side's certificate. */
typedef enum weft_tls_verify {
    WEFT_TLS_VERIFY_DEFAULT,  /* client: required; server: none */
    WEFT_TLS_VERIFY_NONE,     /* a client that does this can be lied to */
    WEFT_TLS_VERIFY_OPTIONAL, /* server: if there is one, it must be good; client: it may be bad */
    WEFT_TLS_VERIFY_REQUIRED,
} weft_tls_verify;

/*
 * Chooses the certificate for a name that a client asks for (NULL: it named none), in the fiber of
 * the handshake, which it may block. Fills identity, whose strings are only read before it is
 * called again, and returns 1; or 0 for those that the weft_tls has; or an error, and the handshake
 * fails. It is called in every thread that accepts connections with this weft_tls.
 */
typedef int weft_tls_choose(const char *server_name, weft_tls_identity *identity, void *ctx);

/*
 * How a side behaves; all-zero is the default. Everything is copied. Without ciphers a server has
 * those with forward secrecy and authenticated encryption (AES-GCM and ChaCha20 by ECDHE), a client
 * those of OpenSSL.
 */
typedef struct weft_tls_options {
    weft_tls_identity identity; /* a server's; a client's if it is asked for one */
    const char *ca_file;        /* who is trusted, PEM; NULL: those of the system */
    const char *ca_pem;
    weft_tls_verify verify;
    const char *alpn;        /* protocols by preference: "h2,http/1.1"; NULL: does not take part */
    int version_min;         /* 12 or 13; 0: 12 */
    int version_max;         /* 0: 13 */
    const char *ciphers;     /* of TLS 1.2, as OpenSSL writes them; NULL: see above */
    bool has_no_tickets;     /* no resumption of sessions */
    weft_tls_choose *choose; /* a server's; NULL: the certificates it has */
    void *choose_ctx;
} weft_tls_options;

/**
 * A server's side. It needs an identity or choose. NULL if it cannot be made; weft_error() says
 * why: -ENOENT for a file that is not there, -EINVAL for one that is not what it should be,
 * -ENOTSUP if weft was built without OpenSSL. Files are read by another thread meanwhile.
 */
WEFT_SWITCHPOINT weft_tls *weft_tls_server_new(const weft_tls_options *options) WEFT_MUST_CHECK;

/** A client's side; options may be NULL. */
WEFT_SWITCHPOINT weft_tls *weft_tls_client_new(const weft_tls_options *options) WEFT_MUST_CHECK;

/** Free it, when the last connection that uses it has ended. NULL is nothing. */
WEFT_API void weft_tls_free(weft_tls *tls);

/**
 * Add a certificate for other names: clients that ask for a name that is in it (or that it covers
 * with a wildcard) get it, all others the first one. -EINVAL for a client's.
 */
WEFT_SWITCHPOINT int weft_tls_add(weft_tls *tls, const weft_tls_identity *identity);

/**
 * Read all its files again. New connections get what is in them now; if one of them is bad, it
 * returns why, and nothing has changed. Sessions from before are not resumed any more.
 */
WEFT_SWITCHPOINT int weft_tls_reload(weft_tls *tls);

/**
 * Shake hands as the server on a connection, and open a stream over it; the descriptor is the
 * stream's then, and is closed if this fails. -EPROTO, with words, if the other side does not do
 * as it should, or both have nothing in common; -EACCES if its certificate is missing or not
 * trusted, or it says so of ours; -ECONNRESET if it hangs up; what choose says; -EINVAL for a
 * client's. With TLS 1.3 a client may hear only at its first read that it was refused.
 */
WEFT_SWITCHPOINT int weft_tls_accept(weft_stream *stream, int fd, weft_tls *tls) WEFT_MUST_CHECK;

/**
 * The same as the client. Server_name is what is asked for, and what the certificate has to be for:
 * a host name, or an address. An fd that is an error is returned as it is. Sessions are resumed
 * where the server offers it: the newest of this name and port, of the last 64.
 */
WEFT_SWITCHPOINT int weft_tls_connect(weft_stream *stream, int fd, weft_tls *tls,
                                      const char *server_name) WEFT_MUST_CHECK;

/** What is known of a TLS connection. Strings are there as long as the stream is open. */
typedef struct weft_tls_info {
    int version;              /* 12 or 13 */
    const char *cipher;       /* "TLS_AES_256_GCM_SHA384" */
    const char *alpn;         /* what was agreed on; "" for nothing */
    const char *server_name;  /* what the client asked for; "" */
    const char *peer_subject; /* of the other side's certificate, if verified: "CN=alice"; "" */
    bool is_resumed;
} weft_tls_info;

/** Tell about it. -EINVAL if the stream is not TLS, -EBADF if it is not open. */
WEFT_API int weft_tls_describe(weft_stream *stream, weft_tls_info *info);

/**
 * End this side of a connection: flush, and say that nothing more comes. What the other side still
 * sends can be read; writes fail with -EPIPE. For one who has to know that all has arrived before
 * it closes: it reads until the other side has ended, too. -EINVAL if the stream is not TLS.
 */
WEFT_SWITCHPOINT int weft_tls_shutdown(weft_stream *stream);

/**
 * A key and a certificate signed by itself for some names, "localhost,127.0.0.1", valid for so many
 * days: for trying things. Both are allocated; free(3) them. -EINVAL for names or days that are
 * none.
 */
WEFT_SWITCHPOINT int weft_tls_self_signed(const char *names, int days, char **cert_pem,
                                          char **key_pem);

WEFT_END

#endif
