/* Tests of mailboxes: order, bounds, and messages at the end of the sender or the receiver. */
#include "support/suite.h"

static void mark_number(const char *what, weft_value n)
{
    char text[32];
    snprintf(text, sizeof text, "%s%ld ", what, (long)n);
    mark(text);
}

/* The fiber that the fibers below send to. */
static weft_fiber receiver;

static weft_value tell_receiver(void *arg)
{
    int rc = weft_tell(receiver, (weft_value)arg);
    if (rc == 0)
        mark_number("t", (weft_value)arg);
    return rc;
}

/* Spin fibers that send the messages 1 to n. Store their ids in f, if f is not NULL. */
static void spin_tellers(int n, weft_fiber *f)
{
    for (int i = 0; i < n; i++) {
        weft_fiber teller = weft_spin(tell_receiver, as_arg(i + 1));
        if (f != NULL)
            f[i] = teller;
    }
    let_run();
}

/* Bound the mailbox to arg messages. Receive one message each time the fiber is scheduled. */
static weft_value receive_when_scheduled(void *arg)
{
    if (weft_mailbox_set_bound((size_t)arg) < 0)
        return -ENOMEM;
    for (;;) {
        weft_value rc = weft_suspend();
        if (rc < 0 || rc == 99)
            return rc;
        mark_number("r", weft_receive());
    }
}

static void schedule_receiver(weft_value value)
{
    ck_assert_int_eq(weft_schedule(receiver, value), 0);
    let_run();
}

TEST(messages_sent_before_the_fiber_runs_are_stored)
{ /* P49 */
    weft_fiber f = weft_spin(receive_one, NULL);
    ck_assert_int_eq(weft_tell(f, 7), 0);
    ck_assert_int_eq(weft_mailbox_count(f), 1);
    ck_assert_int_eq(weft_await(f), 7);
    f = weft_new(receive_one, NULL);
    ck_assert_int_eq(weft_tell(f, 8), 0);
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_int_eq(weft_await(f), 8);
}

TEST(a_fiber_that_waits_for_a_message_gets_it_directly)
{ /* P49 */
    weft_fiber f = spin_waiting(receive_one, NULL);
    ck_assert_str_eq(info_of(f).waits_for, "a message");
    ck_assert_int_eq(weft_try_tell(f, 5), 0);
    ck_assert_int_eq(weft_mailbox_count(f), 0);
    ck_assert_int_eq(weft_tell(f, 6), 0); /* this message stays */
    ck_assert_int_eq(weft_mailbox_count(f), 1);
    ck_assert_int_eq(weft_await(f), 5);
}

TEST(an_error_code_is_not_a_message_but_makes_a_suspended_fiber_fail)
{ /* P49 */
    weft_fiber self = weft_self();
    ck_assert_int_eq(weft_tell(self, -EIO), -EINVAL);
    ck_assert_error(-EINVAL, "weft_tell: value -5 is an error code");
    ck_assert_int_eq(weft_try_tell(self, -4095), -EINVAL);
    ck_assert_int_eq(weft_tell(self, -4096), 0);
    ck_assert_int_eq(weft_receive(), -4096);
    weft_fiber f = spin_suspended();
    ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
}

TEST(a_message_does_not_wake_a_fiber_that_waits_for_something_else)
{
    weft_fiber sleeper = spin_sleeping(), suspended = spin_suspended();
    ck_assert_int_eq(weft_tell(sleeper, 1), 0);
    ck_assert_int_eq(weft_tell(suspended, 2), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(sleeper), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(suspended), WEFT_WAITING);
    ck_assert_int_eq(weft_mailbox_count(suspended), 1);
    weft_fiber f = spin_waiting(receive_one, NULL);
    ck_assert_int_eq(weft_schedule(f, 3), -EBUSY); /* a scheduled value is not a message */
    ck_assert_int_eq(weft_interrupt(f, -4), 0);
    ck_assert_int_eq(weft_await(f), -4);
    weft_cancel(sleeper);
    weft_schedule(suspended, 5);
    ck_assert_int_eq(weft_await(suspended), 5);
}

TEST(telling_a_fiber_that_has_ended_is_refused)
{
    weft_fiber f = weft_spin(return_arg, NULL);
    let_run();
    ck_assert_int_eq(weft_tell(f, 1), -ESRCH);
    ck_assert_int_eq(weft_try_tell(f, 1), -ESRCH);
    ck_assert_int_eq(weft_mailbox_count(f), -ESRCH);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_tell(f, 1), -ESRCH);
    ck_assert_int_eq(weft_try_tell(f, 1), -ESRCH);
    ck_assert_int_eq(weft_tell(0, 1), -ESRCH);
}

