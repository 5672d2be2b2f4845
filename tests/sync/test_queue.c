/* Queues: both ends, the bound and waiting pushers, closing, and the ring buffer. */
#include "support/random.h"
#include "support/suite.h"
#include "support/support.h"

static weft_queue *queue;

/* Append a completed call to the trail. */
static void mark_number(const char *what, weft_value n)
{
    char text[32];
    snprintf(text, sizeof text, "%s%ld ", what, (long)n);
    mark(text);
}

static weft_value push_arg(void *arg)
{
    int rc = weft_queue_push(queue, (weft_value)arg);
    if (rc == 0)
        mark_number("p", (weft_value)arg);
    return rc;
}

static weft_value unshift_arg(void *arg)
{
    int rc = weft_queue_unshift(queue, (weft_value)arg);
    if (rc == 0)
        mark_number("u", (weft_value)arg);
    return rc;
}

static weft_value shift_and_mark(void *arg)
{
    (void)arg;
    weft_value v = weft_queue_shift(queue);
    if (v >= 0)
        mark_number("s", v);
    return v;
}

static weft_fiber spin_pusher(weft_value value)
{
    weft_fiber f = weft_spin(push_arg, as_arg(value));
    let_run();
    return f;
}

/* Create a queue with this bound and these values, up to the first 0. */
#define create_queue(cap, ...) create_queue_of(cap, (const weft_value[]){__VA_ARGS__, 0})

static void create_queue_of(size_t cap, const weft_value *values)
{
    queue = weft_queue_new(cap);
    for (; *values != 0; values++)
        ck_assert_int_eq(weft_queue_push(queue, *values), 0);
}

/* Assert that the queue contains these values, and remove them. */
#define assert_contents(...) assert_contents_of((const weft_value[]){__VA_ARGS__, 0})

static void assert_contents_of(const weft_value *values)
{
    for (; *values != 0; values++)
        ck_assert_int_eq(weft_queue_try_shift(queue), *values);
    ck_assert_int_eq(weft_queue_try_shift(queue), -EAGAIN);
}

TEST(pushed_values_are_shifted_in_fifo_order_without_a_switch)
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

TEST(an_unshifted_value_is_shifted_next)
{
    create_queue(0, 1, 2);
    for (int i = 3; i <= 20; i++)
        ck_assert_int_eq(weft_queue_unshift(queue, i), 0);
    ck_assert_int_eq(weft_queue_push(queue, 21), 0);
    for (int i = 20; i >= 3; i--)
        ck_assert_int_eq(weft_queue_shift(queue), i);
    assert_contents(1, 2, 21);
    weft_queue_free(queue);
}

/* P49 */
TEST(an_error_code_cannot_be_pushed)
{
    queue = weft_queue_new(0);
    ck_assert_int_eq(weft_queue_push(queue, -EIO), -EINVAL);
    ck_assert_error(-EINVAL, "weft_queue: value is the error code -5");
    ck_assert_int_eq(weft_queue_unshift(queue, -1), -EINVAL);
    ck_assert_int_eq(weft_queue_try_push(queue, -4095), -EINVAL);
    ck_assert_int_eq(weft_queue_try_unshift(queue, -1), -EINVAL);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    weft_queue_free(queue);
}

TEST(shifting_fibers_wake_in_fifo_order)
{
    queue = weft_queue_new(0);
    weft_fiber f[3];
    for (int i = 0; i < 3; i++)
        f[i] = weft_spin(shift_and_mark, NULL);
    let_run();
    ck_assert_uint_eq(weft_queue_waiting_to_shift(queue), 3);
    ck_assert_int_eq(weft_queue_push(queue, 1), 0);
    ck_assert_int_eq(weft_queue_unshift(queue, 2), 0); /* also to the next waiter */
    ck_assert_int_eq(weft_queue_try_push(queue, 3), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_shift(queue), 0);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(f[i]), i + 1);
    ck_assert_trail("s1 s2 s3 ");
    weft_queue_free(queue);
}

static weft_value push_five(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5; i++)
        push_arg(as_arg(i));
    return 0;
}

