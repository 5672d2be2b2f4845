/*
 * Events of a cord. Each function makes one event, and passes it to the ring, to the hook and to
 * the probes. See trace.h.
 */
#include "core/trace/trace.h"

#include "base/clock.h"
#include "core/debug/diag.h"
#include "core/trace/probes.h"

#include <errno.h>
#include <string.h>

/* The maximal length of a text, in bytes. */
#define TEXT_BYTES_MAX 200

static weft_fiber id_of(const weft__fiber *f)
{
    return f->last_id; /* unlike id, also valid after the end */
}

/* Return the fiber that causes the events of the cord. 0: the kernel, a timer or a message. */
static weft_fiber cause_of(const weft__cord *c)
{
    return c->trace->is_cord_work ? 0 : id_of(c->current);
}

/* Return the time of a new event. */
static inline uint64_t time_now(weft__cord *c)
{
    weft__trace *t = c->trace;
    uint64_t now;
    if (LIKELY(t->clock == WEFT__TRACE_TICKS))
        now = t->is_time_valid ? t->last + 1 : weft__cpu_ticks();
    else if (t->clock == WEFT__TRACE_NS)
        now = (uint64_t)weft__clock_ns();
    else
        now = (uint64_t)c->backend->type->now_ns(c->backend);
    t->is_time_valid = false;
    return t->last = LIKELY(now > t->last) ? now : t->last + 1;
}

uint64_t weft__trace_time(weft__cord *c)
{
    return time_now(c);
}

/* Record the text of the event before. */
static void put_text(weft__trace_ring *ring, const char *text, size_t bytes)
{
    while (bytes > 0) {
        size_t part = bytes < WEFT__TRACE_TEXT_BYTES ? bytes : WEFT__TRACE_TEXT_BYTES;
        uint64_t text_words[WEFT__TRACE_WORDS - 1] = {0};
        memcpy(text_words, text, part);
        weft__trace_record r = {.words = {[WEFT__TRACE_TYPE] = WEFT__TRACE_TEXT}};
        r.words[WEFT__TRACE_TIME] = text_words[0];
        memcpy(&r.words[WEFT__TRACE_TYPE + 1], text_words + 1, sizeof text_words - 8);
        weft__trace_ring_put(ring, &r);
        text += part;
        bytes -= part;
    }
}

/* Pass an event to the hook and the probes. */
COLD static void raise_event(weft__cord *c, const weft_trace_event *event)
{
    weft__trace *t = c->trace;
    weft_trace_event e = *event;
    e.time_ns =
        t->clock == WEFT__TRACE_VIRTUAL ? c->backend->type->now_ns(c->backend) : weft__clock_ns();
    if (t->has_probes)
        weft__probe_raise(&e);
    if (t->hook == NULL)
        return;
    weft__fiber *f = c->current;
    int error = errno;
    t->is_in_hook = true;
    /* Forbid switches. An ended fiber has its fields until the switch away from it. */
    uint8_t pending = f->pending;
    f->live->no_switch++;
    f->pending = 1;
    t->hook(&e, t->hook_arg);
    f->live->no_switch--;
    f->pending = pending;
    t->is_in_hook = false;
    errno = error;
}

