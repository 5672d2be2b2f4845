/* The screens of `weft top`. See screen.h. */
#include "command/top/screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BOLD "\033[1m"
#define REVERSE "\033[7m"
#define PLAIN "\033[0m"

/* The largest number of lines for cords. Fewer lines remain on a small screen. */
#define CORD_LINES_MAX 8
/* Lines that are neither cords nor rows: the process, the heads of both tables, the keys. */
#define FIXED_LINES 4
/* Widths from which the table has more columns. */
#define COLUMNS_MIDDLE 80
#define COLUMNS_WIDE 110

static const char keys_help[] =
    "q quit  enter backtrace  c/w/s/x/i sort  t tree  g group  / filter  p pause";

/* Format a duration with at most 7 characters. */
static const char *format_seconds(char text[32], double seconds)
{
    if (seconds < 0.0005)
        snprintf(text, 32, "%s", seconds > 0 ? "0.0005" : "-");
    else if (seconds < 1000)
        snprintf(text, 32, "%.3f", seconds);
    else if (seconds < 86400)
        snprintf(text, 32, "%d:%02d:%02d", (int)seconds / 3600, (int)seconds / 60 % 60,
                 (int)seconds % 60);
    else
        snprintf(text, 32, "%.1fd", seconds / 86400);
    return text;
}

/* Format a count with at most 6 characters. */
static const char *format_count(char text[32], double count)
{
    static const char units[] = " kMGTP";
    int unit = 0;
    while (count >= 100000 && unit < 5) {
        count /= 1000;
        unit++;
    }
    snprintf(text, 32, unit > 0 ? "%.0f%c" : "%.0f", count, units[unit]);
    return text;
}

static unsigned cord_lines(const top_view *v, unsigned rows)
{
    size_t most = rows == 0                   ? v->cords_count
                  : rows / 4 < CORD_LINES_MAX ? rows / 4
                                              : CORD_LINES_MAX;
    most = most > 0 ? most : 1;
    return (unsigned)(v->cords_count < most ? v->cords_count : most);
}

size_t weft__screen_rows_room(const top_view *v, unsigned rows)
{
    unsigned others = FIXED_LINES + cord_lines(v, rows);
    return rows > others + 1 ? rows - others : 1;
}

static void print_process(screen_text *s, const top_table *t)
{
    const top_view *v = t->view;
    char uptime[32];
    weft__screen_style(s, BOLD);
    weft__screen_field(s, v->program, 0);
    weft__screen_print(s, " (%d)", v->pid);
    weft__screen_style(s, PLAIN);
    weft__screen_print(s, "  up %s  %zu fibers", format_seconds(uptime, v->uptime_s), v->fibers);
    weft__screen_print(s, t->query->is_tree ? "  tree" : "  sort %s",
                       weft__top_sort_names[t->query->sort]);
    if (t->query->has_groups && !t->query->is_tree)
        weft__screen_print(s, "  grouped");
    if (t->query->filter[0] != '\0') {
        weft__screen_print(s, "  filter ");
        weft__screen_field(s, t->query->filter, 0);
    }
    if (t->is_paused)
        weft__screen_print(s, "  paused");
    weft__screen_newline(s);
}

static void print_cord(screen_text *s, const top_cord *c, const top_cord *before, double seconds)
{
    char text[6][32];
    bool has_rates = before != NULL && seconds > 0;
    weft__screen_field(s, c->name, 16);
    weft__screen_print(s, " %7d ", c->thread_id);
    weft__screen_field(s, c->backend, 9);
    if (!c->has_replied) {
        weft__screen_print(s, " has not replied for %s s", format_seconds(text[0], c->stalled_s));
        return;
    }
    weft__screen_print(s, " %7s %7s", format_count(text[0], (double)c->fibers),
                       format_count(text[1], (double)c->runnable));
    if (!has_rates)
        return;
    double cpu = (c->cpu_s - before->cpu_s) / seconds;
    weft__screen_print(s, " %6.1f %8s %7s %7s", 100 * (cpu > 0 ? cpu : 0),
                       format_count(text[2], (double)(c->switches - before->switches) / seconds),
                       format_count(text[3], (double)(c->polls - before->polls) / seconds),
                       format_count(text[4], (double)(c->ops - before->ops) / seconds));
}

static void print_cords(screen_text *s, const top_table *t)
{
    const top_view *v = t->view;
    unsigned lines = cord_lines(v, t->rows);
    weft__screen_style(s, BOLD);
    weft__screen_print(s, "%-16s %7s %-9s %7s %7s %6s %8s %7s %7s", "CORD", "THREAD", "BACKEND",
                       "FIBERS", "RUNNABL", "CPU%", "SWITCH/S", "POLL/S", "OP/S");
    weft__screen_newline(s);
    for (unsigned i = 0; i < lines; i++) {
        const top_cord *c = &v->cords[i];
        bool is_last = i + 1 == lines && lines < v->cords_count;
        if (is_last)
            weft__screen_print(s, "... and %zu more cords", v->cords_count - lines + 1);
        else
            print_cord(s, c, weft__top_cord_find(t->before, c->id),
                       v->taken_s - t->before->taken_s);
        weft__screen_newline(s);
    }
}

static void print_row_head(screen_text *s, unsigned columns)
{
    weft__screen_style(s, REVERSE);
    weft__screen_print(s, "%12s ", "ID");
    if (columns >= COLUMNS_MIDDLE)
        weft__screen_print(s, "%6s ", "COUNT");
    weft__screen_print(s, "%5s ", "CPU%");
    if (columns >= COLUMNS_WIDE)
        weft__screen_print(s, "%8s %8s ", "CPU S", "SWITCHES");
    weft__screen_print(s, "%8s ", "WAIT");
    if (columns >= COLUMNS_MIDDLE)
        weft__screen_print(s, "%9s ", "STACK K");
    weft__screen_print(s, "%-8s %-20s WAITS FOR", "STATE", "NAME");
    weft__screen_newline(s);
}

