/*
 * A text of several lines. The lines go to a descriptor as they are printed. If the program has a
 * log function (weft_set_log), the lines of a message are collected. The function then gets them as
 * one text.
 */
#ifndef WEFT_CORE_DEBUG_REPORT_H
#define WEFT_CORE_DEBUG_REPORT_H

#include <weft/base.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

typedef struct weft__report {
    int fd;          /* where the lines go, unless text is set */
    int level;       /* of a message, see weft_log_fn */
    bool is_cut;     /* the collected text lacks lines */
    char *text;      /* the collected lines: first, or memory from malloc; NULL: none */
    size_t count;    /* bytes in text, without the final 0 */
    size_t capacity; /* of text */
    char first[1024];
} weft__report;

/* Return a report that goes to a descriptor. The report needs no weft__report_end. */
#define WEFT__REPORT_TO(descriptor) ((weft__report){.fd = (descriptor)})

/* Begin a message. Print its first line. The caller must call weft__report_end. */
void weft__report_begin(weft__report *r, int level, const char *format, ...) WEFT_PRINTF(3, 4);
void weft__report_beginv(weft__report *r, int level, const char *format, va_list args);

/*
 * Format less than WEFT__LOG_TEXT_BYTES_MAX bytes (base/log.h). Write the bytes with one call, or
 * add the bytes to the collected text. The function does not use stdio streams, because the
 * reported fiber may hold the lock of a stream. Returns 0, or the error of write(2).
 */
int weft__report_print(weft__report *r, const char *format, ...) WEFT_PRINTF(2, 3);

/* Print the addresses and names of frames, one per line. */
void weft__report_frames(weft__report *r, void *const *frames, int n);

/* End a message. Pass a collected text to the log function, which must not switch. */
void weft__report_end(weft__report *r);

#endif
