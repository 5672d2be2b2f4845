/* Tests of the trace of several cords: arrows, starts and stops, ended cords, fork, WEFT_TRACE. */
#include "core/cord/fork_support.h"
#include "core/trace/trace_support.h"
#include "support/cord_support.h"
#include "support/suite.h"

#include <sched.h>
#include <semaphore.h>

static weft_cord start_named_cord(weft_fn *fn, void *arg, const char *name)
{
    weft_cord cord = weft_cord_start(fn, arg, &(weft_cord_options){.name = name});
    ck_assert_uint_ne(cord, 0);
    return cord;
}

/* Return each received value to the fiber in arg, until a value is 0. */
static weft_value answer(void *arg)
{
    weft_value value;
    while ((value = weft_receive()) > 0)
        weft_tell(arg_id(arg), value);
    return value;
}

static void ask_cord(weft_cord cord, int times)
{
    for (int i = 0; i < times; i++) {
        ck_assert_int_eq(weft_tell(cord, 1), 0);
        ck_assert_int_eq(weft_receive(), 1);
    }
}

TEST(arrows_lead_from_the_sender_to_the_receiver_in_another_cord)
{
    start_trace();
    weft_cord cord = start_named_cord(answer, id_arg(weft_self()), "worker");
    ask_cord(cord, 10);
    ck_assert_int_eq(weft_tell(cord, 0), 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    const char *facts = stop_trace();
    /* A message that arrives before the receiver waits has an arrow to the track of the cord. */
    size_t there = count_facts(facts, "arrow|main/main|->|worker/worker|message\n") +
                   count_facts(facts, "arrow|main/main|->|worker/cord|message\n");
    size_t back = count_facts(facts, "arrow|worker/worker|->|main/main|message\n") +
                  count_facts(facts, "arrow|worker/worker|->|main/cord|message\n");
    ck_assert_uint_eq(there, 11);
    ck_assert_uint_ge(back, 10); /* and the message that the cord has ended, if main waits */
    ck_assert_fact(facts, "slice|worker/worker|wait|a message|");
}

TEST(a_trace_that_starts_and_stops_includes_cords_that_run)
{
    weft_cord cords[3];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = start_named_cord(answer, id_arg(weft_self()), format("cord%d", (int)i));
    for (int round = 0; round < 5; round++) {
        start_trace();
        for (size_t i = 0; i < COUNT_OF(cords); i++)
            ask_cord(cords[i], 3);
        const char *facts = stop_trace();
        for (size_t i = 0; i < COUNT_OF(cords); i++)
            ck_assert_fact(facts, format("slice|cord%d/cord%d|run|running\n", (int)i, (int)i));
        ask_cord(cords[0], 3); /* not traced */
    }
    for (size_t i = 0; i < COUNT_OF(cords); i++) {
        ck_assert_int_eq(weft_tell(cords[i], 0), 0);
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    }
}

FIBER_DO(mark_and_end, weft_trace_mark("in a cord"), 0)

TEST(the_events_of_cords_that_have_ended_are_in_the_file)
{
    start_trace();
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(weft_cord_join(start_named_cord(mark_and_end, NULL, "short")), 0);
    const char *facts = stop_trace();
    ck_assert_uint_eq(count_facts(facts, "instant|short/short|mark|in a cord\n"), 20);
    ck_assert_fact(facts, "total|cords_dropped|0\n");
}

/* Start and stop traces, in a thread that is not a cord. Then tell the fiber in arg. */
static void *trace_repeatedly(void *arg)
{
    for (int i = 0; i < (IS_SLOW ? 20 : 100); i++) {
        ck_assert_int_eq(weft_trace_start("/dev/null"), 0);
        ck_assert(weft_trace_is_on());
        ck_assert_int_eq(weft_trace_stop(), 0);
    }
    ck_assert_int_eq(weft_tell(arg_id(arg), 1), 0);
    return NULL;
}

static weft_value churn(void *arg)
{
    const atomic_bool *is_over = arg;
    while (!atomic_load(is_over)) {
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(1))), 1);
        weft_trace_mark("churn");
        weft_snooze();
        weft_sleep(0);
    }
    return 0;
}

