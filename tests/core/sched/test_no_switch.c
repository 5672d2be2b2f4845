/* T106: tests of sections in which switching is forbidden. */
#include "support/suite.h"

#include <poll.h>

static weft_fiber other; /* suspended, or sleeping */
static weft_mutex locked, own_mutex;
static weft_event unset;
static weft_cond cond;
static weft_sem empty;
static weft_chan *chan;
static int ends[2];

FIBER_DO(lock_and_suspend, weft_mutex_lock(&locked), weft_suspend())

/* The result of each call that would switch. */
#define CALLS_MAX 32

static size_t make_calls(weft_value *results)
{
    weft_value value;
    char byte;
    weft_clause clauses[] = {weft_clause_recv(chan), weft_clause_time(60)};
    const weft_value all[] = {
        weft_sleep(0.001),
        weft_snooze(),
        weft_suspend(),
        weft_await(other),
        weft_await_any(&other, 1, &value),
        weft_transfer(other, 0),
        weft_await_children(),
        weft_receive(),
        weft_read(ends[0], &byte, 1),
        weft_wait_fd(ends[0], POLLIN),
        weft_chan_send(chan, 1),
        weft_chan_recv(chan),
        weft_mutex_lock(&locked),
        weft_cond_wait(&cond, &own_mutex),
        weft_sem_wait(&empty),
        weft_event_wait(&unset),
        weft_select(clauses, COUNT_OF(clauses)),
    };
    memcpy(results, all, sizeof all);
    return COUNT_OF(all);
}

static void open_all(void)
{
    weft_pipe(ends);
    chan = weft_chan_new(0);
    other = spin_waiting(lock_and_suspend, NULL);
    weft_mutex_lock(&own_mutex);
}

static bool has_switched;

FIBER_DO(note_switch, has_switched = true, 0)

static int make_all_calls(void)
{
    weft_value results[CALLS_MAX];
    open_all();
    weft_go(note_switch, NULL);
    weft_no_switch_begin();
    weft_no_switch_begin(); /* sections nest */
    size_t count = make_calls(results);
    weft_no_switch_end();
    results[count++] = weft_snooze();
    weft_no_switch_end();
    for (size_t i = 0; i < count; i++)
        if (results[i] != -EPERM || has_switched)
            return (int)i + 1;
    fprintf(stderr, "I am #%llu, %zu calls.\n", (unsigned long long)weft_self(), count);
    weft_no_switch_end();                              /* one call too many does no harm */
    bool is_fine = weft_snooze() == 0 && has_switched; /* no effect remains */
    weft_mutex_unlock(&own_mutex);
    weft_chan_free(chan);
    close_fd_pair(ends);
    weft_schedule(other, 0);
    return is_fine && weft_await(other) == 0 ? 0 : 100;
}

TEST(every_call_that_would_switch_fails_and_is_reported_with_the_fiber_id)
{ /* T106 */
    const outcome *o = run_apart(make_all_calls);
    ck_assert_msg(o->status == 0, "status %d, stderr:\n%.300s", o->status, o->text);
    char expected[64];
    unsigned long long id;
    size_t count;
    const char *line = strstr(o->text, "I am #");
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(sscanf(line, "I am #%llu, %zu", &id, &count), 2);
    snprintf(expected, sizeof expected, "fiber #%llu 'main' tried to switch", id);
    ck_assert_uint_eq(count_in(o->text, expected), count);
}

FIBER_DO(end_forbidden, weft_no_switch_begin(), arg)

TEST_PROGRAM(a_no_switch_section_applies_only_to_its_fiber_and_ends_with_it, 0, "")
{ /* T106 */
    weft_no_switch_begin();
    weft_fiber f = weft_spin(end_forbidden, as_arg(7));
    bool is_fine = weft_state_of(f) == WEFT_RUNNABLE && weft_schedule(f, 0) == 0;
    weft_no_switch_end();
    if (!is_fine || weft_await(f) != 7)
        return 1;
    f = weft_spin(suspend, NULL); /* on the same record */
    weft_snooze();
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
