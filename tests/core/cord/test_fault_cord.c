/*
 * Cords when memory, threads or descriptors are short: each call does all or nothing, everyone who
 * waits gets an answer, and a thread without a backend is still reached.
 */
#include "fault.h"

static weft_value receive_one(void *arg)
{
    (void)arg;
    return weft_receive();
}

/* A cord, or 0 because of a fault. */
static weft_cord start(weft_fn *fn, void *arg)
{
    return require_made(weft_cord_start(fn, arg, NULL));
}

/*
 * Its end, however short memory is: the joining may be refused, or what the cord waits for may have
 * got lost, and it is tried again.
 */
static weft_value join(weft_cord cord)
{
    weft_value value = weft_cord_join(cord), again = -ESRCH;
    if (value == -EDEADLK)
        weft_cord_cancel(cord);
    if (value == -EDEADLK || value == -ENOMEM)
        WITHOUT_FAULTS(again = weft_cord_join(cord));
    return again == -ESRCH ? value : again; /* gone: that was its own error */
}

static bool starting(void)
{
    if (!become_a_cord())
        return false;
    weft_cord cords[3];
    bool is_done = true;
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = start(i == 2 ? NULL : return_arg, as_arg((weft_value)i));
    for (size_t i = 0; i < COUNT_OF(cords); i++) {
        is_done &= cords[i] != 0;
        if (cords[i] == 0)
            continue;
        if (i == 2)
            REQUIRE(weft_cord_cancel(cords[i]) == 0);
        REQUIRE(join(cords[i]) == (i == 2 ? -ECANCELED : (weft_value)i));
        REQUIRE(weft_cord_cancel(cords[i]) == -ESRCH);
    }
    weft_error_clear();
    return is_done;
}

START_TEST(a_cord_is_started_and_joined_or_there_is_none)
{
    strike_each_call(starting);
}
END_TEST

static weft_value call_and_mark(void *arg)
{
    *(int *)arg += 1;
    return 4;
}

static int drops;

static void count_drop(void *arg)
{
    (void)arg;
    drops++;
}

/* fn was called, and its value is here; or it was not, and why is here. */
static bool call_once(weft_cord cord)
{
    int calls = 0;
    weft_value value = weft_cord_call(cord, call_and_mark, &calls);
    REQUIRE(value == 4 || fault_is_told(value));
    REQUIRE(calls == (value == 4));
    return value == 4;
}

static bool call_with_drop(weft_cord cord)
{
    int calls = 0;
    bool has_ended;
    drops = 0;
    weft_value value = weft_cord_call_with(
        cord, call_and_mark, &calls,
        &(weft_call_options){.drop = count_drop, .name = "called", .has_ended = &has_ended});
    REQUIRE(value == 4 || fault_is_told(value));
    REQUIRE(has_ended == (value == 4) && calls == has_ended && drops == !has_ended);
    return has_ended;
}

static bool calling(void)
{
    if (!become_a_cord())
        return false;
    weft_cord cord;
    WITHOUT_FAULTS(cord = start(NULL, NULL));
    bool is_done = true;
    for (int i = 0; i < 3; i++) {
        is_done &= call_once(cord);
        is_done &= call_with_drop(cord);
    }
    weft_error_clear();
    WITHOUT_FAULTS(weft_schedule(cord, 0));
    REQUIRE(join(cord) == 0);
    return is_done;
}

START_TEST(a_call_is_made_or_refused_and_its_argument_dropped_at_once)
{
    strike_each_call(calling);
}
END_TEST

static weft_value tell_arg(void *arg)
{
    return weft_tell(arg_id(arg), 1);
}

/* An id may be given out for a fiber that cannot be made there: that is said, and nobody hangs. */
/* Or the cord has ended already, because a fiber of it could not tell. */
static bool spin_one(weft_cord cord)
{
    if (weft_cord_spin(cord, tell_arg, id_arg(weft_self())) != 0)
        return true;
    const weft_error_info *e = weft_error();
    REQUIRE(e == NULL || fault_is_told(e->code) || e->code == -ESRCH); /* NULL: no memory */
    return false;
}

