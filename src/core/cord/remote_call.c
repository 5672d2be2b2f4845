/*
 * Create fibers in other cords. A remote spawn is a message that creates a fiber in the receiving
 * cord. A remote call is a remote spawn with a caller that waits for the value of the fiber. A
 * second message returns the value.
 */
#include <weft/cord.h>

#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/fiber/id_reserve.h"
#include "core/lifetime/cancel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The request to create a fiber. */
typedef struct remote_spawn {
    weft__remote_msg msg; /* to the new fiber */
    weft_fn *fn;
    void *arg;
    const void *spun_at; /* the return address of the public call */
    weft_spin_options options;
    char name[WEFT__NAME_BYTES];
    char bytes[] __attribute__((aligned(16))); /* a copy of arg, if options.arg_bytes is not 0 */
} remote_spawn;

/* Create the fiber of a remote spawn that has arrived. Return 0 or a negative errno. */
static int spawn_create_fiber(weft__cord *c, remote_spawn *s, weft__fiber **f)
{
    if (c == NULL)
        return -ESRCH;
    return weft__fiber_new_reserved(c, s->msg.fiber, s->fn, s->arg, &s->options, s->spun_at, f);
}

/*
 * Call drop(arg), unless drop is NULL. Forbid switching during the call, because the delivery of a
 * message must not wait.
 */
static void drop_arg(void (*drop)(void *arg), void *arg)
{
    if (drop == NULL)
        return;
    bool is_cord = weft__cord_self != NULL;
    if (is_cord)
        weft_no_switch_begin();
    drop(arg);
    if (is_cord)
        weft_no_switch_end();
}

static void deliver_spawn(weft__cord *c, weft__remote_msg *msg)
{
    remote_spawn *s = CONTAINER_OF(msg, remote_spawn, msg);
    weft__fiber *f;
    int rc = spawn_create_fiber(c, s, &f);
    if (rc < 0 && c != NULL)
        weft__diag(LOG_ERR, "weft_cord_spin: cannot create fiber '%s': %s", s->name,
                   weft__error_text(rc));
    if (rc < 0)
        drop_arg(s->options.drop, s->arg);
    free(s);
}

static void spawn_fill(remote_spawn *s, weft_fn *fn, void *arg, const weft_spin_options *o)
{
    *s = (remote_spawn){.msg.deliver = deliver_spawn, .fn = fn, .arg = arg, .options = *o};
    if (o->name != NULL) {
        snprintf(s->name, sizeof s->name, "%s", o->name);
        s->options.name = s->name;
    }
    if (o->arg_bytes > 0)
        s->arg = memcpy(s->bytes, arg, o->arg_bytes);
}

/*
 * Take an id for a new fiber of a cord that the caller has acquired.
 *
 * Returns 0, or:
 * -EAGAIN if may_be_rejected is true and the inbox of another cord is full
 * -EAGAIN if the cord has used all its ids
 * -ENOMEM if memory is exhausted
 * -ESRCH if the slot belongs to another cord
 */
static int spawn_take_id(weft__cord *c, weft_cord cord, bool may_be_rejected, weft_fiber *id)
{
    if (c->main->id != cord)
        return -ESRCH;
    if (may_be_rejected && c != weft__cord_self && weft__inbox_is_full(c))
        return -EAGAIN;
    return weft__id_reserve_take(c, id);
}

/*
 * Send a remote spawn to a cord, with a new id. Errors in addition to those of spawn_take_id:
 * -ESRCH if the cord has ended
 * -EXDEV if the parent belongs to another cord
 */
static int spawn_dispatch(remote_spawn *s, weft_cord cord, bool may_be_rejected, weft_fiber *id)
{
    uint32_t index = weft__fiber_cord(cord);
    if (s->options.parent != 0 && weft__fiber_cord(s->options.parent) != index)
        return -EXDEV;
    weft__cord *c = cord != 0 ? weft__registry_acquire(index) : NULL;
    if (c == NULL)
        return -ESRCH;
    int rc = spawn_take_id(c, cord, may_be_rejected, id);
    if (rc == 0) {
        s->msg.fiber = *id;
        if (c == weft__cord_self)
            s->msg.deliver(c, &s->msg); /* at once, because the caller may use the id */
        else
            weft__inbox_push(c, &s->msg);
    }
    weft__registry_release(index);
    return rc;
}

