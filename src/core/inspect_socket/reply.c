/* The text of a reply. See reply.h. */
#include "core/inspect_socket/reply.h"

#include "core/inspect_socket/word.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PRINT_BYTES_MAX 512

/* Return room for more bytes after the text. Return NULL if memory is exhausted. */
static char *reply_reserve(weft__inspect_reply *r, size_t more)
{
    if (r->has_failed || weft__buffer_reserve(&r->text, more) < 0) {
        r->has_failed = true;
        return NULL;
    }
    return r->text.data + r->text.bytes;
}

void weft__inspect_reply_print(weft__inspect_reply *r, const char *format, ...)
{
    char *to = reply_reserve(r, PRINT_BYTES_MAX);
    if (to == NULL)
        return;
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(to, PRINT_BYTES_MAX, format, args);
    va_end(args);
    r->text.bytes += bytes < PRINT_BYTES_MAX ? (size_t)bytes : PRINT_BYTES_MAX - 1;
}

void weft__inspect_reply_word(weft__inspect_reply *r, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t bytes = text != NULL ? strlen(text) : 0;
    char *first = reply_reserve(r, 3 * bytes + 2), *to = first;
    if (to == NULL)
        return;
    *to++ = ' ';
    bool is_dash = bytes == 1 && text[0] == '-';
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (is_dash || weft__word_must_escape(c)) {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        } else {
            *to++ = (char)c;
        }
    }
    if (bytes == 0)
        *to++ = '-';
    r->text.bytes += (size_t)(to - first);
}
