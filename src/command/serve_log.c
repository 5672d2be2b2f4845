/*
 * The access log of `weft serve`. A request never waits for a disk or for the reader of a pipe. A
 * cord formats the line of a request in its buffer. The writer is one fiber of the main thread. The
 * writer writes all buffers each second, or when a buffer is half full. The writer writes whole
 * lines, so that lines of different cords are never mixed. If a write fails or is too slow, lines
 * are lost, because the log must not stop the server.
 */
#include "command/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The size of a buffer. The buffer holds several thousand lines. */
#define BUFFER_BYTES ((size_t)512 << 10)
/* The time between two writes. */
#define FLUSH_S 1.0
/* The maximum time by which a full disk or a blocked reader delays the shutdown. */
#define LAST_FLUSH_S 2.0

static const char *buffer_time_text(serve_log_buffer *buffer)
{
    struct timespec now;
    weft__log_format format = buffer->log->format;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != buffer->time_text_s) {
        buffer->time_text_s = now.tv_sec;
        weft__log_time(buffer->time_text, format, now.tv_sec);
    }
    weft__log_time_set_ms(buffer->time_text, format, (unsigned)(now.tv_nsec / 1000000));
    return buffer->time_text;
}

/*
 * Format the line directly in the buffer, because the stack of a connection's fiber is too small
 * for the longest line.
 */
void serve_log_add(const weft_http_record *record, void *ctx)
{
    serve_log_buffer *buffer = ctx;
    const char *now = buffer_time_text(buffer);
    pthread_mutex_lock(&buffer->lock);
    bool was_low = buffer->bytes < BUFFER_BYTES / 2;
    if (buffer->bytes <= BUFFER_BYTES - WEFT__LOG_LINE_BYTES_MAX)
        buffer->bytes +=
            weft__log_line(buffer->lines + buffer->bytes, buffer->log->format, record, now);
    else
        buffer->lost_count++;
    bool is_high = buffer->bytes >= BUFFER_BYTES / 2;
    pthread_mutex_unlock(&buffer->lock);
    if (was_low && is_high)
        (void)weft_event_set(&buffer->log->flush_event); /* on failure, the writer runs later */
}

/* Print an error when it first occurs, and a message when writing works again. */
static void log_report_result(serve_log *log, int rc)
{
    if (rc < 0 && rc != log->error)
        fprintf(stderr, "weft: serve: access log %s: %s; lines are lost\n", log->path,
                strerror(-rc));
    else if (rc == 0 && log->error < 0)
        fprintf(stderr, "weft: serve: access log %s: writing works again\n", log->path);
    log->error = rc;
}

/* Write log->spare_lines, in a shield, so that the shutdown leaves no partial line. */
static int log_write(serve_log *log, size_t bytes)
{
    ssize_t n = -ECANCELED;
    WEFT_SHIELD(LAST_FLUSH_S)
        n = weft_write_all(log->fd, log->spare_lines, bytes);
    return n < 0 ? (int)n : 0;
}

/*
 * Exchange the buffer's memory with log->spare_lines, so that the cord can append lines during the
 * write.
 */
static int log_empty_buffer(serve_log *log, serve_log_buffer *buffer)
{
    pthread_mutex_lock(&buffer->lock);
    char *lines = buffer->lines;
    size_t bytes = buffer->bytes;
    uint64_t lost_count = buffer->lost_count;
    buffer->lines = log->spare_lines;
    buffer->bytes = 0;
    buffer->lost_count = 0;
    pthread_mutex_unlock(&buffer->lock);
    log->spare_lines = lines;
    if (lost_count > 0)
        fprintf(stderr, "weft: serve: access log %s: writing is too slow; %llu lines are lost\n",
                log->path, (unsigned long long)lost_count);
    return bytes > 0 ? log_write(log, bytes) : log->error;
}

static void log_empty_buffers(serve_log *log)
{
    int rc = 0;
    for (size_t i = 0; i < log->buffers_count; i++) {
        int error = log_empty_buffer(log, &log->buffers[i]);
        if (error < 0)
            rc = error;
    }
    if (rc != -ECANCELED)
        log_report_result(log, rc);
}

static int log_open_file(const char *path)
{
    if (strcmp(path, "-") == 0)
        return STDOUT_FILENO;
    return weft_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
}

static void log_close_file(const serve_log *log)
{
    if (log->fd > STDERR_FILENO)
        weft_close(log->fd);
}

/* Open the file again. On failure, keep the old file. */
static void log_reopen_file(serve_log *log)
{
    int fd = log_open_file(log->path);
    if (fd < 0) {
        fprintf(stderr, "weft: serve: access log %s: %s; the old file remains in use\n", log->path,
                strerror(-fd));
        return;
    }
    log_close_file(log);
    log->fd = fd;
}

static weft_value log_writer_main(void *arg)
{
    serve_log *log = arg;
    while (!weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(FLUSH_S)
            (void)weft_event_wait(&log->flush_event);
        log_empty_buffers(log);
        if (atomic_exchange(&log->is_reopen_requested, false))
            log_reopen_file(log);
    }
    return 0;
}

static int log_open_buffers(serve_log *log, size_t count)
{
    log->buffers = calloc(count, sizeof *log->buffers);
    log->spare_lines = malloc(BUFFER_BYTES);
    if (log->buffers == NULL || log->spare_lines == NULL)
        return -ENOMEM;
    for (; log->buffers_count < count; log->buffers_count++) {
        serve_log_buffer *buffer = &log->buffers[log->buffers_count];
        *buffer = (serve_log_buffer){.log = log, .lines = malloc(BUFFER_BYTES), .time_text_s = -1};
        if (buffer->lines == NULL)
            return -ENOMEM;
        pthread_mutex_init(&buffer->lock, NULL);
    }
    return 0;
}

int serve_log_open(serve_log *log, const char *path, weft__log_format format, size_t buffers_count)
{
    *log = (serve_log){.path = path, .format = format, .fd = -1};
    if (path == NULL)
        return 0;
    log->fd = log_open_file(path);
    if (log->fd < 0)
        return weft_fail(log->fd, "access log %s: %s", path, strerror(-log->fd));
    int rc = log_open_buffers(log, buffers_count);
    if (rc < 0)
        return weft_fail(rc, "access log %s: memory is exhausted", path);
    const weft_spin_options options = {.name = "access log", .is_daemon = true};
    log->writer = weft_spin_with(log_writer_main, log, &options);
    return log->writer != 0 ? 0 : weft_error()->code;
}

void serve_log_reopen(serve_log *log)
{
    atomic_store(&log->is_reopen_requested, true);
    (void)weft_event_set(&log->flush_event);
}

void serve_log_close(serve_log *log)
{
    WEFT_SHIELD(LAST_FLUSH_S) {
        if (log->writer != 0)
            (void)weft_terminate(log->writer, INFINITY);
        if (log->buffers_count > 0)
            log_empty_buffers(log);
    }
    log_close_file(log);
    for (size_t i = 0; i < log->buffers_count; i++)
        free(log->buffers[i].lines);
    free(log->buffers);
    free(log->spare_lines);
}