static int spawn_send(weft_cord cord, weft_fn *fn, void *arg, const weft_spin_options *o,
                      const void *spun_at, weft_fiber *id)
{
    int rc = weft__spin_check(fn, arg, o);
    if (rc < 0)
        return rc;
    remote_spawn *s = malloc(sizeof *s + o->arg_bytes);
    if (s == NULL)
        return weft_fail(-ENOMEM, "weft_cord_spin: out of memory");
    spawn_fill(s, fn, arg, o);
    s->spun_at = spun_at;
    rc = spawn_dispatch(s, cord, true, id);
    if (rc == 0)
        return 0;
    free(s);
    return weft_fail(rc, "weft_cord_spin: %s cord #%llu",
                     rc == -EAGAIN ? "too many messages or fibers in" : "cannot create a fiber in",
                     (unsigned long long)cord);
}

static weft_fiber cord_spin_at(weft_cord cord, weft_fn *fn, void *arg,
                               const weft_spin_options *options, const void *spun_at)
{
    weft_fiber id;
    const weft_spin_options *o = options != NULL ? options : &(weft_spin_options){0};
    int rc = spawn_send(cord, fn, arg, o, spun_at, &id);
    return rc == 0 ? id : 0;
}

weft_fiber weft_cord_spin_with(weft_cord cord, weft_fn *fn, void *arg,
                               const weft_spin_options *options)
{
    return cord_spin_at(cord, fn, arg, options, __builtin_return_address(0));
}

weft_fiber weft_cord_spin(weft_cord cord, weft_fn *fn, void *arg)
{
    return cord_spin_at(cord, fn, arg, NULL, __builtin_return_address(0));
}

/*
 * Remote calls.
 */

/*
 * A remote call. The thread that has received the last message owns the call, except cancel_msg.
 * Only the caller writes and sends cancel_msg.
 */
typedef struct remote_call {
    weft__remote_msg reply_msg;  /* to the caller */
    weft__remote_msg cancel_msg; /* sent after the spawn, to cancel the fiber */
    weft__waiter waiter;         /* used by the receiving cord, in the awaiters of the fiber */
    /* 1 until the reply is delivered, plus 1 while cancel_msg is in flight. */
    atomic_int refs;
    weft_fiber caller;       /* constant */
    void (*drop)(void *arg); /* constant; NULL: none */
    bool *has_ended;         /* constant; memory of the waiting caller; NULL: none */
    bool may_abandon;        /* constant; an interrupted call may return early */
    bool has_begun;          /* the fiber was created */
    weft__error *error;      /* the error object of the reply; NULL: none */
    remote_spawn spawn;      /* the last field, because the size of a spawn varies */
} remote_call;

static void call_unref(remote_call *call)
{
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) > 1)
        return;
    weft__error_unref(call->error);
    free(call);
}

static bool leave_call(weft__fiber *f);

/* Return the fiber of the call in the other thread. */
static weft_fiber callee_of(const weft__fiber *f)
{
    const remote_call *call = f->wait_object;
    return call->spawn.msg.fiber;
}

static const weft__wait_kind waits_call = {"a call in another thread", .leave = leave_call,
                                           .holder = callee_of};
static const weft__wait_kind waits_callee = {
    .name = "the end of a cancelled call in another thread", .is_uninterruptible = true};

/* Free a call after its caller has stopped waiting. */
static void call_abandon(remote_call *call)
{
    drop_arg(call->drop, call->spawn.arg);
    call_unref(call);
}

static void deliver_call_reply(weft__cord *c, weft__remote_msg *msg)
{
    remote_call *call = CONTAINER_OF(msg, remote_call, reply_msg);
    weft__fiber *f = weft__fiber_waiting(c, call->caller, call);
    if (f == NULL) {
        call_abandon(call);
        return;
    }
    if (!call->has_begun)
        drop_arg(call->drop, call->spawn.arg);
    else if (call->has_ended != NULL)
        *call->has_ended = true;
    weft_value value = weft__cancel_resolve(f, msg->value);
    if (weft_is_error(value) && value == msg->value) {
        weft__error_set(f, call->error);
        call->error = NULL;
    }
    weft__wake(c, f, value, WEFT__TAIL);
    call_unref(call);
}

static void call_reply(remote_call *call, weft_value value, const weft__error *error)
{
    call->error = weft_is_error(value) ? weft__error_clone(error) : NULL;
    call->reply_msg = (weft__remote_msg){NULL, deliver_call_reply, call->caller, value, 0};
    if (weft__cord_post(&call->reply_msg) < 0)
        call_abandon(call); /* the cord of the caller has ended */
}

