/* T106: tests of sections in which switching is forbidden. test_process_exit.c has more. */
#include "support/suite.h"

#include <poll.h>

static weft_fiber other; /* suspended, or sleeping */
static weft_mutex locked, own_mutex;
static weft_event unset;
static weft_cond cond;
static weft_sem empty;
static weft_chan *chan;
static int ends[2];

static weft_value lock_and_suspend(void *arg)
{
    weft_mutex_lock(&locked);
    return weft_suspend();
}

static long call_sleep(void)
{
    return weft_sleep(0.001);
}

static long call_snooze(void)
{
    return weft_snooze();
}

static long call_suspend(void)
{
    return weft_suspend();
}

static long call_await(void)
{
    return weft_await(other);
}

static long call_await_children(void)
{
    return weft_await_children();
}

static long call_await_any(void)
{
    weft_value value;
    return weft_await_any(&other, 1, &value);
}

static long call_transfer(void)
{
    return weft_transfer(other, 0);
}

static long call_receive(void)
{
    return weft_receive();
}

static long call_read(void)
{
    char byte;
    return weft_read(ends[0], &byte, 1);
}

static long call_wait_fd(void)
{
    return weft_wait_fd(ends[0], POLLIN);
}

static long call_send(void)
{
    return weft_chan_send(chan, 1);
}

static long call_recv(void)
{
    return weft_chan_recv(chan);
}

static long call_lock(void)
{
    return weft_mutex_lock(&locked);
}

static long call_cond_wait(void)
{
    return weft_cond_wait(&cond, &own_mutex);
}

static long call_sem_wait(void)
{
    return weft_sem_wait(&empty);
}

static long call_event_wait(void)
{
    return weft_event_wait(&unset);
}

static long call_select(void)
{
    weft_clause clauses[] = {weft_clause_recv(chan), weft_clause_time(60)};
    return weft_select(clauses, COUNT_OF(clauses));
}

static long (*const calls[])(void) = {
    call_sleep,      call_snooze,         call_suspend, call_await,     call_await_any,
    call_transfer,   call_await_children, call_receive, call_read,      call_wait_fd,
    call_send,       call_recv,           call_lock,    call_cond_wait, call_sem_wait,
    call_event_wait, call_select,
};

static void open_all(void)
{
    weft_pipe(ends);
    chan = weft_chan_new(0);
    other = weft_spin(lock_and_suspend, NULL);
    weft_snooze();
    weft_mutex_lock(&own_mutex);
}

static bool has_switched;

static weft_value note_switch(void *arg)
{
    has_switched = true;
    return 0;
}

/* Return the number of the first call that does not fail with -EPERM, from 1. 0: all do. */
static int make_all_calls(void)
{
    open_all();
    weft_go(note_switch, NULL);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        weft_no_switch_begin();
        long rc = calls[i]();
        weft_no_switch_end();
        if (rc != -EPERM || has_switched)
            return (int)i + 1;
    }
    fprintf(stderr, "I am #%llu\n", (unsigned long long)weft_self());
    bool is_fine = weft_snooze() == 0 && has_switched; /* no effect remains */
    weft_mutex_unlock(&own_mutex);
    weft_chan_free(chan);
    weft_close(ends[0]);
    weft_close(ends[1]);
    weft_schedule(other, 0);
    return is_fine && weft_await(other) == 0 ? 0 : 100;
}

TEST(every_call_that_would_switch_fails_and_is_reported_with_the_fiber_id)
{ /* T106 */
    const outcome *o = run_apart(make_all_calls);
    ck_assert_msg(o->status == 0, "status %d, stderr:\n%.300s", o->status, o->text);
    char expected[64];
    const char *id = strstr(o->text, "I am #");
    ck_assert_ptr_nonnull(id);
    snprintf(expected, sizeof expected, "fiber %.*s 'main' tried to switch",
             (int)strcspn(id + 5, "\n"), id + 5);
    ck_assert_uint_eq(count_in(o->text, expected), COUNT_OF(calls));
}

TEST_PROGRAM(a_no_switch_section_applies_only_to_its_fiber, 0, "")
{ /* T106 */
    weft_no_switch_begin();
    weft_fiber f = weft_spin(suspend, NULL);
    weft_no_switch_end();
    weft_snooze();
    if (weft_state_of(f) != WEFT_WAITING) /* the section applies only to main */
        return 1;
    weft_schedule(f, 7);
    return weft_await(f) == 7 ? 0 : 2;
}

TEST_PROGRAM(calls_with_an_available_result_work_where_switching_is_forbidden, 0, "")
{ /* T106 */
    open_all();
    weft_fiber ended = weft_spin(return_arg, as_arg(7));
    weft_tell(weft_self(), 8);
    weft_snooze();
    weft_no_switch_begin();
    bool is_fine = weft_await(ended) == 7 && weft_receive() == 8;
    is_fine = is_fine && weft_mutex_unlock(&own_mutex) == 0 && weft_mutex_lock(&own_mutex) == 0;
    weft_no_switch_end();
    return is_fine ? 0 : 1;
}