static weft_value shift_five_and_snooze(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5; i++) {
        shift_and_mark(NULL);
        weft_snooze();
    }
    return 0;
}

static weft_value shift_five(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5; i++)
        shift_and_mark(NULL);
    return 0;
}

/* P51 */
TEST(a_bound_makes_pushers_alternate_with_shifters)
{
    queue = weft_queue_new(2);
    weft_spin(push_five, NULL);
    weft_spin(shift_five_and_snooze, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("p1 p2 s1 p3 s2 p4 s3 p5 s4 s5 ");
    weft_queue_free(queue);
}

/* P51 */
TEST(a_shifter_that_does_not_yield_shifts_admitted_values_before_the_pusher_runs)
{
    queue = weft_queue_new(2);
    weft_spin(push_five, NULL);
    weft_spin(shift_five, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("p1 p2 s1 s2 s3 p3 p4 p5 s4 s5 ");
    weft_queue_free(queue);
}

/* P51 */
TEST(a_higher_bound_admits_waiting_pushers_in_order_while_there_is_room)
{
    create_queue(1, 1);
    for (int i = 2; i <= 5; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 4);
    ck_assert_int_eq(weft_queue_set_cap(queue, 3), 0);
    ck_assert_uint_eq(weft_queue_count(queue), 3); /* before the pushers run */
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 2);
    let_run();
    ck_assert_trail("p2 p3 ");
    ck_assert_int_eq(weft_queue_set_cap(queue, 0), 0);
    let_run();
    ck_assert_trail("p2 p3 p4 p5 ");
    assert_contents(1, 2, 3, 4, 5);
    weft_queue_free(queue);
}

/* P51 */
TEST(a_queue_reports_the_capacity_that_was_set)
{
    weft_queue *q = weft_queue_new(3);
    ck_assert_uint_eq(weft_queue_cap(q), 3);
    ck_assert_int_eq(weft_queue_set_cap(q, 5), 0);
    ck_assert_uint_eq(weft_queue_cap(q), 5);
    ck_assert_int_eq(weft_queue_set_cap(q, 0), 0); /* no limit */
    ck_assert_uint_eq(weft_queue_cap(q), 0);
    weft_queue_free(q);
}

TEST(removing_the_bound_admits_all_waiting_pushers)
{
    create_queue(1, 1);
    for (int i = 2; i <= 50; i++)
        weft_go(push_arg, as_arg(i));
    let_run();
    ck_assert_int_eq(weft_queue_set_cap(queue, 0), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 0);
    for (int i = 1; i <= 50; i++)
        ck_assert_int_eq(weft_queue_try_shift(queue), i);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_queue_free(queue);
}

TEST(a_lower_bound_removes_nothing_and_admits_no_pusher_until_there_is_room)
{
    create_queue(4, 1, 2, 3);
    ck_assert_int_eq(weft_queue_set_cap(queue, 2), 0);
    ck_assert_int_eq(weft_queue_try_push(queue, 9), -EAGAIN);
    spin_pusher(4);
    ck_assert_int_eq(weft_queue_shift(queue), 1);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    ck_assert_int_eq(weft_queue_set_cap(queue, 1), 0);
    ck_assert_int_eq(weft_queue_shift(queue), 2);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    ck_assert_int_eq(weft_queue_shift(queue), 3);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 0);
    assert_contents(4);
    let_run();
    ck_assert_trail("p4 ");
    weft_queue_free(queue);
}

/* P51 */
TEST(a_flush_removes_all_values_and_admits_pushers_while_there_is_room)
{
    create_queue(2, 1, 2);
    for (int i = 3; i <= 5; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_flush(queue), 2);
    ck_assert_uint_eq(weft_queue_count(queue), 2);
    let_run();
    ck_assert_trail("p3 p4 ");
    assert_contents(3, 4, 5);
    ck_assert_uint_eq(weft_queue_flush(queue), 0);
    weft_queue_free(queue);
}

