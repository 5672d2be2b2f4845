/*
 * Calls of the program's on plain threads: what they work on and whose it is in the end, and how
 * the words of an error come back. Queues and threads are src/backend/lane.c's.
 */
#include "core/error.h"
#include "core/fork.h"
#include "core/op.h"
#include "core/report.h"

#include <weft/error.h>
#include <weft/offload.h>

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/*
 * One call. On the heap, as it may be left; then its thread frees it. If it is kept, on the
 * caller's stack.
 */
typedef struct call {
    weft_fn *fn;
    void *arg; /* what fn gets */
    void (*drop)(void *arg);
    weft_fiber fiber; /* who asked; 0: nobody waits */
    char fiber_name[WEFT__NAME_BYTES];
    bool has_run;
    weft__error *words; /* of the error that fn returned; NULL: none */
    alignas(max_align_t) char copy[];
} call;

static atomic_uint_fast64_t unheard;
static atomic_bool has_reported; /* an unheard error */

/* The call is made in place, by the thread of the fiber that asked for it. */
static bool is_in_place(const call *c)
{
    return weft__cord_self != NULL && c->fiber != 0 &&
           weft__fiber_cord(c->fiber) == weft__cord_self->index;
}

/* The words for the error with which fn ended, to go to another thread: a reference. */
static weft__error *take_words(weft__fiber *stand_in, weft_value value)
{
    weft__error *e = stand_in->error;
    stand_in->error = NULL;
    if (e != NULL && e->info.code == value)
        return e;
    weft__error_unref(e);
    if (weft__cord_self == NULL)
        return NULL;
    e = weft__cord_self->main->error; /* fn has made its thread a cord, and shares it there */
    return e != NULL && e->info.code == value ? weft__error_clone(e) : NULL;
}

/* fn has called fork, and this is the child: without the thread, and without its queue. */
static void end_child(weft__error *words, weft_value value)
{
    if (weft__cord_self != NULL && words != NULL)
        weft__error_set(weft__cord_self->main, words);
    weft__fork_return(value);
}

/* On a thread of the pool, or in place. */
static weft_value run_call(void *arg)
{
    call *c = arg;
    if (is_in_place(c)) {
        c->has_run = true;
        return c->fn(c->arg);
    }
    weft__fiber stand_in = {.id = c->fiber};
    memcpy(stand_in.name, c->fiber_name, sizeof stand_in.name);
    weft__error_stand_in = &stand_in;
    unsigned process = weft__lanes_process();
    weft_value value = c->fn(c->arg);
    weft__error_stand_in = NULL;
    c->words = take_words(&stand_in, value);
    if (process != weft__lanes_process())
        end_child(c->words, value);
    if (weft__cord_self != NULL) /* its fibers end with it; an idle thread is none that runs any */
        weft__cord_close(weft__cord_self);
    c->has_run = true;
    return value;
}

static void drop_call(void *arg)
{
    call *c = arg;
    if (c->drop != NULL)
        c->drop(c->arg);
    weft__error_unref(c->words);
    free(c);
}

static void fill_call(call *c, weft_fn *fn, void *arg, const weft_offload_options *o)
{
    *c = (call){.fn = fn, .arg = arg, .drop = o->drop};
    const weft__cord *here = weft__cord_self;
    c->fiber = here->current->id;
    memcpy(c->fiber_name, here->current->name, sizeof c->fiber_name);
}

static call *make_call(weft_fn *fn, void *arg, const weft_offload_options *o)
{
    size_t bytes;
    call *c = NULL;
    if (!__builtin_add_overflow(sizeof *c, o->arg_bytes, &bytes))
        c = malloc(bytes);
    if (c == NULL)
        return NULL;
    fill_call(c, fn, arg, o);
    if (o->arg_bytes > 0) {
        memcpy(c->copy, arg, o->arg_bytes);
        c->arg = c->copy;
    }
    return c;
}

/* Why a call that was not to be was not. */
static weft_value explain(weft_value code)
{
    if (code == -EAGAIN && !weft__was_struck())
        return weft_fail(-EAGAIN, "there is no thread for the call, and none can be made");
    return code;
}

/* The call is over, one way or the other, and c is the caller's again. Did fn return in time? */
static bool settle(call *c)
{
    if (c->has_run && c->words != NULL)
        weft__error_set(weft__cord_self->current, c->words);
    else if (!c->has_run && c->drop != NULL)
        c->drop(c->arg);
    return c->has_run;
}

static weft_value run_kept(weft_fn *fn, void *arg, const weft_offload_options *o, bool *has_ended)
{
    call c;
    fill_call(&c, fn, arg, o);
    weft__op op = {
        .code = WEFT__OP_CALL, .fd = -1, .u.call = {run_call, &c, NULL, WEFT__LANE_USER}};
    weft_value value = weft__op_run(&op);
    *has_ended = settle(&c);
    return *has_ended ? value : explain(value);
}

