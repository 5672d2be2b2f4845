/*
 * Calls of the program that run in workers. This file manages the memory of a call, its owner and
 * its error message. See backend/workers/worker_queue.c for the queues and the threads.
 */
#include "base/result.h"
#include "core/cord/fork.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/op/op.h"

#include <weft/error.h>
#include <weft/offload.h>

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/*
 * A call of the program. The call is on the heap, because the fiber may abandon the call. The
 * worker then frees the call. With is_kept, the call is on the stack of the caller.
 */
typedef struct call {
    weft_fn *fn;
    void *arg; /* argument of fn: the caller's, or copy */
    void (*drop)(void *arg);
    weft_fiber fiber; /* the calling fiber; 0: no fiber waits */
    char fiber_name[WEFT__NAME_BYTES];
    bool has_run;
    weft__error *error; /* the recorded error that fn returned; NULL: none */
    alignas(max_align_t) char copy[];
} call;

static atomic_uint_fast64_t go_errors;
static atomic_bool has_reported; /* an error that fn of weft_offload_go returned */

/* Return whether the thread of the calling fiber runs the call itself, as in the sim backend. */
static bool is_in_place(const call *c)
{
    return weft__cord_self != NULL && c->fiber != 0 &&
           weft__fiber_cord(c->fiber) == weft__cord_self->index;
}

/*
 * Take a reference to the error that fn recorded and returned. Returns NULL if there is no such
 * error. Another thread may use the reference.
 */
static weft__error *call_take_error(weft__fiber *error_holder, weft_value value)
{
    weft__error *e = error_holder->error;
    error_holder->error = NULL;
    if (e != NULL && e->info.code == value)
        return e;
    weft__error_unref(e);
    if (weft__cord_self == NULL)
        return NULL;
    /* fn has created a cord in this thread. Clone the error, because the cord shares it. */
    e = weft__cord_self->main->error;
    return e != NULL && e->info.code == value ? weft__error_clone(e) : NULL;
}

/* End the child process after fn has called fork. The child has no workers. */
static void exit_forked_child(weft__error *error, weft_value value)
{
    if (weft__cord_self != NULL && error != NULL)
        weft__error_set(weft__cord_self->main, error);
    weft__fork_exit(value);
}

/* Run the function, in a worker or in place. */
static weft_value run_call(void *arg)
{
    call *c = arg;
    if (is_in_place(c)) {
        c->has_run = true;
        return c->fn(c->arg);
    }
    weft__fiber error_holder = {.id = c->fiber};
    memcpy(error_holder.name, c->fiber_name, sizeof error_holder.name);
    weft__error_plain_thread = &error_holder;
    weft_error_clear(); /* an earlier call may have recorded an error without memory */
    unsigned fork_generation = weft__workers_fork_generation();
    weft_value value = c->fn(c->arg);
    weft__error_plain_thread = NULL;
    c->error = call_take_error(&error_holder, value);
    if (fork_generation != weft__workers_fork_generation())
        exit_forked_child(c->error, value);
    if (weft__cord_self !=
        NULL) /* end the fibers that fn has created: an idle worker must not be a cord */
        weft__cord_close(weft__cord_self);
    c->has_run = true;
    return value;
}

static void call_drop(void *arg)
{
    call *c = arg;
    if (c->drop != NULL)
        c->drop(c->arg);
    weft__error_unref(c->error);
    free(c);
}

static void call_init(call *c, weft_fn *fn, void *arg, const weft_offload_options *o)
{
    *c = (call){.fn = fn, .arg = arg, .drop = o->drop};
    const weft__cord *cord = weft__cord_self;
    c->fiber = cord->current->id;
    memcpy(c->fiber_name, cord->current->name, sizeof c->fiber_name);
}

static call *call_new(weft_fn *fn, void *arg, const weft_offload_options *o)
{
    size_t bytes;
    call *c = NULL;
    if (!__builtin_add_overflow(sizeof *c, o->arg_bytes, &bytes))
        c = malloc(bytes);
    if (c == NULL)
        return NULL;
    call_init(c, fn, arg, o);
    if (o->arg_bytes > 0) {
        memcpy(c->copy, arg, o->arg_bytes);
        c->arg = c->copy;
    }
    return c;
}

/* Record a message for the error of a call that did not start. */
static weft_value offload_explain(weft_value code)
{
    if (code == -EAGAIN && !weft__was_interrupted())
        return weft_fail(-EAGAIN, "weft_offload: no worker is free, and no thread can be created");
    return code;
}

/* Finish a call that the caller owns again. Returns whether fn has run. */
static bool call_finish(call *c)
{
    if (c->has_run && c->error != NULL)
        weft__error_set(weft__cord_self->current, c->error);
    else if (!c->has_run && c->drop != NULL)
        c->drop(c->arg);
    return c->has_run;
}

static weft_value run_on_stack(weft_fn *fn, void *arg, const weft_offload_options *o,
                               bool *has_ended)
{
    call c;
    call_init(&c, fn, arg, o);
    weft__op op = {
        .code = WEFT__OP_CALL, .fd = -1, .u.call = {run_call, &c, NULL, WEFT__WORKER_QUEUE_USER}};
    weft_value value = weft__op_run(&op);
    *has_ended = call_finish(&c);
    return *has_ended ? value : offload_explain(value);
}