/* P51 */
TEST(a_delete_removes_every_equal_value_and_admits_pushers_behind_the_rest)
{
    create_queue(4, 7, 1, 7, 2);
    for (int i = 7; i <= 9; i++)
        spin_pusher(i);
    ck_assert_uint_eq(weft_queue_delete(queue, 5), 0);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 3);
    ck_assert_uint_eq(weft_queue_delete(queue, 7), 2); /* not the value of the waiting pusher */
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    let_run();
    ck_assert_trail("p7 p8 ");
    assert_contents(1, 2, 7, 8, 9);
    let_run();
    ck_assert_trail("p7 p8 p9 ");
    weft_queue_free(queue);
}

TEST(shift_all_removes_all_values_at_once_and_then_admits_pushers)
{
    create_queue(3, 1, 2, 3);
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

TEST(a_waiting_unshift_puts_its_value_at_the_front_when_it_is_admitted)
{
    create_queue(2, 1, 2);
    spin_pusher(3);
    weft_spin(unshift_arg, as_arg(4));
    weft_spin(unshift_arg, as_arg(5));
    let_run();
    spin_pusher(6);
    ck_assert_int_eq(weft_queue_try_unshift(queue, 9), -EAGAIN);
    ck_assert_int_eq(weft_queue_shift(queue), 1); /* then 2 3 */
    ck_assert_int_eq(weft_queue_shift(queue), 2); /* then 4 3 */
    ck_assert_int_eq(weft_queue_shift(queue), 4); /* then 5 3 */
    ck_assert_int_eq(weft_queue_shift(queue), 5); /* then 3 6 */
    assert_contents(3, 6);
    let_run();
    ck_assert_trail("p3 u4 u5 p6 ");
    weft_queue_free(queue);
}

/* P52 */
TEST(a_closed_queue_refuses_values_and_delivers_the_remaining_ones_and_then_epipe)
{
    create_queue(2, 1, 2);
    weft_fiber pusher = spin_pusher(3), unshifter = weft_spin(unshift_arg, as_arg(4));
    let_run();
    ck_assert(!weft_queue_is_closed(queue));
    ck_assert_int_eq(weft_queue_close(queue), 0);
    ck_assert_int_eq(weft_queue_close(queue), 0);
    ck_assert(weft_queue_is_closed(queue));
    ck_assert_int_eq(weft_queue_push(queue, 5), -EPIPE);
    ck_assert_int_eq(weft_queue_unshift(queue, 5), -EPIPE);
    ck_assert_int_eq(weft_queue_try_push(queue, 5), -EPIPE);
    ck_assert_int_eq(weft_queue_set_cap(queue, 10), 0);
    ck_assert_int_eq(weft_await(pusher), -EPIPE);
    ck_assert_int_eq(weft_await(unshifter), -EPIPE);
    ck_assert_int_eq(weft_queue_shift(queue), 1);
    ck_assert_int_eq(weft_queue_shift(queue), 2);
    ck_assert_int_eq(weft_queue_shift(queue), -EPIPE);
    ck_assert_int_eq(weft_queue_try_shift(queue), -EPIPE);
    ck_assert_trail("");
    weft_queue_free(queue);
}

/* P52 */
TEST(closing_or_freeing_a_queue_wakes_all_waiters_with_epipe)
{
    for (int is_freed = 0; is_freed < 2; is_freed++) {
        queue = weft_queue_new(0);
        weft_fiber f[3];
        for (int i = 0; i < 3; i++)
            f[i] = weft_spin(shift_and_mark, NULL);
        let_run();
        if (is_freed == 0)
            weft_queue_close(queue);
        else
            weft_queue_free(queue); /* before any waiter runs */
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), -EPIPE);
        if (is_freed == 0)
            weft_queue_free(queue);
    }
    create_queue(1, 1);
    weft_fiber f = spin_pusher(2);
    weft_queue_free(queue);
    ck_assert_int_eq(weft_await(f), -EPIPE);
}

