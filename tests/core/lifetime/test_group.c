/* Tests of groups: fibers that end with a block, and the first error, which cancels all members. */
#include "core/lifetime/group_support.h"
#include "support/suite.h"

#include <malloc.h>

TEST(leaving_a_block_waits_for_its_fibers)
{ /* P32 */
    int rc = 1;
    weft_fiber a = 0, b = 0;
    WEFT_GROUP(g, rc) {
        a = weft_group_spin(&g, sleep_then_mark_if_slept, "a");
        b = weft_group_spin(&g, mark_and_return, "b");
        ck_assert_uint_eq(weft_group_count(&g), 2);
        ck_assert_uint_eq(weft_parent(a), weft_self());
        weft_snooze();
        ck_assert_uint_eq(weft_group_count(&g), 1);
        mark("body ");
    }
    mark(" after");
    ck_assert_int_eq(rc, 0);
    ck_assert_trail("bbody a after");
    ck_assert_int_eq(weft_state_of(a), WEFT_DEAD);
    ck_assert_int_eq(weft_await(b), -ESRCH); /* nothing remains of them */
}

FIBER(cancel_group, weft_group_cancel(arg))

/* A member is a function and its argument. The group is the argument of cancel_group. */
static const struct {
    const char *sentence;
    struct {
        weft_fn *fn;
        const char *text;
        int code;
    } members[4];
    const char *trail;
    int rc;
    enum { NEVER, FIRST, LAST } cancel; /* when the opener cancels the group */
} member_rows[] = {
    {"of two errors the first counts", /* P18 */
     {{fail_when_cancelled, NULL, -EPIPE}, {fail_with, NULL, -EIO}, {fail_with, NULL, -EBADF}},
     "failed ",
     -EIO},
    {"an error after the end of the body cancels the others too", /* P32 */
     {{mark_when_cancelled, "1"}, {snooze_and_fail, NULL, -EIO}, {mark_when_cancelled, "2"}},
     "12",
     -EIO},
    {"a cancelled group ends without an error", /* P16 */
     {{mark_when_cancelled, "1"}, {mark_when_cancelled, "2"}},
     "12",
     0,
     LAST},
    {"a member may cancel its group while the caller waits for it",
     {{mark_when_cancelled, "1"}, {cancel_group}, {mark_when_cancelled, "never ran"}},
     "1",
     0},
    {"in a cancelled group a new fiber never runs", /* P23 */
     {{mark_and_return, "ran"}},
     "",
     0,
     FIRST},
    {"the first error of cancelled members is the result", /* P18 */
     {{fail_when_cancelled, NULL, -EIO},
      {fail_when_cancelled, NULL, -EPIPE},
      {mark_after_shield, "slow"}},
     "failed failed slow",
     -EIO,
     LAST},
};

TEST_ROWS(the_members_of_each_row_end_with_its_trail_and_its_result, member_rows)
{
    weft_group g;
    ck_assert_int_eq(weft_group_open(&g), 0);
    if (member_rows[_i].cancel == FIRST)
        weft_group_cancel(&g);
    for (size_t i = 0; i < 4 && member_rows[_i].members[i].fn != NULL; i++) {
        const char *text = member_rows[_i].members[i].text;
        weft_fn *fn = member_rows[_i].members[i].fn;
        weft_group_spin(&g, fn,
                        fn == cancel_group ? &g
                        : text != NULL     ? (void *)text
                                           : as_arg(member_rows[_i].members[i].code));
    }
    if (member_rows[_i].cancel == LAST) {
        weft_snooze();
        ck_assert_int_eq(weft_group_cancel(&g), 0);
        ck_assert_int_eq(weft_group_cancel(&g), 0);
        ck_assert_trail("");
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_msg(weft_group_close(&g) == member_rows[_i].rc, "%s", member_rows[_i].sentence);
    ck_assert_trail(member_rows[_i].trail);
    if (member_rows[_i].rc < 0)
        ck_assert_any_error(member_rows[_i].rc);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(a_group_without_live_fibers_is_closed_without_a_switch)
{
    int rc = 1;
    weft_fiber f = weft_spin(mark_and_return, "switched");
    WEFT_GROUP(g, rc) {}
    ck_assert_int_eq(rc, 0);
    ck_assert_trail("");
    weft_await(f);
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, return_arg, as_arg(3));
        weft_snooze();
        weft_spin(mark_and_return, "switched");
        clear_trail();
    }
    ck_assert_trail("");
}

