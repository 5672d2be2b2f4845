/* Queues: both ends, the bound and what releases those who wait for room, closing, the ring. */
#include "support.h"

static weft_queue *queue;

/* Fibers mark what they have done, when they have. */
static void mark_number(const char *what, weft_value n)
{
    char text[32];
    snprintf(text, sizeof text, "%s%ld ", what, (long)n);
    mark(text);
}

static weft_value push_it(void *arg)
{
    int rc = weft_queue_push(queue, (weft_value)arg);
    if (rc == 0)
        mark_number("p", (weft_value)arg);
    return rc;
}

static weft_value unshift_it(void *arg)
{
    int rc = weft_queue_unshift(queue, (weft_value)arg);
    if (rc == 0)
        mark_number("u", (weft_value)arg);
    return rc;
}

static weft_value shift_it(void *arg)
{
    (void)arg;
    weft_value v = weft_queue_shift(queue);
    if (v >= 0)
        mark_number("s", v);
    return v;
}

static weft_fiber spin_pusher(weft_value value)
{
    weft_fiber f = weft_spin(push_it, as_arg(value));
    let_run();
    return f;
}

/* A queue with this bound and these values, up to the first 0. */
#define make_queue(cap, ...) make_queue_of(cap, (const weft_value[]){__VA_ARGS__, 0})

static void make_queue_of(size_t cap, const weft_value *values)
{
    queue = weft_queue_new(cap);
    for (; *values != 0; values++)
        ck_assert_int_eq(weft_queue_push(queue, *values), 0);
}

/* What is in it now; takes it out. */
#define assert_holds(...) assert_holds_these((const weft_value[]){__VA_ARGS__, 0})

static void assert_holds_these(const weft_value *values)
{
    for (; *values != 0; values++)
        ck_assert_int_eq(weft_queue_try_shift(queue), *values);
    ck_assert_int_eq(weft_queue_try_shift(queue), -EAGAIN);
}

START_TEST(what_is_pushed_comes_out_first_in_first_out_without_a_switch)
{
    queue = weft_queue_new(0);
    weft_spin(mark_and_return, "switched");
    for (int i = 1; i <= 1000; i++)
        ck_assert_int_eq(weft_queue_push(queue, i), 0);
    ck_assert_uint_eq(weft_queue_count(queue), 1000);
    for (int i = 1; i <= 1000; i++)
        ck_assert_int_eq(weft_queue_shift(queue), i);
    ck_assert_trail("");
    weft_queue_free(queue);
    weft_queue_free(NULL);
}
END_TEST

START_TEST(what_is_unshifted_comes_out_next)
{
    make_queue(0, 1, 2);
    for (int i = 3; i <= 20; i++)
        ck_assert_int_eq(weft_queue_unshift(queue, i), 0);
    ck_assert_int_eq(weft_queue_push(queue, 21), 0);
    for (int i = 20; i >= 3; i--)
        ck_assert_int_eq(weft_queue_shift(queue), i);
    assert_holds(1, 2, 21);
    weft_queue_free(queue);
}
END_TEST

/* P49 */
START_TEST(an_error_code_cannot_be_put_in)
{
    queue = weft_queue_new(0);
    ck_assert_int_eq(weft_queue_push(queue, -EIO), -EINVAL);
    ck_assert_words(-EINVAL, "-5 is an error code, not a value for a queue");
    ck_assert_int_eq(weft_queue_unshift(queue, -1), -EINVAL);
    ck_assert_int_eq(weft_queue_try_push(queue, -4095), -EINVAL);
    ck_assert_int_eq(weft_queue_try_unshift(queue, -1), -EINVAL);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    weft_queue_free(queue);
}
END_TEST

