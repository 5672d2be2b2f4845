/*
 * Handles of started cords. Cancel and join cords, and end all cords when the process ends. cord.c
 * starts cords.
 */
#include "core/cord/handle.h"

#include "base/clock.h"
#include "base/libc.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/cord/thread.h"
#include "core/debug/diag.h"
#include "core/lifetime/cancel.h"

#include <stdlib.h>
#include <string.h>

#define HANDLES_MAX (1u << WEFT__CORDS_BITS)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;   /* broadcast when a cord has ended */
    bool is_process_ending; /* new cords are cancelled at once */
    uint32_t ending_cord;   /* index of the cord that ends the process; HANDLES_MAX: none */
    bool was_handle_added;  /* a handle was added since this was last set to false */
    weft__cord_handle *by_index[HANDLES_MAX]; /* indexed by the index of the cord; NULL: none */
} handles = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, false, {NULL}};

/*
 * Return the handle of a cord. Returns NULL if the cord was joined, or if weft_cord_start did not
 * start the cord. The caller must hold the lock.
 */
static weft__cord_handle *handle_find(weft_cord cord)
{
    weft__cord_handle *h = handles.by_index[weft__fiber_cord(cord)];
    return h != NULL && h->id == cord ? h : NULL;
}

/*
 * Return the error after handle_find has returned NULL:
 * -EINVAL if weft_cord_start did not start the cord
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if the cord does not exist
 */
static int handle_find_error(const char *function, weft_cord cord)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = cord != 0 ? weft__registry_acquire(index) : NULL;
    bool exists = c != NULL && c->main->id == cord;
    if (c != NULL)
        weft__registry_release(index);
    if (!exists)
        return -ESRCH;
    return weft_fail(-EINVAL, "%s: weft_cord_start did not start cord #%llu", function,
                     (unsigned long long)cord);
}

/*
 * Cancelling.
 */

static void deliver_cord_cancel(weft__cord *c, weft__remote_msg *msg)
{
    weft__cord_handle *h = CONTAINER_OF(msg, weft__cord_handle, cancel_msg);
    weft__fiber *f = c != NULL && !h->is_cancel_delivered ? weft__fiber_find(c, msg->fiber) : NULL;
    if (f == NULL || f->phase == WEFT__ENDING)
        return;
    h->is_cancel_delivered = true;
    f->live->grace_ns = msg->value > 0 ? weft__deadline(c, (double)msg->value * 1e-6) : 0;
    weft__fiber_stop(c, f, -ECANCELED, WEFT__EXIT_REQUESTED);
}

/*
 * Cancel a cord. The caller must hold the lock. The message contains the grace time and not a
 * deadline, because the clocks of two cords may differ.
 */
static void handle_cancel(weft__cord_handle *h, double grace_s)
{
    if (h->is_cancelled || h->has_ended)
        return;
    weft_value grace_us = (weft_value)(grace_s < 1e9 ? grace_s * 1e6 : 1e15);
    h->cancel_msg = (weft__remote_msg){NULL, deliver_cord_cancel, h->id, grace_us, 0};
    atomic_store_explicit(&h->is_cancelled, true, memory_order_release);
    (void)weft__cord_post(&h->cancel_msg); /* if this fails, the cord is already ending */
}

/* Return the remaining grace time of a fiber of this cord, in seconds. */
static double fiber_grace_s(const weft__fiber *f)
{
    int64_t left_ns = f->live->grace_ns - weft__cord_now(weft__cord_self);
    return f->live->grace_ns != 0 && left_ns > 0 ? (double)left_ns * 1e-9 : 0;
}

int weft_cord_cancel(weft_cord cord)
{
    pthread_mutex_lock(&handles.lock);
    weft__cord_handle *h = handle_find(cord);
    bool is_running = h != NULL && !h->has_ended;
    if (is_running)
        handle_cancel(h, 0);
    pthread_mutex_unlock(&handles.lock);
    if (is_running)
        return 0;
    return h != NULL ? -ESRCH : handle_find_error("weft_cord_cancel", cord);
}

void weft__cord_handle_add(weft__cord_handle *h)
{
    weft__list_init(&h->joiners);
    pthread_mutex_lock(&handles.lock);
    handles.by_index[weft__fiber_cord(h->id)] = h;
    handles.was_handle_added = true;
    if (handles.is_process_ending)
        handle_cancel(h, 0);
    pthread_mutex_unlock(&handles.lock);
}

void weft__cord_handle_remove(weft__cord_handle *h)
{
    pthread_mutex_lock(&handles.lock);
    handles.by_index[weft__fiber_cord(h->id)] = NULL;
    pthread_cond_broadcast(&handles.ended);
    pthread_mutex_unlock(&handles.lock);
}