/* The reason of a wait, with its descriptor and its holder. */
static void print_reason(screen_text *s, const top_row *r)
{
    weft__screen_field(s, r->reason, 0);
    if (r->fd >= 0)
        weft__screen_print(s, " of descriptor %d", r->fd);
    if (r->holder != 0)
        weft__screen_print(s, " #%" PRIu64, r->holder);
    if (r->deadline_s >= 0)
        weft__screen_print(s, ", %.1f s left", r->deadline_s);
}

static void print_row(screen_text *s, const top_row *r, bool is_tree)
{
    char text[48], name[160];
    weft__screen_print(s, "%12" PRIu64 " ", r->id);
    if (s->columns >= COLUMNS_MIDDLE)
        weft__screen_print(s, "%6" PRIu64 " ", r->count);
    weft__screen_print(s, "%5.1f ", 100 * r->cpu_share);
    if (s->columns >= COLUMNS_WIDE) {
        weft__screen_print(s, "%8.3f ", r->cpu_s);
        weft__screen_print(s, "%8s ", format_count(text, (double)r->switches));
    }
    weft__screen_print(s, "%8s ", format_seconds(text, r->waiting_s));
    if (s->columns >= COLUMNS_MIDDLE) {
        snprintf(text, sizeof text, "%" PRIu64 "/%" PRIu64, r->stack_used >> 10,
                 r->stack_bytes >> 10);
        weft__screen_print(s, "%9s ", r->stack_bytes > 0 ? text : "-");
    }
    weft__screen_field(s, r->state, 8);
    int indent = is_tree ? (int)(2 * (r->depth < 8 ? r->depth : 8)) : 0;
    snprintf(name, sizeof name, " %*s%s%s", indent, "", r->name[0] != '\0' ? r->name : r->function,
             r->name[0] == '\0' && r->function[0] != '\0' ? "()" : "");
    weft__screen_field(s, name, 21);
    weft__screen_print(s, " ");
    print_reason(s, r);
}

static void print_rows(screen_text *s, const top_table *t)
{
    const top_view *v = t->view;
    size_t room = t->rows > 0 ? weft__screen_rows_room(v, t->rows) : v->rows_count;
    print_row_head(s, s->columns);
    for (size_t i = 0; i < room; i++) {
        if (i < v->rows_count) {
            bool is_selected = t->selected != 0 && v->rows[i].id == t->selected;
            if (is_selected)
                weft__screen_style(s, REVERSE);
            print_row(s, &v->rows[i], t->query->is_tree);
        }
        weft__screen_newline(s);
    }
}

void weft__screen_table(screen_text *s, const top_table *t)
{
    print_process(s, t);
    print_cords(s, t);
    print_rows(s, t);
    if (t->rows == 0)
        return;
    const top_view *v = t->view;
    if (t->message[0] != '\0')
        weft__screen_field(s, t->message, 0);
    else if (v->rows_count < v->rows_all)
        weft__screen_print(s, "%zu-%zu of %zu  %s", v->row_first + 1, v->row_first + v->rows_count,
                           v->rows_all, keys_help);
    else
        weft__screen_print(s, "%s", keys_help);
    weft__screen_style(s, "\033[K");
}

static void print_frame(screen_text *s, size_t index, const top_frame *f)
{
    weft__screen_print(s, "%3zu  ", index);
    weft__screen_style(s, BOLD);
    if (f->function[0] != '\0')
        weft__screen_field(s, f->function, 0);
    else
        weft__screen_field(s, f->offset, 0);
    weft__screen_style(s, PLAIN);
    if (f->line > 0) {
        weft__screen_print(s, " at ");
        weft__screen_field(s, f->file, 0);
        weft__screen_print(s, ":%u", f->line);
    } else if (f->module[0] != '\0') {
        weft__screen_print(s, " in ");
        weft__screen_field(s, f->module, 0);
        weft__screen_print(s, " %s", f->offset);
    }
    weft__screen_newline(s);
}

void weft__screen_backtrace(screen_text *s, const top_backtrace *b, size_t first, unsigned rows)
{
    const top_row *f = &b->fiber;
    weft__screen_style(s, BOLD);
    weft__screen_print(s, "fiber #%" PRIu64 " ", f->id);
    weft__screen_field(s, f->name[0] != '\0' ? f->name : f->function, 0);
    weft__screen_style(s, PLAIN);
    weft__screen_print(s, " %s%s", f->state, f->reason[0] != '\0' ? " for " : "");
    print_reason(s, f);
    weft__screen_newline(s);
    if (f->local[0] != '\0' || f->peer[0] != '\0') {
        weft__screen_field(s, f->local, 0);
        weft__screen_print(s, " - ");
        weft__screen_field(s, f->peer, 0);
    }
    weft__screen_newline(s);
    size_t room = rows > 4 ? rows - 3 : rows > 0 ? 1 : b->count;
    for (size_t i = first; i < first + room; i++) {
        if (i < b->count)
            print_frame(s, i, &b->frames[i]);
        else
            weft__screen_newline(s);
    }
    if (rows > 0)
        weft__screen_print(s, "%s%zu frames; arrows scroll, any other key returns",
                           b->count == 0 ? "the fiber runs, has not begun, or has ended; " : "",
                           b->count);
    weft__screen_style(s, "\033[K");
}
