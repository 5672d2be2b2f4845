/*
 * Inspection of a thread: information about fibers, the tree of fibers as text,
 * backtraces.
 */
#include "base/libc.h"
#include "base/result.h"
#include "core/debug/diag.h"
#include "core/inspect/frames.h"
#include "core/inspect/print.h"
#include "core/inspect/snapshot.h"
#include "core/inspect/stack_advice.h"
#include "core/inspect/symbol.h"
#include "core/lifetime/tree.h"
#include "core/sched/sched.h"

#include <math.h>

#define FRAMES_SHOWN 32

/* Return the address of a field of the wait object. See weft__wait_kind.fd_at. */
static const void *wait_field(const weft__fiber *f, uint16_t at)
{
    return (const char *)f->wait_object + at - 1;
}

/* Return the fiber that holds the awaited lock. 0: none. See weft__owner. */
static weft_fiber lock_holder(const weft__fiber *f)
{
    const weft__fiber *owner = *(weft__fiber *const *)wait_field(f, f->waits_in->owner_at);
    if (owner == NULL || owner == (const weft__fiber *)-1)
        return 0;
    uint32_t generation = *(const uint32_t *)wait_field(f, f->waits_in->owner_generation_at);
    return owner->owner_generation == generation ? owner->id : 0;
}

weft_fiber weft__awaited_fiber(const weft__fiber *f)
{
    const weft__wait_kind *kind = f->waits_in;
    if (kind->holder != NULL)
        return kind->holder(f);
    if (kind->owner_at != 0)
        return lock_holder(f);
    return kind->is_for_fiber ? ((weft__fiber *)f->wait_object)->id : 0;
}

int weft__awaited_fd(const weft__fiber *f)
{
    uint16_t at = f->waits_in->fd_at;
    return at != 0 ? *(const int *)wait_field(f, at) : -1;
}

/* Return the time until the earliest deadline of the fiber. */
static double deadline_left(const weft__cord *c, const weft__fiber *f)
{
    const weft__fiber_live *live = f->phase != WEFT__ENDED ? f->live : NULL;
    int64_t at_ns = WEFT__NEVER;
    if (live != NULL && weft__timer_is_armed(&live->timer))
        at_ns = live->timer.deadline_ns;
    if (live != NULL && weft__timer_is_armed(&live->deadline) && live->deadline.deadline_ns < at_ns)
        at_ns = live->deadline.deadline_ns;
    if (at_ns == WEFT__NEVER)
        return INFINITY;
    return at_ns > c->now_ns ? (double)(at_ns - c->now_ns) / 1e9 : 0;
}

void weft__fiber_facts(weft__cord *c, const weft__fiber *f, weft_info *out)
{
    bool waits = f->waits_in != NULL;
    *out = (weft_info){
        .id = f->id,
        .parent = f->parent != NULL ? f->parent->id : 0,
        .name = f->name,
        .fn = f->fn,
        .state = weft__fiber_state(c, f),
        .waits_for = waits ? f->waits_in->name : "",
        .waits_for_fiber = waits ? weft__awaited_fiber(f) : 0,
        .waiting_s = waits ? (double)(c->now_ns - f->wait_since_ns) / 1e9 : 0,
        .switches = f->switches,
        .cpu_s = (double)(f->phase == WEFT__ENDED ? f->spent_ns : f->live->cpu_ns) / 1e9,
        .cpu_share = weft__top_share(c, f),
        .slice_s = weft__slice_of(c, f).fail_s,
        .is_daemon = f->is_daemon,
        .is_parked = f->is_parked,
        .fd = waits ? weft__awaited_fd(f) : -1,
        .deadline_s = deadline_left(c, f),
    };
    if (f->phase != WEFT__ENDED)
        out->spun_at = f->live->spun_at;
    if (f->stack.low != NULL && f->phase != WEFT__ENDED)
        out->stack_bytes = f->stack.bytes;
    if (waits && f->waits_in->describe != NULL)
        f->waits_in->describe(f, out);
}

void weft__describe_object(const weft__fiber *f, weft_info *out)
{
    out->waits_on = f->wait_object;
}

void weft__fiber_info(weft__cord *c, const weft__fiber *f, weft_info *out)
{
    weft__fiber_facts(c, f, out);
    if (out->stack_bytes > 0)
        out->stack_used = weft__stack_used(&f->stack);
}

int weft__info_of(weft_fiber fiber, weft_info *out, size_t size)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc < 0)
        return rc;
    weft__cord_update_time(c);
    weft_info full;
    weft__fiber_info(c, f, &full);
    weft__result_copy(out, size, &full, sizeof full);
    return 0;
}

int weft_walk(int (*fn)(const weft_info *info, void *context), void *context)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (fn == NULL)
        return -EINVAL;
    weft__cord_update_time(c);
    int depth = 0;
    for (weft__fiber *f = c->main; f != NULL; f = weft__tree_next(f, &depth)) {
        weft_info info;
        weft__fiber_info(c, f, &info);
        int rc = fn(&info, context);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int weft_backtrace(weft_fiber fiber, void **out, size_t n)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc < 0)
        return rc;
    return weft__frames_unwind(c, f, out, n < WEFT__FRAMES_MAX ? (int)n : WEFT__FRAMES_MAX);
}

static void print_own_fiber(weft__report *r, weft__cord *c, weft__fiber *f, int depth)
{
    void *frames[FRAMES_SHOWN];
    weft_snapshot_fiber copy = {
        .depth = (uint32_t)depth, .frames = frames, .local = "", .peer = ""};
    weft__fiber_info(c, f, &copy.info);
    copy.frames_count = (uint32_t)weft__frames_unwind(c, f, frames, FRAMES_SHOWN);
    weft__print_fiber(r, &copy);
}

/* Print the fibers of the calling thread, without memory. */
static int dump_own_fibers(weft__report *r, const char *prefix)
{
    weft__cord *c = weft__cord_self;
    if (c == NULL)
        return -ENOMEM;
    weft__cord_update_time(c);
    int rc = weft__report_print(
        r, "%smemory is exhausted; only this thread is shown: %u fibers and main (%s)\n", prefix,
        weft__cord_fibers(c), c->backend->type->name);
    int depth = 0;
    for (weft__fiber *f = c->main; f != NULL && rc == 0; f = weft__tree_next(f, &depth))
        print_own_fiber(r, c, f, depth);
    weft__symbols_close();
    return rc;
}

int weft__dump(weft__report *r, const char *prefix, bool has_cycles)
{
    weft_snapshot_options options = {.frames_max = FRAMES_SHOWN, .has_addresses = true};
    weft_snapshot *s;
    int rc = weft__snapshot_take_blocking(&options, &s);
    if (rc == -ENOMEM)
        return dump_own_fibers(r, prefix);
    if (rc < 0)
        return rc;
    if (has_cycles)
        weft__print_cycles(r, s);
    rc = weft__print_snapshot(r, s, prefix);
    if (rc == 0 && !has_cycles)
        weft__stack_advice_print(r, s);
    weft_snapshot_free(s);
    return rc;
}

int weft_dump(int fd)
{
    return weft__dump(&WEFT__REPORT_TO(fd), "weft: ", false);
}