/*
 * Joining.
 */

/*
 * A fiber that waits for the end of a cord. A joiner is on the heap, because the thread of the
 * fiber may end during the wait. The message may then arrive when the frames of the fiber do not
 * exist any more.
 */
typedef struct joiner {
    weft__list link; /* in handle->joiners, protected by the lock; empty: msg was sent */
    weft__remote_msg msg;
    weft__cord_handle *handle;
    weft__error *error; /* a copy for this joiner; NULL: none */
} joiner;

/*
 * Free a handle. If may_wait is true, wait until the thread has ended. Otherwise detach the thread.
 */
static void handle_reap(weft__cord_handle *h, bool may_wait)
{
    if (may_wait)
        pthread_join(h->thread, NULL);
    else
        pthread_detach(h->thread);
    weft__registry_free_slot(weft__fiber_cord(h->id));
    weft__error_unref(h->error);
    free(h);
}

/* Release the reference of a joiner that has the result. The last joiner frees the handle. */
static void handle_unref(weft__cord_handle *h, bool may_wait)
{
    pthread_mutex_lock(&handles.lock);
    bool was_last = --h->joiners_notified == 0;
    if (was_last)
        handles.by_index[weft__fiber_cord(h->id)] = NULL;
    pthread_mutex_unlock(&handles.lock);
    if (was_last)
        handle_reap(h, may_wait);
}

static void joiner_drop(joiner *j)
{
    handle_unref(j->handle, false);
    weft__error_unref(j->error);
    free(j);
}

static bool leave_cord(weft__fiber *f);

/* Return the main fiber of the awaited cord. */
static weft_fiber joined_main(const weft__fiber *f)
{
    return ((const joiner *)f->wait_object)->handle->id;
}

static const weft__wait_kind waits_cord = {"the end of a thread", .leave = leave_cord,
                                           .holder = joined_main};
static const weft__wait_kind waits_cord_uninterruptible = {
    .name = "the end of a thread (uninterruptible)",
    .is_uninterruptible = true,
    .holder = joined_main};

static void deliver_cord_exit(weft__cord *c, weft__remote_msg *msg)
{
    joiner *j = CONTAINER_OF(msg, joiner, msg);
    weft__fiber *f = weft__fiber_waiting(c, msg->fiber, j);
    if (f != NULL)
        weft__wake(c, f, weft__cancel_resolve(f, msg->value), WEFT__TAIL);
    else
        joiner_drop(j);
}

/*
 * If the fiber is being stopped, cancel the cord and continue to wait. Any other interruption ends
 * only the wait. If msg was already sent, continue to wait for msg.
 */
static bool leave_cord(weft__fiber *f)
{
    joiner *j = f->wait_object;
    bool is_stop = weft__cancel_is_stop(f);
    pthread_mutex_lock(&handles.lock);
    bool has_left = !is_stop && !weft__list_is_empty(&j->link);
    if (has_left)
        weft__list_remove(&j->link);
    else if (is_stop)
        handle_cancel(j->handle, fiber_grace_s(f));
    pthread_mutex_unlock(&handles.lock);
    f->waits_in = &waits_cord_uninterruptible;
    if (has_left) {
        f->wait_object = NULL;
        free(j);
    }
    return has_left;
}

/* Send the result to a joiner. The caller must hold the lock. */
static void joiner_notify(weft__cord_handle *h, joiner *j)
{
    h->joiners_notified++;
    weft__list_remove(&j->link);
    j->error = weft__error_clone(h->error);
    j->msg.value = h->value;
    if (weft__cord_post(&j->msg) == 0)
        return;
    h->joiners_notified--; /* the thread of the joiner has ended during the wait */
    weft__error_unref(j->error);
    free(j);
}

/*
 * Return true if a join in this fiber must not return, because another thread is ending the
 * process. weft does not cancel threads that weft_cord_start did not start, for example the main
 * thread. Such a thread could otherwise return from main while the process ends. The caller must
 * hold the lock.
 */
static bool is_held_back(weft_fiber fiber)
{
    uint32_t index = weft__fiber_cord(fiber);
    return handles.is_process_ending && handles.by_index[index] == NULL &&
           index != handles.ending_cord;
}

/* Mark the cord as ended, and notify its joiners. The caller must hold the lock. */
static void handle_end(weft__cord_handle *h)
{
    h->has_ended = true;
    for (weft__list *node = h->joiners.next, *next; node != &h->joiners; node = next) {
        joiner *j = CONTAINER_OF(node, joiner, link);
        next = node->next;
        if (!is_held_back(j->msg.fiber))
            joiner_notify(h, j);
    }
    pthread_cond_broadcast(&handles.ended);
}

