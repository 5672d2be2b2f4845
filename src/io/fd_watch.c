/*
 * Open and close watches, and create their fibers (fd_watcher.h).
 *
 * A watch is OPEN until its event, then DUE until its fiber is created. While a watch is OPEN or
 * DUE, it holds its weft__watch_spin. weft_suspend in the main fiber waits for watches that are not
 * daemons: held_ops counts OPEN watches, held_timers counts armed time limits and DUE watches.
 */
#include "io/fd_watcher.h"

#include "backend/fd_generation.h"
#include "core/fiber/error.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/*
 * The maximum number of weft__watch_spin that weft_fd_watch_open compares. A program has few,
 * unless each watch has its own group.
 */
#define SPINS_COMPARED_MAX 8

static weft__fd_watch *watch_private(const weft_fd_watch *watch)
{
    return (weft__fd_watch *)(void *)watch;
}

static weft__fd_watch *watch_of_timer(weft__timer *timer)
{
    return CONTAINER_OF(timer, weft__fd_watch, timer);
}

/* Shared values. */

static bool is_same_spin(const weft__watch_spin *s, weft_fn *fn, const weft_group *group,
                         const weft_spin_options *o)
{
    const weft_spin_options *own = &s->options;
    return s->fn == fn && s->group == group && own->stack_bytes == o->stack_bytes &&
           own->parent == o->parent && own->is_daemon == o->is_daemon && own->drop == o->drop &&
           (own->name == NULL) == (o->name == NULL) &&
           (o->name == NULL || strncmp(own->name, o->name, sizeof s->name - 1) == 0);
}

static weft__watch_spin *spin_find(weft__fd_watcher *w, weft_fn *fn, const weft_group *group,
                                   const weft_spin_options *o)
{
    int left = SPINS_COMPARED_MAX;
    WEFT__LIST_FOR(node, &w->spins) {
        weft__watch_spin *s = CONTAINER_OF(node, weft__watch_spin, link);
        if (is_same_spin(s, fn, group, o))
            return s;
        if (--left == 0)
            return NULL;
    }
    return NULL;
}

static weft__watch_spin *spin_new(weft_fn *fn, weft_group *group, const weft_spin_options *o)
{
    weft__watch_spin *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (weft__watch_spin){.fn = fn, .group = group, .options = *o};
    weft__list_init(&s->link);
    if (o->name != NULL) {
        strncpy(s->name, o->name, sizeof s->name - 1);
        s->options.name = s->name;
    }
    return s;
}

/* Return shared values with one more reference, or NULL if memory is exhausted. */
static weft__watch_spin *spin_acquire(weft__fd_watcher *w, weft_fn *fn, weft_group *group,
                                      const weft_spin_options *o)
{
    weft__watch_spin *s = spin_find(w, fn, group, o);
    if (s == NULL)
        s = spin_new(fn, group, o);
    if (s == NULL)
        return NULL;
    s->refs++;
    weft__list_remove(&s->link);
    weft__list_insert(w->spins.next, &s->link);
    return s;
}

/*
 * Release a reference. The last values stay, for the next watch. If they were allocated again after
 * a burst of memory, they could keep the C library from shrinking the heap.
 */
static void spin_release(weft__fd_watcher *w, weft__watch_spin *s)
{
    bool is_only = w->spins.next == w->spins.prev;
    if (--s->refs > 0 || is_only)
        return;
    weft__list_remove(&s->link);
    free(s);
}

/* States. */

/* Count a watch as an event that weft_suspend waits for, or stop counting it. */
static void watch_hold(weft__cord *c, const weft__fd_watch *watch, int delta)
{
    if (watch->spin->options.is_daemon)
        return;
    bool is_open = watch->state == WEFT__WATCH_OPEN;
    c->held_ops += is_open ? (size_t)delta : 0;
    /* While the watch is DUE, the link of its timer is in `due`, so the timer looks armed. */
    c->held_timers += weft__timer_is_armed(&watch->timer) ? (size_t)delta : 0;
}

static void watch_time_out(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    weft__fd_watch *watch = watch_of_timer(timer);
    c->held_timers -= !watch->spin->options.is_daemon; /* the wheel has disarmed the timer */
    weft__fd_watch_end(c, c->fd_watcher, watch, -ETIMEDOUT);
}

static void own_op_free(weft__watch_op *own)
{
    weft__list_remove(&own->link);
    free(own);
}

static void own_op_done(weft__op *op, intptr_t result)
{
    weft__watch_op *own = CONTAINER_OF(op, weft__watch_op, op);
    weft__cord *c = weft__cord_self;
    weft__fd_watch *watch = own->watch;
    own_op_free(own);
    if (watch == NULL)
        return;
    watch->own_op = NULL;
    weft__fd_watch_end(c, c->fd_watcher, watch, result < 0 ? (int)result : 0);
}

