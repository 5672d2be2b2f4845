/*
 * Create cords, bind cords to threads, and close cords. This file implements weft_cord_start.
 * handle.c joins and cancels started cords. thread.c closes cords when a thread or the process
 * ends.
 */
#include <weft/cord.h>

#include "core/cord/handle.h"

#include "base/libc.h"
#include "base/thread.h"
#include "core/cord/deadlock.h"
#include "core/cord/fork.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/cord/thread.h"
#include "core/debug/diag.h"
#include "core/inspect/stack_advice.h"
#include "core/inspect_socket/inspect_socket.h"
#include "core/lifetime/exit.h"
#include "core/sched/thread_state.h"
#include "core/signal/signal.h"
#include "core/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread weft__cord *weft__cord_self;

/* A function of the C++ runtime. NULL: the program has no C++ runtime. */
extern void *__cxa_get_globals(void) __attribute__((weak));

weft_cord weft_cord_self(void)
{
    return weft_main();
}

/*
 * Creating and freeing.
 */

static int cord_init(weft__cord *c)
{
    weft__list_init(&c->uncached);
    weft__stack_cache_init(&c->stacks);
    pthread_mutex_init(&c->id_reserve.lock, NULL);
    c->slice = (weft__slice){WEFT__SLICE_WARN_S, WEFT__SLICE_FAIL_S};
    return weft__runqueue_init(&c->runqueue);
}

static void cord_destroy(weft__cord *c)
{
    weft__records_close(c);
    weft__inbox_reject_all(c);
    weft__msg_slab_close(c);
    free(c->id_reserve.ids);
    weft__top_clear(&c->top);
    weft__unawaited_close(c);
    weft__runqueue_close(&c->runqueue);
    weft__stack_cache_close(&c->stacks);
    if (c->backend != NULL)
        c->backend->type->close(c->backend);
    while (c->retired != NULL) {
        weft__backend *b = c->retired;
        c->retired = b->retired;
        b->type->close(b);
    }
    weft__overflow_thread_close(&c->overflow);
    free(c->fd_watcher); /* only in a child of weft_fork that has opened no watch */
    free(c);
}

static void cord_publish(weft__cord *c)
{
    weft__deadlock_add_cord();
    weft__registry_publish(c);
}

static void cord_unpublish(weft__cord *c, bool keeps_slot)
{
    weft__registry_remove(c, keeps_slot);
    weft__deadlock_remove_cord();
}

/*
 * Create a cord and its main fiber, and publish the cord. No thread runs the cord yet.
 *
 * Returns 0, or:
 * -EAGAIN if 1,024 threads have fibers
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE if the process is a child of plain fork(2)
 */
COLD static int cord_new(weft__cord **out)
{
    bool is_allowed = weft__process_init() && !weft__is_copy;
    weft__cord *c = is_allowed ? aligned_alloc(_Alignof(weft__cord), sizeof *c) : NULL;
    if (c == NULL)
        return weft__is_copy ? weft__no_cord() : -ENOMEM;
    memset(c, 0, sizeof *c);
    int rc = cord_init(c);
    bool has_slot = rc == 0 && (rc = weft__registry_reserve(c)) == 0;
    if (has_slot)
        rc = weft__cord_add_chunk(c); /* after the reservation, because ids contain the index */
    if (rc < 0) {
        if (has_slot)
            weft__registry_free_slot(c->index);
        cord_destroy(c);
        return rc;
    }
    c->main = c->current = weft__fiber_new_main(c);
    cord_publish(c);
    *out = c;
    return 0;
}

/* Free a cord that no thread has run. */
static void cord_free_unbound(weft__cord *c)
{
    cord_unpublish(c, false);
    cord_destroy(c);
}

/*
 * The thread of a cord.
 */

