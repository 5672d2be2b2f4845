/* Copies of the fibers of a cord. See copy.h. */
#include "core/inspect/copy.h"

#include "backend/fd_generation.h"
#include "base/clock.h"
#include "base/libc.h"
#include "core/debug/diag.h"
#include "core/debug/stall_trace.h"
#include "core/lifetime/tree.h"
#include "core/sched/sched.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Return the next element of fibers. Return NULL if memory is exhausted. */
static weft__fiber_copy *copy_add(weft__cord_copy *copy)
{
    if (copy->fibers_count == copy->fibers_capacity) {
        size_t capacity = copy->fibers_capacity * 2 + 1;
        weft__fiber_copy *fibers = realloc(copy->fibers, capacity * sizeof *fibers);
        if (fibers == NULL)
            return NULL;
        copy->fibers = fibers;
        copy->fibers_capacity = capacity;
    }
    return &copy->fibers[copy->fibers_count++];
}

static int copy_fiber(weft__cord *c, weft__fiber *f, unsigned depth, weft__frames_table *table,
                      weft__cord_copy *out)
{
    weft__fiber_copy *to = copy_add(out);
    if (to == NULL)
        return -ENOMEM;
    weft__frames *frames = NULL;
    int rc = table->frames_max > 0 ? weft__frames_find(table, c, f, &frames) : 0;
    to->fiber = (weft_snapshot_fiber){.depth = depth, .local = "", .peer = ""};
    weft__fiber_facts(c, f, &to->fiber.info);
    if (frames != NULL) {
        to->fiber.frames = frames->addresses;
        to->fiber.frames_count = frames->count;
    }
    memcpy(to->name, f->name, sizeof to->name);
    to->stack = f->stack;
    if (f->phase == WEFT__ENDED)
        to->stack.low = NULL;
    if (to->fiber.info.fd >= 0)
        to->fd_generation = weft__fd_generation(to->fiber.info.fd);
    return rc;
}

static int copy_all(weft__cord *c, weft__frames_table *table, weft__cord_copy *out)
{
    /* Reserve memory for all fibers. If this fails, copy_add tries again with less. */
    size_t count = (size_t)weft__cord_fibers(c) + 1;
    out->fibers = malloc(count * sizeof *out->fibers);
    if (out->fibers != NULL)
        out->fibers_capacity = count;
    int depth = 0, rc = 0;
    for (weft__fiber *f = c->main; f != NULL && rc == 0; f = weft__tree_next(f, &depth))
        rc = copy_fiber(c, f, (unsigned)depth, table, out);
    return rc;
}

static int copy_one(weft__cord *c, weft_fiber fiber, weft__frames_table *table,
                    weft__cord_copy *out)
{
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL)
        return -ESRCH;
    unsigned depth = 0;
    for (const weft__fiber *up = f; up->parent != NULL; up = up->parent)
        depth++;
    return copy_fiber(c, f, depth, table, out);
}

/* Copy the facts of a cord that any thread may read. The caller must have acquired the cord. */
static void copy_cord(weft__cord *c, weft__cord_copy *out)
{
    weft__backend *b = __atomic_load_n(&c->backend, __ATOMIC_ACQUIRE);
    out->cord.id = c->main->id;
    out->cord.backend = b != NULL ? b->type->name : "";
    weft__stats_read(c, &out->cord.counters);
    bool has_thread = atomic_load(&c->watchdog.process) == getpid();
    if (!has_thread)
        return; /* the thread has not started yet */
    out->cord.thread_id = c->watchdog.thread_id;
    if (pthread_getname_np(c->watchdog.thread, out->thread_name, sizeof out->thread_name) != 0)
        out->thread_name[0] = '\0';
}

/*
 * Read the clock, and account the time since the last switch. A cord that has no runnable fiber
 * replies in its idle loop. The current fiber then waits or has ended, and the time is idle time.
 */