TEST(a_plain_thread_starts_and_stops_traces_while_cords_run_and_end)
{
    atomic_bool is_over = false;
    weft_cord cords[2];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = start_cord(churn, &is_over);
    pthread_t thread = start_thread(trace_repeatedly, id_arg(weft_self()));
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(weft_cord_join(start_cord(mark_and_end, NULL)), 0);
    ck_assert_int_eq(weft_receive(), 1);
    join_thread(thread);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

static sem_t is_blocked, may_continue;

static weft_value block_thread(void *arg)
{
    weft_trace_mark("before");
    sem_post(&is_blocked);
    sem_wait(&may_continue);
    weft_trace_mark("after");
    return 0;
}

TEST(a_cord_that_does_not_switch_is_in_the_file)
{
    sem_init(&is_blocked, 0, 0);
    sem_init(&may_continue, 0, 0);
    start_trace();
    weft_cord cord = start_named_cord(block_thread, NULL, "blocked");
    sem_wait(&is_blocked);
    const char *facts = stop_trace();
    ck_assert_fact(facts, "instant|blocked/");
    sem_post(&may_continue);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    start_trace();
    stop_trace();
}

/* Stop the trace in a thread that is not a cord. */
static void *stop_apart(void *arg)
{
    ck_assert_int_eq(weft_trace_stop(), 0);
    return arg;
}

TEST(a_cord_starts_a_trace_while_another_thread_stops_the_trace_before)
{
    ck_assert_uint_ne(weft_self(), 0);
    ck_assert_int_eq(weft_trace_start("/dev/null"), 0);
    weft_trace_mark("first trace");
    pthread_t thread = start_thread(stop_apart, NULL);
    while (weft_trace_is_on())
        sched_yield(); /* the stop waits for a switch of this thread */
    start_trace();
    weft_trace_mark("second trace");
    const char *facts = stop_trace();
    ck_assert_fact(facts, "instant|main/main|mark|second trace\n");
    ck_assert(!has_fact(facts, "instant|main/main|mark|first trace\n"));
    join_thread(thread);
}

static weft_value trace_and_mark(void *arg)
{
    const atomic_bool *is_over = arg;
    while (!atomic_load(is_over)) {
        int rc = weft_trace_start("/dev/null");
        ck_assert_msg(rc == 0 || rc == -EBUSY, "%d", rc);
        weft_trace_mark("storm");
        weft_snooze();
        rc = weft_trace_stop();
        ck_assert_msg(rc == 0 || rc == -ENODATA, "%d", rc);
    }
    return 0;
}

TEST(several_cords_start_and_stop_traces_while_cords_run_and_end)
{
    atomic_bool is_over = false;
    weft_cord cords[4];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = start_cord(i == 0 ? churn : trace_and_mark, &is_over);
    for (int i = 0; i < (IS_SLOW ? 20 : 200); i++)
        ck_assert_int_eq(weft_cord_join(start_cord(mark_and_end, NULL)), 0);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    start_trace(); /* the next trace is complete */
    weft_trace_mark("after the storm");
    ck_assert_fact(stop_trace(), "instant|main/main|mark|after the storm\n");
}

static char env_path[64];

/* Set WEFT_TRACE for programs that run apart. */
static void set_env_path(const char *suffix)
{
    snprintf(env_path, sizeof env_path, "/tmp/weft-trace-env.%d.json", (int)getpid());
    setenv("WEFT_TRACE", format("%s%s", env_path, suffix), 1);
}

static int return_from_main(void)
{
    weft_await(weft_spin_with(mark_and_end, NULL, &(weft_spin_options){.name = "child"}));
    return 0;
}

static int call_exit(void)
{
    weft_cord_start(mark_and_end, NULL, NULL);
    weft_snooze();
    exit(3);
}

TEST(a_program_with_weft_trace_writes_the_file_when_main_returns)
{
    set_env_path("");
    assert_silent(run_apart(return_from_main), 0);
    const char *facts = facts_of(env_path);
    ck_assert_fact(facts, "instant|main/child|mark|in a cord\n");
    ck_assert_fact(facts, "arrow|main/main|->|main/child|spin\n");
    unlink(env_path);
}

TEST(a_program_with_weft_trace_writes_the_file_when_it_calls_exit)
{
    set_env_path("");
    assert_silent(run_apart(call_exit), 3);
    facts_of(env_path);
    unlink(env_path);
}

static int write_to_full_disk(void)
{
    setenv("WEFT_TRACE", "/dev/full", 1);
    return return_from_main();
}

TEST(an_error_of_the_file_at_exit_is_reported_once)
{
    const outcome *o = run_apart(write_to_full_disk);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "the trace was not written to /dev/full");
    ck_assert_uint_eq(count_in(o->text, "trace"), 1);
}

