/*
 * Snapshots as text. See print.h.
 *
 * Most fibers of a server wait in the same place. Therefore the printer groups fibers without
 * children that have the same parent, function, state, reason and visible frames. A group of up to
 * GROUP_LISTED fibers has a line for each fiber, and one backtrace. A larger group has one line.
 */
#include "core/inspect/print.h"

#include "core/inspect/group.h"
#include "core/inspect/symbol.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_LISTED 8
#define INDENT_MAX 32

static const char *const state_names[] = {"running", "runnable", "waiting", "dead"};

typedef unsigned long long id_number; /* for printf */

static void print_indent(weft__report *r, const weft_snapshot_fiber *f)
{
    weft__report_print(r, "%*s", 2 * (int)(f->depth < INDENT_MAX ? f->depth : INDENT_MAX), "");
}

static void print_socket(weft__report *r, const weft_snapshot_fiber *f)
{
    weft__report_print(r, " of descriptor %d", f->info.fd);
    if (f->local[0] != '\0')
        weft__report_print(r, " (%s%s%s)", f->local, f->peer[0] != '\0' ? ", peer " : "", f->peer);
}

static bool ends_in(const char *text, const char *end)
{
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

const char *weft__wait_joint(const weft_info *i)
{
    if (i->waits_for_fiber == 0 || ends_in(i->waits_for, " of") || ends_in(i->waits_for, " from") ||
        ends_in(i->waits_for, " started"))
        return "";
    return i->waits_on != NULL ? " held by" : ", in";
}

void weft__print_wait(weft__report *r, const weft__groups *g, const weft_snapshot_fiber *f)
{
    const weft_info *i = &f->info;
    weft__report_print(r, "%s", i->waits_for);
    if (i->fd >= 0)
        print_socket(r, f);
    if (i->waits_on != NULL)
        weft__report_print(r, " %p", i->waits_on);
    if (i->waits_for_fiber == 0)
        return;
    const weft_snapshot_fiber *other = weft__groups_fiber(g, i->waits_for_fiber);
    weft__report_print(r, "%s #%llu", weft__wait_joint(i), (id_number)i->waits_for_fiber);
    if (other != NULL)
        weft__report_print(r, " '%s'", other->info.name);
}

static void print_tail(weft__report *r, const weft_info *i)
{
    if (isfinite(i->deadline_s))
        weft__report_print(r, ", %.3f s left", i->deadline_s);
    if (i->stack_bytes > 0)
        weft__report_print(r, "; stack %zu of %zu KiB", i->stack_used >> 10, i->stack_bytes >> 10);
    if (i->cpu_s > 0)
        weft__report_print(r, "; %.6f s of CPU", i->cpu_s);
    weft__report_print(r, "; %llu switches%s%s\n", (id_number)i->switches,
                       i->is_daemon ? "; daemon" : "", i->is_parked ? "; parked" : "");
}

/* Print the facts of one fiber. */
static void print_facts(weft__report *r, const weft__groups *g, const weft_snapshot_fiber *f)
{
    const weft_info *i = &f->info;
    print_indent(r, f);
    weft__report_print(r, "#%llu '%s' %s", (id_number)i->id, i->name, state_names[i->state]);
    if (i->state == WEFT_WAITING) {
        weft__report_print(r, " for ");
        weft__print_wait(r, g, f);
        weft__report_print(r, ", %.3f s", i->waiting_s);
    }
    print_tail(r, i);
}

/* The range of values in a group. */
typedef struct group_range {
    double waiting_min, waiting_max;
    size_t stack_used_max;
    uint64_t switches_min, switches_max;
    double cpu_s;
    bool has_one_name, has_one_wait; /* all names or wait objects are equal */
    const weft_snapshot_fiber *last;
} group_range;

static group_range range_of(const weft__groups *g, size_t first)
{
    const weft_snapshot_fiber *begin = &g->snapshot->fibers[first];
    group_range range = {.waiting_min = begin->info.waiting_s,
                         .switches_min = begin->info.switches,
                         .has_one_name = true,
                         .has_one_wait = true};
    for (size_t at = first; at != WEFT__GROUP_END; at = weft__groups_next(g, at)) {
        const weft_info *i = &g->snapshot->fibers[at].info;
        range.last = &g->snapshot->fibers[at];
        range.waiting_min = fmin(range.waiting_min, i->waiting_s);
        range.waiting_max = fmax(range.waiting_max, i->waiting_s);
        range.cpu_s += i->cpu_s;
        if (i->stack_used > range.stack_used_max)
            range.stack_used_max = i->stack_used;
        if (i->switches < range.switches_min)
            range.switches_min = i->switches;
        if (i->switches > range.switches_max)
            range.switches_max = i->switches;
        range.has_one_name &= strcmp(i->name, begin->info.name) == 0;
        range.has_one_wait &= i->fd == begin->info.fd && i->waits_on == begin->info.waits_on &&
                              i->waits_for_fiber == begin->info.waits_for_fiber;
    }
    return range;
}

/* Print the facts of a large group. */
static void print_group_facts(weft__report *r, const weft__groups *g, size_t first, size_t count)
{
    const weft_snapshot_fiber *f = &g->snapshot->fibers[first];
    const weft_info *i = &f->info;
    group_range range = range_of(g, first);
    print_indent(r, f);
    weft__report_print(r, "%zu fibers '%s'", count, i->name);
    if (!range.has_one_name)
        weft__report_print(r, " .. '%s'", range.last->info.name);
    weft__report_print(r, " #%llu .. #%llu %s", (id_number)i->id, (id_number)range.last->info.id,
                       state_names[i->state]);
    if (i->state == WEFT_WAITING) {
        weft__report_print(r, " for ");
        if (range.has_one_wait)
            weft__print_wait(r, g, f);
        else
            weft__report_print(r, "%s", i->waits_for);
        weft__report_print(r, ", %.3f s to %.3f s", range.waiting_min, range.waiting_max);
    }
    weft__report_print(r, "; stack up to %zu of %zu KiB", range.stack_used_max >> 10,
                       i->stack_bytes >> 10);
    if (range.cpu_s > 0)
        weft__report_print(r, "; %.6f s of CPU", range.cpu_s);
    weft__report_print(r, "; %llu to %llu switches\n", (id_number)range.switches_min,
                       (id_number)range.switches_max);
}

void weft__print_origin(weft__report *r, const void *fn, const void *spun_at)
{
    weft__report_print(r, "function ");
    weft__print_address(r, fn, false);
    if (spun_at != NULL) {
        weft__report_print(r, ", created in ");
        weft__print_address(r, spun_at, true);
    }
    weft__report_print(r, "\n");
}

/* Print the function of a fiber, the call that created the fiber, and its frames. */
static void print_code(weft__report *r, const weft_snapshot_fiber *f)
{
    if (f->info.fn != NULL) {
        weft__report_print(r, "    ");
        weft__print_origin(r, (const void *)f->info.fn, f->info.spun_at);
    }
    weft__print_frames(r, f->frames, f->frames_count);
}

void weft__print_fiber(weft__report *r, const weft_snapshot_fiber *f)
{
    const weft__groups none = {.snapshot = NULL};
    print_facts(r, &none, f);
    print_code(r, f);
}

static void print_group(weft__report *r, const weft__groups *g, size_t first)
{
    size_t count = 0;
    for (size_t at = first; at != WEFT__GROUP_END; at = weft__groups_next(g, at))
        count++;
    if (count > GROUP_LISTED)
        print_group_facts(r, g, first, count);
    else
        for (size_t at = first; at != WEFT__GROUP_END; at = weft__groups_next(g, at))
            print_facts(r, g, &g->snapshot->fibers[at]);
    print_code(r, &g->snapshot->fibers[first]);
}

static int print_cord(weft__report *r, const weft_snapshot_cord *c, const char *prefix)
{
    const weft_counters *n = &c->counters;
    int rc = weft__report_print(
        r, "%sthread %d '%s': %zu fibers and main, %zu runnable, %zu timers, %zu operations (%s)\n",
        prefix, c->thread_id, c->name, n->fibers, n->runnable, n->timers, n->ops_pending,
        c->backend);
    if (!c->has_replied)
        weft__report_print(r,
                           "The thread has not switched for %.3f s. Only its running fiber is "
                           "known.\n",
                           c->stalled_s);
    return rc;
}

int weft__print_snapshot(weft__report *r, const weft_snapshot *s, const char *prefix)
{
    weft__groups g;
    size_t at = 0;
    int rc = 0;
    weft__groups_open(&g, s);
    for (size_t i = 0; i < s->cords_count && rc == 0; i++) {
        int cord_rc = print_cord(r, &s->cords[i], prefix);
        if (i == 0)
            rc = cord_rc;
        for (size_t end = at + s->cords[i].fibers_count; at < end && rc == 0; at++)
            if (weft__groups_is_first(&g, at))
                print_group(r, &g, at);
    }
    weft__groups_close(&g);
    weft__symbols_close();
    return rc;
}