/* T40, T41 */
TEST(a_cancelled_fiber_gets_available_values_and_does_not_wait)
{
    create_queue(2, 1);
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

TEST(a_waiter_cancelled_before_its_wake_has_no_effect_and_after_its_wake_keeps_its_result)
{
    create_queue(1, 1);
    weft_fiber cancelled = spin_pusher(2), woken = spin_pusher(3);
    weft_cancel(cancelled);
    ck_assert_uint_eq(weft_queue_waiting_to_push(queue), 1);
    ck_assert_int_eq(weft_queue_shift(queue), 1);
    weft_cancel(woken);
    let_run();
    ck_assert_trail("p3 ");
    assert_contents(3);
    cancelled = weft_spin(shift_and_mark, NULL), woken = weft_spin(shift_and_mark, NULL);
    let_run();
    ck_assert_int_eq(weft_interrupt(cancelled, -EINTR), 0);
    ck_assert_int_eq(weft_queue_push(queue, 4), 0);
    weft_cancel(woken);
    ck_assert_int_eq(weft_await(cancelled), -EINTR);
    let_run();
    ck_assert_trail("p3 s4 ");
    assert_contents(0);
    weft_queue_free(queue);
}

/* A plain array with the operations of a queue. */
#define ARRAY_MAX 300

typedef struct array {
    weft_value values[ARRAY_MAX];
    size_t count;
} array;

static void array_insert(array *r, size_t at, weft_value v)
{
    memmove(&r->values[at + 1], &r->values[at], (r->count - at) * sizeof v);
    r->values[at] = v;
    r->count++;
}

static void array_remove(array *r, size_t at, size_t n)
{
    memmove(&r->values[at], &r->values[at + n], (r->count - at - n) * sizeof r->values[0]);
    r->count -= n;
}

static size_t array_delete(array *r, weft_value v)
{
    size_t before = r->count;
    for (size_t i = r->count; i-- > 0;)
        if (r->values[i] == v)
            array_remove(r, i, 1);
    return before - r->count;
}

static void do_random_step(array *r, size_t cap)
{
    weft_value v = random_below(20), out[ARRAY_MAX];
    bool has_room = cap == 0 || r->count < cap;
    size_t n;
    switch (random_below(32)) {
    default:
        ck_assert_int_eq(weft_queue_try_push(queue, v), has_room ? 0 : -EAGAIN);
        if (has_room)
            array_insert(r, r->count, v);
        break;
    case 10 ... 14:
        ck_assert_int_eq(weft_queue_try_unshift(queue, v), has_room ? 0 : -EAGAIN);
        if (has_room)
            array_insert(r, 0, v);
        break;
    case 15 ... 28:
        ck_assert_int_eq(weft_queue_try_shift(queue), r->count > 0 ? r->values[0] : -EAGAIN);
        if (r->count > 0)
            array_remove(r, 0, 1);
        break;
    case 29:
        ck_assert_uint_eq(weft_queue_delete(queue, v), array_delete(r, v));
        break;
    case 30:
        n = weft_queue_shift_all(queue, out, random_below(8));
        ck_assert_mem_eq(out, r->values, n * sizeof v);
        array_remove(r, 0, n);
        break;
    case 31:
        if (random_below(20) == 0) {
            ck_assert_uint_eq(weft_queue_flush(queue), r->count);
            r->count = 0;
        }
    }
    ck_assert_uint_eq(weft_queue_count(queue), r->count);
}

TEST(a_queue_equals_a_plain_array_after_each_of_a_hundred_thousand_random_steps)
{
    static array r;
    size_t cap = 0;
    queue = weft_queue_new(0);
    for (int step = 0; step < 100000; step++) {
        do_random_step(&r, cap);
        if (step % 100 == 0 || r.count == ARRAY_MAX - 1) {
            cap = 1 + random_below(ARRAY_MAX - 1);
            ck_assert_int_eq(weft_queue_set_cap(queue, cap), 0);
        }
    }
    for (size_t i = 0; i < r.count; i++)
        ck_assert_int_eq(weft_queue_shift(queue), r.values[i]);
    weft_queue_free(queue);
}

TEST(a_delete_in_a_large_queue_that_has_wrapped_keeps_the_order_of_the_rest)
{
    const weft_value n = 100000;
    queue = weft_queue_new(0);
    for (weft_value i = 0; i < 1000; i++) { /* so that the ring does not start at index 0 */
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