TEST(all_available_messages_are_received_without_waiting)
{ /* P50 */
    weft_value out[5] = {0};
    ck_assert_uint_eq(weft_receive_all(out, 5), 0);
    for (int i = 1; i <= 7; i++)
        weft_tell(weft_self(), i);
    weft_spin(mark_and_return, "switched");
    ck_assert_uint_eq(weft_receive_all(out, 5), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(out[i], i + 1);
    ck_assert_uint_eq(weft_receive_all(out, 5), 2);
    ck_assert_int_eq(out[1], 7);
    ck_assert_uint_eq(weft_receive_all(out, 5), 0);
    ck_assert_trail("");
}

static void drain_mailbox(void *arg)
{
    weft_value out[8];
    *(size_t *)arg = weft_receive_all(out, 8);
}

FIBER_DO(drain_at_the_end, weft_defer(drain_mailbox, arg), weft_suspend())

static weft_value receive_in_cleanup(void *arg)
{
    weft_value rc = weft_suspend();
    ck_assert_int_eq(rc, -ECANCELED);
    for (int i = 1; i <= 5; i++)
        ck_assert_int_eq(weft_receive(), i);
    *(weft_value *)arg = weft_receive();
    return rc;
}

TEST(an_ending_fiber_can_still_receive_its_messages)
{ /* P50, T41 */
    size_t drained = 0;
    weft_value sixth = 0;
    weft_fiber f[2] = {weft_spin(drain_at_the_end, &drained),
                       weft_spin(receive_in_cleanup, &sixth)};
    let_run();
    for (int i = 1; i <= 5; i++) {
        weft_tell(f[0], i);
        weft_tell(f[1], i);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_terminate(f[i], 1), 0);
    ck_assert_uint_eq(drained, 5);
    ck_assert_int_eq(sixth, -ECANCELED);
}

static weft_value change_bound(void *arg)
{
    weft_mailbox_set_bound(1);
    for (weft_value next = weft_suspend(); next >= 0; next = weft_suspend())
        if (weft_mailbox_set_bound((size_t)next) < 0)
            return -ENOMEM;
    weft_value out[8];
    *(size_t *)arg = weft_receive_all(out, 8);
    return out[0] * 100000 + out[1] * 10000 + out[2] * 1000 + out[3] * 100 + out[4] * 10 + out[5];
}

TEST(a_higher_bound_admits_waiting_senders_and_no_bound_admits_all)
{ /* P51 */
    size_t taken = 0;
    receiver = spin_waiting(change_bound, &taken);
    spin_tellers(6, NULL);
    ck_assert_trail("t1 ");
    schedule_receiver(3);
    ck_assert_trail("t1 t2 t3 ");
    schedule_receiver(2);
    ck_assert_trail("t1 t2 t3 ");
    schedule_receiver(0);
    ck_assert_trail("t1 t2 t3 t4 t5 t6 ");
    weft_schedule(receiver, -EINTR);
    ck_assert_int_eq(weft_await(receiver), 123456);
    ck_assert_uint_eq(taken, 6);
}

TEST(a_waiting_sender_gets_an_error_when_the_receiver_ends)
{
    receiver = spin_waiting(receive_when_scheduled, as_arg(1));
    weft_fiber f[4];
    spin_tellers(4, f);
    weft_info info = info_of(f[1]);
    ck_assert_str_eq(info.waits_for, "space in the mailbox of");
    ck_assert_uint_eq(info.waits_for_fiber, receiver);
    weft_schedule(receiver, 99);
    ck_assert_int_eq(weft_await(receiver), 99);
    ck_assert_int_eq(weft_await(f[0]), 0);
    for (int i = 1; i < 4; i++)
        ck_assert_int_eq(weft_await(f[i]), -ESRCH);
    ck_assert_trail("t1 ");
}

/* Sleep in the first run. Receive all messages in the second run. */
static weft_value receive_in_the_second_run(void *arg)
{
    if (++*(int *)arg == 1) {
        weft_mailbox_set_bound(2);
        return weft_sleep(INFINITY);
    }
    weft_value v;
    while ((v = weft_receive()) >= 0)
        mark_number("r", v);
    return v;
}

TEST(messages_of_waiting_senders_reach_the_next_run_of_a_restarted_fiber)
{ /* P30, P51 */
    int runs = 0;
    receiver = spin_waiting(receive_in_the_second_run, &runs);
    spin_tellers(5, NULL);
    ck_assert_trail("t1 t2 ");
    ck_assert_int_eq(weft_restart(receiver), 0);
    let_run();
    ck_assert_trail("t1 t2 r3 r4 r5 t3 t4 t5 ");
    cancel_and_await(receiver);
}

TEST(a_new_fiber_does_not_have_the_messages_of_a_previous_fiber)
{
    for (int i = 0; i < 10; i++) {
        weft_fiber f = spin_suspended();
        ck_assert_int_eq(weft_mailbox_count(f), 0);
        ck_assert_int_eq(weft_tell(f, 1), 0);
        weft_schedule(f, 0);
        ck_assert_int_eq(weft_await(f), 0);
    }
}

static weft_value tell_in_cleanup(void *arg)
{
    weft_suspend();
    ck_assert_int_eq(weft_tell(arg_id(arg), 1), 0);
    ck_assert_int_eq(weft_tell(weft_parent(weft_self()), 2), 0);
    return 0;
}

FIBER_DO(spin_child_that_tells, weft_spin(tell_in_cleanup, arg), weft_suspend())

TEST(children_can_tell_a_fiber_that_waits_for_their_end)
{
    weft_fiber f = weft_spin(spin_child_that_tells, id_arg(weft_self()));
    let_run();
    weft_schedule(f, 9);
    ck_assert_int_eq(weft_await(f), 9);
    ck_assert_int_eq(weft_try_receive(), 1);
}