START_TEST(those_who_wait_to_shift_are_served_in_the_order_in_which_they_came)
{
    queue = weft_queue_new(0);
    weft_fiber f[3];
    for (int i = 0; i < 3; i++)
        f[i] = weft_spin(shift_it, NULL);
    let_run();
    ck_assert_uint_eq(weft_queue_waiting_to_shift(queue), 3);
    ck_assert_int_eq(weft_queue_push(queue, 1), 0);
    ck_assert_int_eq(weft_queue_unshift(queue, 2), 0); /* to the next one too */
    ck_assert_int_eq(weft_queue_try_push(queue, 3), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_shift(queue), 0);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(f[i]), i + 1);
    ck_assert_trail("s1 s2 s3 ");
    weft_queue_free(queue);
}
END_TEST

static weft_value push_five(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5; i++)
        push_it(as_arg(i));
    return 0;
}

static weft_value shift_five_with_rests(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5; i++) {
        shift_it(NULL);
        weft_snooze();
    }
    return 0;
}

static weft_value shift_five(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5; i++)
        shift_it(NULL);
    return 0;
}

/* P51 */
START_TEST(a_bound_makes_pushers_take_turns_with_shifters)
{
    queue = weft_queue_new(2);
    weft_spin(push_five, NULL);
    weft_spin(shift_five_with_rests, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("p1 p2 s1 p3 s2 p4 s3 p5 s4 s5 ");
    weft_queue_free(queue);
}
END_TEST

/* P51 */
START_TEST(a_shifter_that_does_not_rest_takes_what_was_let_in_before_the_pusher_runs)
{
    queue = weft_queue_new(2);
    weft_spin(push_five, NULL);
    weft_spin(shift_five, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("p1 p2 s1 s2 s3 p3 p4 p5 s4 s5 ");
    weft_queue_free(queue);
}
END_TEST

/* P51 */
START_TEST(a_higher_bound_lets_in_as_many_as_there_is_room_for_in_their_order)
{
    make_queue(1, 1);
    for (int i = 2; i <= 5; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 4);
    ck_assert_int_eq(weft_queue_cap(queue, 3), 0);
    ck_assert_uint_eq(weft_queue_count(queue), 3); /* at once */
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 2);
    let_run();
    ck_assert_trail("p2 p3 ");
    ck_assert_int_eq(weft_queue_cap(queue, 0), 0);
    let_run();
    ck_assert_trail("p2 p3 p4 p5 ");
    assert_holds(1, 2, 3, 4, 5);
    weft_queue_free(queue);
}
END_TEST

/* P51 */
START_TEST(without_a_bound_any_more_all_who_wait_are_let_in)
{
    make_queue(1, 1);
    for (int i = 2; i <= 50; i++)
        weft_go(push_it, as_arg(i));
    let_run();
    ck_assert_int_eq(weft_queue_cap(queue, 0), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 0);
    for (int i = 1; i <= 50; i++)
        ck_assert_int_eq(weft_queue_try_shift(queue), i);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_queue_free(queue);
}
END_TEST

START_TEST(a_lower_bound_takes_nothing_out_and_lets_nobody_in_until_there_is_room)
{
    make_queue(4, 1, 2, 3);
    ck_assert_int_eq(weft_queue_cap(queue, 2), 0);
    ck_assert_int_eq(weft_queue_try_push(queue, 9), -EAGAIN);
    spin_pusher(4);
    ck_assert_int_eq(weft_queue_shift(queue), 1);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    ck_assert_int_eq(weft_queue_cap(queue, 1), 0);
    ck_assert_int_eq(weft_queue_shift(queue), 2);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    ck_assert_int_eq(weft_queue_shift(queue), 3);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 0);
    assert_holds(4);
    let_run();
    ck_assert_trail("p4 ");
    weft_queue_free(queue);
}
END_TEST

/* P51 */
START_TEST(a_flush_forgets_what_is_there_and_lets_in_as_many_as_there_is_room_for)
{
    make_queue(2, 1, 2);
    for (int i = 3; i <= 5; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_flush(queue), 2);
    ck_assert_uint_eq(weft_queue_count(queue), 2);
    let_run();
    ck_assert_trail("p3 p4 ");
    assert_holds(3, 4, 5);
    ck_assert_uint_eq(weft_queue_flush(queue), 0);
    weft_queue_free(queue);
}
END_TEST

