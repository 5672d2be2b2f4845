/*
 * What OpenSSL reads from and writes to: two buffers in memory. It never waits: what is not there
 * yet is to be tried again. Also what OpenSSL needs once in a process.
 */
#include "tls/tls.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static BIO_METHOD *method;
static int init_result = -ENOMEM;
static atomic_bool is_over;

int weft__tls_reserve(weft__tls_buffer *b, size_t bytes)
{
    if (b->bytes - b->tail >= bytes)
        return 0;
    size_t held = weft__tls_held(b), size = held + bytes;
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

void weft__tls_release(weft__tls_buffer *b)
{
    free(b->data);
    *b = (weft__tls_buffer){0};
}

static int take_input(BIO *bio, char *data, int bytes)
{
    weft__tls_conn *c = BIO_get_data(bio);
    size_t held = weft__tls_held(&c->in);
    BIO_clear_retry_flags(bio);
    if (held == 0) {
        /* Nor is the end shown to OpenSSL, which would take no more writes after it. */
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t taken = (size_t)bytes < held ? (size_t)bytes : held;
    memcpy(data, c->in.data + c->in.head, taken);
    c->in.head += taken;
    return (int)taken;
}

static int put_output(BIO *bio, const char *data, int bytes)
{
    weft__tls_conn *c = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (weft__tls_reserve(&c->out, (size_t)bytes) < 0) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(c->out.data + c->out.tail, data, (size_t)bytes);
    c->out.tail += (size_t)bytes;
    return bytes;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static void end(void)
{
    atomic_store(&is_over, true);
}

/*
 * Without the exit handler of OpenSSL's: fibers that are ended by ours, which may run later, still
 * have connections to close. If the program has started OpenSSL before us, with the handler, we
 * hear of it, and leave OpenSSL alone from then on.
 */
static void init_once(void)
{
    if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) || !OPENSSL_atexit(end))
        return;
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
    if (method == NULL)
        return;
    BIO_meth_set_create(method, create);
    BIO_meth_set_ctrl(method, control);
    BIO_meth_set_read(method, take_input);
    BIO_meth_set_write(method, put_output);
    init_result = 0;
}

int weft__tls_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
    return init_result;
}

bool weft__tls_is_over(void)
{
    return atomic_load(&is_over);
}

int weft__tls_attach(weft__tls_conn *c)
{
    BIO *bio = BIO_new(method);
    if (bio == NULL)
        return -ENOMEM;
    BIO_set_data(bio, c);
    SSL_set_bio(c->ssl, bio, bio);
    return 0;
}