static bool spinning(void)
{
    if (!become_a_cord())
        return false;
    weft_cord cord;
    WITHOUT_FAULTS(cord = start(NULL, NULL));
    size_t spun = 0;
    for (int i = 0; i < 4; i++)
        spun += spin_one(cord);
    weft_value value;
    WITHOUT_FAULTS(value = weft_cord_call(cord, return_arg, as_arg(2))); /* after them */
    REQUIRE(value == 2 || atomic_load(&fault.struck) > 0);
    WITHOUT_FAULTS(weft_schedule(cord, 0));
    value = join(cord);
    REQUIRE(value == 0 || fault_is_told(value)); /* a fiber there could not tell */
    size_t told_us = 0;
    while (weft_try_receive() == 1)
        told_us++;
    REQUIRE(told_us <= spun);
    REQUIRE(told_us == 4 || atomic_load(&fault.struck) > 0);
    weft_error_clear();
    return told_us == 4 && value == 0;
}

START_TEST(a_fiber_is_spun_in_a_cord_or_not)
{
    strike_each_call(spinning);
}
END_TEST

/* Told or not: and a cord whose backend could not be opened is told, too. */
static bool telling(void)
{
    if (!become_a_cord())
        return false;
    weft_cord cord = start(receive_one, NULL);
    if (cord == 0) {
        weft_error_clear();
        return false;
    }
    int rc = weft_tell(cord, 6);
    if (rc < 0)
        weft_cord_cancel(cord);
    weft_value value = join(cord);
    REQUIRE(rc == 0 || rc == -ESRCH || fault_is_told(rc));
    /* There, it can be lost for want of memory, and then nobody is left to tell anything. */
    bool is_struck = atomic_load(&fault.struck) > 0;
    bool is_lost = value == -ECANCELED || value == -EDEADLK || value == -ENOMEM;
    REQUIRE(value == 6 || (is_struck && is_lost));
    bool is_done = value == 6;
    weft_error_clear();
    return is_done;
}

START_TEST(a_cord_is_told_something_also_without_a_backend)
{
    strike_each_call(telling);
}
END_TEST

static weft_value fail_in_words(void *arg)
{
    (void)arg;
    return weft_fail(-EPIPE, "broken");
}

/* The error is the same, with words or without. */
static bool failing(void)
{
    if (!become_a_cord())
        return false;
    weft_cord cord = start(fail_in_words, NULL);
    if (cord == 0) {
        weft_error_clear();
        return false;
    }
    weft_value value = join(cord);
    REQUIRE(value == -EPIPE);
    bool has_words = weft_error() != NULL && strcmp(weft_error()->message, "broken") == 0;
    REQUIRE(has_words || atomic_load(&fault.struck) > 0);
    weft_error_clear();
    return has_words;
}

START_TEST(an_error_comes_also_if_its_words_do_not)
{
    strike_each_call(failing);
}
END_TEST

static bool serving(void)
{
    if (!become_a_cord())
        return false;
    int rc = weft_serve_cords(2, return_arg, NULL);
    bool is_done = REQUIRE_TOLD(rc);
    weft_error_clear();
    return is_done;
}

START_TEST(several_cords_serve_or_none_is_left)
{
    strike_each_call(serving);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_cord_is_started_and_joined_or_there_is_none,
        &a_call_is_made_or_refused_and_its_argument_dropped_at_once,
        &a_fiber_is_spun_in_a_cord_or_not,
        &a_cord_is_told_something_also_without_a_backend,
        &an_error_comes_also_if_its_words_do_not,
        &several_cords_serve_or_none_is_left,
    };
    return run_suite("fault_cord", tests, COUNT_OF(tests));
}