/* If the operation cannot be cancelled at once, own_op_done frees it. */
static void own_op_cancel(weft__cord *c, weft__watch_op *own)
{
    own->watch = NULL;
    if (c->backend->type->cancel(c->backend, &own->op))
        own_op_free(own);
}

/*
 * Wait for fd with an operation. Returns WEFT__OP_PENDING, the result of the operation if fd is
 * ready, or an error.
 */
static intptr_t own_op_submit(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    weft__watch_op *own = calloc(1, sizeof *own);
    if (own == NULL)
        return -ENOMEM;
    own->op =
        (weft__op){.code = WEFT__OP_WAIT, .fd = watch->fd, .u.events = POLLIN, .done = own_op_done};
    weft__list_init(&own->op.link);
    own->watch = watch;
    weft__list_insert(&w->own_ops, &own->link);
    intptr_t result = c->backend->type->submit(c->backend, &own->op);
    if (result == WEFT__OP_PENDING)
        watch->own_op = own;
    else
        own_op_free(own);
    return result;
}

/* Stop waiting for an event. The state must be OPEN. */
static void watch_stop(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    if (weft__fd_watcher_find(w, watch->fd) == watch)
        weft__fd_watcher_remove(w, watch);
    else if (watch->own_op != NULL)
        own_op_cancel(c, watch->own_op);
    watch->own_op = NULL;
    c->watches--;
    weft__timer_disarm(&c->wheel, &watch->timer);
}

void weft__fd_watch_end(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch, int result)
{
    watch_hold(c, watch, -1);
    watch_stop(c, w, watch);
    watch->state = WEFT__WATCH_DUE;
    watch->result = (int16_t)result;
    weft__list_insert(&w->due, &watch->timer.link);
    watch_hold(c, watch, 1);
    weft__fd_watcher_wake(c, w);
}

/* Leave the state OPEN or DUE. */
static void watch_leave(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch,
                        weft__watch_state state)
{
    watch_hold(c, watch, -1);
    if (watch->state == WEFT__WATCH_OPEN)
        watch_stop(c, w, watch);
    else
        weft__list_remove(&watch->timer.link);
    watch->state = (uint8_t)state;
    spin_release(w, watch->spin);
    weft__fd_watcher_settle(c, w);
}

void weft__fd_watch_drop(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    void (*drop)(void *arg) = watch->spin->options.drop;
    void *arg = watch->arg;
    watch_leave(c, w, watch, WEFT__WATCH_SPUN);
    if (drop != NULL)
        drop(arg);
}

void weft__fd_watch_forget(weft__fd_watch *watch)
{
    weft__list_init(&watch->timer.link);
    weft__cord_self->watches -= watch->state == WEFT__WATCH_OPEN;
    watch->state = WEFT__WATCH_CLOSED;
}

/* Creating fibers. */

/*
 * Create the fiber of a watch, and store its id in *id. Returns 0 or an error. The current fiber
 * has nothing to do with the watch. Therefore keep the last error of that fiber.
 */
static int watch_make_fiber(weft__cord *c, const weft__fd_watch *watch, weft_fiber *id)
{
    const weft__watch_spin *s = watch->spin;
    weft__fiber *f = c->current;
    weft__error *last = weft__error_ref(f->error);
    int rc = 0;
    *id = s->group != NULL ? weft_group_spin_with(s->group, s->fn, watch->arg, &s->options)
                           : weft_spin_with(s->fn, watch->arg, &s->options);
    if (*id != 0) {
        weft__fiber_find(c, *id)->is_unawaited = true;
        weft__error_unref(last);
    } else {
        const weft_error_info *why = weft_error();
        rc = why != NULL ? why->code : -ENOMEM;
        weft__error_set(f, last);
    }
    return rc;
}

int weft__fd_watch_spin(weft__cord *c, weft__fd_watcher *w)
{
    weft__fd_watch *watch = weft__fd_watch_first_due(w);
    int rc = watch_make_fiber(c, watch, &w->last);
    if (rc == -ENOMEM || rc == -EAGAIN)
        return rc;
    if (rc < 0) /* the parent has ended, or the group is closed */
        weft__fd_watch_drop(c, w, watch);
    else
        watch_leave(c, w, watch, WEFT__WATCH_SPUN);
    return 0;
}

/* The public functions. */

static int check_open(const weft__cord *c, const weft_fd_watch *watch, double timeout_s,
                      weft_fn *fn, const void *arg, const weft_spin_options *o)
{
    if (watch == NULL)
        return weft_fail(-EINVAL, "weft_fd_watch_open: watch is NULL");
    if (!(timeout_s >= 0))
        return weft_fail(-EINVAL, "weft_fd_watch_open: timeout_s is %g", timeout_s);
    if (o->arg_bytes != 0)
        return weft_fail(-EINVAL, "weft_fd_watch_open: arg_bytes is %zu, not 0", o->arg_bytes);
    int rc = weft__spin_check(fn, arg, o);
    if (rc < 0)
        return rc;
    const weft__fiber *parent = weft__fiber_find(c, o->parent);
    if (parent == NULL || parent->phase == WEFT__ENDED)
        return weft_fail(weft__fiber_find_error(c, o->parent),
                         "weft_fd_watch_open: parent has ended or belongs to another thread");
    return 0;
}