static int name_missing_folder(void)
{
    setenv("WEFT_TRACE", "/nonexistent/trace", 1);
    return return_from_main();
}

TEST(a_file_that_cannot_be_created_is_reported_and_the_program_runs)
{
    const outcome *o = run_apart(name_missing_folder);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "WEFT_TRACE: cannot trace to /nonexistent");
}

static int fork_traced(void)
{
    weft_self();
    pid_t pid = weft_fork();
    if (pid == 0) {
        weft_trace_mark("child of weft_fork");
        weft_await(weft_spin(mark_and_end, NULL));
        exit(0);
    }
    if (wait_for_exit(pid) != 0)
        return 1;
    pid = fork();
    if (pid == 0)
        exit(weft_trace_stop() == -ENOTRECOVERABLE ? 0 : 1);
    if (wait_for_exit(pid) != 0)
        return 2;
    weft_trace_mark("parent");
    return 0;
}

TEST(children_of_fork_do_not_write_to_the_file_of_the_parent)
{
    set_env_path("");
    const outcome *o = run_apart(fork_traced);
    ck_assert_msg(o->status == 0, "%d: %s", o->status, o->text);
    const char *facts = facts_of(env_path);
    ck_assert_fact(facts, "instant|main/main|mark|parent\n");
    ck_assert(!has_fact(facts, "instant|main/main|mark|child of weft_fork\n"));
    unlink(env_path);
}

TEST(with_a_process_id_in_the_name_a_child_of_weft_fork_writes_its_own_file)
{
    set_env_path(".%p");
    const outcome *o = run_apart(fork_traced);
    ck_assert_msg(o->status == 0, "%d: %s", o->status, o->text);
    char line[256], command[128];
    snprintf(command, sizeof command, "ls %s.*", env_path);
    FILE *files = popen(command, "r");
    int count = 0, of_child = 0;
    while (fgets(line, sizeof line, files) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        of_child += has_fact(facts_of(line), "instant|main/main|mark|child of weft_fork\n");
        unlink(line);
        count++;
    }
    pclose(files);
    ck_assert_int_eq(count, 2);
    ck_assert_int_eq(of_child, 1);
}

static weft_value random_walk(void *arg)
{
    for (int i = 0; i < 20; i++) {
        weft_snooze();
        weft_trace_mark(arg);
    }
    return 0;
}

static int walk_in_random_order(void)
{
    weft_fiber f[3];
    const char *names[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = spin_named(random_walk, (char *)(uintptr_t)names[i], names[i]);
    weft_await_all(f, COUNT_OF(f), NULL);
    return 0;
}

/* Copy facts, but replace addresses by 0. Addresses depend on the heap, not on the seed. */
static void copy_without_addresses(char *to, size_t bytes, const char *facts)
{
    ck_assert_uint_lt(strlen(facts), bytes);
    while (*facts != '\0') {
        bool is_address = strncmp(facts, "0x", 2) == 0;
        *to++ = is_address ? '0' : *facts;
        facts += is_address ? 2 + strspn(facts + 2, "0123456789abcdef") : 1;
    }
    *to = '\0';
}

TEST(the_same_seed_gives_the_same_trace_on_sim)
{
    const char *backend = getenv("WEFT_BACKEND"); /* this process must not become a cord */
    if (backend == NULL || strcmp(backend, "sim") != 0)
        return;
    static char facts[3][1 << 16];
    static const char *const seeds[] = {"7", "7", "8"};
    for (int i = 0; i < 3; i++) {
        setenv("WEFT_SEED", seeds[i], 1);
        set_env_path("");
        assert_silent(run_apart(walk_in_random_order), 0);
        copy_without_addresses(facts[i], sizeof facts[i], facts_of(env_path));
        unlink(env_path);
    }
    ck_assert_str_eq(facts[0], facts[1]);
    ck_assert_str_ne(facts[0], facts[2]);
}
