/* The screens of `weft top`: the table of fibers, and the backtrace of a fiber. */
#ifndef WEFT_COMMAND_TOP_SCREEN_H
#define WEFT_COMMAND_TOP_SCREEN_H

#include "command/top/model.h"
#include "command/top/text.h"

/* The state of the table, beside its rows. */
typedef struct top_table {
    const top_view *view;
    const top_view *before; /* the previous view, for rates; it has no cords at first */
    const top_query *query;
    uint64_t selected; /* the id of the selected row; 0: none */
    unsigned rows;     /* lines of the screen; 0: no limit */
    bool is_paused;
    const char *message; /* the last line: an error or an input; "": the keys */
} top_table;

/* Print the table. */
void weft__screen_table(screen_text *s, const top_table *table);

/* The number of rows of fibers that fit on a screen. */
size_t weft__screen_rows_room(const top_view *view, unsigned rows);

/* Print a backtrace, from the frame with index `first`. If rows is 0, print all frames. */
void weft__screen_backtrace(screen_text *s, const top_backtrace *b, size_t first, unsigned rows);

#endif
