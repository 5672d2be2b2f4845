/* Monitors of owned names. */
#include "hub/names/names_support.h"

static weft_hub *a, *b;

static void open_two(void)
{
    a = open_hub_at(hub_where(), &(weft_hub_options){.name = "a"});
    b = open_hub_at(hub_where(), &(weft_hub_options){.name = "b"});
}

static void close_two(void)
{
    close_hub(a);
    close_hub(b);
}

FIXTURE(open_two, close_two)

TEST(a_monitor_is_told_once_when_the_owner_withdraws_the_name)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room", 17));
    ck_assert_int_eq(receive_soon(1.5), -ECANCELED);
    ck_assert_done(weft_hub_withdraw(a, "room"));
    ck_assert_int_eq(receive_soon(PATIENCE_S), 17);
    ck_assert_int_eq(receive_soon(1.5), -ECANCELED);
    cancel_and_await(f);
}

TEST(a_monitor_is_told_when_the_hub_of_the_owner_ends)
{
    weft_hub *c = open_hub();
    weft_fiber f = spin_server("c");
    uint64_t token;
    ck_assert_done(weft_hub_expose(c, "room.1", f, &token));
    ck_assert_done(weft_hub_expose(c, "room.2", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room.1", 1));
    ck_assert_done(weft_hub_monitor(b, "room.2", 2));
    close_hub(c);
    weft_value first = receive_soon(PATIENCE_S), second = receive_soon(PATIENCE_S);
    ck_assert_int_eq(first + second, 3);
    cancel_and_await(f);
}

TEST(a_monitor_is_told_when_the_name_changes_its_owner)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room", 1));
    ck_assert_done(weft_hub_withdraw(a, "room"));
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room", 2));
    ck_assert_int_eq(receive_soon(PATIENCE_S), 1);
    ck_assert_int_eq(receive_soon(1.5), -ECANCELED);
    cancel_and_await(f);
}

TEST(a_fiber_that_stops_to_monitor_is_not_told)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room.1", f, &token));
    ck_assert_done(weft_hub_expose(a, "room.2", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room.1", 1));
    ck_assert_done(weft_hub_monitor(b, "room.2", 2));
    ck_assert_done(weft_hub_unmonitor(b, "room.1"));
    ck_assert_fails(weft_hub_unmonitor(b, "room.1"), -ENOENT);
    cancel_and_await(f);
    ck_assert_int_eq(receive_soon(PATIENCE_S), 2);
    ck_assert_int_eq(receive_soon(1.5), -ECANCELED);
}

TEST(a_full_mailbox_delays_the_message)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room", 5));
    ck_assert_done(weft_mailbox_set_bound(1));
    ck_assert_done(weft_tell(weft_self(), 1));
    cancel_and_await(f);
    weft_sleep(2);
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(receive_soon(PATIENCE_S), 5);
}

static weft_value monitor_and_end(void *arg)
{
    return weft_hub_monitor(arg, "room", 1);
}

TEST(a_monitor_ends_with_its_fiber)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_await(weft_spin(monitor_and_end, b)));
    cancel_and_await(f);
    weft_sleep(0.5);
}

TEST(a_name_without_an_owner_cannot_be_monitored)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_fails(weft_hub_monitor(b, "room", 1), -ESRCH);
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_fails(weft_hub_monitor(b, "room", -EIO), -EINVAL);
    ck_assert_fails(weft_hub_monitor(b, "*", 1), -EINVAL);
    ck_assert_done(weft_hub_withdraw(a, "room"));
    ck_assert_fails(weft_hub_monitor(b, "room", 1), -ESRCH);
    ck_assert_fails(weft_hub_unmonitor(b, "room"), -ENOENT);
    ck_assert_done(weft_hub_expose(a, "shared", f, NULL));
    ck_assert_fails(weft_hub_monitor(b, "shared", 1), -ESRCH);
    cancel_and_await(f);
}
