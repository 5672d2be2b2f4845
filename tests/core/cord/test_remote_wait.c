/*
 * Waits that any thread can end. The object that holds the wait is one slot with a spin lock.
 */
#include "core/cord/remote_wait.h"
#include "core/fiber/fiber.h"
#include "support/suite.h"

#include <signal.h>
#include <stdatomic.h>

static _Atomic(weft__remote_wait *) slot; /* the wait that a thread may end; NULL: none */

static bool slot_withdraw(weft__remote_wait *w)
{
    weft__remote_wait *expected = w;
    return atomic_compare_exchange_strong(&slot, &expected, NULL);
}

static const weft__wait_kind waits_slot = {"a slot", .leave = weft__remote_wait_leave};

/* Wait in the slot until a thread ends the wait. */
static weft_value slot_wait(void *arg)
{
    weft__remote_wait w;
    weft_self(); /* makes the thread a cord */
    weft__remote_wait_init(&w, slot_withdraw);
    atomic_store(&slot, &w);
    return weft__remote_wait_run(&w, &waits_slot);
}

/* Take the wait out of the slot. Return NULL if there is none. */
static weft__remote_wait *slot_take(void)
{
    return atomic_exchange(&slot, NULL);
}

static weft__remote_wait *slot_take_soon(void)
{
    weft__remote_wait *w;
    while ((w = slot_take()) == NULL)
        sched_yield();
    return w;
}

TEST(a_fiber_of_the_same_thread_ends_a_wait)
{
    weft_fiber f = weft_spin(slot_wait, NULL);
    weft_snooze();
    weft__remote_wait_end(slot_take(), 5);
    ck_assert_int_eq(weft_await(f), 5);
}

enum { ROUNDS = 2000 };

static void *end_many(void *arg)
{
    for (int i = 0; i < ROUNDS; i++)
        weft__remote_wait_end(slot_take_soon(), i);
    return NULL;
}

TEST(a_plain_thread_ends_waits)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_many, NULL), 0);
    for (int i = 0; i < ROUNDS; i++)
        ck_assert_int_eq(slot_wait(NULL), i);
    pthread_join(thread, NULL);
}

/* A wait that was cancelled reports it, unless the thread has ended the wait first. */
TEST(cancellation_and_another_thread_never_both_end_a_wait)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_many, NULL), 0);
    int ended = 0;
    while (ended < ROUNDS) {
        weft_value value = -ECANCELED;
        WEFT_MOVE_ON_AFTER(1e-6) {
            value = slot_wait(NULL);
        }
        ck_assert_msg(value == -ECANCELED || value == ended, "%ld after %d", (long)value, ended);
        ended += value != -ECANCELED;
    }
    pthread_join(thread, NULL);
    ck_assert_ptr_null(slot_take());
}

TEST(a_cancelled_fiber_withdraws_its_wait)
{
    weft_fiber f = weft_spin(slot_wait, NULL);
    weft_snooze();
    ck_assert_ptr_nonnull(atomic_load(&slot));
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_ptr_null(atomic_load(&slot));
}

static void end_in_handler(int sig)
{
    weft__remote_wait *w = slot_take();
    if (w != NULL)
        weft__remote_wait_end_in_handler(w, 8);
}

static void *signal_main_thread(void *main_thread)
{
    while (atomic_load(&slot) == NULL)
        sched_yield();
    pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    return NULL;
}

TEST(a_signal_handler_of_the_same_thread_ends_a_wait)
{
    struct sigaction action = {.sa_handler = end_in_handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) {
        pthread_t self = pthread_self(), thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, signal_main_thread, &self), 0);
        ck_assert_int_eq(slot_wait(NULL), 8);
        pthread_join(thread, NULL);
    }
}

static bool could_wait_when_idle;

static void note_idle(void *arg)
{
    could_wait_when_idle |= weft__fiber_can_wait();
}

TEST(a_fiber_can_wait_except_in_callbacks_and_forbidden_sections)
{
    ck_assert(!weft__fiber_can_wait()); /* the thread is not a cord yet */
    bool is_virtual = runs_on("sim");
    weft_self();
    ck_assert(weft__fiber_can_wait() == !is_virtual);
    weft_no_switch_begin();
    ck_assert(!weft__fiber_can_wait());
    weft_no_switch_end();
    weft_on_idle(note_idle, NULL);
    ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert(!could_wait_when_idle);
    ck_assert(weft__fiber_can_wait() == !is_virtual);
}
