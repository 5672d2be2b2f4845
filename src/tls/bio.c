/*
 * The BIO between OpenSSL and the two memory buffers of a connection. The BIO never blocks. A read
 * without data sets the retry flag of the BIO. This file also initialises OpenSSL, once per
 * process.
 */
#include "tls/tls.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static BIO_METHOD *bio_method;
static int init_result = -ENOMEM;
static atomic_bool is_cleaned_up;

int weft__tls_buffer_reserve(weft__tls_buffer *b, size_t bytes)
{
    if (b->bytes - b->tail >= bytes)
        return 0;
    size_t held = weft__tls_buffer_held(b), size = held + bytes;
    if (held > 0 && size < 2 * b->bytes)
        size = 2 * b->bytes;
    char *data = malloc(size);
    if (data == NULL)
        return -ENOMEM;
    if (held > 0)
        memcpy(data, b->data + b->head, held);
    free(b->data);
    *b = (weft__tls_buffer){.data = data, .bytes = size, .tail = held};
    return 0;
}

void weft__tls_buffer_release(weft__tls_buffer *b)
{
    free(b->data);
    *b = (weft__tls_buffer){0};
}

static int bio_read(BIO *bio, char *data, int bytes)
{
    weft__tls_conn *c = BIO_get_data(bio);
    size_t held = weft__tls_buffer_held(&c->in);
    BIO_clear_retry_flags(bio);
    if (held == 0) {
        /* Retry even at the end of the input. If a read returned 0, later writes would fail. */
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t taken = (size_t)bytes < held ? (size_t)bytes : held;
    memcpy(data, c->in.data + c->in.head, taken);
    c->in.head += taken;
    return (int)taken;
}

static int bio_write(BIO *bio, const char *data, int bytes)
{
    weft__tls_conn *c = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (weft__tls_buffer_reserve(&c->out, (size_t)bytes) < 0) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(c->out.data + c->out.tail, data, (size_t)bytes);
    c->out.tail += (size_t)bytes;
    return bytes;
}

static long bio_control(BIO *bio, int command, long number_arg, void *pointer_arg)
{
    (void)bio, (void)number_arg, (void)pointer_arg;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static void on_openssl_cleanup(void)
{
    atomic_store(&is_cleaned_up, true);
}

/*
 * Initialise OpenSSL without its atexit handler. weft's own atexit handler may run later. It ends
 * fibers, and these fibers may close TLS connections. If the program has already initialised
 * OpenSSL with an atexit handler, on_openssl_cleanup records the cleanup. weft does not call
 * OpenSSL after the cleanup.
 */
static void init_once(void)
{
    if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) || !OPENSSL_atexit(on_openssl_cleanup))
        return;
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
    if (bio_method == NULL)
        return;
    BIO_meth_set_create(bio_method, bio_create);
    BIO_meth_set_ctrl(bio_method, bio_control);
    BIO_meth_set_read(bio_method, bio_read);
    BIO_meth_set_write(bio_method, bio_write);
    init_result = 0;
}

int weft__tls_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
    return init_result;
}

bool weft__tls_is_cleaned_up(void)
{
    return atomic_load(&is_cleaned_up);
}

int weft__tls_bio_attach(weft__tls_conn *c)
{
    BIO *bio = BIO_new(bio_method);
    if (bio == NULL)
        return -ENOMEM;
    BIO_set_data(bio, c);
    SSL_set_bio(c->ssl, bio, bio);
    return 0;
}