/* P51 */
START_TEST(a_delete_takes_out_every_equal_value_and_lets_others_in_behind_the_rest)
{
    make_queue(4, 7, 1, 7, 2);
    for (int i = 7; i <= 9; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_delete(queue, 5), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 3);
    ck_assert_uint_eq(weft_queue_delete(queue, 7), 2); /* not the one that waited */
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    let_run();
    ck_assert_trail("p7 p8 ");
    assert_holds(1, 2, 7, 8, 9);
    let_run();
    ck_assert_trail("p7 p8 p9 ");
    weft_queue_free(queue);
}
END_TEST

START_TEST(all_that_is_there_is_taken_at_once_and_then_others_are_let_in)
{
    make_queue(3, 1, 2, 3);
    weft_value out[8] = {0};
    for (int i = 4; i <= 7; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_shift_all(queue, out, 2), 2);
    ck_assert(out[0] == 1 && out[1] == 2 && out[2] == 0);
    ck_assert_uint_eq(weft_queue_count(queue), 3);
    ck_assert_uint_eq(weft_queue_shift_all(queue, out, 8), 3);
    ck_assert(out[0] == 3 && out[1] == 4 && out[2] == 5 && out[3] == 0);
    let_run();
    ck_assert_trail("p4 p5 p6 p7 ");
    ck_assert_uint_eq(weft_queue_shift_all(queue, out, 8), 2);
    ck_assert_uint_eq(weft_queue_shift_all(queue, out, 8), 0);
    weft_queue_free(queue);
}
END_TEST

START_TEST(an_unshift_that_had_to_wait_goes_to_the_front_when_its_turn_has_come)
{
    make_queue(2, 1, 2);
    spin_pusher(3);
    weft_spin(unshift_it, as_arg(4));
    weft_spin(unshift_it, as_arg(5));
    let_run();
    spin_pusher(6);
    ck_assert_int_eq(weft_queue_try_unshift(queue, 9), -EAGAIN);
    ck_assert_int_eq(weft_queue_shift(queue), 1); /* 2 3 */
    ck_assert_int_eq(weft_queue_shift(queue), 2); /* 4 3 */
    ck_assert_int_eq(weft_queue_shift(queue), 4); /* 5 3 */
    ck_assert_int_eq(weft_queue_shift(queue), 5); /* 3 6 */
    assert_holds(3, 6);
    let_run();
    ck_assert_trail("p3 u4 u5 p6 ");
    weft_queue_free(queue);
}
END_TEST

/* P52 */
START_TEST(a_closed_queue_takes_nothing_more_and_gives_what_is_left_and_then_an_end)
{
    make_queue(2, 1, 2);
    weft_fiber pusher = spin_pusher(3), unshifter = weft_spin(unshift_it, as_arg(4));
    let_run();
    ck_assert(!weft_queue_is_closed(queue));
    ck_assert_int_eq(weft_queue_close(queue), 0);
    ck_assert_int_eq(weft_queue_close(queue), 0);
    ck_assert(weft_queue_is_closed(queue));
    ck_assert_int_eq(weft_queue_push(queue, 5), -EPIPE);
    ck_assert_int_eq(weft_queue_unshift(queue, 5), -EPIPE);
    ck_assert_int_eq(weft_queue_try_push(queue, 5), -EPIPE);
    ck_assert_int_eq(weft_queue_cap(queue, 10), 0);
    ck_assert_int_eq(weft_await(pusher), -EPIPE);
    ck_assert_int_eq(weft_await(unshifter), -EPIPE);
    ck_assert_int_eq(weft_queue_shift(queue), 1);
    ck_assert_int_eq(weft_queue_shift(queue), 2);
    ck_assert_int_eq(weft_queue_shift(queue), -EPIPE);
    ck_assert_int_eq(weft_queue_try_shift(queue), -EPIPE);
    ck_assert_trail("");
    weft_queue_free(queue);
}
END_TEST