void weft__cord_handle_end(weft__cord_handle *h)
{
    pthread_mutex_lock(&handles.lock);
    handle_end(h);
    pthread_mutex_unlock(&handles.lock);
}

void weft__cord_handle_exit(weft__cord_handle *h)
{
    pthread_mutex_lock(&handles.lock);
    /*
     * This reference is never released. The thread still runs, so no joiner may wait for the thread
     * or free the handle.
     */
    h->joiners_notified++;
    handle_end(h);
    pthread_mutex_unlock(&handles.lock);
}

/*
 * Release the handle, and return value. If value is an error, make `error` the last error of the
 * current fiber.
 */
static weft_value handle_collect(weft__cord *c, weft__cord_handle *h, weft_value value,
                                 weft__error *error)
{
    handle_unref(h, true);
    if (weft_is_error(value))
        weft__error_set(c->current, error);
    else
        weft__error_unref(error);
    return value;
}

/* Wait for the end of a cord. The caller must hold the lock. This function releases the lock. */
static weft_value handle_wait(weft__cord *c, weft__cord_handle *h)
{
    weft__fiber *f = c->current;
    bool is_stop = f->pending && weft__cancel_is_stop(f);
    joiner *j = malloc(sizeof *j);
    if (j == NULL) {
        pthread_mutex_unlock(&handles.lock);
        return -ENOMEM;
    }
    *j = (joiner){.msg = {NULL, deliver_cord_exit, f->id, 0}, .handle = h};
    weft__list_insert(&h->joiners, &j->link);
    if (is_stop)
        handle_cancel(h, fiber_grace_s(f));
    pthread_mutex_unlock(&handles.lock);
    weft_value value = weft__wait(c, is_stop ? &waits_cord_uninterruptible : &waits_cord, j);
    if (f->wait_object != j)
        return value; /* interrupted; leave_cord() has freed j */
    weft__error *error = j->error;
    free(j);
    return handle_collect(c, h, value, error);
}

weft_value weft_cord_join(weft_cord cord)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    pthread_mutex_lock(&handles.lock);
    weft__cord_handle *h = handle_find(cord);
    bool is_held = is_held_back(c->main->id);
    bool has_ended = h != NULL && h->has_ended && !is_held;
    bool may_wait = h != NULL && !has_ended && h->id != c->main->id &&
                    (!c->current->pending || weft__cancel_is_stop(c->current));
    if (may_wait)
        return handle_wait(c, h);
    weft_value value = has_ended ? h->value : 0;
    weft__error *error = has_ended ? weft__error_clone(h->error) : NULL;
    if (has_ended)
        h->joiners_notified++;
    pthread_mutex_unlock(&handles.lock);
    if (has_ended)
        return handle_collect(c, h, value, error);
    if (cord == c->main->id)
        return -EDEADLK;
    if (h == NULL && is_held)
        weft__thread_wait_forever();
    return h == NULL ? handle_find_error("weft_cord_join", cord) : weft__call_refuse(c);
}

/*
 * The end of the process.
 */

void weft__cord_handles_begin_exit(const weft__cord *ending_cord)
{
    pthread_mutex_lock(&handles.lock);
    handles.is_process_ending = true;
    handles.ending_cord = ending_cord != NULL ? ending_cord->index : HANDLES_MAX;
    pthread_mutex_unlock(&handles.lock);
}

void weft__cord_handles_cancel(const weft__cord_handle *except, double grace_s)
{
    pthread_mutex_lock(&handles.lock);
    for (uint32_t i = 0; i < HANDLES_MAX; i++)
        if (handles.by_index[i] != NULL && handles.by_index[i] != except)
            handle_cancel(handles.by_index[i], grace_s);
    pthread_mutex_unlock(&handles.lock);
}

/*
 * Wait until the cord with index i has ended. Return false if the cord has not ended by until_ns.
 * The caller must hold the lock. The wait releases the lock temporarily.
 */
static bool handle_wait_until(uint32_t i, const weft__cord_handle *except, int64_t until_ns)
{
    const struct timespec until = weft__clock_spec(until_ns);
    /* Read again after each wait, because a joiner may free the handle. */
    const weft__cord_handle *h;
    while ((h = handles.by_index[i]) != NULL && h != except && !h->has_ended)
        if (pthread_cond_clockwait(&handles.ended, &handles.lock, CLOCK_MONOTONIC, &until) != 0)
            return false;
    return true;
}

bool weft__cord_handles_wait_until(const weft__cord_handle *except, int64_t until_ns)
{
    bool have_ended = true;
    pthread_mutex_lock(&handles.lock);
    for (uint32_t i = 0; i < HANDLES_MAX && have_ended; i++)
        have_ended = handle_wait_until(i, except, until_ns);
    pthread_mutex_unlock(&handles.lock);
    return have_ended;
}

