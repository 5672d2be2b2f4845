/*
 * The access log of `weft serve`. A request waits for no disk and no reader of a pipe: its line is
 * copied into a lane of its cord's, and one fiber writes the lanes, each second or when one is half
 * full. Whole lines go out in one write, by one writer, so none is ever torn. What cannot be
 * written is lost, counted, and said: the log must not stop the server.
 */
#include "command/serve.h"
#include "http/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of one lane: some thousand lines. */
#define LANE_BYTES ((size_t)512 << 10)
#define FLUSH_S 1.0
/* What a full disk or a stuck reader may cost at the end. */
#define LAST_FLUSH_S 2.0

static const char *time_now(serve_log_lane *lane)
{
    time_t now = time(NULL);
    if (now != lane->second) {
        lane->second = now;
        weft__log_time(lane->time_text, now);
    }
    return lane->time_text;
}

/* Made in place: the stack of a connection's fiber has no room for the longest line. */
void serve_log_add(const weft_http_record *record, void *ctx)
{
    serve_log_lane *lane = ctx;
    const char *now = time_now(lane);
    pthread_mutex_lock(&lane->lock);
    bool was_low = lane->bytes < LANE_BYTES / 2;
    if (lane->bytes <= LANE_BYTES - WEFT__LOG_LINE_BYTES_MAX)
        lane->bytes += weft__log_line(lane->lines + lane->bytes, record, now);
    else
        lane->lost++;
    bool is_high = lane->bytes >= LANE_BYTES / 2;
    pthread_mutex_unlock(&lane->lock);
    if (was_low && is_high)
        (void)weft_event_set(&lane->log->wanted); /* else the second that has begun does it */
}

/* Said when it begins and when it is over, not for each line. */
static void note_result(serve_log *log, int rc)
{
    if (rc < 0 && rc != log->error)
        fprintf(stderr, "weft: access log %s: %s; lines are being lost\n", log->path,
                strerror(-rc));
    else if (rc == 0 && log->error < 0)
        fprintf(stderr, "weft: access log %s: written again\n", log->path);
    log->error = rc;
}

/* The end of the server is no reason to leave half a line. */
static int write_out(serve_log *log, size_t bytes)
{
    ssize_t n = -ECANCELED;
    WEFT_SHIELD(LAST_FLUSH_S)
        n = weft_write_all(log->fd, log->writing, bytes);
    return n < 0 ? (int)n : 0;
}

/* The lane gets the buffer that was written last, and fills that meanwhile. */
static int empty_lane(serve_log *log, serve_log_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    char *lines = lane->lines;
    size_t bytes = lane->bytes;
    uint64_t lost = lane->lost;
    lane->lines = log->writing;
    lane->bytes = 0;
    lane->lost = 0;
    pthread_mutex_unlock(&lane->lock);
    log->writing = lines;
    if (lost > 0)
        fprintf(stderr, "weft: access log %s: %llu lines lost: it is written too slowly\n",
                log->path, (unsigned long long)lost);
    return bytes > 0 ? write_out(log, bytes) : log->error;
}

static void empty_lanes(serve_log *log)
{
    int rc = 0;
    for (size_t i = 0; i < log->lanes_count; i++) {
        int failed = empty_lane(log, &log->lanes[i]);
        if (failed < 0)
            rc = failed;
    }
    if (rc != -ECANCELED)
        note_result(log, rc);
}

static int open_file(const char *path)
{
    if (strcmp(path, "-") == 0)
        return STDOUT_FILENO;
    return weft_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
}

static void close_file(const serve_log *log)
{
    if (log->fd > STDERR_FILENO)
        weft_close(log->fd);
}

/* If it cannot be opened, lines go to where they went. */
static void open_again(serve_log *log)
{
    int fd = open_file(log->path);
    if (fd < 0) {
        fprintf(stderr, "weft: access log %s: %s; the old one is kept\n", log->path, strerror(-fd));
        return;
    }
    close_file(log);
    log->fd = fd;
}

static weft_value write_lines(void *arg)
{
    serve_log *log = arg;
    while (!weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(FLUSH_S)
            (void)weft_event_wait(&log->wanted);
        empty_lanes(log);
        if (atomic_exchange(&log->is_to_reopen, false))
            open_again(log);
    }
    return 0;
}

static int open_lanes(serve_log *log, size_t count)
{
    log->lanes = calloc(count, sizeof *log->lanes);
    log->writing = malloc(LANE_BYTES);
    if (log->lanes == NULL || log->writing == NULL)
        return -ENOMEM;
    for (; log->lanes_count < count; log->lanes_count++) {
        serve_log_lane *lane = &log->lanes[log->lanes_count];
        *lane = (serve_log_lane){.log = log, .lines = malloc(LANE_BYTES), .second = -1};
        if (lane->lines == NULL)
            return -ENOMEM;
        pthread_mutex_init(&lane->lock, NULL);
    }
    return 0;
}

int serve_log_open(serve_log *log, const char *path, size_t lanes)
{
    *log = (serve_log){.path = path, .fd = -1};
    if (path == NULL)
        return 0;
    log->fd = open_file(path);
    if (log->fd < 0)
        return weft_fail(log->fd, "access log %s: %s", path, strerror(-log->fd));
    int rc = open_lanes(log, lanes);
    if (rc < 0)
        return weft_fail(rc, "no memory for the access log");
    const weft_spin_options options = {.name = "access log", .is_daemon = true};
    log->writer = weft_spin_with(write_lines, log, &options);
    return log->writer != 0 ? 0 : weft_error()->code;
}

void serve_log_reopen(serve_log *log)
{
    atomic_store(&log->is_to_reopen, true);
    (void)weft_event_set(&log->wanted);
}

void serve_log_close(serve_log *log)
{
    WEFT_SHIELD(LAST_FLUSH_S) {
        if (log->writer != 0)
            (void)weft_terminate(log->writer, INFINITY);
        if (log->lanes_count > 0)
            empty_lanes(log);
    }
    close_file(log);
    for (size_t i = 0; i < log->lanes_count; i++)
        free(log->lanes[i].lines);
    free(log->lanes);
    free(log->writing);
}