static weft_value snooze_and_fail_twice(void *arg)
{
    weft_snooze();
    weft_set_name(weft_self(), "source");
    weft_fail(-ENOENT, "no such file");
    return weft_fail(-EIO, "cannot start");
}

TEST(the_first_error_cancels_the_other_members_in_order_and_then_the_block)
{ /* P32, P16 */
    int rc = 1;
    weft_fiber outside = spin_suspended(), source = 0;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, mark_when_cancelled, "1");
        weft_group_spin(&g, mark_when_cancelled, "2");
        source = weft_group_spin(&g, snooze_and_fail_twice, NULL);
        weft_group_spin(&g, mark_when_cancelled, "3");
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        mark(" block");
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        ck_assert_uint_eq(weft_group_count(&g), 0);
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_error(-EIO, "cannot start");
    ck_assert_uint_eq(weft_error()->fiber, source);
    ck_assert_str_eq(weft_error()->fiber_name, "source");
    ck_assert_int_eq(weft_error()->cause->code, -ENOENT);
    ck_assert_trail("123 block");
    ck_assert_int_eq(weft_snooze(), 0); /* the error is reported once */
    ck_assert_int_eq(weft_state_of(outside), WEFT_WAITING);
}

static weft_value fail_in_a_group(void *arg)
{
    WEFT_GROUP(g)
        weft_group_spin(&g, fail_with, arg);
    return 5;
}