/* Drop the argument of a call that was not submitted. Returns code. */
static int offload_refuse(int code, void *arg, const weft_offload_options *o)
{
    if (o->drop != NULL)
        o->drop(arg);
    return code;
}

/*
 * Copy the argument back to the caller. Write only if a byte has changed, because arg may be
 * constant.
 */
static void call_copy_back(const call *c, void *arg, size_t bytes)
{
    if (bytes > 0 && memcmp(arg, c->copy, bytes) != 0)
        memcpy(arg, c->copy, bytes);
}

static weft_value run_detachable(weft_fn *fn, void *arg, const weft_offload_options *o,
                                 bool *has_ended)
{
    call *c = call_new(fn, arg, o);
    if (c == NULL)
        return offload_refuse(-ENOMEM, arg, o);
    weft__op op = {.code = WEFT__OP_CALL,
                   .fd = -1,
                   .u.call = {run_call, c, call_drop, WEFT__WORKER_QUEUE_USER}};
    weft_value value = weft__op_run(&op);
    if (op.u.call.arg == NULL)
        return value; /* the call is abandoned, and its worker frees it */
    *has_ended = call_finish(c);
    if (*has_ended)
        call_copy_back(c, arg, o->arg_bytes);
    else
        value = offload_explain(value);
    free(c);
    return value;
}

weft_value weft_offload_with(weft_fn *fn, void *arg, const weft_offload_options *options)
{
    static const weft_offload_options defaults;
    const weft_offload_options *o = options != NULL ? options : &defaults;
    bool ignored, *has_ended = o->has_ended != NULL ? o->has_ended : &ignored;
    *has_ended = false;
    if (fn == NULL)
        return offload_refuse(weft_fail(-EINVAL, "weft_offload: fn is NULL"), arg, o);
    if (arg == NULL && o->arg_bytes > 0)
        return offload_refuse(
            weft_fail(-EINVAL, "weft_offload: arg is NULL, but arg_bytes is %zu", o->arg_bytes),
            arg, o);
    if (weft__cord_here() == NULL)
        return offload_refuse(weft__no_cord(), arg, o);
    return o->is_kept ? run_on_stack(fn, arg, o, has_ended) : run_detachable(fn, arg, o, has_ended);
}

weft_value weft_offload(weft_fn *fn, void *arg)
{
    return weft_offload_with(fn, arg, NULL);
}

weft_value weft_offload_copy(weft_fn *fn, void *arg, size_t bytes)
{
    return weft_offload_with(fn, arg, &(weft_offload_options){.arg_bytes = bytes});
}

/* Report the first error. Count afterwards, so that a counted error has been reported. */
static void record_detached_error(const call *c, int code)
{
    if (!atomic_exchange(&has_reported, true))
        weft__diag(LOG_ERR, "weft_offload_go: the call has failed: %s: %d (%s)",
                   c->error != NULL ? c->error->info.message : "no message", code,
                   weft__error_text(code));
    atomic_fetch_add(&go_errors, 1);
}

static weft_value run_detached(void *arg)
{
    call *c = arg;
    weft_value value = run_call(c);
    if (weft_is_error(value))
        record_detached_error(c, (int)value);
    weft__error_unref(c->error);
    free(c);
    return 0;
}

int weft_offload_go(weft_fn *fn, void *arg)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "weft_offload_go: fn is NULL");
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    call *c = malloc(sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    *c = (call){.fn = fn, .arg = arg};
    int rc = weft__job_submit_detached(WEFT__WORKER_QUEUE_USER, run_detached, c);
    if (rc == 0)
        return 0;
    free(c);
    return rc == -EAGAIN
               ? weft_fail(rc, "weft_offload_go: no worker is free, and no thread can be created")
               : rc;
}

int weft_offload_set_limit(unsigned threads)
{
    int rc = weft__worker_queue_limit(WEFT__WORKER_QUEUE_USER, threads);
    return rc < 0 ? weft_fail(rc, "weft_offload_set_limit: threads is %u, the maximum is %u",
                              threads, WEFT__WORKERS_LIMIT)
                  : rc;
}

static weft_offload_queue count_worker_queue(weft__worker_queue worker_queue)
{
    weft__worker_queue_counts counts;
    weft__worker_queue_count(worker_queue, &counts);
    return (weft_offload_queue){
        .threads = counts.threads,
        .idle = counts.idle,
        .running = counts.running,
        .queued = counts.queued,
        .done = counts.done,
        .abandoned = counts.abandoned,
        .queue_s_total = (double)counts.queue_ns / 1e9,
        .queue_s_max = (double)counts.queue_ns_max / 1e9,
    };
}

int weft__offload_stats(weft_offload_counters *out, size_t size)
{
    weft_offload_counters counters = {
        .user = count_worker_queue(WEFT__WORKER_QUEUE_USER),
        .files = count_worker_queue(WEFT__WORKER_QUEUE_FILES),
        .names = count_worker_queue(WEFT__WORKER_QUEUE_NAMES),
        .go_errors = atomic_load(&go_errors),
    };
    weft__result_copy(out, size, &counters, sizeof counters);
    return 0;
}