/* P52 */
START_TEST(closing_or_freeing_a_queue_ends_the_wait_of_all_who_shift)
{
    for (int way = 0; way < 2; way++) {
        queue = weft_queue_new(0);
        weft_fiber f[3];
        for (int i = 0; i < 3; i++)
            f[i] = weft_spin(shift_it, NULL);
        let_run();
        if (way == 0)
            weft_queue_close(queue);
        else
            weft_queue_free(queue); /* before any of them runs */
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), -EPIPE);
        if (way == 0)
            weft_queue_free(queue);
    }
    make_queue(1, 1);
    weft_fiber f = spin_pusher(2);
    weft_queue_free(queue);
    ck_assert_int_eq(weft_await(f), -EPIPE);
}
END_TEST

/* T40, T41 */
START_TEST(a_cancelled_fiber_gets_what_is_there_and_waits_for_nothing)
{
    make_queue(2, 1);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_queue_push(queue, 2), 0);
        ck_assert_int_eq(weft_queue_push(queue, 3), -ECANCELED);
        ck_assert_int_eq(weft_queue_unshift(queue, 3), -ECANCELED);
        ck_assert_int_eq(weft_queue_shift(queue), 1);
        ck_assert_int_eq(weft_queue_shift(queue), 2);
        ck_assert_int_eq(weft_queue_shift(queue), -ECANCELED);
    }
    ck_assert_uint_eq(weft_queue_waiting_to_shift(queue), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 0);
    weft_queue_free(queue);
}
END_TEST

START_TEST(who_is_struck_while_it_waits_leaves_nothing_behind_and_who_was_served_has_it)
{
    make_queue(1, 1);
    weft_fiber struck = spin_pusher(2), served = spin_pusher(3);
    weft_cancel(struck);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    ck_assert_int_eq(weft_queue_shift(queue), 1);
    weft_cancel(served);
    let_run();
    ck_assert_trail("p3 ");
    assert_holds(3);
    struck = weft_spin(shift_it, NULL), served = weft_spin(shift_it, NULL);
    let_run();
    ck_assert_int_eq(weft_interrupt(struck, -EINTR), 0);
    ck_assert_int_eq(weft_queue_push(queue, 4), 0);
    weft_cancel(served);
    ck_assert_int_eq(weft_await(struck), -EINTR);
    let_run();
    ck_assert_trail("p3 s4 ");
    assert_holds(0);
    weft_queue_free(queue);
}
END_TEST

/* A plain row that does the same as the queue. */
#define ROW_MAX 300

typedef struct row {
    weft_value values[ROW_MAX];
    size_t count;
} row;

static unsigned random_state = 4711;