TEST(without_a_result_variable_the_error_is_raised_in_the_caller)
{ /* P32, P20: once, with the message, and also when the block is left early */
    for (int i = 0; i < 2; i++) {
        WEFT_GROUP(g) {
            weft_group_spin(&g, fail_with, as_arg(-EIO));
            if (i == 1)
                break;
            weft_sleep(60);
        }
        weft_error_clear();
        ck_assert(weft_is_cancelled());
        ck_assert_int_eq(weft_snooze(), -EIO);
        ck_assert_error(-EIO, "broken");
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(weft_await(weft_spin(fail_in_a_group, as_arg(-EIO))), -EIO); /* unhandled */
    ck_assert_error(-EIO, "broken");
}

TEST(an_error_in_an_inner_group_does_not_touch_the_outer_one_which_cancels_the_inner_one)
{ /* P32 */
    int inner = 1, outer = 1;
    WEFT_GROUP(g, outer) {
        weft_group_spin(&g, sleep_then_mark_if_slept, "outer ");
        WEFT_GROUP(h, inner) {
            weft_group_spin(&h, mark_when_cancelled, "inner ");
            weft_group_spin(&h, fail_with, as_arg(-EIO));
            ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        }
        ck_assert_int_eq(inner, -EIO);
        ck_assert_uint_eq(weft_group_count(&g), 1);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(outer, 0);
    ck_take_trail("inner outer ");
    WEFT_GROUP(g, outer) {
        weft_group_spin(&g, snooze_and_fail, as_arg(-EIO));
        WEFT_GROUP(h, inner)
            weft_group_spin(&h, mark_when_cancelled, "inner");
        ck_assert_int_eq(inner, -ECANCELED);
        ck_assert_trail("inner");
    }
    ck_assert_int_eq(outer, -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(awaiting_a_member_does_not_hide_its_error_from_the_group)
{ /* P34 */
    int rc = 1;
    weft_fiber waiter = 0;
    WEFT_GROUP(g, rc) {
        ck_assert_int_eq(weft_await(weft_group_spin(&g, return_arg, as_arg(7))), 7);
        waiter = weft_spin(await_fiber, id_arg(weft_group_spin(&g, suspend, NULL)));
        weft_await(weft_group_spin(&g, snooze_and_fail, as_arg(-EIO)));
        ck_assert_error(-EIO, "broken");
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_int_eq(weft_await(waiter), -ECANCELED);
}

FIBER(detach_fiber, weft_detach(arg_id(arg)))

TEST(a_detached_member_is_not_waited_for_and_its_error_goes_to_its_new_parent)
{ /* P27 */
    int rc = 1;
    weft_fiber f = 0;
    WEFT_GROUP(g, rc) {
        f = weft_group_spin(&g, suspend, NULL);
        weft_snooze();
        ck_assert_int_eq(weft_detach(f), 0);
        ck_assert_uint_eq(weft_group_count(&g), 0);
        /* The group waits for its last member, which is detached then. */
        weft_spin(detach_fiber, id_arg(weft_group_spin(&g, suspend, NULL)));
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(weft_schedule(f, -EPIPE), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), -EPIPE);
}

TEST(a_cancelled_or_stopped_member_is_not_an_error_of_the_group)
{ /* T27 */
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_fiber f = weft_group_spin(&g, suspend, NULL);
        weft_fiber h = weft_group_spin(&g, suspend, NULL);
        weft_fiber fresh = weft_group_spin(&g, mark_and_return, "ran");
        weft_cancel(fresh);
        weft_snooze();
        weft_cancel(f);
        weft_stop(h, -EIO);
        ck_assert_int_eq(weft_snooze(), 0);
        ck_assert_uint_eq(weft_group_count(&g), 0);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_trail("");
}

static int counted;

FIBER_DO(count_one, weft_snooze(), counted++, 0)

TEST(many_members_end_with_their_group_and_with_one_error)
{ /* P28 */
    int rc = 1;
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < MANY_FIBERS; i++)
            ck_assert_uint_ne(weft_group_spin(&g, count_one, NULL), 0);
        ck_assert_uint_eq(weft_group_count(&g), MANY_FIBERS);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(counted, MANY_FIBERS);
    WEFT_GROUP(g, rc) {
        for (int i = 1; i < MANY_FIBERS; i++)
            weft_group_spin(&g, suspend, NULL);
        weft_group_spin(&g, snooze_and_fail, as_arg(-EIO));
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_uint_eq(stats().fibers, 0);
}

static weft_group *deep_group;

static weft_value spin_two_more(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    counted++;
    ck_assert_uint_eq(weft_parent(weft_self()), weft_main()); /* the opener */
    for (int i = 0; i < 2 && depth > 0; i++)
        ck_assert_uint_ne(weft_group_spin(deep_group, spin_two_more, as_arg(depth - 1)), 0);
    return weft_snooze();
}

TEST(a_member_may_spin_more_members_also_while_the_group_is_being_closed)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        deep_group = &g;
        weft_group_spin(&g, spin_two_more, as_arg(5));
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(counted, 63);
}

TEST(a_thousand_groups_leak_no_memory)
{
    size_t before = 0;
    for (int i = 0; i < 1100; i++) {
        int rc = 1;
        WEFT_GROUP(many, rc) {
            weft_group_spin(&many, suspend, NULL);
            weft_group_spin(&many, i % 2 == 0 ? fail_with : return_arg, as_arg(-EIO));
            weft_sleep(0);
        }
        ck_assert_int_eq(rc, -EIO);
        weft_error_clear();
        if (i == 100)
            before = mallinfo2().uordblks;
    }
    ck_assert_uint_eq(mallinfo2().uordblks, before);
}

static weft_value cancel_and_restart(void *arg)
{
    weft_group *g = ((void **)arg)[0];
    weft_group_cancel(g);
    return weft_restart(*(weft_fiber *)((void **)arg)[1]);
}

TEST(a_restart_does_not_keep_a_cancelled_group_open)
{
    weft_fiber restarter = 0, member = 0;
    int rc = 1;
    WEFT_GROUP(g, rc) {
        member = weft_group_spin(&g, suspend, NULL);
        void *both[] = {&g, &member};
        weft_snooze();
        restarter = weft_spin(cancel_and_restart, both);
        weft_snooze();
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(weft_await(restarter), -ESRCH);
}

FIBER_DO(add_up, const int *numbers = arg, weft_snooze() < 0 ? -1 : numbers[0] + numbers[1])

TEST(options_apply_to_a_member_except_the_parent)
{
    int rc;
    weft_value sum = 0;
    WEFT_GROUP(g, rc) {
        int numbers[2] = {3, 4};
        const weft_spin_options o = {.name = "sum", .arg_bytes = sizeof numbers, .parent = 12345};
        weft_fiber f = weft_group_spin_with(&g, add_up, numbers, &o);
        numbers[0] = numbers[1] = 0; /* the member has a copy */
        ck_assert_str_eq(weft_name_of(f), "sum");
        ck_assert_uint_eq(weft_parent(f), weft_self());
        sum = weft_await(f);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(sum, 7);
}
