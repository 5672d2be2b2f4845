/*
 * The tracing state of a cord: its creation and its end, the names of its fibers, the hook of the
 * program. Only the thread of the cord calls these functions. See trace.h.
 */
#include "core/sched/sched.h"
#include "core/trace/probes.h"
#include "core/trace/trace.h"

#include <stdlib.h>
#include <string.h>

/* Set or clear the bits of all records, including free records. */
static void mark_records(weft__cord *c, bool is_traced)
{
    pthread_mutex_lock(&c->id_reserve.lock); /* other threads may add records */
    c->are_records_traced = is_traced;
    for (uint32_t i = 0; i < c->chunks_count; i++) {
        weft__fiber *chunk = c->chunks[i];
        if (chunk->sibling.next == NULL)
            continue; /* a dormant chunk, see core/sched/trim.c */
        for (uint32_t j = 0; j < WEFT__CHUNK_FIBERS; j++) {
            chunk[j].is_traced = chunk[j].is_wake_traced = is_traced;
            if (!is_traced)
                weft__trace_forget_waiter(&chunk[j]);
        }
    }
    pthread_mutex_unlock(&c->id_reserve.lock);
}

/*
 * Change the length of ticks after c->trace has changed. During a tick, tick_left is 0, and the end
 * of the tick sets the length.
 */
static void set_ticks(weft__cord *c)
{
    if (c->tick_left > 0) {
        weft__tick_set(c, c->trace != NULL ? c->tick_left : c->traced_left);
        if (c->trace != NULL)
            c->tick_span = c->tick_left = 1;
    }
    weft__cord_update_slow_switch(c);
}

weft__trace *weft__trace_of(weft__cord *c)
{
    if (c->trace != NULL)
        return c->trace;
    weft__trace *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    if (weft__backend_is_virtual(c->backend))
        t->clock = WEFT__TRACE_VIRTUAL;
    else
        t->clock = weft__cpu_ticks_are_steady() ? WEFT__TRACE_TICKS : WEFT__TRACE_NS;
    c->trace = t;
    c->has_trace = true;
    set_ticks(c);
    mark_records(c, true);
    return t;
}

void weft__trace_free(weft__cord *c)
{
    mark_records(c, false);
    free(c->trace);
    c->trace = NULL;
    c->has_trace = false;
}

void weft__trace_update(weft__cord *c)
{
    bool has_probes = weft__probes_are_wanted();
    if (has_probes && weft__trace_of(c) == NULL)
        return; /* memory is exhausted; the next tick tries again */
    weft__trace *t = c->trace;
    if (t == NULL)
        return;
    t->has_probes = has_probes;
    if (has_probes || t->ring != NULL || t->hook != NULL || t->is_in_hook)
        return;
    weft__trace_free(c);
    set_ticks(c);
}

void weft__trace_save_names(const weft__cord *c, weft__trace_ring *ring)
{
    uint32_t records = c->chunks_count * WEFT__CHUNK_FIBERS;
    ring->names = malloc(((size_t)weft__cord_fibers(c) + 1) * sizeof *ring->names);
    for (uint32_t slot = 0; ring->names != NULL && slot < records; slot++) {
        const weft__fiber *f = weft__record_at(c, slot);
        if (f->id == 0 || f->phase == WEFT__ENDED || f->name[0] == '\0' ||
            ring->names_count > weft__cord_fibers(c))
            continue;
        weft__trace_name *name = &ring->names[ring->names_count++];
        name->fiber = f->id;
        memcpy(name->name, f->name, sizeof name->name);
    }
}

int weft_trace_set_hook(weft_trace_hook *fn, void *arg)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (fn != NULL && weft__trace_of(c) == NULL)
        return -ENOMEM;
    if (c->trace == NULL)
        return 0;
    c->trace->hook = fn;
    c->trace->hook_arg = arg;
    weft__trace_update(c);
    return 0;
}