static unsigned random_below(unsigned n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void row_insert(row *r, size_t at, weft_value v)
{
    memmove(&r->values[at + 1], &r->values[at], (r->count - at) * sizeof v);
    r->values[at] = v;
    r->count++;
}

static void row_remove(row *r, size_t at, size_t n)
{
    memmove(&r->values[at], &r->values[at + n], (r->count - at - n) * sizeof r->values[0]);
    r->count -= n;
}

static size_t row_delete(row *r, weft_value v)
{
    size_t before = r->count;
    for (size_t i = r->count; i-- > 0;)
        if (r->values[i] == v)
            row_remove(r, i, 1);
    return before - r->count;
}

static void do_to_both(row *r, size_t cap)
{
    weft_value v = random_below(20), out[ROW_MAX];
    bool has_room = cap == 0 || r->count < cap;
    size_t n;
    switch (random_below(32)) {
    default:
        ck_assert_int_eq(weft_queue_try_push(queue, v), has_room ? 0 : -EAGAIN);
        if (has_room)
            row_insert(r, r->count, v);
        break;
    case 10 ... 14:
        ck_assert_int_eq(weft_queue_try_unshift(queue, v), has_room ? 0 : -EAGAIN);
        if (has_room)
            row_insert(r, 0, v);
        break;
    case 15 ... 28:
        ck_assert_int_eq(weft_queue_try_shift(queue), r->count > 0 ? r->values[0] : -EAGAIN);
        if (r->count > 0)
            row_remove(r, 0, 1);
        break;
    case 29:
        ck_assert_uint_eq(weft_queue_delete(queue, v), row_delete(r, v));
        break;
    case 30:
        n = weft_queue_shift_all(queue, out, random_below(8));
        ck_assert_mem_eq(out, r->values, n * sizeof v);
        row_remove(r, 0, n);
        break;
    case 31:
        if (random_below(20) == 0) {
            ck_assert_uint_eq(weft_queue_flush(queue), r->count);
            r->count = 0;
        }
    }
    ck_assert_uint_eq(weft_queue_count(queue), r->count);
}

START_TEST(a_hundred_thousand_random_steps_leave_the_queue_as_a_plain_row_would_be)
{
    static row r;
    size_t cap = 0;
    queue = weft_queue_new(0);
    for (int step = 0; step < 100000; step++) {
        do_to_both(&r, cap);
        if (step % 100 == 0 || r.count == ROW_MAX - 1) {
            cap = 1 + random_below(ROW_MAX - 1);
            ck_assert_int_eq(weft_queue_cap(queue, cap), 0);
        }
    }
    for (size_t i = 0; i < r.count; i++)
        ck_assert_int_eq(weft_queue_shift(queue), r.values[i]);
    weft_queue_free(queue);
}
END_TEST

START_TEST(a_delete_in_a_large_queue_that_has_wrapped_keeps_the_order_of_the_rest)
{
    const weft_value n = 100000;
    queue = weft_queue_new(0);
    for (weft_value i = 0; i < 1000; i++) { /* so that the ring does not begin at its beginning */
        weft_queue_push(queue, i);
        weft_queue_shift(queue);
    }
    for (weft_value i = 0; i < n; i++)
        ck_assert_int_eq(weft_queue_push(queue, i % 2 == 0 ? 5 : i), 0);
    ck_assert_uint_eq(weft_queue_delete(queue, 5), (size_t)n / 2 + 1);
    for (weft_value i = 1; i < n; i += 2)
        if (i != 5)
            ck_assert_int_eq(weft_queue_shift(queue), i);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    weft_queue_free(queue);
}
END_TEST

static const TTest *const *const tests[] = {
    &what_is_pushed_comes_out_first_in_first_out_without_a_switch,
    &what_is_unshifted_comes_out_next,
    &an_error_code_cannot_be_put_in,
    &those_who_wait_to_shift_are_served_in_the_order_in_which_they_came,
    &a_bound_makes_pushers_take_turns_with_shifters,
    &a_shifter_that_does_not_rest_takes_what_was_let_in_before_the_pusher_runs,
    &a_higher_bound_lets_in_as_many_as_there_is_room_for_in_their_order,
    &without_a_bound_any_more_all_who_wait_are_let_in,
    &a_lower_bound_takes_nothing_out_and_lets_nobody_in_until_there_is_room,
    &a_flush_forgets_what_is_there_and_lets_in_as_many_as_there_is_room_for,
    &a_delete_takes_out_every_equal_value_and_lets_others_in_behind_the_rest,
    &all_that_is_there_is_taken_at_once_and_then_others_are_let_in,
    &an_unshift_that_had_to_wait_goes_to_the_front_when_its_turn_has_come,
    &a_closed_queue_takes_nothing_more_and_gives_what_is_left_and_then_an_end,
    &closing_or_freeing_a_queue_ends_the_wait_of_all_who_shift,
    &a_cancelled_fiber_gets_what_is_there_and_waits_for_nothing,
    &who_is_struck_while_it_waits_leaves_nothing_behind_and_who_was_served_has_it,
    &a_hundred_thousand_random_steps_leave_the_queue_as_a_plain_row_would_be,
    &a_delete_in_a_large_queue_that_has_wrapped_keeps_the_order_of_the_rest,
};

int main(void)
{
    return run_suite("queue", tests, COUNT_OF(tests));
}
