/*
 * TLS 1.2 and 1.3 streams over OpenSSL.
 *
 * A weft_tls is the configuration of a server or client: certificates, trusted certificate
 * authorities (CAs) and protocols. Any number of connections may use a weft_tls, in any thread. A
 * connection keeps its configuration until its end. The program may reload or free the weft_tls
 * earlier.
 *
 *     weft_tls *tls = weft_tls_client_new(NULL);
 *     weft_stream s;
 *     int rc = weft_tls_connect(&s, weft_dial("tcp", "example.org:443"), tls, "example.org");
 *
 * Handshakes, reads and writes block only the calling fiber. A scope can cancel these calls. A
 * handshake needs about 12 KiB of stack. An open connection needs about 15 KiB of memory, and
 * 35 KiB more for buffers during reads and writes. weft_stream_wait frees these buffers.
 *
 * A read returns 0 only if the peer has sent close_notify. If the connection ends without
 * close_notify, the read returns -ECONNRESET, because an attacker could have truncated the data.
 * Closing a stream sends close_notify, and waits at most 2 s.
 */
#ifndef WEFT_TLS_H
#define WEFT_TLS_H

#include <weft/base.h>
#include <weft/stream.h>

WEFT_BEGIN

/* The TLS configuration of a server or client. */
typedef struct weft_tls weft_tls;

/*
 * A certificate with its chain and its key, in PEM format, from files or from memory. If both
 * key_file and key_pem are NULL, the PEM text of the certificate must contain the key.
 */
typedef struct weft_tls_identity {
    const char *cert_file;
    const char *key_file;
    const char *cert_pem; /* NUL-terminated */
    const char *key_pem;
} weft_tls_identity;

/* Verification of the peer's certificate. */
typedef enum weft_tls_verify {
    WEFT_TLS_VERIFY_DEFAULT, /* client: REQUIRED; server: NONE */
    WEFT_TLS_VERIFY_NONE,    /* a client cannot detect an impostor */
    /* A server accepts a client without a certificate. A client accepts an invalid certificate. */
    WEFT_TLS_VERIFY_OPTIONAL,
    WEFT_TLS_VERIFY_REQUIRED,
} weft_tls_verify;

/*
 * A callback that selects the certificate for a client. server_name is the name that the client
 * requests, or NULL. The callback runs in the fiber of the handshake and may block. Every thread
 * that accepts connections with this weft_tls calls the callback.
 *
 * The callback returns 1 after it has set identity, or 0 to use the certificates of the weft_tls.
 * If the callback returns an error, the handshake fails. The strings in identity must remain valid
 * until the next call of the callback in the same thread.
 */
typedef int weft_tls_choose(const char *server_name, weft_tls_identity *identity, void *ctx);

/*
 * Options of a server or client. All-zero is the default. weft copies all strings. By default, a
 * server uses only ciphers with forward secrecy and authenticated encryption (AES-GCM and ChaCha20
 * with ECDHE). By default, a client uses OpenSSL's default ciphers.
 */
typedef struct weft_tls_options {
    weft_tls_identity identity; /* of the server, or of a client if the server requests one */
    const char *ca_file;        /* trusted CAs, PEM */
    const char *ca_pem;         /* further trusted CAs; both NULL: the system's CAs */
    weft_tls_verify verify;
    const char *alpn;        /* protocols in order of preference: "h2,http/1.1"; NULL: no ALPN */
    int version_min;         /* 12 or 13; 0: 12 */
    int version_max;         /* 12 or 13; 0: 13 */
    const char *ciphers;     /* of TLS 1.2, in OpenSSL's syntax; NULL: the default */
    bool has_no_tickets;     /* do not resume sessions */
    weft_tls_choose *choose; /* only of a server; NULL: use the certificates of the weft_tls */
    void *choose_ctx;
} weft_tls_options;

/**
 * Create the configuration of a server.
 *
 * options must contain an identity or choose. A worker thread reads the files.
 *
 * Returns the configuration. On failure, returns NULL and records for weft_error() an error of
 * open(2) or read(2), or:
 * -EFBIG if a file is larger than 16 MiB
 * -EINVAL if a certificate, a key or a list of CAs is invalid
 * -EINVAL if an option or a combination of options is invalid
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if weft was built without OpenSSL
 */
WEFT_SWITCHPOINT weft_tls *weft_tls_server_new(const weft_tls_options *options) WEFT_MUST_CHECK;

/**
 * Like weft_tls_server_new, for a client.
 *
 * identity may be empty. choose must be NULL. If options is NULL, the defaults apply.
 */
WEFT_SWITCHPOINT weft_tls *weft_tls_client_new(const weft_tls_options *options) WEFT_MUST_CHECK;

/**
 * Free a configuration. If tls is NULL, the call does nothing.
 *
 * Open connections continue. weft frees the memory when the last connection ends.
 */