/* It does not come to a call at all. */
static int refuse(int code, void *arg, const weft_offload_options *o)
{
    if (o->drop != NULL)
        o->drop(arg);
    return code;
}

/* Only what has changed: arg may be a constant. */
static void copy_back(const call *c, void *arg, size_t bytes)
{
    if (bytes > 0 && memcmp(arg, c->copy, bytes) != 0)
        memcpy(arg, c->copy, bytes);
}

static weft_value run_leavable(weft_fn *fn, void *arg, const weft_offload_options *o,
                               bool *has_ended)
{
    call *c = make_call(fn, arg, o);
    if (c == NULL)
        return refuse(-ENOMEM, arg, o);
    weft__op op = {
        .code = WEFT__OP_CALL, .fd = -1, .u.call = {run_call, c, drop_call, WEFT__LANE_USER}};
    weft_value value = weft__op_run(&op);
    if (op.u.call.arg == NULL)
        return value; /* left: it is freed when its thread is done with it */
    *has_ended = settle(c);
    if (*has_ended)
        copy_back(c, arg, o->arg_bytes);
    else
        value = explain(value);
    free(c);
    return value;
}

weft_value weft_offload_with(weft_fn *fn, void *arg, const weft_offload_options *options)
{
    static const weft_offload_options none;
    const weft_offload_options *o = options != NULL ? options : &none;
    bool ignored, *has_ended = o->has_ended != NULL ? o->has_ended : &ignored;
    *has_ended = false;
    if (fn == NULL)
        return refuse(weft_fail(-EINVAL, "there is no function to call"), arg, o);
    if (arg == NULL && o->arg_bytes > 0)
        return refuse(weft_fail(-EINVAL, "%zu bytes to copy from nowhere", o->arg_bytes), arg, o);
    if (weft__cord_here() == NULL)
        return refuse(weft__no_cord(), arg, o);
    return o->is_kept ? run_kept(fn, arg, o, has_ended) : run_leavable(fn, arg, o, has_ended);
}

weft_value weft_offload(weft_fn *fn, void *arg)
{
    return weft_offload_with(fn, arg, NULL);
}

weft_value weft_offload_copy(weft_fn *fn, void *arg, size_t bytes)
{
    return weft_offload_with(fn, arg, &(weft_offload_options){.arg_bytes = bytes});
}

static void note_unheard(const call *c, int code)
{
    atomic_fetch_add(&unheard, 1);
    if (atomic_exchange(&has_reported, true))
        return;
    const char *text = weft__error_text(code);
    weft__report("a call that nobody waits for (weft_offload_go) has failed: %s: %d (%s)",
                 c->words != NULL ? c->words->info.message : "it said nothing", code, text);
}

static weft_value run_cast(void *arg)
{
    call *c = arg;
    weft_value value = run_call(c);
    if (weft_is_error(value))
        note_unheard(c, (int)value);
    weft__error_unref(c->words);
    free(c);
    return 0;
}

int weft_offload_go(weft_fn *fn, void *arg)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "there is no function to call");
    if (weft__is_refused(weft__cord_self))
        return weft__no_cord();
    call *c = malloc(sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    *c = (call){.fn = fn, .arg = arg};
    int rc = weft__pool_cast(WEFT__LANE_USER, run_cast, c);
    if (rc == 0)
        return 0;
    free(c);
    return rc == -EAGAIN ? weft_fail(rc, "there is no thread for the call, and none can be made")
                         : rc;
}

int weft_offload_limit(unsigned threads)
{
    int rc = weft__lane_limit(WEFT__LANE_USER, threads);
    return rc < 0 ? weft_fail(rc, "%u threads are more than the %u that there may be", threads,
                              WEFT__LANE_THREADS_LIMIT)
                  : rc;
}

static weft_offload_lane count_lane(weft__lane lane)
{
    weft__lane_counts now;
    weft__lane_count(lane, &now);
    return (weft_offload_lane){
        .threads = now.threads,
        .idle = now.idle,
        .running = now.running,
        .queued = now.queued,
        .done = now.done,
        .given_up = now.given_up,
        .queue_s_total = (double)now.queue_ns / 1e9,
        .queue_s_max = (double)now.queue_ns_max / 1e9,
    };
}

int weft_offload_stats(weft_offload_counters *out)
{
    *out = (weft_offload_counters){
        .user = count_lane(WEFT__LANE_USER),
        .files = count_lane(WEFT__LANE_FILES),
        .names = count_lane(WEFT__LANE_NAMES),
        .unheard = atomic_load(&unheard),
    };
    return 0;
}
