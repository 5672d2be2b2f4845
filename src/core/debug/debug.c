/*
 * Inspection of a thread: information about fibers, the tree of fibers as text,
 * backtraces.
 */
#include "base/libc.h"
#include "base/result.h"
#include "core/debug/diag.h"
#include "core/lifetime/tree.h"
#include "core/sched/sched.h"

#define FRAMES_SHOWN 32

/* Return the fiber that must end the wait of f. 0: not known. */
static weft_fiber awaited_fiber(const weft__fiber *f)
{
    const weft__wait_kind *kind = f->waits_in;
    if (kind->holder != NULL)
        return kind->holder(f);
    return kind->is_for_fiber ? ((weft__fiber *)f->wait_object)->id : 0;
}

void weft__fiber_info(weft__cord *c, const weft__fiber *f, weft_info *out)
{
    bool waits = f->waits_in != NULL;
    *out = (weft_info){
        .id = f->id,
        .parent = f->parent != NULL ? f->parent->id : 0,
        .name = f->name,
        .fn = f->fn,
        .state = weft__fiber_state(c, f),
        .waits_for = waits ? f->waits_in->name : "",
        .waits_for_fiber = waits ? awaited_fiber(f) : 0,
        .waiting_s = waits ? (double)(c->now_ns - f->wait_since_ns) / 1e9 : 0,
        .switches = f->switches,
        .cpu_s = (double)(f->phase == WEFT__ENDED ? f->spent_ns : f->live->cpu_ns) / 1e9,
        .cpu_share = weft__top_share(c, f),
        .slice_s = weft__slice_of(c, f).fail_s,
        .is_daemon = f->is_daemon,
        .is_parked = f->is_parked,
    };
    if (f->stack.low != NULL && f->phase != WEFT__ENDED) {
        out->stack_bytes = f->stack.bytes;
        out->stack_used = weft__stack_used(&f->stack);
    }
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

/* Return the fiber after f in pre-order, and update *depth. Return NULL if f is the last fiber. */
static weft__fiber *tree_next(const weft__fiber *f, int *depth)
{
    if (weft__tree_has_children(f, NULL)) {
        ++*depth;
        return weft__fiber_of_sibling(f->live->children.next);
    }
    for (; f->parent != NULL; f = f->parent, --*depth)
        if (f->sibling.next != &f->parent->live->children)
            return weft__fiber_of_sibling(f->sibling.next);
    return NULL;
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
    for (weft__fiber *f = c->main; f != NULL; f = tree_next(f, &depth)) {
        weft_info info;
        weft__fiber_info(c, f, &info);
        int rc = fn(&info, context);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* The argument of collect_frames, which runs on the stack of the inspected fiber. */
typedef struct frames {
    void **out;
    int n;
} frames;

static void collect_frames(void *arg)
{
    frames *fr = arg;
    fr->n = backtrace(fr->out, fr->n);
}

/* Return true if the stack of a waiting fiber has enough free space for an unwinder. */
static bool has_unwind_room(const weft__fiber *f)
{
    return f->stack.low == NULL || (char *)f->context.sp - f->stack.low >= WEFT__CALL_BYTES;
}

static int frames_of(weft__cord *c, weft__fiber *f, void **out, int n)
{
    frames fr = {out, n};
    if (f->phase == WEFT__FRESH || f->phase == WEFT__ENDED || f->phase == WEFT__FREE)
        return 0;
    if (f == c->current)
        collect_frames(&fr);
    else if (!has_unwind_room(f) || !weft__context_call(&f->context, collect_frames, &fr))
        return 0;
    return fr.n;
}

int weft_backtrace(weft_fiber fiber, void **out, size_t n)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc < 0)
        return rc;
    return frames_of(c, f, out, n < FRAMES_SHOWN * 8 ? (int)n : FRAMES_SHOWN * 8);
}

static const char *const state_names[] = {"running", "runnable", "waiting", "dead"};

static void dump_fiber(weft__cord *c, weft__fiber *f, int depth, weft__report *r)
{
    weft_info i;
    weft__fiber_info(c, f, &i);
    int indent = 2 * (depth < 32 ? depth : 32);
    weft__report_print(r, "%*s#%llu '%s' %s%s%s", indent, "", (unsigned long long)i.id, i.name,
                       state_names[i.state], i.state == WEFT_WAITING ? " for " : "", i.waits_for);
    if (i.waits_for_fiber != 0)
        weft__report_print(r, " #%llu '%s'", (unsigned long long)i.waits_for_fiber,
                           weft_name_of(i.waits_for_fiber));
    if (i.state == WEFT_WAITING)
        weft__report_print(r, ", %.3f s", i.waiting_s);
    if (i.stack_bytes > 0)
        weft__report_print(r, "; stack %zu of %zu KiB", i.stack_used >> 10, i.stack_bytes >> 10);
    if (c->is_accounting)
        weft__report_print(r, "; %.6f s of CPU", i.cpu_s);
    weft__report_print(r, "; %llu switches%s%s\n", (unsigned long long)i.switches,
                       i.is_daemon ? "; daemon" : "", i.is_parked ? "; parked" : "");
    void *at[FRAMES_SHOWN];
    int n = frames_of(c, f, at, FRAMES_SHOWN);
    if (n > 0)
        weft__report_frames(r, at, n);
}

int weft__dump(weft__cord *c, weft__report *r, const char *prefix)
{
    weft__cord_update_time(c);
    int rc = weft__report_print(
        r, "%s%u fibers and main, %u runnable, %zu timers, %zu operations (%s)\n", prefix,
        weft__cord_fibers(c), weft__runqueue_count(&c->runqueue), c->wheel.count,
        c->backend->pending, c->backend->type->name);
    if (rc < 0)
        return rc;
    int depth = 0;
    for (weft__fiber *f = c->main; f != NULL; f = tree_next(f, &depth))
        dump_fiber(c, f, depth, r);
    return 0;
}

int weft_dump(int fd)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    return weft__dump(c, &WEFT__REPORT_TO(fd), "weft: ");
}