WEFT_API void weft_tls_free(weft_tls *tls);

/**
 * Add a certificate for additional host names to a server configuration.
 *
 * The server sends this certificate to a client that requests a name in the certificate. An exact
 * name takes precedence over a wildcard. If no certificate has the requested name, the server sends
 * its first certificate.
 *
 * Returns 0. Errors in addition to those of weft_tls_server_new:
 * -EINVAL if identity is NULL
 * -EINVAL if tls is NULL or belongs to a client
 */
WEFT_SWITCHPOINT int weft_tls_add(weft_tls *tls, const weft_tls_identity *identity);

/**
 * Read all files of a configuration again.
 *
 * New connections use the new contents. New connections do not resume earlier sessions. If the call
 * fails, the configuration does not change.
 *
 * Returns 0. Errors in addition to those of weft_tls_server_new:
 * -EINVAL if tls is NULL
 */
WEFT_SWITCHPOINT int weft_tls_reload(weft_tls *tls);

/**
 * Perform the server's handshake and open a stream over the connection.
 *
 * The stream owns fd. If the call fails, the call closes fd. If fd is negative, the call returns
 * fd.
 *
 * Returns 0, an error that choose returned, an error of the connection, or:
 * -EACCES if the peer does not trust the certificate of this side
 * -EACCES if the peer's certificate is missing or not trusted
 * -ECONNRESET if the peer closes the connection
 * -EINVAL if tls is NULL or belongs to a client
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if weft was built without OpenSSL
 * -EPROTO if the peer violates the protocol
 * -EPROTO if the server has no certificate for the client
 * -EPROTO if the two sides have no common version, cipher or protocol
 */
WEFT_SWITCHPOINT int weft_tls_accept(weft_stream *stream, int fd, weft_tls *tls) WEFT_MUST_CHECK;

/**
 * Like weft_tls_accept, for a client.
 *
 * server_name is a host name or an address. The client sends a host name to the server (SNI). The
 * server's certificate must be valid for server_name. The client keeps the last 64 sessions. If the
 * server offers resumption, the client resumes the newest session with the same name and port.
 *
 * With TLS 1.3, the call may succeed even if the server rejects the client's certificate. The first
 * read then fails.
 *
 * Returns 0. The errors are those of weft_tls_accept, with other conditions for -EINVAL:
 * -EINVAL if server_name is not a host name or an address
 * -EINVAL if tls is NULL or belongs to a server
 */
WEFT_SWITCHPOINT int weft_tls_connect(weft_stream *stream, int fd, weft_tls *tls,
                                      const char *server_name) WEFT_MUST_CHECK;

/*
 * A description of a TLS connection. The strings are valid while the stream is open. The struct may
 * gain fields at the end. See version.h.
 */
typedef struct weft_tls_info {
    int version;              /* 12 or 13 */
    const char *cipher;       /* for example "TLS_AES_256_GCM_SHA384" */
    const char *alpn;         /* negotiated protocol; "": none */
    const char *server_name;  /* the name that the client requests; "": none */
    const char *peer_subject; /* of the peer's verified certificate: "CN=alice"; "": none */
    bool is_resumed;
} weft_tls_info;

/** Like weft_tls_describe, for a result of size bytes. Private. */
WEFT_API int weft__tls_describe(weft_stream *stream, weft_tls_info *info, size_t size);

/**
 * Describe the TLS connection of a stream.
 *
 * Returns 0, or:
 * -EBADF if the stream is not open
 * -EINVAL if the stream is not a TLS stream
 * -ENOMEM if memory is exhausted
 */
static inline int weft_tls_describe(weft_stream *stream, weft_tls_info *info)
{
    return weft__tls_describe(stream, info, sizeof *info);
}

/**
 * End the output of a TLS stream.
 *
 * The call flushes the stream and sends close_notify. Further writes fail with -EPIPE. The caller
 * can still read. To make sure that the peer has received all data, read until weft_stream_read
 * returns 0.
 *
 * Returns 0, an error of weft_stream_flush, or:
 * -EBADF if the stream is not open
 * -EINVAL if the stream is not a TLS stream
 */
WEFT_SWITCHPOINT int weft_tls_shutdown(weft_stream *stream);

/**
 * Create a key and a self-signed certificate, for tests.
 *
 * names is a list of host names and addresses: "localhost,127.0.0.1". days is the validity of the
 * certificate. The caller frees both strings with free(3).
 *
 * Returns 0, or:
 * -EINVAL if cert_pem or key_pem is NULL
 * -EINVAL if days is less than 1 or greater than 36,500
 * -EINVAL if names is invalid
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if weft was built without OpenSSL
 */
WEFT_SWITCHPOINT int weft_tls_self_signed(const char *names, int days, char **cert_pem,
                                          char **key_pem);

WEFT_END

#endif
