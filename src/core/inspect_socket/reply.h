/*
 * The text of a reply of the inspection socket (request.h). After memory is exhausted, a reply is
 * marked as failed, and further functions do nothing.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_REPLY_H
#define WEFT_CORE_INSPECT_SOCKET_REPLY_H

#include "base/buffer.h"

#include <weft/base.h>

#include <stdbool.h>

/* All-zero is empty. */
typedef struct weft__inspect_reply {
    weft__buffer text;
    bool has_failed; /* memory is exhausted */
} weft__inspect_reply;

/* Append formatted text of less than 512 bytes, which must need no escapes. */
void weft__inspect_reply_print(weft__inspect_reply *r, const char *format, ...) WEFT_PRINTF(2, 3);

/*
 * Append a space and a text as one word. Spaces, control characters, DEL and % become %XX. An empty
 * text or NULL becomes "-", and the text "-" becomes %2D.
 */
void weft__inspect_reply_word(weft__inspect_reply *r, const char *text);

#endif