static void copy_update_time(weft__cord *c)
{
    const weft__fiber *f = c->current;
    weft__cord_now(c);
    if (c->is_accounting && (f->waits_in != NULL || f->phase == WEFT__ENDED))
        weft__account_idle(c);
    else if (c->is_accounting)
        weft__account(c);
}

int weft__cord_copy_make(weft__cord *c, const weft_snapshot_options *options, weft__cord_copy *out)
{
    unsigned frames_max = options->frames_max;
    weft__frames_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    table->frames_max = frames_max < WEFT__FRAMES_MAX ? frames_max : WEFT__FRAMES_MAX;
    copy_update_time(c);
    weft__stats_publish(c);
    copy_cord(c, out);
    int rc =
        options->fiber != 0 ? copy_one(c, options->fiber, table, out) : copy_all(c, table, out);
    out->frames = table->all;
    weft__frames_table_close(table);
    free(table);
    out->cord.has_replied = true;
    return rc;
}

/* Return the time since the last tick of a cord, or since the request if that is earlier. */
WEFT__UNSANITIZED static double stalled_seconds(const weft__cord *c, int64_t posted_ns)
{
    int64_t now_ns = weft__clock_ns(), since_ns = posted_ns;
    int64_t tick_ns = __atomic_load_n(&c->last_tick_ns, __ATOMIC_RELAXED);
    const weft__backend *b = __atomic_load_n(&c->backend, __ATOMIC_ACQUIRE);
    if (b != NULL && !weft__backend_is_virtual(b) && tick_ns > 0 && tick_ns < since_ns)
        since_ns = tick_ns;
    return (double)(now_ns - since_ns) / 1e9;
}

/* Copy what other threads may read of the running fiber. */
static void copy_running(const weft__cord *c, weft__fiber_copy *to)
{
    weft__stalled_fiber fiber;
    weft__stalled_fiber_read(c, &fiber);
    *to = (weft__fiber_copy){.fiber = {.depth = fiber.id != c->main->id, .local = "", .peer = ""}};
    memcpy(to->name, fiber.name, sizeof to->name);
    to->fiber.info = (weft_info){.id = fiber.id,
                                 .fn = fiber.fn,
                                 .state = WEFT_RUNNING,
                                 .waits_for = "",
                                 .slice_s = INFINITY,
                                 .fd = -1,
                                 .deadline_s = INFINITY};
}

int weft__cord_copy_stalled(weft__cord *c, int64_t posted_ns, bool has_frames, weft__cord_copy *out)
{
    weft__progress progress = weft__progress_of(c);
    copy_cord(c, out);
    out->cord.stalled_s = stalled_seconds(c, posted_ns);
    weft__fiber_copy *to = copy_add(out);
    if (to == NULL)
        return -ENOMEM;
    copy_running(c, to);
    bool has_thread = out->cord.thread_id != 0;
    out->is_traced = has_frames && has_thread && weft__stall_trace_begin(c, &progress);
    return 0;
}

int weft__cord_copy_add_trace(weft__cord_copy *copy, unsigned frames_max)
{
    weft__stall_trace trace;
    copy->is_traced = false;
    if (!weft__stall_trace_end(WEFT__SNAPSHOT_TRACE_NS, NULL, &trace) || trace.count == 0)
        return 0;
    unsigned count = (unsigned)trace.count < frames_max ? (unsigned)trace.count : frames_max;
    weft__frames *frames = malloc(sizeof *frames + count * sizeof *frames->addresses);
    if (frames == NULL)
        return -ENOMEM;
    frames->next_of_all = NULL;
    frames->count = count;
    memcpy(frames->addresses, trace.frames, count * sizeof *frames->addresses);
    copy->frames = frames;
    copy->fibers[0].fiber.frames = frames->addresses;
    copy->fibers[0].fiber.frames_count = count;
    return 0;
}

void weft__cord_copy_free(weft__cord_copy *copy)
{
    weft__frames_free(copy->frames);
    free(copy->fibers);
    *copy = (weft__cord_copy){.fibers = NULL};
}
