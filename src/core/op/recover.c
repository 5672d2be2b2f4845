/*
 * Repair or replace a backend that fails at run time: the program has closed its descriptors, or
 * the kernel refuses what it allowed before. The cord finds out when a poll fails, when it checks,
 * or from a thread that could not wake it (docs/adr/0037).
 */
#include "core/error.h"
#include "core/port.h"
#include "core/report.h"

/* Once per process: all cords have the same trouble. */
static void say_repaired(const weft__backend *b)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_said))
        weft__report("the program has closed descriptors of the %s backend, which has opened new "
                     "ones",
                     b->type->name);
}

static void say_replaced(const weft__backend *old, int error, const weft__backend *b)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_said))
        weft__report("the %s backend has failed: %s; using %s, operations under way end with -EIO",
                     old->type->name, weft__error_text(error), b->type->name);
}

/* End the operations of the old backend, and open the best that opens. The pool goes on. */
static void replace_backend(weft__cord *c, int error)
{
    weft__backend *old = c->backend;
    old->type->give_up(old, -EIO);
    old->retired = c->retired;
    c->retired = old;
    weft__cord_open_backend(c, "");
    weft__finished_hand_over(old, c->backend);
    say_replaced(old, error, c->backend);
    weft__cord_now(c);
}

/*
 * Make another cord check its backend: asleep it would not notice. A cord that was told does not
 * tell others.
 */
static void tell_other(weft__cord *other, void *self)
{
    weft__backend *b = __atomic_load_n(&other->backend, __ATOMIC_ACQUIRE);
    if (other != self && b != NULL && b->type->check != NULL)
        weft__backend_interrupt(b);
}

COLD void weft__cord_recover(weft__cord *c, int error)
{
    weft__backend *b = c->backend;
    bool is_told = atomic_exchange(&b->must_check, false);
    c->checked_ns = c->now_ns;
    if (b->type->repair == NULL)
        return;
    int rc = b->type->repair(b);
    if (rc < 0)
        replace_backend(c, error == -EBADF ? rc : error);
    else
        say_repaired(b);
    if (!is_told)
        weft__port_each(tell_other, c);
}

COLD static int64_t check_backend_now(weft__cord *c, int64_t timeout_ns)
{
    weft__backend *b = c->backend;
    int rc = b->type->check(b);
    c->checked_ns = c->now_ns;
    if (rc == 0) {
        atomic_store(&b->must_check, false);
        return timeout_ns;
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
    if (timeout_ns == 0 || b->type->check == NULL)
        return timeout_ns;
    int64_t left_ns = c->checked_ns + WEFT__CHECK_NS - c->now_ns;
    if (UNLIKELY(left_ns <= 0 || atomic_load_explicit(&b->must_check, memory_order_relaxed)))
        return check_backend_now(c, timeout_ns);
    if (timeout_ns < WEFT__POLL_FOR_EVER) /* WEFT__POLL_REAL: a short wait, which is repeated */
        return timeout_ns;
    return timeout_ns < 0 || timeout_ns > left_ns ? left_ns : timeout_ns;
}
