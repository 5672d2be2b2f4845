/* Lines of a terminal. See text.h. */
#include "command/top/text.h"

#include "command/inspect/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static void append(screen_text *s, const char *bytes, size_t count)
{
    if (s->bytes + count > s->capacity) {
        size_t capacity = 2 * s->capacity + count + 4096;
        char *data = realloc(s->data, capacity);
        if (data == NULL) {
            s->has_failed = true;
            return;
        }
        s->data = data;
        s->capacity = capacity;
    }
    memcpy(s->data + s->bytes, bytes, count);
    s->bytes += count;
}

/* Append a piece that has `width` columns, unless the line is full. Return false if it is. */
static bool append_piece(screen_text *s, const char *bytes, size_t count, unsigned width)
{
    if (s->column + width > s->columns)
        return false;
    append(s, bytes, count);
    s->column += width;
    return true;
}

/* Store the next character of a text as it is shown. Return its length in the text. */
static size_t next_character(const screen_text *s, const char *text, char shown[8],
                             unsigned *shown_width)
{
    uint32_t c;
    size_t length = weft__utf8_decode(text, &c);
    int width = length == 1 ? 1 : length > 1 ? wcwidth((wchar_t)c) : -1;
    if (length == 0 || c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0)) {
        *shown_width = (unsigned)snprintf(shown, 8, "\\x%02X", (unsigned char)*text);
        return 1;
    }
    if (length > 1 && (!s->is_utf8 || width < 0)) {
        *shown_width = (unsigned)snprintf(shown, 8, "?");
        return length;
    }
    memcpy(shown, text, length);
    shown[length] = '\0';
    *shown_width = (unsigned)width;
    return length;
}

void weft__screen_field(screen_text *s, const char *text, unsigned width)
{
    unsigned end = width > 0 ? s->column + width : s->columns;
    while (*text != '\0') {
        char shown[8];
        unsigned shown_width;
        size_t length = next_character(s, text, shown, &shown_width);
        if (s->column + shown_width > end || !append_piece(s, shown, strlen(shown), shown_width))
            break;
        text += length;
    }
    while (width > 0 && s->column < end && append_piece(s, " ", 1, 1))
        continue;
}

void weft__screen_print(screen_text *s, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft__screen_field(s, text, 0);
}

void weft__screen_style(screen_text *s, const char *sequence)
{
    if (s->has_controls)
        append(s, sequence, strlen(sequence));
}

void weft__screen_newline(screen_text *s)
{
    /* Clear the rest of the line and the style. Raw mode needs the carriage return. */
    weft__screen_style(s, "\033[K\033[0m\r");
    append(s, "\n", 1);
    s->column = 0;
}
