/* Format text with vsnprintf(3) into a fixed buffer. Allocate memory for longer text. */
#include "http/text/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int weft__format_open(weft__format *f, const char *format, va_list args)
{
    va_list args_copy;
    va_copy(args_copy, args);
    int count = vsnprintf(f->own, sizeof f->own, format, args);
    int rc = count < 0 ? -EINVAL : 0;
    f->bytes = f->own;
    f->count = count < 0 ? 0 : (size_t)count;
    if (f->count >= sizeof f->own) {
        f->bytes = malloc(f->count + 1);
        rc = f->bytes == NULL ? -ENOMEM : 0;
        if (rc == 0)
            vsnprintf(f->bytes, f->count + 1, format, args_copy);
    }
    va_end(args_copy);
    return rc;
}

void weft__format_close(weft__format *f)
{
    if (f->bytes != f->own)
        free(f->bytes);
}
