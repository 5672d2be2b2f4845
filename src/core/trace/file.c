/* Write the file of a trace. See file.h. */
#include "core/trace/file.h"

#include "base/json_text.h"
#include "base/libc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)1 << 16)
#define PRINT_BYTES_MAX 500
#define STRING_BYTES_MAX 512

int weft__trace_file_begin(weft__trace_file *file, int fd)
{
    *file = (weft__trace_file){.fd = fd, .bytes = malloc(BLOCK_BYTES)};
    return file->bytes != NULL ? 0 : -ENOMEM;
}

static void file_flush(weft__trace_file *file)
{
    size_t done = 0;
    while (file->error == 0 && done < file->count) {
        ssize_t n = TEMP_FAILURE_RETRY(write(file->fd, file->bytes + done, file->count - done));
        if (n < 0)
            file->error = -errno;
        else
            done += (size_t)n;
    }
    file->count = 0;
}

int weft__trace_file_end(weft__trace_file *file)
{
    file_flush(file);
    free(file->bytes);
    return file->error;
}

/* Make room for more bytes. */
static void file_reserve(weft__trace_file *file, size_t bytes)
{
    if (file->count + bytes > BLOCK_BYTES)
        file_flush(file);
}

void weft__trace_file_print(weft__trace_file *file, const char *format, ...)
{
    va_list args;
    file_reserve(file, PRINT_BYTES_MAX);
    va_start(args, format);
    int n = vsnprintf(file->bytes + file->count, PRINT_BYTES_MAX, format, args);
    va_end(args);
    if (n > 0)
        file->count += (size_t)n < PRINT_BYTES_MAX ? (size_t)n : PRINT_BYTES_MAX - 1;
}

void weft__trace_file_string(weft__trace_file *file, const char *text)
{
    char escaped[WEFT__JSON_ESCAPE_BYTES_MAX * STRING_BYTES_MAX + 3];
    size_t bytes = (size_t)(weft__json_put_text(escaped, text, STRING_BYTES_MAX) - escaped);
    file_reserve(file, sizeof escaped + 2);
    file->bytes[file->count++] = '"';
    memcpy(file->bytes + file->count, escaped, bytes);
    file->count += bytes;
    file->bytes[file->count++] = '"';
}
