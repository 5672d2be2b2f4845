/*
 * Lines of a terminal. A line has at most a number of columns. Texts of other programs are cut at
 * whole characters. Control characters and invalid bytes are shown as \xNN.
 */
#ifndef WEFT_COMMAND_TOP_TEXT_H
#define WEFT_COMMAND_TOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The text of a screen, with the style of each line. */
typedef struct screen_text {
    char *data; /* NULL: empty */
    size_t bytes, capacity;
    unsigned columns;  /* of a line; text beyond them is cut */
    unsigned column;   /* of the current line */
    bool has_failed;   /* memory is exhausted */
    bool has_controls; /* the text goes to a terminal: sequences for styles are allowed */
    bool is_utf8;      /* false: characters beyond ASCII become "?" */
} screen_text;

/* Append text of weft, formatted, up to the width of the line. */
void weft__screen_print(screen_text *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Append text of another program, in a field of `width` columns. Pad or cut the text. If width is
 * 0, the text may fill the line, and is not padded.
 */
void weft__screen_field(screen_text *s, const char *text, unsigned width);

/* Append a control sequence, if the text goes to a terminal. */
void weft__screen_style(screen_text *s, const char *sequence);

/* End the line. */
void weft__screen_newline(screen_text *s);

#endif
