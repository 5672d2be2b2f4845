/*
 * The progress bar of `weft fetch`, and messages beside it. The bar is one line on stderr, which a
 * fiber redraws. With several URLs, the bar shows their sum.
 */
#include "command/command.h"
#include "command/fetch.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The time between two drawings. */
#define DRAW_S 0.1
/* The time over which the rate is averaged. */
#define AVERAGE_S 2.0
#define COLUMNS_DEFAULT 80
#define NAME_COLUMNS_MAX 24
#define BAR_COLUMNS_MIN 6
#define ETA_S_MAX 359999.0 /* 99:59:59 */
#define CLEAR_LINE "\r\x1b[K"

const char *fetch_size_text(char out[FETCH_SIZE_BYTES], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, FETCH_SIZE_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : COLUMNS_DEFAULT;
}

/* Write up to NAME_COLUMNS_MAX characters of a name, without those that control a terminal. */
static void write_name(char *out, const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0' && n < NAME_COLUMNS_MAX; n++)
        out[n] = name[n] < ' ' || name[n] > '~' ? '?' : name[n];
    out[n] = '\0';
}

static void write_eta(char out[24], double left_bytes, double bytes_per_s)
{
    double left_s = bytes_per_s > 0 ? ceil(left_bytes / bytes_per_s) : INFINITY;
    unsigned s = left_s <= ETA_S_MAX ? (unsigned)left_s : 0;
    if (left_s > ETA_S_MAX)
        snprintf(out, 24, "ETA --:--");
    else if (s >= 3600)
        snprintf(out, 24, "ETA %u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 24, "ETA %u:%02u", s / 60, s % 60);
}

/* The sum over all transfers. */
typedef struct sum {
    uint64_t bytes;
    uint64_t new_bytes; /* of this run */
    int64_t total;      /* -1: unknown */
    size_t done, begun;
    const fetch_transfer *last; /* the last one that has begun; NULL: none */
} sum;

static sum add_up(const fetch_progress *p)
{
    sum s = {0};
    for (size_t i = 0; i < p->count; i++) {
        const fetch_transfer *t = &p->transfers[i];
        s.done += t->is_done;
        if (t->begun_s == 0)
            continue;
        s.begun++;
        s.bytes += t->output.bytes;
        s.new_bytes += t->output.bytes - t->first;
        s.total = t->total < 0 || s.total < 0 ? -1 : s.total + t->total;
        s.last = t;
    }
    return s;
}

/* Update the average rate. */
static void measure_rate(fetch_progress *p, uint64_t bytes)
{
    double now = weft_now(), passed_s = now - p->last_s;
    if (passed_s < DRAW_S / 2)
        return;
    double rate = bytes >= p->last_bytes ? (double)(bytes - p->last_bytes) / passed_s : 0;
    double share = p->bytes_per_s == 0 ? 1 : 1 - exp(-passed_s / AVERAGE_S);
    p->bytes_per_s += share * (rate - p->bytes_per_s);
    p->last_s = now;
    p->last_bytes = bytes;
}

/* Draw "[====>    ]" into the columns that remain. Draw nothing if there are too few. */
static void draw_bar(char *out, int columns, double part)
{
    int inner = columns - 3;
    *out = '\0';
    if (inner < BAR_COLUMNS_MIN)
        return;
    int full = (int)(part * inner);
    *out++ = '[';
    for (int i = 0; i < inner; i++)
        *out++ = i < full ? '=' : i == full ? '>' : ' ';
    strcpy(out, "] ");
}

static void draw(fetch_progress *p)
{
    sum s = add_up(p);
    char name[64] = "", right[160], bar[512], size[FETCH_SIZE_BYTES], total[FETCH_SIZE_BYTES],
         rate[FETCH_SIZE_BYTES], eta[24] = "";
    if (s.last == NULL)
        return;
    measure_rate(p, s.new_bytes);
    if (p->count > 1)
        snprintf(name, sizeof name, "%zu of %zu files", s.done, p->count);
    else
        write_name(name, s.last->name);
    bool is_known = s.total > 0 && s.begun == p->count;
    double part = is_known ? (double)s.bytes / (double)s.total : 0;
    if (is_known)
        write_eta(eta, (double)s.total - (double)s.bytes, p->bytes_per_s);
    snprintf(right, sizeof right, "%s%s%s  %s/s  %s", fetch_size_text(size, (double)s.bytes),
             is_known ? " of " : "", is_known ? fetch_size_text(total, (double)s.total) : "",
             fetch_size_text(rate, p->bytes_per_s), eta);
    int columns = terminal_columns() - 1;
    if (columns > (int)sizeof bar)
        columns = sizeof bar;
    draw_bar(bar, is_known ? columns - (int)(strlen(name) + strlen(right) + 6) : 0, part);
    char percent[8] = "", line[1024];
    if (is_known)
        snprintf(percent, sizeof percent, "%3.0f%% ", 100 * part);
    snprintf(line, sizeof line, "%s %s%s%s", name, percent, bar, right);
    fprintf(stderr, CLEAR_LINE "%.*s", columns, line);
    fflush(stderr);
    p->is_shown = true;
}

static void clear(fetch_progress *p)
{
    if (p->is_shown)
        fputs(CLEAR_LINE, stderr);
    p->is_shown = false;
}

static weft_value draw_repeatedly(void *arg)
{
    while (weft_sleep(DRAW_S) == 0)
        draw(arg);
    return 0;
}

void fetch_progress_start(fetch_progress *p, const fetch_settings *s)
{
    const weft_spin_options options = {.name = "progress", .is_daemon = true};
    bool has_file = s->has_remote_names || s->outputs_count > 0 || !isatty(STDOUT_FILENO);
    p->is_quiet = s->is_quiet;
    p->is_on =
        has_file && !s->is_quiet && !s->has_no_progress && !s->is_verbose && isatty(STDERR_FILENO);
    p->last_s = weft_now();
    if (p->is_on)
        p->fiber = weft_spin_with(draw_repeatedly, p, &options); /* 0: no bar */
}

void fetch_progress_stop(fetch_progress *p)
{
    if (p->fiber != 0)
        (void)weft_terminate(p->fiber, INFINITY);
    p->fiber = 0;
    clear(p);
}

void fetch_print(fetch_progress *p, const char *format, ...)
{
    va_list args;
    clear(p);
    va_start(args, format);
    weft__command_print("fetch", format, args);
    va_end(args);
}

void fetch_print_done(fetch_progress *p, const fetch_transfer *t)
{
    char name[NAME_COLUMNS_MAX + 1], size[FETCH_SIZE_BYTES], rate[FETCH_SIZE_BYTES];
    if (!p->is_on || t->output.path == NULL || t->begun_s == 0)
        return;
    double took_s = fmax(weft_now() - t->begun_s, 0.001);
    write_name(name, t->name);
    clear(p);
    fprintf(stderr, "%s  %s in %.1f s  %s/s\n", name,
            fetch_size_text(size, (double)t->output.bytes), took_s,
            fetch_size_text(rate, (double)(t->output.bytes - t->first) / took_s));
}
