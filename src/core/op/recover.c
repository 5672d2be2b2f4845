/*
 * Repair or replace a backend that fails at run time. The program may have closed descriptors of
 * the backend. Operations that were allowed before may be forbidden. A cord detects a failure in a
 * poll or in a check of the descriptors. A thread that fails to wake the cord requests a check
 * (docs/adr/0037).
 */
#include "core/op/recover.h"

#include "core/cord/registry.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"

/* Print the message once per process, because the failure affects all cords. */
static void diag_repaired(const weft__backend *b)
{
    static atomic_flag was_printed = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&was_printed))
        weft__diag(LOG_WARNING,
                   "the program has closed descriptors of the %s backend; the backend has opened "
                   "new descriptors",
                   b->type->name);
}

static void diag_replaced(const weft__backend *old, int error, const weft__backend *b)
{
    static atomic_flag was_printed = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&was_printed))
        weft__diag(LOG_ERR,
                   "the %s backend has failed: %s; using %s; pending operations fail with -EIO",
                   old->type->name, weft__error_text(error), b->type->name);
}

/*
 * End the operations of the old backend, and open the best backend that works. Calls that are
 * running in worker threads continue.
 */
static void replace_backend(weft__cord *c, int error)
{
    weft__backend *old = c->backend;
    old->type->give_up(old, -EIO);
    old->retired = c->retired;
    c->retired = old;
    weft__cord_open_backend(c, "");
    weft__backend_take_over(c->backend, old, error);
    weft__cord_now(c);
}

void weft__backend_take_over(weft__backend *b, weft__backend *old, int error)
{
    weft__finished_jobs_hand_over(old, b);
    diag_replaced(old, error, b);
}

int weft__backend_repair(weft__backend *b, int error)
{
    atomic_store(&b->must_check, false);
    int rc = b->type->repair != NULL ? b->type->repair(b) : 0;
    if (rc < 0)
        return error == -EBADF ? rc : error;
    if (b->type->repair != NULL)
        diag_repaired(b);
    return 0;
}

/*
 * Request that another cord check its backend. A sleeping cord would not detect the failure. A cord
 * that checks on request does not request checks of other cords.
 */
static void cord_request_check(weft__cord *other, void *self)
{
    weft__backend *b = __atomic_load_n(&other->backend, __ATOMIC_ACQUIRE);
    if (other != self && b != NULL && b->type->check != NULL)
        weft__backend_interrupt(b);
}

void weft__cords_request_check(weft__cord *except)
{
    weft__registry_each(cord_request_check, except);
}

COLD void weft__cord_recover(weft__cord *c, int error)
{
    weft__backend *b = c->backend;
    bool is_requested = atomic_load(&b->must_check);
    c->checked_ns = c->now_ns;
    int rc = weft__backend_repair(b, error);
    if (rc < 0)
        replace_backend(c, rc);
    if (!is_requested && b->type->repair != NULL)
        weft__cords_request_check(c);
}

/* Limit a timeout, which may be WEFT__POLL_FOREVER. */
static int64_t timeout_limit(int64_t timeout_ns, int64_t max_ns)
{
    return timeout_ns < 0 || timeout_ns > max_ns ? max_ns : timeout_ns;
}

COLD static int64_t check_backend_now(weft__cord *c, int64_t timeout_ns)
{
    weft__backend *b = c->backend;
    weft__stats_publish(c);
    int rc = b->type->check(b);
    c->checked_ns = c->now_ns;
    if (rc == 0) {
        atomic_store(&b->must_check, false);
        /* While accounting, publish the idle time regularly, even if the thread waits forever. */
        return c->is_accounting ? timeout_limit(timeout_ns, WEFT__CHECK_NS) : timeout_ns;
    }
    weft__cord_recover(c, rc);
    return 0;
}

COLD void weft__cord_check_now(weft__cord *c)
{
    if (c->backend->type->check != NULL)
        check_backend_now(c, 0);
}

int64_t weft__cord_check_backend(weft__cord *c, int64_t timeout_ns)
{
    const weft__backend *b = c->backend;
    if (timeout_ns == 0)
        return 0;
    if (b->type->check == NULL) {
        /* A virtual clock jumps to the end of a finite wait. */
        bool is_jump = timeout_ns > 0 && weft__backend_is_virtual(b);
        if (!is_jump || c->now_ns >= c->stats.due_ns)
            weft__stats_publish(c);
        return timeout_ns;
    }
    int64_t left_ns = c->checked_ns + WEFT__CHECK_NS - c->now_ns;
    if (UNLIKELY(left_ns <= 0 || atomic_load_explicit(&b->must_check, memory_order_relaxed)))
        return check_backend_now(c, timeout_ns);
    if (timeout_ns < WEFT__POLL_FOREVER) { /* WEFT__POLL_REAL: the wait is short and is repeated */
        weft__stats_publish(c);
        return timeout_ns;
    }
    return timeout_limit(timeout_ns, left_ns);
}
