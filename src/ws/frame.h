/*
 * Headers of frames (RFC 6455, 5.2), and masks. wslay parses, checks and formats the headers. The
 * payloads do not pass through wslay, because wslay copies them to a buffer of 4 KiB per context,
 * and masks byte by byte (docs/adr/0061). One context per thread is therefore sufficient.
 */
#ifndef WEFT_WS_FRAME_H
#define WEFT_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <wslay/wslay.h>

#define WEFT__WS_HEADER_BYTES_MAX 14
#define WEFT__WS_CONTROL_BYTES_MAX 125
#define WEFT__WS_KEY_BYTES 4

/* The header of a frame. */
typedef struct weft__ws_frame {
    uint64_t bytes; /* length of the payload */
    uint8_t opcode; /* of wslay_opcode, or a reserved opcode */
    uint8_t rsv;    /* WSLAY_RSV*_BIT */
    bool is_final;
    bool is_masked;
    uint8_t key[WEFT__WS_KEY_BYTES]; /* the mask; undefined unless is_masked is set */
} weft__ws_frame;

/* Return the length of a header. data has at least the first two bytes of the header. */
size_t weft__ws_header_bytes(const uint8_t *data);

/*
 * Parse a whole header. Returns 0, or:
 * -EBADMSG if the length is not in its shortest form or exceeds 2^63 - 1
 * -EBADMSG if a control frame is fragmented or longer than 125 bytes
 * -ENOMEM if memory is exhausted
 */
int weft__ws_frame_parse(weft__ws_frame *frame, const uint8_t *data);

/*
 * Format a header of at most WEFT__WS_HEADER_BYTES_MAX bytes. Returns the length, or:
 * -ENOMEM if memory is exhausted
 */
ssize_t weft__ws_frame_format(const weft__ws_frame *frame, uint8_t *data);

/*
 * Mask or unmask bytes of a payload. offset is the offset of the bytes in the payload. dest may be
 * source.
 */
void weft__ws_mask(void *dest, const void *source, size_t bytes,
                   const uint8_t key[WEFT__WS_KEY_BYTES], uint64_t offset);

#endif