/* Send the reply, because the fiber has ended. */
static void call_on_exit(weft__waiter *w, weft_value value)
{
    remote_call *call = CONTAINER_OF(w, remote_call, waiter);
    const weft__fiber *f = weft__fiber_find(weft__cord_self, call->spawn.msg.fiber);
    /* If the cord ends, do not reply with -ECANCELED, because the caller is not cancelled. */
    bool is_cord_ending = value == -ECANCELED && f != NULL && f->is_shutdown;
    call_reply(call, is_cord_ending ? -ESRCH : value,
               f != NULL && !is_cord_ending ? f->error : NULL);
}

static void deliver_call(weft__cord *c, weft__remote_msg *msg)
{
    remote_call *call = CONTAINER_OF(CONTAINER_OF(msg, remote_spawn, msg), remote_call, spawn);
    weft__fiber *f;
    int rc = spawn_create_fiber(c, &call->spawn, &f);
    if (rc < 0) {
        call_reply(call, rc, NULL);
        return;
    }
    call->has_begun = true;
    call->waiter = (weft__waiter){.on_wake = call_on_exit};
    weft__waitq_join(&f->live->awaiters, &call->waiter);
}

static void deliver_call_cancel(weft__cord *c, weft__remote_msg *msg)
{
    if (c != NULL)
        weft_cancel(msg->fiber);
    call_unref(CONTAINER_OF(msg, remote_call, cancel_msg));
}

/*
 * Cancel the fiber. If may_abandon is false, continue to wait, because arg belongs to the caller.
 */
static bool leave_call(weft__fiber *f)
{
    remote_call *call = f->wait_object;
    call->cancel_msg = (weft__remote_msg){NULL, deliver_call_cancel, call->spawn.msg.fiber, 0, 0};
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    bool is_abandoned = call->may_abandon;
    f->waits_in = &waits_callee;
    if (weft__cord_post(&call->cancel_msg) < 0)
        call_unref(call); /* the ending cord sends the reply */
    return is_abandoned;
}

/* Drop the argument of a call that was not sent, and return code. */
static weft_value call_fail(weft_value code, void *arg, const weft_call_options *o)
{
    if (o->drop != NULL)
        o->drop(arg);
    return code;
}

static weft_value call_send(weft__cord *c, weft_cord cord, void *arg, const weft_call_options *o,
                            remote_call *call)
{
    call->refs = 1;
    call->caller = c->current->id;
    call->spawn.msg.deliver = deliver_call;
    weft_fiber id;
    int rc = spawn_dispatch(&call->spawn, cord, false, &id);
    if (rc < 0) {
        free(call);
        weft_fail(rc, "weft_cord_call: cannot create a fiber in cord #%llu",
                  (unsigned long long)cord);
        return call_fail(rc, arg, o);
    }
    return weft__wait(c, &waits_call, call);
}

static weft_value cord_call_at(weft_cord cord, weft_fn *fn, void *arg,
                               const weft_call_options *options, const void *spun_at)
{
    const weft_call_options *o = options != NULL ? options : &(weft_call_options){0};
    weft_spin_options spin = {.name = o->name, .arg_bytes = o->arg_bytes};
    if (o->has_ended != NULL)
        *o->has_ended = false;
    int rc = weft__spin_check(fn, arg, &spin);
    if (rc < 0)
        return call_fail(rc, arg, o);
    weft__cord *c = weft__cord_here();
    if (c != NULL && c->current->pending)
        return call_fail(weft__call_refuse(c), arg, o);
    remote_call *call = c != NULL ? calloc(1, sizeof *call + o->arg_bytes) : NULL;
    if (call == NULL)
        return call_fail(c == NULL ? weft__no_cord() : -ENOMEM, arg, o);
    call->drop = o->drop;
    call->has_ended = o->has_ended;
    call->may_abandon = o->drop != NULL || o->arg_bytes > 0;
    spawn_fill(&call->spawn, fn, arg, &spin);
    call->spawn.spun_at = spun_at;
    return call_send(c, cord, arg, o, call);
}

weft_value weft_cord_call_with(weft_cord cord, weft_fn *fn, void *arg,
                               const weft_call_options *options)
{
    return cord_call_at(cord, fn, arg, options, __builtin_return_address(0));
}

weft_value weft_cord_call(weft_cord cord, weft_fn *fn, void *arg)
{
    return cord_call_at(cord, fn, arg, NULL, __builtin_return_address(0));
}
