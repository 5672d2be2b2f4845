/* Tests of the trace of one cord: slices, wait reasons, arrows, marks, names, the ring, errors. */
#include "core/trace/trace_support.h"
#include "support/suite.h"

static weft_mutex mutex;

static weft_value lock_and_unlock(void *arg)
{
    int rc = weft_mutex_lock(&mutex);
    return rc < 0 ? rc : weft_mutex_unlock(&mutex);
}

TEST(a_wait_for_a_lock_has_its_reason_its_object_and_an_arrow_from_the_owner)
{
    start_trace();
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    weft_fiber f = spin_named(lock_and_unlock, NULL, "locker");
    weft_snooze();
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(weft_await(f), 0);
    const char *facts = stop_trace();
    ck_assert_fact(facts, format("slice|main/locker|wait|a mutex|object=%p|fiber=#%llu\n",
                                 (void *)&mutex, (unsigned long long)weft_self()));
    ck_assert_fact(facts, "arrow|main/main|->|main/locker|wake\n");
    ck_assert_fact(facts, "arrow|main/main|->|main/locker|spin\n");
    ck_assert_fact(facts, "arrow|main/locker|->|main/main|wake\n");
    ck_assert_fact(facts, format("slice|main/main|wait|the end of|"));
    ck_assert_fact(facts, "slice|main/main|runnable|runnable\n");
    ck_assert_fact(facts, format("track|locker #%llu\n", (unsigned long long)f));
    ck_assert_fact(facts, "instant|main/locker|fiber|end|value=0\n");
    ck_assert_fact(facts, "total|events_dropped|0\n");
}

TEST(a_wait_for_a_descriptor_has_its_number_and_its_operation)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    start_trace();
    weft_fiber f = spin_named(read_byte, &fd[0], "reader");
    weft_snooze();
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    ck_assert_int_ge(weft_await(f), 0);
    const char *facts = stop_trace();
    ck_assert(strstr(facts, format("slice|main/reader|wait|read|object=")) != NULL);
    ck_assert(strstr(facts, format("|fd=%d\n", fd[0])) != NULL);
    ck_assert_fact(facts,
                   format("instant|main/reader|io|submit|value=0|operation=read|fd=%d\n", fd[0]));
    ck_assert_fact(facts,
                   format("instant|main/reader|io|complete|value=1|operation=read|fd=%d\n", fd[0]));
    ck_assert_fact(facts,
                   format("instant|main/main|io|submit|value=0|operation=write|fd=%d\n", fd[1]));
    ck_assert_fact(facts, "slice|main/cord|cord|idle\n");
    close_fd_pair(fd);
}

FIBER(snooze_ten, ({
          for (int i = 0; i < 10; i++)
              weft_snooze();
          weft_sleep(0.001);
      }))

TEST(each_switch_is_one_running_slice)
{
    start_trace();
    weft_counters before = stats();
    weft_fiber f[3];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(snooze_ten, NULL);
    for (int i = 0; i < 200; i++) /* more than a tick, also without another runnable fiber */
        weft_snooze();
    await_each_as(f, COUNT_OF(f), 0);
    weft_counters after = stats();
    const char *facts = stop_trace();
    size_t running = count_facts(facts, "slice|main/main|run|running\n") +
                     count_facts(facts, "slice|main/fiber|run|running\n");
    /* The first slice of main began without a switch. */
    ck_assert_uint_eq(running, after.switches - before.switches + 1);
}

TEST(marks_are_instants_and_spans_contain_the_waits)
{
    start_trace();
    weft_trace_begin("outer \"span\"\n");
    weft_trace_begin("inner");
    weft_trace_mark("first");
    weft_sleep(0.001);
    weft_trace_end();
    weft_trace_mark("caf\xc3\xa9 \xff");
    weft_trace_end();
    weft_trace_end(); /* no span is left */
    weft_trace_begin("open");
    const char *facts = stop_trace(); /* the program checks that slices nest */
    ck_assert_fact(facts, "slice|main/main|span|outer \"span\"/\n");
    ck_assert_fact(facts, "slice|main/main|span|inner\n");
    ck_assert_fact(facts, "slice|main/main|span|open\n");
    ck_assert_fact(facts, "instant|main/main|mark|first\n");
    ck_assert_fact(facts, "instant|main/main|mark|caf\xc3\xa9 \xc3\xbf\n");
    ck_assert_fact(facts, "slice|main/main|wait|sleep|");
}

TEST(a_long_text_is_cut)
{
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    start_trace();
    weft_trace_mark(text);
    weft_trace_mark("");
    const char *facts = stop_trace();
    text[200] = '\0';
    ck_assert_fact(facts, format("instant|main/main|mark|%s\n", text));
    ck_assert_fact(facts, "instant|main/main|mark|\n");
}

TEST(without_a_trace_marks_do_nothing)
{
    weft_trace_mark("nothing");
    weft_trace_begin("nothing");
    weft_trace_end();
    ck_assert(!weft_trace_is_on());
}