/*
 * Do not wait for the lock at first. A signal handler may have interrupted the thread that holds
 * the lock. Release the lock for print, because print may wait for a thread that needs the lock.
 */
void weft__cord_handles_each_running(const weft__cord_handle *except,
                                     void (*print)(weft_cord id, const char *name))
{
    if (pthread_mutex_trylock(&handles.lock) != 0)
        return;
    for (uint32_t i = 0; i < HANDLES_MAX; i++) {
        const weft__cord_handle *h = handles.by_index[i];
        if (h == NULL || h == except || h->has_ended)
            continue;
        weft_cord id = h->id;
        char name[WEFT__NAME_BYTES];
        memcpy(name, h->name, sizeof name);
        pthread_mutex_unlock(&handles.lock);
        print(id, name);
        pthread_mutex_lock(&handles.lock);
    }
    pthread_mutex_unlock(&handles.lock);
}

/* Return true if the cord has failed and was not joined. */
static bool handle_failed_unjoined(const weft__cord_handle *h)
{
    bool was_requested = h->is_cancelled && h->value == -ECANCELED;
    return h->has_ended && h->joiners_notified == 0 && weft_is_error(h->value) && !was_requested;
}

/*
 * Free the handle with index i if the cord has ended and no joiner uses the handle. The caller must
 * hold the lock. This function releases the lock temporarily.
 */
static void handle_reap_ended(uint32_t i)
{
    weft__cord_handle *h = handles.by_index[i];
    if (!h->has_ended || h->joiners_notified > 0)
        return;
    /* A joiner that is held back still uses the handle. */
    if (!weft__list_is_empty(&h->joiners)) {
        h->joiners_notified = 1;
        pthread_detach(h->thread);
        return;
    }
    handles.by_index[i] = NULL;
    pthread_mutex_unlock(&handles.lock);
    handle_reap(h, true);
    pthread_mutex_lock(&handles.lock);
}

/*
 * Report a cord that has failed or has not ended. The caller must hold the lock. This function
 * releases the lock for the log function. Meanwhile, a joiner may free the handle.
 */
static void handle_report_at_exit(const weft__cord_handle *h, bool has_ended, bool has_failed)
{
    weft_cord id = h->id;
    char name[WEFT__NAME_BYTES];
    memcpy(name, h->name, sizeof name);
    int code = has_failed ? (int)h->value : 0;
    weft__error *error = has_failed ? weft__error_clone(h->error) : NULL;
    pthread_mutex_unlock(&handles.lock);
    if (!has_ended)
        weft__diag(LOG_WARNING,
                   "thread #%llu '%s' has not ended; the process ends without this thread",
                   (unsigned long long)id, name);
    if (has_failed)
        weft__diag_unhandled(error, code);
    weft__error_unref(error);
    pthread_mutex_lock(&handles.lock);
}

/*
 * Report and free the handle with index i when the process ends. Return true if the cord has failed
 * or has not ended. The caller must hold the lock. This function releases the lock temporarily.
 */
static bool handle_close_at_exit(uint32_t i, bool has_ended)
{
    const weft__cord_handle *h = handles.by_index[i];
    weft_cord id = h->id;
    bool has_failed = handle_failed_unjoined(h);
    if (has_failed || !has_ended)
        handle_report_at_exit(h, has_ended, has_failed);
    if (handle_find(id) != NULL)
        handle_reap_ended(i);
    return has_failed || !has_ended;
}

bool weft__cord_handles_end_all(const weft__cord_handle *except)
{
    int64_t until_ns = weft__clock_ns() + WEFT__EXIT_GRACE_S * (int64_t)WEFT__NS_PER_S;
    bool have_failed = false, have_ended = true;
    pthread_mutex_lock(&handles.lock);
    do { /* repeat if a cord was started at an index that the loop had passed */
        handles.was_handle_added = false;
        for (uint32_t i = 0; i < HANDLES_MAX; i++) {
            bool has_ended = handle_wait_until(i, except, until_ns);
            have_ended &= has_ended;
            if (handles.by_index[i] != NULL && handles.by_index[i] != except)
                have_failed |= handle_close_at_exit(i, has_ended);
        }
    } while (handles.was_handle_added && have_ended);
    pthread_mutex_unlock(&handles.lock);
    return have_failed;
}

void weft__cord_handles_reset(void)
{
    /* Another thread may have held the lock. */
    handles.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_init(&handles.ended, NULL);
    handles.is_process_ending = false;
    memset(handles.by_index, 0, sizeof handles.by_index);
}
