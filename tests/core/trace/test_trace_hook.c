/* Tests of the hook for events: their exact order, and no events from inside of the hook. */
#include "support/suite.h"

/* An event as text, for example "wake 1 by 0". Fibers are numbered from main, which is 0. */
static char lines[64][80];
static size_t lines_count;
static weft_fiber main_id, child_id;

static int number_of(weft_fiber fiber)
{
    return fiber == 0 ? -1 : fiber == main_id ? 0 : fiber == child_id || child_id == 0 ? 1 : 2;
}

static void note_event(const weft_trace_event *e, void *arg)
{
    static const char *const names[] = {"spin", "wait",   "run",      "wake",  "cancel",
                                        "end",  "submit", "complete", "send",  "receive",
                                        "idle", "busy",   "mark",     "begin", "stop"};
    ck_assert_ptr_eq(arg, lines);
    ck_assert_int_gt(e->time_ns, 0);
    ck_assert_uint_lt(lines_count, COUNT_OF(lines));
    char *line = lines[lines_count++];
    int n = snprintf(line, 80, "%s %d", names[e->kind], number_of(e->fiber));
    if (e->reason != NULL)
        n += snprintf(line + n, 80 - (size_t)n, " for %s", e->reason);
    if (e->other != 0)
        n += snprintf(line + n, 80 - (size_t)n, " by %d", number_of(e->other));
    if (e->value != 0)
        n += snprintf(line + n, 80 - (size_t)n, " = %d", (int)e->value);
    if (e->text != NULL && e->text[0] != '\0')
        snprintf(line + n, 80 - (size_t)n, " '%s'", e->text);
    weft_trace_mark("inside"); /* causes no event */
    ck_assert_int_eq(weft_snooze(), -EPERM);
}

static void quiet(int level, const char *text, void *arg)
{
    (void)level, (void)text, (void)arg;
}

static void assert_lines(const char *const *expected, size_t count)
{
    for (size_t i = 0; i < lines_count || i < count; i++)
        ck_assert_str_eq(i < lines_count ? lines[i] : "no event",
                         i < count ? expected[i] : "no event");
}

static weft_value receive_two(void *arg)
{
    weft_value first = weft_receive();
    return first < 0 ? first : weft_receive();
}

TEST(the_events_of_spin_receive_and_terminate_have_an_exact_order)
{ /* P79 */
    main_id = weft_self();
    weft_set_log(quiet, NULL); /* weft_snooze in the hook is reported */
    ck_assert_int_eq(weft_trace_set_hook(note_event, lines), 0);
    child_id = weft_spin(receive_two, NULL);
    weft_snooze();
    weft_tell(child_id, 5);
    weft_snooze();
    ck_assert_int_eq(weft_terminate(child_id, INFINITY), 0);
    ck_assert_int_eq(weft_trace_set_hook(NULL, NULL), 0);
    weft_snooze();
    const char *const expected[] = {
        "spin 1 by 0",
        "wait 0",
        "run 1 by 0",
        "wait 1 for a message",
        "run 0 by 1",
        "wake 1 by 0 = 5",
        "wait 0",
        "run 1 by 0",
        "wait 1 for a message",
        "run 0 by 1",
        "cancel 1 by 0",
        "wake 1 by 0 = -125",
        "wait 0 for the end of by 1",
        "run 1 by 0",
        "wake 0 by 1 = -125",
        "end 1 = -125",
        "run 0 by 1",
    };
    assert_lines(expected, COUNT_OF(expected));
}

static void remove_hook(const weft_trace_event *e, void *arg)
{
    (void)e;
    ++*(int *)arg;
    ck_assert_int_eq(weft_trace_set_hook(NULL, NULL), 0);
}

TEST(a_hook_can_remove_itself)
{
    int calls = 0;
    ck_assert_int_eq(weft_trace_set_hook(remove_hook, &calls), 0);
    for (int i = 0; i < 200; i++)
        weft_snooze();
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(3))), 3);
}

static void count_kind(const weft_trace_event *e, void *arg)
{
    ((int *)arg)[e->kind]++;
}

TEST(the_hook_sees_as_many_runs_as_there_are_switches)
{
    int counts[WEFT_TRACE_STOP + 1] = {0};
    ck_assert_int_eq(weft_trace_set_hook(count_kind, counts), 0);
    uint64_t before = stats().switches;
    for (int i = 0; i < 100; i++)
        weft_spin(return_arg, NULL);
    for (int i = 0; i < 100; i++)
        weft_snooze();
    weft_sleep(0.001);
    uint64_t switches = stats().switches - before;
    ck_assert_int_eq(weft_trace_set_hook(NULL, NULL), 0);
    ck_assert_int_eq(counts[WEFT_TRACE_SPIN], 100);
    ck_assert_int_eq(counts[WEFT_TRACE_END], 100);
    ck_assert_uint_eq((uint64_t)counts[WEFT_TRACE_RUN], switches);
    ck_assert_int_eq(counts[WEFT_TRACE_IDLE], counts[WEFT_TRACE_BUSY]);
    ck_assert_int_gt(counts[WEFT_TRACE_IDLE], 0);
}