static inline void put_event(weft__cord *c, const weft_trace_event *e, uint64_t message)
{
    weft__trace *t = c->trace;
    if (UNLIKELY(t->is_in_hook))
        return;
    weft__trace_ring *ring = t->ring;
    if (LIKELY(ring != NULL)) {
        bool has_text = e->text != NULL && e->kind != WEFT_TRACE_SPIN; /* the end has the name */
        size_t text_bytes = has_text ? strnlen(e->text, TEXT_BYTES_MAX) : 0;
        weft__trace_record r;
        r.words[WEFT__TRACE_TIME] = time_now(c);
        r.words[WEFT__TRACE_TYPE] =
            (uint64_t)e->kind | (uint64_t)text_bytes << 8 | (uint64_t)(uint32_t)e->fd << 32;
        r.words[WEFT__TRACE_FIBER] = e->fiber;
        r.words[WEFT__TRACE_OTHER] = e->other;
        r.words[WEFT__TRACE_REASON] = (uintptr_t)e->reason;
        r.words[WEFT__TRACE_OBJECT] = (uintptr_t)e->object;
        r.words[WEFT__TRACE_VALUE] = (uint64_t)e->value;
        r.words[WEFT__TRACE_MESSAGE] = message;
        bool is_short = text_bytes > 0 && weft__trace_has_short_text(e->kind, text_bytes);
        if (is_short)
            memcpy(&r.words[WEFT__TRACE_OTHER], e->text, text_bytes);
        weft__trace_ring_put(ring, &r);
        if (UNLIKELY(text_bytes > 0 && !is_short))
            put_text(ring, e->text, text_bytes);
    }
    if (UNLIKELY(t->hook != NULL || t->has_probes))
        raise_event(c, e);
}

/* Wake the fiber of a waiter, as weft__waitq_wake does without on_wake. */
static void wake_waiter(weft__waiter *w, weft_value value)
{
    w->on_wake = NULL;
    weft__wake(weft__cord_self, w->fiber, value, WEFT__TAIL);
}

void weft__trace_forget_waiter(weft__fiber *f)
{
    if (f->live != NULL && f->live->waiter.on_wake == wake_waiter)
        f->live->waiter.on_wake = NULL;
}

/* Record the wait of a fiber. If the fiber is in a wait queue, its wake-up will be recorded. */
static void put_wait(weft__cord *c, weft__fiber *f)
{
    if (f->live->waiter.waitq != NULL && f->live->waiter.on_wake == NULL)
        f->live->waiter.on_wake = wake_waiter;
    const weft__wait_kind *kind = f->waits_in;
    weft_trace_event e = {WEFT_TRACE_WAIT, .fiber = id_of(f), .fd = -1};
    if (kind != NULL) {
        e.reason = kind->name;
        e.object = f->wait_object;
        e.fd = weft__awaited_fd(f);
        e.other = weft__awaited_fiber(f);
    }
    put_event(c, &e, 0);
}

bool weft__trace_leave(weft__cord *c)
{
    weft__trace *t = c->trace;
    weft__fiber *f = c->current;
    if (!t->has_ended) {
        if (!t->has_left)
            put_wait(c, f);
        t->is_time_valid = t->clock == WEFT__TRACE_TICKS && !t->has_left && t->hook == NULL;
        t->has_left = true;
        /* A fiber that neither waits nor is queued is also the next fiber. */
        if (f->waits_in == NULL && !weft__runnable_is_queued(&f->queued))
            weft__trace_run(c, f, f);
    }
    if (LIKELY(--c->traced_left > 0)) {
        c->switches++;
        c->tick_left = 1;
        return false;
    }
    /* As if the switches of the tick had not been counted one by one. */
    c->tick_span = c->traced_span;
    c->switches -= c->traced_span - 1;
    t->is_cord_work = true;
    t->is_time_valid = false;
    return true;
}

void weft__trace_tick_end(weft__cord *c)
{
    weft__trace_update(c);
    if (c->trace == NULL)
        return;
    c->trace->is_cord_work = false;
    c->tick_span = c->tick_left = 1;
}

void weft__trace_run(weft__cord *c, const weft__fiber *from, weft__fiber *to)
{
    weft__trace *t = c->trace;
    weft__trace_forget_waiter(to); /* the wait may have been aborted */
    t->has_left = t->has_ended = false;
    put_event(c, &(weft_trace_event){WEFT_TRACE_RUN, id_of(to), id_of(from), .fd = -1}, 0);
}

void weft__trace_spin(weft__cord *c, const weft__fiber *f)
{
    weft_fiber by = cause_of(c);
    put_event(c,
              &(weft_trace_event){WEFT_TRACE_SPIN, id_of(f), by, .object = (void *)f->fn, .fd = -1,
                                  .text = f->name},
              c->trace->message);
}

