/*
 * Headers of frames, by wslay. wslay expects each payload after its header. For a received frame,
 * the callback reports bytes without writing them. For a sent frame, the callback accepts the bytes
 * without reading them. wslay sees no masks, because it would then change the bytes of a payload.
 */
#include "ws/frame.h"

#include "base/compiler.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* The context of a thread, between two headers. */
typedef struct framer {
    wslay_frame_context_ptr wslay; /* NULL: not created yet */
    bool is_registered;            /* framer_free frees the context when the thread ends */
    const uint8_t *in;             /* the rest of the header that wslay parses */
    size_t in_bytes;
    uint64_t payload_bytes; /* the bytes of the payload to report after the header */
    uint8_t *out;           /* receives the header that wslay formats; NULL: received */
    size_t out_bytes;
} framer;

static __thread framer thread_framer;
static pthread_once_t framer_once = PTHREAD_ONCE_INIT;
static pthread_key_t framer_key;
static bool has_framer_key;

static ssize_t on_recv(uint8_t *data, size_t room, int flags, void *arg)
{
    (void)flags;
    framer *f = arg;
    if (f->in_bytes > 0) {
        size_t n = f->in_bytes < room ? f->in_bytes : room;
        memcpy(data, f->in, n);
        f->in += n;
        f->in_bytes -= n;
        return (ssize_t)n;
    }
    uint64_t n = f->payload_bytes < room ? f->payload_bytes : room;
    f->payload_bytes -= n;
    return n > 0 ? (ssize_t)n : -1;
}

static ssize_t on_send(const uint8_t *data, size_t bytes, int flags, void *arg)
{
    (void)flags;
    framer *f = arg;
    if (f->out != NULL) {
        memcpy(f->out, data, bytes);
        f->out_bytes = bytes;
        f->out = NULL;
    }
    return (ssize_t)bytes;
}

static void framer_free(void *arg)
{
    framer *f = arg;
    if (f->wslay != NULL)
        wslay_frame_context_free(f->wslay);
    *f = (framer){0};
}

static void framer_make_key(void)
{
    has_framer_key = pthread_key_create(&framer_key, framer_free) == 0;
}

/* Create the context of the thread. Returns NULL if memory is exhausted. */
static COLD framer *framer_open(framer *f)
{
    static const struct wslay_frame_callbacks callbacks = {.send_callback = on_send,
                                                           .recv_callback = on_recv};
    pthread_once(&framer_once, framer_make_key);
    if (!f->is_registered)
        f->is_registered = has_framer_key && pthread_setspecific(framer_key, f) == 0;
    if (!f->is_registered)
        return NULL;
    return wslay_frame_context_init(&f->wslay, &callbacks, f) == 0 ? f : NULL;
}

static framer *framer_get(void)
{
    framer *f = &thread_framer;
    return LIKELY(f->wslay != NULL) ? f : framer_open(f);
}

/* Discard a context that still expects bytes of a payload, or has failed. */
static void framer_discard(framer *f)
{
    wslay_frame_context_free(f->wslay);
    f->wslay = NULL;
}

size_t weft__ws_header_bytes(const uint8_t *data)
{
    uint8_t length = data[1] & 0x7f;
    size_t bytes = length == 127 ? 10 : length == 126 ? 4 : 2;
    return bytes + ((data[1] & 0x80) != 0 ? WEFT__WS_KEY_BYTES : 0);
}

int weft__ws_frame_parse(weft__ws_frame *frame, const uint8_t *data)
{
    framer *f = framer_get();
    if (f == NULL)
        return -ENOMEM;
    struct wslay_frame_iocb cb;
    uint8_t header[WEFT__WS_HEADER_BYTES_MAX];
    size_t bytes = weft__ws_header_bytes(data);
    frame->is_masked = (data[1] & 0x80) != 0;
    if (frame->is_masked) {
        bytes -= WEFT__WS_KEY_BYTES;
        memcpy(frame->key, data + bytes, WEFT__WS_KEY_BYTES);
    }
    memcpy(header, data, bytes);
    header[1] &= 0x7f;
    f->in = header;
    f->in_bytes = bytes;
    f->payload_bytes = 1; /* wslay returns the header with the first byte of the payload */
    ssize_t n = wslay_frame_recv(f->wslay, &cb);
    if (n >= 0 && cb.payload_length > 1) {
        f->payload_bytes = cb.payload_length - 1;
        n = wslay_frame_recv(f->wslay, &cb);
    }
    if (n < 0 || (cb.payload_length > 1 && f->payload_bytes > 0))
        framer_discard(f);
    if (n < 0)
        return -EBADMSG;
    frame->bytes = cb.payload_length;
    frame->opcode = cb.opcode;
    frame->rsv = cb.rsv;
    frame->is_final = cb.fin != 0;
    return 0;
}

ssize_t weft__ws_frame_format(const weft__ws_frame *frame, uint8_t *data)
{
    framer *f = framer_get();
    if (f == NULL)
        return -ENOMEM;
    struct wslay_frame_iocb cb = {.fin = frame->is_final,
                                  .rsv = frame->rsv,
                                  .opcode = frame->opcode,
                                  .payload_length = frame->bytes,
                                  .data = data,
                                  .data_length = (size_t)frame->bytes};
    f->out = data;
    (void)wslay_frame_send(f->wslay, &cb);
    if (!frame->is_masked)
        return (ssize_t)f->out_bytes;
    data[1] |= 0x80;
    memcpy(data + f->out_bytes, frame->key, WEFT__WS_KEY_BYTES);
    return (ssize_t)(f->out_bytes + WEFT__WS_KEY_BYTES);
}

void weft__ws_mask(void *dest, const void *source, size_t bytes,
                   const uint8_t key[WEFT__WS_KEY_BYTES], uint64_t offset)
{
    uint8_t *to = dest;
    const uint8_t *from = source;
    uint64_t mask, words[4];
    uint8_t turned[sizeof mask];
    for (size_t i = 0; i < sizeof turned; i++)
        turned[i] = key[(offset + i) % WEFT__WS_KEY_BYTES];
    memcpy(&mask, turned, sizeof mask);
    for (; bytes >= sizeof words; bytes -= sizeof words) {
        memcpy(words, from, sizeof words);
        for (int i = 0; i < 4; i++)
            words[i] ^= mask;
        memcpy(to, words, sizeof words);
        from += sizeof words;
        to += sizeof words;
    }
    for (; bytes >= sizeof mask; bytes -= sizeof mask) {
        memcpy(words, from, sizeof mask);
        words[0] ^= mask;
        memcpy(to, words, sizeof mask);
        from += sizeof mask;
        to += sizeof mask;
    }
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i] ^ turned[i];
}