void weft__cord_open_backend(weft__cord *c, const char *name)
{
    bool is_inherited = name != NULL;
    if (name == NULL && c->handle != NULL)
        name = c->handle->backend;
    weft__backend *b, *no_backend = &c->no_backend.base;
    bool has_no_backend = c->backend == no_backend;
    int rc = weft__backend_open(&b, name, is_inherited, &c->backend_why);
    if (rc < 0 && !has_no_backend)
        weft__backend_none_open(&c->no_backend, rc);
    if (rc < 0) {
        c->no_backend.error = rc;
        b = no_backend;
    } else if (has_no_backend) {
        weft__finished_jobs_hand_over(no_backend, b);
        if (weft__backend_is_virtual(b)) /* no_backend has a real clock, and time never goes back */
            b->type->inherit_clock(b, no_backend);
    }
    /* Release order, because other threads wake the cord through this pointer. */
    __atomic_store_n(&c->backend, b, __ATOMIC_RELEASE);
    b->wake_lost = weft__registry_wake;
    uint64_t random;
    c->is_shuffled = b->type->choose != NULL && b->type->choose(b, &random);
}

static void cord_begin_time(weft__cord *c)
{
    weft__wheel_init(&c->wheel, weft__cord_now(c));
    c->last_tick_ns = c->polled_ns = c->now_ns;
    c->fast_clock = (weft__fast_clock){0};
    weft__fast_clock_sync(&c->fast_clock);
    c->tick_switches = WEFT__TICK_SWITCHES_MAX;
    c->tick_span = c->tick_left = c->is_shuffled ? 1 : c->tick_switches;
    weft__inbox_begin_round(c);
}

/* Make the calling thread run this cord. */
static void cord_bind(weft__cord *c)
{
    weft__cord_open_backend(c, NULL);
    cord_begin_time(c);
    weft__overflow_thread_open(&c->overflow); /* if this fails, stack overflows are not reported */
    weft__context_adopt(&c->main->context);
    if (__cxa_get_globals != NULL)
        c->cxx = __cxa_get_globals();
    c->has_stack_advice = weft__stack_advice_is_on();
    weft__cord_update_slow_switch(c);
    weft__cord_use_thread_states(c);
    weft__cord_self = c;
    weft__watchdog_attach(&c->watchdog);
    weft__thread_close_at_exit(c);
    weft__signal_dump_install();
    weft__inspect_socket_install();
    weft__watchdog_install();
    weft__trace_process_begin();
    weft__trace_cord_begin(c);
}

/* Record the error because of which the calling thread cannot have fibers. */
static void record_adopt_error(int code)
{
    if (code == -EAGAIN)
        weft__error_set_bare(code, "the thread cannot have fibers: too many other threads do");
    else if (code != -ENOTRECOVERABLE) /* weft__no_cord has recorded the error */
        weft__error_set_bare(code, "the thread cannot have fibers: memory is exhausted");
}

COLD weft__cord *weft__cord_adopt(void)
{
    weft__cord *c;
    int rc = cord_new(&c);
    if (rc < 0) {
        record_adopt_error(rc);
        return NULL;
    }
    cord_bind(c);
    return c;
}

COLD void weft__cord_reopen(weft__cord *c)
{
    weft__process_set_owner();
    weft__backend *inherited = c->backend;
    const char *why = c->backend_why;
    bool had_no_backend = inherited == &c->no_backend.base;
    if (!had_no_backend)
        inherited->type->abandon(inherited, true);
    weft__cord_open_backend(c, had_no_backend ? NULL : inherited->type->name);
    if (!had_no_backend)
        c->backend->parent_backend = inherited;
    if (c->backend->type == inherited->type)
        c->backend_why = why;
    if (c->backend->type == inherited->type && weft__backend_is_virtual(inherited))
        inherited->type->inherit_clock(c->backend, inherited);
    cord_begin_time(c);
    c->must_poll = false;
    weft__watchdog_attach(&c->watchdog);
}

/* End all fibers of a cord. Store the result of a started cord in its handle. */
static void cord_end_fibers(weft__cord *c)
{
    /* weft_fork in cleanup code sets c->handle to NULL in the child. */
    weft__cord_handle *handle = c->handle;
    if (handle != NULL) {
        handle->value = weft__cord_exit(c, handle->value, &handle->error);
        return;
    }
    int code = weft__cord_end_fibers(c);
    if (code != 0)
        weft__diag_unhandled(c->main->error, code);
}