TEST(a_full_ring_keeps_the_newest_events_and_counts_the_others)
{
    ck_assert_int_eq(
        weft_trace_start_with(new_trace_path(), &(weft_trace_options){.events_max = 60}), 0);
    weft_trace_mark("old");
    weft_fiber f = spin_named(snooze_ten, NULL, "snoozer");
    for (int i = 0; i < 100; i++)
        weft_snooze();
    weft_trace_mark("new");
    const char *facts = stop_trace();
    ck_assert(!has_fact(facts, "instant|main/main|mark|old\n"));
    ck_assert_fact(facts, "instant|main/main|mark|new\n");
    ck_assert_fact(facts, "total|events|64\n");
    ck_assert(!has_fact(facts, "total|events_dropped|0\n"));
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(the_name_of_a_living_fiber_is_known_even_if_its_first_events_are_lost)
{
    ck_assert_int_eq(
        weft_trace_start_with(new_trace_path(), &(weft_trace_options){.events_max = 16}), 0);
    weft_fiber f = spin_named(suspend_and_mark, "", "sleeper");
    for (int i = 0; i < 100; i++)
        weft_snooze();
    weft_set_name(f, "renamed");
    weft_schedule(f, 0);
    const char *facts = stop_trace();
    ck_assert_fact(facts, format("track|renamed #%llu\n", (unsigned long long)f));
    weft_await(f);
}

TEST(fibers_that_wait_when_the_trace_starts_have_their_reason)
{
    weft_fiber f = spin_named(suspend_and_mark, "", "early");
    weft_snooze();
    start_trace();
    weft_schedule(f, 1);
    weft_await(f);
    const char *facts = stop_trace();
    ck_assert_fact(facts, "slice|main/early|wait|weft_schedule|");
    ck_assert_fact(facts, "arrow|main/main|->|main/early|wake\n");
}

TEST(a_cancellation_is_an_instant_and_wakes_the_fiber)
{
    start_trace();
    weft_fiber f = spin_named(mark_when_cancelled, "", "victim");
    weft_snooze();
    weft_cancel(f);
    weft_await(f);
    const char *facts = stop_trace();
    ck_assert_fact(facts, format("instant|main/victim|fiber|cancelled|value=0|fiber=#%llu\n",
                                 (unsigned long long)weft_self()));
    ck_assert_fact(facts, "arrow|main/main|->|main/victim|wake\n");
}

static weft_value transfer_back(void *arg)
{
    return weft_transfer(arg_id(arg), 7);
}

TEST(transfers_and_starts_are_switches_with_their_reason)
{
    weft_fiber f = weft_new(transfer_back, id_arg(weft_self()));
    weft_set_name(f, "other");
    start_trace();
    ck_assert_int_eq(weft_transfer(f, 1), 7);
    const char *facts = stop_trace();
    ck_assert_fact(facts, "slice|main/main|wait|a transfer back from|");
    ck_assert_fact(facts, "slice|main/other|wait|a transfer back from|");
    weft_cancel(f);
}

TEST(misuse_and_missing_files_are_errors)
{
    ck_assert_int_eq(weft_trace_stop(), -ENODATA);
    ck_assert_int_eq(weft_trace_start(NULL), -EINVAL);
    ck_assert_int_eq(weft_trace_start(""), -EINVAL);
    ck_assert_int_eq(weft_trace_start("/nonexistent/trace.json"), -ENOENT);
    weft_trace_options huge = {.events_max = SIZE_MAX};
    ck_assert_int_eq(weft_trace_start_with(new_trace_path(), &huge), -EINVAL);
    start_trace();
    ck_assert(weft_trace_is_on());
    ck_assert_int_eq(weft_trace_start("/tmp/other.json"), -EBUSY);
    stop_trace();
    ck_assert(!weft_trace_is_on());
    ck_assert_int_eq(weft_trace_stop(), -ENODATA);
}

TEST(a_full_disk_is_an_error_and_the_next_trace_works)
{
    ck_assert_int_eq(weft_trace_start("/dev/full"), 0);
    weft_snooze();
    ck_assert_int_eq(weft_trace_stop(), -ENOSPC);
    start_trace();
    weft_trace_mark("again");
    ck_assert_fact(stop_trace(), "instant|main/main|mark|again\n");
}

TEST(the_switches_of_a_traced_cord_are_counted_like_those_of_others)
{
    uint64_t counts[2];
    for (int traced = 0; traced < 2; traced++) {
        weft_counters before = stats();
        if (traced)
            start_trace();
        weft_fiber f = weft_spin(snooze_ten, NULL);
        for (int i = 0; i < 150; i++)
            weft_snooze();
        ck_assert_int_eq(weft_await(f), 0);
        if (traced)
            stop_trace();
        for (int i = 0; i < 150; i++)
            weft_snooze();
        counts[traced] = stats().switches - before.switches;
    }
    ck_assert_uint_eq(counts[0], counts[1]);
}
