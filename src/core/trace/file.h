/*
 * Write the file of a trace, a JSON text, in blocks. The first error is kept, and ends all further
 * writes.
 */
#ifndef WEFT_CORE_TRACE_FILE_H
#define WEFT_CORE_TRACE_FILE_H

#include <weft/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__trace_file {
    int fd;
    int error; /* 0: none */
    char *bytes;
    size_t count;
    bool has_events; /* the next event needs a comma */
    uint64_t arrows; /* number of arrows so far */
} weft__trace_file;

/*
 * Begin a file. The caller must call weft__trace_file_end, also after an error.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__trace_file_begin(weft__trace_file *file, int fd);

/* Write the rest. Returns 0, or the first error. */
int weft__trace_file_end(weft__trace_file *file);

/* Format at most 500 bytes. */
void weft__trace_file_print(weft__trace_file *file, const char *format, ...) WEFT_PRINTF(2, 3);

/* Write a string with its quotes. See weft__json_put_text. At most 512 bytes are written. */
void weft__trace_file_string(weft__trace_file *file, const char *text);

#endif
