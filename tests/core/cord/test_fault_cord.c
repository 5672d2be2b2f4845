/*
 * Cords with failing allocations, threads and descriptors. Each call has its full effect or none,
 * each waiter gets a result, and a cord without a backend can be reached.
 */
#include "support/fault.h"
#include "support/suite.h"

/* Return a cord, or 0 because of a fault. */
static weft_cord start_cord_or_fault(weft_fn *fn, void *arg)
{
    return require_created(weft_cord_start(fn, arg, NULL));
}

/*
 * Return the value of a cord despite faults. If the join fails or the cord is in a deadlock, join
 * again without faults.
 */
static weft_value join_cord_or_fault(weft_cord cord)
{
    weft_value value = weft_cord_join(cord), again = -ESRCH;
    if (value == -EDEADLK)
        weft_cord_cancel(cord);
    if (value == -EDEADLK || value == -ENOMEM)
        WITHOUT_FAULTS(again = weft_cord_join(cord));
    return again == -ESRCH ? value : again; /* already joined: value is the cord's own error */
}

TEST_FAULTS(a_cord_is_started_and_joined_or_not_created)
{
    weft_cord cords[3];
    bool is_done = true;
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = start_cord_or_fault(i == 2 ? NULL : return_arg, as_arg((weft_value)i));
    for (size_t i = 0; i < COUNT_OF(cords); i++) {
        is_done &= cords[i] != 0;
        if (cords[i] == 0)
            continue;
        if (i == 2)
            REQUIRE(weft_cord_cancel(cords[i]) == 0);
        REQUIRE(join_cord_or_fault(cords[i]) == (i == 2 ? -ECANCELED : (weft_value)i));
        REQUIRE(weft_cord_cancel(cords[i]) == -ESRCH);
    }
    return is_done;
}

FIBER_DO(call_and_count, *(int *)arg += 1, 4)

static int drops;

CALLBACK(count_drop, drops++)

/*
 * Either fn was called and its value is returned, or it was not called and the error is returned.
 */
static bool call_once(weft_cord cord)
{
    int calls = 0;
    weft_value value = weft_cord_call(cord, call_and_count, &calls);
    REQUIRE(value == 4 || fault_explains(value));
    REQUIRE(calls == (value == 4));
    return value == 4;
}

static bool call_with_drop(weft_cord cord)
{
    int calls = 0;
    bool has_ended;
    drops = 0;
    weft_value value = weft_cord_call_with(
        cord, call_and_count, &calls,
        &(weft_call_options){.drop = count_drop, .name = "called", .has_ended = &has_ended});
    REQUIRE(value == 4 || fault_explains(value));
    REQUIRE(has_ended == (value == 4) && calls == has_ended && drops == !has_ended);
    return has_ended;
}

TEST_FAULTS(a_call_is_made_or_its_argument_is_dropped_at_once)
{
    weft_cord cord;
    WITHOUT_FAULTS(cord = start_cord_or_fault(NULL, NULL));
    bool is_done = true;
    for (int i = 0; i < 3; i++) {
        is_done &= call_once(cord);
        is_done &= call_with_drop(cord);
    }
    weft_error_clear();
    WITHOUT_FAULTS(weft_schedule(cord, 0));
    REQUIRE(join_cord_or_fault(cord) == 0);
    return is_done;
}

FIBER(tell_arg, weft_tell(arg_id(arg), 1))

/*
 * A fiber may fail to be created in the cord after its id was returned. This is reported, and no
 * fiber hangs.
 */
/* Spin one fiber. It may fail with -ESRCH, if the cord has ended because a fiber could not tell. */
static bool spin_tell_arg(weft_cord cord)
{
    if (weft_cord_spin(cord, tell_arg, id_arg(weft_self())) != 0)
        return true;
    const weft_error_info *e = weft_error();
    REQUIRE(e == NULL || fault_explains(e->code) ||
            e->code == -ESRCH); /* NULL: no memory for the error */
    return false;
}

TEST_FAULTS(a_remote_spin_creates_a_fiber_or_fails)
{
    weft_cord cord;
    WITHOUT_FAULTS(cord = start_cord_or_fault(NULL, NULL));
    size_t spun = 0;
    for (int i = 0; i < 4; i++)
        spun += spin_tell_arg(cord);
    weft_value value;
    /* Arrives after the spins. */
    WITHOUT_FAULTS(value = weft_cord_call(cord, return_arg, as_arg(2)));
    REQUIRE(value == 2 || atomic_load(&fault.injected) > 0);
    WITHOUT_FAULTS(weft_schedule(cord, 0));
    value = join_cord_or_fault(cord);
    REQUIRE(value == 0 || fault_explains(value)); /* a fiber in the cord could not tell */
    size_t received = 0;
    while (weft_try_receive() == 1)
        received++;
    REQUIRE(received <= spun);
    REQUIRE(received == 4 || atomic_load(&fault.injected) > 0);
    return received == 4 && value == 0;
}

/* A message is told or refused, also to a cord that could not open its backend. */
TEST_FAULTS(a_cord_without_a_backend_receives_messages)
{
    weft_cord cord = start_cord_or_fault(receive_one, NULL);
    if (cord == 0) {
        weft_error_clear();
        return false;
    }
    int rc = weft_tell(cord, 6);
    if (rc < 0)
        weft_cord_cancel(cord);
    weft_value value = join_cord_or_fault(cord);
    REQUIRE(rc == 0 || rc == -ESRCH || fault_explains(rc));
    /* The cord may lose the message for lack of memory. Then no fiber can wake it. */
    bool has_faults = atomic_load(&fault.injected) > 0;
    bool is_lost = value == -ECANCELED || value == -EDEADLK || value == -ENOMEM;
    REQUIRE(value == 6 || (has_faults && is_lost));
    bool is_done = value == 6;
    return is_done;
}

FIBER(fail_with_message, weft_fail(-EPIPE, "broken"))

/* The join returns the error, with or without its message. */
TEST_FAULTS(an_error_arrives_even_without_its_message)
{
    weft_cord cord = start_cord_or_fault(fail_with_message, NULL);
    if (cord == 0) {
        weft_error_clear();
        return false;
    }
    weft_value value = join_cord_or_fault(cord);
    REQUIRE(value == -EPIPE);
    bool has_message = weft_error() != NULL && strcmp(weft_error()->message, "broken") == 0;
    REQUIRE(has_message || atomic_load(&fault.injected) > 0);
    return has_message;
}

TEST_FAULTS(serving_cords_all_start_or_none_is_left)
{
    int rc = weft_serve_cords(2, return_arg, NULL);
    bool is_done = REQUIRE_OR_FAULT(rc);
    return is_done;
}