/* End the watch of an earlier file with the same number, which another thread has closed. */
static void end_stale_watch(weft__cord *c, weft__fd_watcher *w, int fd)
{
    weft__fd_watch *watch = weft__fd_watcher_find(w, fd);
    if (watch != NULL && watch->generation != weft__fd_generation(fd))
        weft__fd_watch_end(c, w, watch, -EBADF);
}

/* Begin to wait for an event. The state is OPEN or DUE afterwards. Returns 0 or an error. */
static int watch_begin(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch, double timeout_s)
{
    intptr_t result = 0;
    watch->state = WEFT__WATCH_OPEN;
    if (c->backend->type->is_self_contained)
        result = own_op_submit(c, w, watch);
    else
        result = weft__fd_watcher_add(c, w, watch);
    if (result < 0 && result != WEFT__OP_PENDING)
        return (int)result;
    weft__timer_arm(&c->wheel, &watch->timer, weft__deadline(c, timeout_s));
    watch_hold(c, watch, 1);
    c->watches++;
    if (result > 0)
        weft__fd_watch_end(c, w, watch, 0);
    return 0;
}

int weft_fd_watch_open(weft_fd_watch *watch, int fd, double timeout_s, weft_group *group,
                       weft_fn *fn, void *arg, const weft_spin_options *options)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft_spin_options o = options != NULL ? *options : (weft_spin_options){0};
    if (o.parent == 0 || group != NULL)
        o.parent = c->main->id;
    int rc = check_open(c, watch, timeout_s, fn, arg, &o);
    if (rc < 0)
        return rc;
    if (fd < 0)
        return -EBADF;
    weft__fd_watcher *w = weft__fd_watcher_of(c);
    weft__watch_spin *s = w != NULL ? spin_acquire(w, fn, group, &o) : NULL;
    if (s == NULL)
        return -ENOMEM;
    end_stale_watch(c, w, fd);
    weft__fd_watch begun = {.spin = s, .arg = arg, .fd = fd};
    weft__fd_watch *inner = watch_private(watch);
    if (weft__fd_watcher_find(w, fd) != NULL) {
        rc = weft_fail(-EBUSY, "weft_fd_watch_open: another watch is open on descriptor %d", fd);
    } else {
        *inner = begun;
        weft__timer_init(&inner->timer, watch_time_out);
        rc = watch_begin(c, w, inner, timeout_s);
        if (rc < 0)
            inner->state = WEFT__WATCH_CLOSED;
    }
    if (rc < 0)
        spin_release(w, s);
    return rc;
}

int weft_fd_watch_result(const weft_fd_watch *watch)
{
    const weft__fd_watch *inner = watch != NULL ? watch_private(watch) : NULL;
    return inner != NULL && inner->state == WEFT__WATCH_SPUN ? inner->result : -EINVAL;
}

/* Return 0 if a watch is OPEN or DUE in this thread, or an error. */
static int check_is_open(const char *call, const weft__cord *c, const weft_fd_watch *watch)
{
    const weft__fd_watch *inner = watch != NULL ? watch_private(watch) : NULL;
    if (inner != NULL && inner->state == WEFT__WATCH_SPUN)
        return -EALREADY;
    if (inner == NULL || inner->state == WEFT__WATCH_CLOSED)
        return weft_fail(-EINVAL, "%s: watch is not open", call);
    const weft__fd_watcher *w = c->fd_watcher;
    bool is_here = w != NULL && (inner->state == WEFT__WATCH_DUE || inner->own_op != NULL ||
                                 weft__fd_watcher_find(w, inner->fd) == inner);
    return is_here ? 0 : weft_fail(-EXDEV, "%s: another thread has opened the watch", call);
}

int weft_fd_watch_interrupt(weft_fd_watch *watch, int code)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!weft_is_error(code))
        return weft_fail(-EINVAL, "weft_fd_watch_interrupt: code is %d, which is not an error",
                         code);
    int rc = check_is_open("weft_fd_watch_interrupt", c, watch);
    if (rc < 0)
        return rc;
    weft__fd_watch *inner = watch_private(watch);
    if (inner->state == WEFT__WATCH_OPEN)
        weft__fd_watch_end(c, c->fd_watcher, inner, code);
    inner->result = (int16_t)code;
    return 0;
}

int weft_fd_watch_close(weft_fd_watch *watch)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    int rc = check_is_open("weft_fd_watch_close", c, watch);
    if (rc == 0)
        watch_leave(c, c->fd_watcher, watch_private(watch), WEFT__WATCH_CLOSED);
    return rc;
}