void weft__cord_close(weft__cord *c)
{
    weft__cord_handle *handle = c->handle;
    cord_end_fibers(c);
    weft__error_set(c->main, NULL);
    weft__error_drop_queue(c->main);
    weft__trace_cord_end(c);
    cord_unpublish(c, handle != NULL);
    /* Reject before the backend is closed, because drop functions may need the backend. */
    weft__inbox_reject_all(c);
    weft__cord_self = NULL;
    weft__thread_close_at_exit(NULL);
    cord_destroy(c);
    if (handle != NULL)
        weft__cord_handle_end(handle);
}

/*
 * weft_cord_start.
 */

static weft_value cord_call_fn(weft__cord_handle *h)
{
    weft__cord_handle_check_cancel(h->cord);
    if (h->cord->main->is_stopped) { /* cancelled before the function was called */
        if (h->drop != NULL)
            h->drop(h->arg);
        return -ECANCELED;
    }
    /* A cord without a function only runs fibers that other threads create. */
    return h->fn != NULL ? h->fn(h->arg) : weft_suspend();
}

static void *cord_thread_main(void *arg)
{
    weft__cord_handle *h = arg;
    h->thread = pthread_self();
    if (h->name[0] != '\0') {
        char name[16]; /* the kernel limits names to 15 bytes and a NUL */
        snprintf(name, sizeof name, "%.15s", h->name);
        pthread_setname_np(pthread_self(), name);
    }
    cord_bind(h->cord);
    h->value = -ECANCELED; /* the value if the function calls pthread_exit */
    h->value = cord_call_fn(h);
    if (weft__cord_self != h->cord || h->cord->handle != h)
        weft__fork_exit(h->value); /* in a child of fork(2), which has no other thread */
    weft__cord_close(h->cord);
    return NULL;
}

/* Create the cord of a handle and its thread. Return 0 or a negative errno. */
static int handle_start(weft__cord_handle *h, int cpu, weft_cord *out)
{
    int rc = cord_new(&h->cord);
    if (rc < 0)
        return rc;
    h->cord->handle = h;
    h->cord->shares_ports = h->shares_ports;
    *out = h->id = h->cord->main->id;
    if (h->name[0] != '\0')
        memcpy(h->cord->main->name, h->name, sizeof h->name);
    weft__cord_handle_add(h);
    /*
     * Use a local variable. musl writes the id after the thread has started, when h may already be
     * freed.
     */
    pthread_t thread;
    rc = weft__thread_make_on(&thread, cpu, cord_thread_main, h);
    if (rc < 0) {
        weft__cord_handle_remove(h);
        cord_free_unbound(h->cord);
    }
    return rc;
}

static int check_cord_options(const weft_cord_options *o)
{
    if (o->cpu < 0 || o->cpu > CPU_SETSIZE)
        return weft_fail(-EINVAL, "weft_cord_start: cpu is %d, not 0 to %d", o->cpu, CPU_SETSIZE);
    if (o->backend != NULL && weft__backend_known(o->backend) == NULL)
        return weft_fail(-EINVAL, "weft_cord_start: backend '%s' is not built in", o->backend);
    return 0;
}

weft_cord weft__cord_start(weft_fn *fn, void *arg, const weft_cord_options *o, bool shares_ports)
{
    /* The calling thread must be a cord, so that weft_fail can record a message. */
    if (weft__cord_here() == NULL || check_cord_options(o) < 0)
        return 0;
    weft__cord_handle *h = calloc(1, sizeof *h);
    if (h == NULL) {
        weft_fail(-ENOMEM, "weft_cord_start: out of memory");
        return 0;
    }
    h->fn = fn;
    h->arg = arg;
    h->drop = o->drop;
    h->shares_ports = shares_ports;
    h->backend = o->backend != NULL ? weft__backend_known(o->backend) : NULL;
    if (o->name != NULL)
        snprintf(h->name, sizeof h->name, "%s", o->name);
    weft__cord_check_now(weft__cord_self);
    weft_cord id = 0;
    int rc = handle_start(h, o->cpu, &id);
    if (rc == 0)
        return id;
    weft_fail(rc, "weft_cord_start: cannot start a cord");
    free(h);
    return 0;
}

weft_cord weft_cord_start(weft_fn *fn, void *arg, const weft_cord_options *options)
{
    static const weft_cord_options default_options;
    return weft__cord_start(fn, arg, options != NULL ? options : &default_options, false);
}
