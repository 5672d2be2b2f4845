/* Remote spawns and remote calls: fibers in other cords, and calls that wait for them. */
#include "support/cord_support.h"
#include "support/suite.h"

#include <semaphore.h>

static weft_cord server; /* the target cord of each test */

static void start_server(void)
{
    server = start_cord(NULL, NULL);
}

/* A test may have ended the server. */
static void end_server(void)
{
    weft_cord_cancel(server);
    weft_value value = weft_cord_join(server);
    ck_assert(value == -ECANCELED || value == -ESRCH);
}

FIXTURE(start_server, end_server)

static void drain_server(void)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_cord_call(server, return_arg, as_arg(i)), i);
}

static weft_value tell_self_and_parent(void *arg)
{
    weft_tell(arg_id(arg), (weft_value)weft_self());
    weft_tell(arg_id(arg), (weft_value)weft_parent(weft_self()));
    return 0;
}

TEST(a_remote_fiber_has_the_id_that_spin_returned_and_main_or_another_fiber_as_its_parent)
{
    weft_fiber fiber = weft_cord_spin(server, tell_self_and_parent, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), (weft_value)fiber);
    ck_assert_int_eq(weft_receive(), (weft_value)server);
    drain_server();
    ck_assert_int_eq(weft_tell(fiber, 1), -ESRCH); /* it has ended */
    ck_assert_int_eq(weft_schedule(fiber, 1), -ESRCH);
    weft_fiber parent = weft_cord_spin(server, sleep_forever, NULL);
    weft_cord_spin_with(server, tell_self_and_parent, id_arg(weft_self()),
                        &(weft_spin_options){.parent = parent});
    weft_receive();
    ck_assert_int_eq(weft_receive(), (weft_value)parent);
}

static weft_value tell_sum(void *arg)
{
    weft_value sum = 0;
    for (int i = 0; i < 3; i++)
        sum += weft_receive();
    return weft_tell(arg_id(arg), sum);
}

TEST(a_remote_spin_does_not_switch)
{
    weft_spin(mark_and_return, "other ");
    weft_cord_spin(server, return_arg, NULL);
    mark("spun ");
    weft_snooze();
    ck_assert_trail("spun other ");
}

static weft_value mark_name(void *arg)
{
    ck_assert_str_eq(weft_name_of(weft_self()), "visitor");
    return weft_tell(*(weft_fiber *)arg, 1);
}

TEST(a_remote_spin_copies_its_options_and_its_argument)
{
    weft_fiber self = weft_self();
    char name[] = "visitor";
    weft_cord_spin_with(server, mark_name, &self,
                        &(weft_spin_options){.name = name, .arg_bytes = sizeof self});
    memset(name, 'x', sizeof name - 1);
    self = 0;
    ck_assert_int_eq(weft_receive(), 1);
}

TEST(an_invalid_remote_spin_is_refused_with_a_message)
{
    ck_assert_uint_eq(weft_cord_spin(server, NULL, NULL), 0);
    ck_assert_any_error(-EINVAL);
    ck_assert_uint_eq(weft_cord_spin(0, suspend, NULL), 0);
    ck_assert_any_error(-ESRCH);
    ck_assert_uint_eq(weft_cord_spin(weft_spin(suspend, NULL), suspend, NULL), 0);
    ck_assert_any_error(-ESRCH);
    weft_spin_options here = {.parent = weft_self()};
    ck_assert_uint_eq(weft_cord_spin_with(server, suspend, NULL, &here), 0);
    ck_assert_any_error(-EXDEV);
    end_server();
    weft_error_clear();
    ck_assert_uint_eq(weft_cord_spin(server, suspend, NULL), 0);
    ck_assert_any_error(-ESRCH);
}

#define BURST (IS_SLOW ? 200 : 1000)

FIBER(tell_self, weft_tell(arg_id(arg), (weft_value)weft_self()))

/* Several rounds, so that reserved ids are used again. */
TEST(a_burst_of_remote_fibers_all_run_with_their_own_ids)
{
    weft_fiber ids[BURST];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BURST; i++)
            ck_assert_uint_ne(ids[i] = weft_cord_spin(server, tell_self, id_arg(weft_self())), 0);
        for (int i = 0; i < BURST; i++) /* in the order of their creation */
            ck_assert_int_eq(weft_receive(), (weft_value)ids[i]);
    }
}

TEST(a_cord_may_spin_into_itself)
{
    weft_fiber fiber = weft_cord_spin(weft_cord_self(), tell_self, id_arg(weft_self()));
    ck_assert_int_eq(weft_tell(fiber, 1), 0);
    ck_assert_int_eq(weft_receive(), (weft_value)fiber);
    ck_assert_int_eq(weft_cord_call(weft_cord_self(), return_arg, as_arg(4)), 4);
}

/* A thread that is not a cord. */
static void *spin_and_tell_from_thread(void *arg)
{
    weft_fiber fiber = weft_cord_spin(server, tell_sum, arg);
    for (int i = 1; i <= 3; i++)
        if (weft_tell(fiber, i) != 0)
            return as_arg(1);
    return NULL;
}

TEST(a_thread_without_fibers_may_spin_and_tell)
{
    pthread_t thread = start_thread(spin_and_tell_from_thread, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 6);
    ck_assert_ptr_null(join_thread(thread));
}