void weft__trace_wake(weft__cord *c, const weft__fiber *f)
{
    if (f == c->current && !c->trace->is_cord_work)
        return; /* the fiber yields */
    weft_trace_event e = {WEFT_TRACE_WAKE, id_of(f), cause_of(c), .fd = -1, .value = f->value};
    put_event(c, &e, c->trace->message);
}

void weft__trace_cancel(weft__cord *c, const weft__fiber *f)
{
    put_event(c, &(weft_trace_event){WEFT_TRACE_CANCEL, id_of(f), cause_of(c), .fd = -1}, 0);
}

void weft__trace_exit_value(weft__cord *c, weft_value value)
{
    c->trace->value = value;
}

void weft__trace_exit(weft__cord *c, const weft__fiber *f)
{
    weft__trace *t = c->trace;
    weft_trace_event e = {WEFT_TRACE_END, id_of(f), .fd = -1, .value = t->value, .text = f->name};
    put_event(c, &e, 0);
    t->has_ended = true;
}

void weft__trace_submit(weft__cord *c, const char *name, const weft__op *op)
{
    weft_trace_event e = {WEFT_TRACE_SUBMIT, id_of(c->current), .reason = name, .fd = op->fd};
    put_event(c, &e, 0);
}

void weft__trace_complete(weft__cord *c, const weft__fiber *f, const char *name, const weft__op *op,
                          intptr_t result)
{
    weft_trace_event e = {WEFT_TRACE_COMPLETE, id_of(f), .reason = name, .fd = op->fd,
                          .value = result};
    put_event(c, &e, 0);
}

uint64_t weft__trace_send(weft__cord *c, const weft__remote_msg *msg)
{
    static _Atomic uint64_t last_message;
    uint64_t message = atomic_fetch_add_explicit(&last_message, 1, memory_order_relaxed) + 1;
    weft_trace_event e = {WEFT_TRACE_SEND, cause_of(c), msg->fiber, .fd = -1};
    put_event(c, &e, message);
    return message;
}

void weft__trace_receive(weft__cord *c, const weft__remote_msg *msg)
{
    weft__trace *t = c->trace;
    t->message = 0;
    if (msg == NULL)
        return;
    t->message = msg->trace_id;
    put_event(c, &(weft_trace_event){WEFT_TRACE_RECEIVE, msg->fiber, .fd = -1}, msg->trace_id);
}

void weft__trace_idle(weft__cord *c)
{
    weft__trace_update(c); /* a tracer may have started or stopped */
    weft__trace *t = c->trace;
    if (t == NULL)
        return;
    if (!t->has_ended && !t->has_left) {
        put_wait(c, c->current);
        t->has_left = true;
    }
    t->is_cord_work = true;
    put_event(c, &(weft_trace_event){WEFT_TRACE_IDLE, .fd = -1}, 0);
}

void weft__trace_busy(weft__cord *c)
{
    weft__trace_update(c);
    if (c->trace == NULL)
        return;
    put_event(c, &(weft_trace_event){WEFT_TRACE_BUSY, .fd = -1}, 0);
    c->trace->is_cord_work = false;
}

void weft__trace_waits(weft__cord *c)
{
    uint32_t chunks = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    for (uint32_t slot = 0; slot < chunks * WEFT__CHUNK_FIBERS; slot++) {
        weft__fiber *f = weft__record_at(c, slot);
        if (f->id != 0 && f->waits_in != NULL && f->phase != WEFT__ENDED)
            put_wait(c, f);
    }
}

/* Record a mark or a span of the current fiber. */
static void put_mark(weft_trace_kind kind, const char *text)
{
    weft__cord *c = weft__cord_self;
    if (c == NULL || c->trace == NULL)
        return;
    put_event(c, &(weft_trace_event){kind, id_of(c->current), .fd = -1, .text = text}, 0);
}

void weft_trace_mark(const char *text)
{
    put_mark(WEFT_TRACE_MARK, text);
}

void weft_trace_begin(const char *text)
{
    put_mark(WEFT_TRACE_BEGIN, text);
}

void weft_trace_end(void)
{
    put_mark(WEFT_TRACE_STOP, NULL);
}
