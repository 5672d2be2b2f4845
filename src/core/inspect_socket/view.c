/* Rows of fibers. See view.h. */
#include "core/inspect_socket/view.h"

#include "base/clock.h"
#include "core/inspect/print.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Time for cords to reply. A cord that computes for longer is shown as stalled. */
#define REPLY_S 0.5

/* A row: one fiber, or a group of equal fibers. */
typedef struct view_row {
    const weft_snapshot_fiber *fiber; /* of a group: the fiber with the largest sort key */
    size_t count;
    double cpu_share, cpu_s;
    uint64_t switches;
} view_row;

static view_row row_of(const weft_snapshot_fiber *f)
{
    return (view_row){f, 1, f->info.cpu_share, f->info.cpu_s, f->info.switches};
}

/* For the functions that qsort calls. Only the thread of the inspection socket sorts. */
static weft__inspect_view_sort current_sort;

static int compare_double(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Compare by the current sort key. The result is positive if a is larger. */
static int row_compare_key(const view_row *a, const view_row *b)
{
    const weft_info *x = &a->fiber->info, *y = &b->fiber->info;
    switch (current_sort) {
    case WEFT__INSPECT_SORT_CPU: {
        int by_share = compare_double(a->cpu_share, b->cpu_share);
        return by_share != 0 ? by_share : compare_double(a->cpu_s, b->cpu_s);
    }
    case WEFT__INSPECT_SORT_WAIT:
        return compare_double(x->waiting_s, y->waiting_s);
    case WEFT__INSPECT_SORT_STACK:
        return compare_u64(x->stack_used, y->stack_used);
    case WEFT__INSPECT_SORT_SWITCHES:
        return compare_u64(a->switches, b->switches);
    case WEFT__INSPECT_SORT_ID:
        break;
    }
    return compare_u64(y->id, x->id);
}

static int row_compare(const void *a, const void *b)
{
    const view_row *x = a, *y = b;
    int by_key = row_compare_key(y, x);
    return by_key != 0 ? by_key : compare_u64(x->fiber->info.id, y->fiber->info.id);
}

/* Compare the attributes that are equal within a group. */
static int group_compare_key(const view_row *a, const view_row *b)
{
    const weft_snapshot_fiber *f = a->fiber, *g = b->fiber;
    int rc = compare_u64(f->cord, g->cord);
    if (rc == 0)
        rc = compare_u64((uintptr_t)f->info.fn, (uintptr_t)g->info.fn);
    if (rc == 0)
        rc = compare_u64(f->info.state, g->info.state);
    if (rc == 0)
        rc = strcmp(f->info.waits_for, g->info.waits_for);
    return rc != 0 ? rc : strcmp(f->info.name, g->info.name);
}

static int group_compare(const void *a, const void *b)
{
    const view_row *x = a, *y = b;
    int rc = group_compare_key(x, y);
    return rc != 0 ? rc : compare_u64(x->fiber->info.id, y->fiber->info.id);
}

/* Merge equal rows. Return the number of groups. */
static size_t rows_group(view_row *rows, size_t count)
{
    size_t groups = 0;
    qsort(rows, count, sizeof *rows, group_compare);
    for (size_t i = 0; i < count; i++) {
        view_row *last = groups > 0 ? &rows[groups - 1] : NULL;
        if (last == NULL || group_compare_key(last, &rows[i]) != 0) {
            rows[groups++] = rows[i];
            continue;
        }
        view_row largest = row_of(last->fiber);
        if (row_compare_key(&rows[i], &largest) > 0)
            last->fiber = rows[i].fiber;
        last->count++;
        last->cpu_share += rows[i].cpu_share;
        last->cpu_s += rows[i].cpu_s;
        last->switches += rows[i].switches;
    }
    return groups;
}

/* Store the name of a function. It is "" if the name is not known. */
static const char *function_name(weft_fn *fn)
{
    weft_symbol symbol;
    return fn != NULL && weft_symbol_find((void *)fn, &symbol) == 0 ? symbol.function : "";
}

static bool contains(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

static bool fiber_matches(const weft_snapshot_fiber *f, const char *filter)
{
    char id[24];
    if (*filter == '\0')
        return true;
    snprintf(id, sizeof id, "#%llu", (unsigned long long)f->info.id);
    return contains(f->info.name, filter) || contains(f->info.waits_for, filter) ||
           contains(function_name(f->info.fn), filter) || contains(id, filter);
}

/* Fill in a row per matching fiber. Return the number of rows. */
static size_t rows_fill(const weft_snapshot *s, const char *filter, view_row *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < s->fibers_count; i++) {
        const weft_snapshot_fiber *f = &s->fibers[i];
        if (fiber_matches(f, filter))
            rows[count++] = row_of(f);
    }
    return count;
}

/* The CPU time of a thread of this process, in seconds. The formula is part of the kernel's ABI. */
static double thread_cpu_s(int thread_id)
{
    struct timespec t;
    clockid_t clock = (clockid_t)((~(unsigned)thread_id << 3) | 6);
    if (thread_id <= 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / WEFT__NS_PER_S;
}

static void reply_cord(weft__inspect_reply *r, const weft_snapshot_cord *c)
{
    weft__inspect_reply_print(
        r, "cord %llu %d %d %.3f %zu %zu %llu %llu %llu %zu %.4f %.6f", (unsigned long long)c->id,
        c->thread_id, c->has_replied, c->stalled_s, c->counters.fibers, c->counters.runnable,
        (unsigned long long)c->counters.switches, (unsigned long long)c->counters.polls,
        (unsigned long long)c->counters.ops, c->counters.timers, c->counters.idle_share,
        thread_cpu_s(c->thread_id));
    weft__inspect_reply_word(r, c->backend);
    weft__inspect_reply_word(r, c->name);
    weft__inspect_reply_print(r, "\n");
}

static void reply_row(weft__inspect_reply *r, const view_row *row)
{
    static const char *const states[] = {"running", "runnable", "waiting", "dead"};
    const weft_snapshot_fiber *f = row->fiber;
    const weft_info *i = &f->info;
    weft__inspect_reply_print(r, "fiber %llu %zu %u %u %s %.4f %.6f %.6f %llu %zu %zu %d %.3f %llu",
                              (unsigned long long)i->id, row->count, f->cord, f->depth,
                              states[i->state & 3], row->cpu_share, row->cpu_s, i->waiting_s,
                              (unsigned long long)row->switches, i->stack_used, i->stack_bytes,
                              i->fd, isfinite(i->deadline_s) ? i->deadline_s : -1,
                              (unsigned long long)i->waits_for_fiber);
    const char flags[] = {i->is_daemon ? 'd' : 'p', i->is_daemon && i->is_parked ? 'p' : '\0',
                          '\0'};
    weft__inspect_reply_word(r, i->is_daemon || i->is_parked ? flags : "");
    char reason[160];
    snprintf(reason, sizeof reason, "%s%s", i->waits_for, weft__wait_joint(i));
    weft__inspect_reply_word(r, reason);
    weft__inspect_reply_word(r, i->name);
    weft__inspect_reply_word(r, function_name(i->fn));
    weft__inspect_reply_word(r, f->local);
    weft__inspect_reply_word(r, f->peer);
    weft__inspect_reply_print(r, "\n");
}

void weft__inspect_view_fiber(const weft_snapshot_fiber *f, weft__inspect_reply *r)
{
    view_row row = row_of(f);
    reply_row(r, &row);
}

/* The time since the process started, in seconds, from proc(5). 0: not known. */
static double process_uptime_s(void)
{
    static int64_t started_ns; /* of CLOCK_BOOTTIME */
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    int64_t now_ns = (int64_t)now.tv_sec * WEFT__NS_PER_S + now.tv_nsec;
    if (started_ns == 0) {
        char text[1024] = "";
        FILE *stat = fopen("/proc/self/stat", "re");
        size_t bytes = stat != NULL ? fread(text, 1, sizeof text - 1, stat) : 0;
        if (stat != NULL)
            fclose(stat);
        text[bytes] = '\0';
        const char *at = strrchr(text, ')'); /* the state is field 3, the start time field 22 */
        for (int field = 3; at != NULL && field <= 22; field++)
            at = strchr(at + 1, ' ');
        if (at == NULL)
            return 0;
        started_ns = strtoll(at, NULL, 10) * (WEFT__NS_PER_S / sysconf(_SC_CLK_TCK));
    }
    return (double)(now_ns - started_ns) / WEFT__NS_PER_S;
}

void weft__inspect_view_program(weft__inspect_reply *r)
{
    extern char *program_invocation_short_name;
    weft__inspect_reply_word(r, program_invocation_short_name);
}

/* Append the process and its cords. */
static void reply_head(weft__inspect_reply *r, const weft_snapshot *s, size_t rows, size_t first)
{
    weft__inspect_reply_print(r, "process %d %.1f %.3f %zu %zu %zu", (int)getpid(),
                              process_uptime_s(), s->taken_s, s->fibers_count, rows, first);
    weft__inspect_view_program(r);
    weft__inspect_reply_print(r, "\n");
    for (size_t i = 0; i < s->cords_count; i++)
        reply_cord(r, &s->cords[i]);
}

static void reply_rows(weft__inspect_reply *r, const weft_snapshot *s,
                       const weft__inspect_view_options *o, view_row *rows)
{
    size_t count = rows_fill(s, o->filter, rows);
    current_sort = o->sort;
    if (o->has_groups && !o->is_tree)
        count = rows_group(rows, count);
    if (!o->is_tree)
        qsort(rows, count, sizeof *rows, row_compare);
    size_t limit = o->limit < WEFT__INSPECT_ROWS_MAX ? o->limit : WEFT__INSPECT_ROWS_MAX;
    size_t first = o->offset + limit <= count ? o->offset : count > limit ? count - limit : 0;
    reply_head(r, s, count, first);
    for (size_t i = first; i < count && i < first + limit; i++)
        reply_row(r, &rows[i]);
}

int weft__inspect_view_reply(const weft__inspect_view_options *o, weft__inspect_reply *r)
{
    weft_snapshot *s;
    int rc = weft_snapshot_take(&(weft_snapshot_options){.timeout_s = REPLY_S}, &s);
    if (rc < 0)
        return rc;
    if (!o->has_fibers) {
        reply_head(r, s, s->fibers_count, 0);
    } else {
        view_row *rows = malloc((s->fibers_count + 1) * sizeof *rows);
        if (rows != NULL)
            reply_rows(r, s, o, rows);
        else
            rc = -ENOMEM;
        free(rows);
    }
    weft_snapshot_free(s);
    return rc;
}