FIBER_DO(fail_in_child, weft_spin(fail_with, arg), weft_sleep(INFINITY))

TEST(a_call_returns_the_error_of_the_fiber_or_its_child_and_the_cord_continues)
{
    static weft_fn *const fns[] = {fail_with, fail_in_child};
    for (int i = 0; i < 2; i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_cord_call(server, fns[i], as_arg(-EIO)), -EIO);
        ck_assert_error(-EIO, "broken");
        ck_assert_int_eq(weft_cord_call(server, return_arg, as_arg(17)), 17);
    }
}

FIBER(call_announce_and_wait, weft_cord_call(server, announce_and_wait, arg))

TEST(a_cord_that_ends_replies_to_its_calls)
{
    weft_fiber caller = weft_spin(call_announce_and_wait, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_schedule(caller, 3), -EBUSY); /* a stray schedule has no effect */
    weft_cord_cancel(server);
    ck_assert_int_eq(weft_await(caller), -ESRCH); /* not -ECANCELED: the caller was not cancelled */
    ck_assert_int_eq(weft_cord_join(server), -ECANCELED);
    ck_assert_int_eq(weft_cord_call(server, return_arg, NULL), -ESRCH);
    ck_assert_any_error(-ESRCH);
}

static atomic_bool has_ended;

static weft_value end_after_shield(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.01);
    atomic_store(&has_ended, true);
    return -ECANCELED;
}

static weft_value call_slow(void *arg)
{
    weft_value rc = weft_cord_call(server, end_after_shield, arg);
    return rc == -ECANCELED && atomic_load(&has_ended) ? -ECANCELED : 1;
}

TEST(a_cancelled_call_returns_after_the_called_fiber_has_ended)
{
    weft_fiber caller = weft_spin(call_slow, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(cancel_and_await(caller), -ECANCELED);
    ck_assert(atomic_load(&has_ended));
}

FIBER_DO(ignore_cancel, weft_tell(arg_id(arg), 1), weft_sleep(INFINITY), 6)

static weft_value call_ignoring(void *arg)
{
    weft_value rc = weft_cord_call(server, ignore_cancel, arg);
    ck_assert_int_eq(weft_sleep(INFINITY), -ECANCELED);
    return rc;
}

TEST(a_deadline_cancels_the_called_fiber_and_fails_the_call_if_it_has_no_result)
{
    ck_assert_times_out(0.001,
                        ck_assert_int_eq(weft_cord_call(server, sleep_forever, NULL), -ECANCELED));
    weft_fiber caller = weft_spin(call_ignoring, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_raise(caller, -EPROTO,
               "discarded"); /* cancels the called fiber, which returns 6 nevertheless */
    ck_assert_int_eq(cancel_and_await(caller), -ECANCELED);
}

static sem_t may_continue;
static atomic_int drops;

static void drop(void *arg)
{
    free(arg);
    atomic_fetch_add(&drops, 1);
    weft_tell(weft_main(), 99);
}

FIBER_DO(sum_of_copy, const int *numbers = arg, numbers[0] + numbers[1])
FIBER_DO(block_thread, sem_wait(&may_continue), *(int *)arg)

TEST(a_cancelled_call_with_a_drop_returns_at_once_and_drops_its_argument_after_the_reply)
{
    sem_init(&may_continue, 0, 0);
    int *arg = malloc(sizeof *arg);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc)
        ck_assert_int_eq(
            weft_cord_call_with(server, block_thread, arg, &(weft_call_options){.drop = drop}),
            -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(drops, 0); /* the server's thread is blocked and cannot have replied */
    sem_post(&may_continue);
    ck_assert_int_eq(weft_receive(), 99);
    ck_assert_int_eq(drops, 1);
}

TEST(a_completed_call_does_not_drop_its_argument_and_may_copy_it)
{
    int numbers[2] = {3, 4};
    weft_call_options o = {.drop = drop};
    ck_assert_int_eq(weft_cord_call_with(server, sum_of_copy, numbers, &o), 7);
    o = (weft_call_options){.arg_bytes = sizeof numbers, .name = "sum"};
    ck_assert_int_eq(weft_cord_call_with(server, sum_of_copy, numbers, &o), 7);
    ck_assert_int_eq(drops, 0);
}

static weft_cord home;

static weft_value call_each_other(void *arg)
{
    weft_value depth = (weft_value)arg;
    if (depth == 0)
        return 0;
    weft_cord target = weft_cord_self() == server ? home : server;
    return 1 + weft_cord_call(target, call_each_other, as_arg(depth - 1));
}

TEST(calls_nest_from_cord_to_cord)
{
    home = weft_cord_self();
    ck_assert_int_eq(weft_cord_call(server, call_each_other, as_arg(20)), 20);
}

TEST(an_invalid_call_is_refused)
{
    ck_assert_int_eq(weft_cord_call(0, return_arg, NULL), -ESRCH);
    ck_assert_int_eq(weft_cord_call(weft_cord_self(), NULL, NULL), -EINVAL);
    WEFT_MOVE_ON_AFTER(0) {
        weft_sleep(1);
        ck_assert_int_eq(weft_cord_call(weft_cord_self(), return_arg, NULL), -ECANCELED);
    }
}
