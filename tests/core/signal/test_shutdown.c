/* The end of a program that serves: who is told to end, in which order, and who is waited for. */
#include "support.h"

#include "core/cord.h"

#include <math.h>

#include <pthread.h>
#include <signal.h>

/*
 * TSan holds signals from outside back until the next call of the C library, and does not tell how
 * many threads it has itself.
 */
#ifdef __SANITIZE_THREAD__
#define IS_TSAN true
#else
#define IS_TSAN false
#endif

static bool is_sim(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

/* Into the report of a program, so that the order is seen. */
static void say(const char *what)
{
    dprintf(STDERR_FILENO, "%s", what);
}

static void say_arg(void *what)
{
    say(what);
}

/* Sleeps until it is told to end, and says so. */
static weft_value end_politely(void *arg)
{
    weft_value rc = weft_sleep(INFINITY);
    mark(rc == -ECANCELED ? arg : "not cancelled ");
    return rc;
}

static weft_fiber spin_named(weft_fn *fn, void *arg, const char *name, bool is_daemon)
{
    return weft_spin_with(fn, arg, &(weft_spin_options){.name = name, .is_daemon = is_daemon});
}

static weft_value hold_a_child(void *arg)
{
    (void)arg;
    weft_spin(end_politely, (void *)"grandchild ");
    return end_politely((void *)"child ");
}

/* T104 */
START_TEST(all_end_but_daemons_parents_before_their_children)
{
    weft_fiber stays = spin_named(end_politely, (void *)"daemon ", "", true);
    weft_fiber f = weft_spin(hold_a_child, NULL);
    weft_spin(end_politely, (void *)"second");
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("child grandchild second");
    ck_assert_int_eq(weft_state_of(stays), WEFT_WAITING);
    ck_assert_int_eq(weft_await(f), -ECANCELED); /* its value is still there */
    ck_assert_int_eq(weft_shutdown_all(60), 0);
}
END_TEST

static weft_value hold_a_daemon(void *arg)
{
    (void)arg;
    spin_named(end_politely, (void *)"daemon", "", true);
    return weft_sleep(INFINITY);
}

static weft_value hold_a_worker(void *arg)
{
    (void)arg;
    weft_spin(end_politely, (void *)"worker ");
    return weft_sleep(INFINITY);
}

/* T104 */
START_TEST(a_daemon_ends_with_its_parent_and_a_daemons_child_is_no_daemon)
{
    spin_named(hold_a_worker, NULL, "", true);
    weft_spin(hold_a_daemon, NULL);
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("worker daemon");
}
END_TEST

static weft_value shut_down_from_below(void *arg)
{
    weft_spin(end_politely, (void *)"nephew ");
    weft_snooze();
    int rc = weft_shutdown_all(60);
    mark(rc == 0 ? "done " : "failed ");
    return (weft_value)arg;
}

static weft_value await_below(void *arg)
{
    weft_value v = weft_await(weft_spin(shut_down_from_below, arg));
    mark(v == 5 ? "parent" : "lost");
    return v;
}

START_TEST(the_ancestors_of_the_caller_go_on)
{
    weft_spin(end_politely, (void *)"uncle ");
    weft_fiber f = weft_spin(await_below, as_arg(5));
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_trail("uncle nephew done parent");
}
END_TEST

static double seen_grace;

static weft_value note_grace(void *arg)
{
    (void)arg;
    weft_sleep(INFINITY);
    seen_grace = weft_grace();
    WEFT_SHIELD(seen_grace) {
        weft_sleep(0.01);
        mark("cleaned");
    }
    return 0;
}

START_TEST(each_knows_how_long_it_has_and_is_waited_for)
{
    weft_spin(note_grace, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert(seen_grace > 0 && seen_grace <= 60);
    ck_assert_trail("cleaned");
}
END_TEST

static weft_value ignore_all(void *arg)
{
    while (arg == NULL)
        weft_snooze();
    return 0;
}

static weft_value clean_up_too_long(void *arg)
{
    (void)arg;
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY) {
        weft_sleep(1000);
    }
    return 0;
}

static int shut_down_stubborn(void)
{
    spin_named(ignore_all, NULL, "mule", false);
    spin_named(clean_up_too_long, NULL, "slow", false);
    spin_named(end_politely, (void *)"", "lamb", false);
    weft_snooze();
    _exit(weft_shutdown_all(0.02) == -ETIMEDOUT ? 7 : 1);
}

/* Issue 5, 3 */
START_TEST(those_who_would_not_end_are_named_with_what_they_wait_for)
{
    const outcome *o = run_apart(shut_down_stubborn);
    ck_assert_int_eq(o->status, 7);
    /* The mule may be runnable, or in the pause that follows many refused calls. */
    assert_said(o, "'mule' has not ended 0.02 s after it was told to");
    assert_said(o, "'slow' has not ended 0.02 s after it was told to; it waits for sleep\n");
    ck_assert_ptr_null(strstr(o->text, "lamb"));
}
END_TEST

START_TEST(without_grace_they_get_to_run_once)
{
    weft_spin(end_politely, (void *)"ran");
    weft_snooze();
    ck_assert_int_eq(weft_shutdown_all(0), 0);
    ck_assert_trail("ran");
}
END_TEST

static weft_value spin_when_scheduled(void *arg)
{
    weft_suspend();
    weft_spin(mark_and_return, arg);
    return 0;
}

static weft_value spin_while_cancelled(void *arg)
{
    weft_sleep(INFINITY);
    weft_spin(end_politely, arg);
    WEFT_SHIELD(1) {
        weft_sleep(0.001);
    }
    return 0;
}

/* T104 */
START_TEST(fibers_made_during_and_after_it_are_ended_too)
{
    weft_fiber stays = spin_named(spin_when_scheduled, (void *)"daemon's", "", true);
    weft_spin(spin_while_cancelled, (void *)"during");
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("during");
    weft_fiber f = weft_spin(mark_and_return, (void *)"after");
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(weft_schedule(stays, 0), 0);
    let_run();
    ck_assert_trail("during");
}
END_TEST

static weft_value spin_and_await(void *arg)
{
    return weft_await(weft_spin(mark_and_return, arg));
}

/* While it is being ended: lets the daemon end, and makes a fiber of what that leaves. */
static weft_value use_the_record_of(void *daemon)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(60) {
        weft_schedule(arg_id(daemon), 3);
        ck_assert_int_eq(weft_await(arg_id(daemon)), 3);
        ck_assert_int_eq(weft_await(weft_spin(spin_and_await, (void *)"ran")), 0);
    }
    return 0;
}

START_TEST(what_the_end_has_marked_does_not_stick_to_records)
{
    weft_fiber f = spin_named(suspend, NULL, "", true);
    weft_spin(use_the_record_of, id_arg(f));
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("ran");
}
END_TEST

static weft_value hang_as_a_daemon(void *arg)
{
    (void)arg;
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
        ck_assert_int_eq(weft_set_daemon(true), 0);
        weft_sleep(1000);
    }
    return 0;
}

static int turn_into_a_daemon(void)
{
    weft_spin(hang_as_a_daemon, NULL);
    weft_snooze();
    _exit(weft_shutdown_all(60) == 0 ? 0 : 1);
}

/* T104 */
START_TEST(one_that_hangs_and_becomes_a_daemon_is_not_waited_for)
{
    assert_silent(run_apart(turn_into_a_daemon), 0);
}
END_TEST

static weft_value toggle(void *arg)
{
    (void)arg;
    WEFT_MOVE_ON_AFTER(1000) {
        for (int i = 0; i < 5; i++) {
            weft_set_daemon(i % 2 == 0);
            weft_set_daemon(i % 2 == 0);
            weft_snooze();
        }
        weft_suspend(); /* a daemon, with a timer */
    }
    return 0;
}

/* T104 */
START_TEST(however_often_it_becomes_a_daemon_main_waits_for_the_right_ones)
{
    weft_spin(toggle, NULL);
    double begin = weft_now();
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert(weft_now() - begin < 1000);
    ck_assert_int_eq(weft_set_daemon(true), -EINVAL);
}
END_TEST

START_TEST(a_parked_fiber_and_one_that_never_ran_end_as_well)
{
    weft_fiber parked = weft_spin(end_politely, (void *)"parked");
    let_run();
    ck_assert_int_eq(weft_park(parked), 0);
    weft_fiber made = weft_new(mark_and_return, (void *)"never");
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("parked");
    ck_assert_int_eq(weft_state_of(made), WEFT_DEAD);
}
END_TEST

static weft_value supervise_one(void *arg)
{
    weft_child child = {.fn = end_politely, .arg = arg, .restart = WEFT_ALWAYS};
    return weft_supervise(&child, 1, NULL);
}

START_TEST(what_is_supervised_does_not_start_again)
{
    weft_spin(supervise_one, (void *)"x");
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    let_run();
    weft_counters now;
    weft_stats(&now);
    ck_assert_uint_eq(now.fibers, 0);
}
END_TEST

static weft_value shut_down_when_told(void *arg)
{
    weft_suspend();
    weft_spin(end_politely, arg);
    return weft_shutdown_all(60);
}

START_TEST(a_caller_that_is_cancelled_tells_the_others_and_does_not_wait)
{
    weft_fiber other = weft_spin(end_politely, (void *)"other");
    weft_fiber f = weft_spin(shut_down_when_told, (void *)"");
    let_run();
    weft_cancel(f);
    weft_await(f);
    ck_assert_int_eq(weft_await(other), -ECANCELED);
}
END_TEST

START_TEST(a_bad_time_is_refused_with_words)
{
    static const double bad[] = {-1, -INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_shutdown_all(bad[i]), -EINVAL);
        ck_assert_any_words(-EINVAL);
        ck_assert_int_eq(weft_shutdown_on_signals(bad[i]), -EINVAL);
    }
}
END_TEST

START_TEST(weft_shutdown_is_this_with_one_argument_and_the_socket_call_with_two)
{
    int fd[2];
    char byte;
    int (*call)(int, int) = weft_shutdown;
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_shutdown(fd[0], SHUT_WR), 0);
    ck_assert_int_eq(weft_read(fd[1], &byte, 1), 0);
    ck_assert_int_eq(call(fd[1], SHUT_WR), 0);
    weft_spin(end_politely, (void *)"all");
    weft_snooze();
    ck_assert_int_eq(weft_shutdown(1.5), 0);
    ck_assert_trail("all");
}
END_TEST

/* Those who accept. */

static int listen_here(void)
{
    int fd = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(fd, 0);
    return fd;
}

static weft_value accept_one(void *arg)
{
    int rc = weft_accept((int)(intptr_t)arg, NULL, NULL);
    mark(rc == -ECANCELED ? "accept " : "accepted ");
    return rc;
}

static int take_it(int fd, void *ctx)
{
    (void)ctx;
    return weft_close(fd);
}

static weft_value accept_many(void *arg)
{
    int rc = weft_accept_loop((int)(intptr_t)arg, take_it, NULL);
    mark(rc == -ECANCELED ? "loop " : "accepted ");
    return rc;
}

START_TEST(those_who_accept_are_ended_first)
{
    if (is_sim())
        return;
    int fd = listen_here(), other = listen_here();
    weft_spin(end_politely, (void *)"worker");
    weft_spin(accept_one, as_arg(fd));
    weft_spin(accept_many, as_arg(other));
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_msg(strcmp(trail, "accept loop worker") == 0 ||
                      strcmp(trail, "loop accept worker") == 0,
                  "%s", trail);
    weft_close(fd);
    weft_close(other);
}
END_TEST

static weft_value shut_down_soon(void *arg)
{
    (void)arg;
    weft_sleep(0.001);
    return weft_shutdown_all(60);
}

START_TEST(an_ancestor_that_accepts_returns_once)
{
    if (is_sim())
        return;
    int fd = listen_here();
    weft_fiber f = weft_spin(shut_down_soon, NULL);
    ck_assert_int_eq(weft_accept_loop(fd, take_it, NULL), -ECANCELED);
    ck_assert_int_eq(weft_await(f), 0);
    weft_close(fd);
}
END_TEST

/* Other threads. */

static weft_value serve_in_cord(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_value rc = weft_sleep(INFINITY);
    WEFT_SHIELD(1) {
        weft_sleep(0.01);
    }
    return rc;
}

START_TEST(threads_that_were_started_are_cancelled_and_waited_for)
{
    weft_cord cords[3];
    for (size_t i = 0; i < COUNT_OF(cords); i++) {
        cords[i] = weft_cord_start(serve_in_cord, id_arg(weft_self()), NULL);
        ck_assert_uint_ne(cords[i], 0);
    }
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    for (size_t i = 0; i < COUNT_OF(cords); i++) {
        ck_assert_int_eq(weft_cord_cancel(cords[i]), -ESRCH);   /* it has ended, */
        ck_assert_int_eq(weft_cord_join(cords[i]), -ECANCELED); /* and can be joined */
    }
}
END_TEST

static void *order_elsewhere(void *arg)
{
    (void)arg;
    return as_arg(weft_shutdown_on_signals(1));
}

START_TEST(only_the_main_thread_orders_the_end_of_the_program)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, order_elsewhere, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_int_eq((intptr_t)result, -EPERM);
}
END_TEST

/* Programs that are told to end by signals. */

typedef struct running {
    pid_t pid;
    int from; /* its stderr */
} running;

/* Start a program, and wait until it says "!". */
static running launch(int (*program)(void))
{
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        exit(program());
    }
    close(fd[1]);
    char byte;
    ck_assert_int_eq(read(fd[0], &byte, 1), 1);
    ck_assert_int_eq(byte, '!');
    return (running){pid, fd[0]};
}

/* What became of it; text is what it said after the "!". */
static const outcome *outcome_of(running r)
{
    static outcome out;
    read_all(r.from, out.text, sizeof out.text);
    close(r.from);
    int status;
    ck_assert_int_eq(waitpid(r.pid, &status, 0), r.pid);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return &out;
}

static const outcome *end_by(int (*program)(void), int sig)
{
    running r = launch(program);
    kill(r.pid, sig);
    return outcome_of(r);
}

/* A wait that is not over by itself, on any backend. */
static int wait_for_nothing(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return weft_wait_signal(&set);
}

static weft_value clean_up_aloud(void *arg)
{
    weft_value rc = weft_sleep(INFINITY);
    say(arg);
    return rc;
}

static weft_value child_of_a_tree(void *arg)
{
    weft_defer(say_arg, (void *)"child's ");
    weft_spin(clean_up_aloud, (void *)"grandchild");
    return clean_up_aloud(arg);
}

static int wait_with_a_tree(void)
{
    weft_shutdown_on_signals(60);
    weft_defer(say_arg, (void *)"main's ");
    weft_spin(child_of_a_tree, (void *)"child ");
    let_run();
    say("!");
    int rc = wait_for_nothing();
    say(rc == -ECANCELED && weft_grace() > 0 ? "main " : "not cancelled ");
    return 0;
}

/* P75 */
START_TEST(a_signal_ends_main_then_the_child_then_the_grandchild_and_the_status_is_0)
{
    if (IS_TSAN)
        return;
    assert_ended(end_by(wait_with_a_tree, SIGTERM), 0, "main main's child child's grandchild");
    assert_ended(end_by(wait_with_a_tree, SIGINT), 0, "main main's child child's grandchild");
}
END_TEST

static int poll_for_nothing(void)
{
    int fd[2];
    char byte;
    weft_shutdown_on_signals(60);
    if (weft_pipe(fd) < 0)
        return 9;
    say("!");
    ssize_t n = weft_read(fd[0], &byte, 1);
    return n == -ECANCELED ? 4 : 5;
}

/* P75 */
START_TEST(a_signal_ends_a_read_and_the_status_is_what_main_returns)
{
    if (IS_TSAN)
        return;
    if (getenv("WEFT_BACKEND") != NULL && strcmp(getenv("WEFT_BACKEND"), "sim") == 0)
        return; /* nobody else could write to a pipe in memory */
    assert_ended(end_by(poll_for_nothing, SIGTERM), 4, "");
}
END_TEST

static weft_value spin_politely(void *arg)
{
    (void)arg;
    while (weft_snooze() == 0)
        continue;
    return 0;
}

static int spin_two(void)
{
    weft_shutdown_on_signals(60);
    weft_spin(spin_politely, NULL);
    weft_spin(spin_politely, NULL);
    say("!");
    return weft_await_children() == -ECANCELED ? 0 : 1;
}

/* P75 */
START_TEST(a_signal_ends_a_program_whose_fibers_never_wait)
{
    if (IS_TSAN)
        return;
    assert_ended(end_by(spin_two, SIGTERM), 0, "");
    assert_ended(end_by(spin_two, SIGINT), 0, "");
}
END_TEST

static int ignore_it_a_while(void)
{
    weft_shutdown_on_signals(60);
    say("!");
    int refused = 0;
    wait_for_nothing();
    for (int i = 0; i < 300; i++)
        refused += weft_sleep(10) == -ECANCELED && wait_for_nothing() == -ECANCELED;
    return refused == 300 ? 0 : 1;
}

START_TEST(main_that_ignores_it_is_refused_each_time)
{
    if (IS_TSAN)
        return;
    assert_ended(end_by(ignore_it_a_while, SIGTERM), 0, "");
}
END_TEST

static weft_value compute(void *arg)
{
    (void)arg;
    say("!");
    for (volatile bool goes_on = true; goes_on;)
        continue;
    return 0;
}

static int compute_for_ever(void)
{
    weft_shutdown_on_signals(60);
    spin_named(compute, NULL, "hog", false);
    wait_for_nothing();
    return 0;
}

/* The first one is known to have come when the program no longer holds it back. */
static void wait_until_taken(pid_t pid)
{
    char path[64], text[4096];
    unsigned long long pending = 1;
    while (pending != 0) {
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        FILE *f = fopen(path, "r");
        ck_assert_ptr_nonnull(f);
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = '\0';
        const char *line = strstr(text, "ShdPnd:");
        ck_assert_ptr_nonnull(line);
        pending = strtoull(line + sizeof "ShdPnd:", NULL, 16);
    }
}

/* The same one counts again after a while. */
static void send_until_it_ends(pid_t pid, int sig)
{
    siginfo_t end = {.si_pid = 0};
    while (end.si_pid == 0) {
        kill(pid, sig);
        usleep(1000);
        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

/* P75 */
START_TEST(a_second_signal_ends_the_process_at_once_also_while_a_fiber_computes)
{
    if (IS_TSAN)
        return;
    static const int pairs[][2] = {{SIGTERM, SIGINT}, {SIGINT, SIGINT}, {SIGTERM, SIGTERM}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        running r = launch(compute_for_ever);
        kill(r.pid, pairs[i][0]);
        wait_until_taken(r.pid);
        send_until_it_ends(r.pid, pairs[i][1]);
        assert_ended(outcome_of(r), -pairs[i][1], "");
    }
}
END_TEST

/* It signals itself: nothing lies between the two, however busy the machine is. */
static int end_slowly(void)
{
    weft_shutdown_on_signals(60);
    say("!");
    raise(SIGTERM);
    raise(SIGTERM);
    wait_for_nothing();
    say("told ");
    WEFT_SHIELD(60) {
        weft_sleep(0.05);
    }
    return 0;
}

START_TEST(a_signal_that_comes_twice_at_once_is_one)
{
    assert_ended(outcome_of(launch(end_slowly)), 0, "told ");
}
END_TEST

static int compute_too_long(void)
{
    weft_shutdown_on_signals(0.05);
    spin_named(compute, NULL, "hog", false);
    spin_named(sleep_forever, NULL, "guard", true);
    wait_for_nothing();
    return 0;
}

/* Issue 5, 3 */
START_TEST(after_the_grace_time_those_left_are_named_also_while_one_computes)
{
    if (IS_TSAN)
        return;
    const outcome *o = end_by(compute_too_long, SIGTERM);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "'main' has not ended 50 ms after the signal; it waits for a signal\n");
    assert_said(o, "'hog' has not ended 50 ms after the signal; it runs\n");
    ck_assert_ptr_null(strstr(o->text, "guard"));
}
END_TEST

static void sleep_in_a_defer(void *arg)
{
    (void)arg;
    WEFT_SHIELD(INFINITY) {
        weft_sleep(INFINITY);
    }
}

static weft_value end_slowly_by_a_defer(void *arg)
{
    weft_defer(sleep_in_a_defer, arg);
    return 0;
}

/* As if the signal came while the scheduler moves a fiber's record: only the record is whole. */
static int compute_in_the_middle_of_anything(void)
{
    weft_shutdown_on_signals(0.05);
    weft_fiber f = spin_named(end_slowly_by_a_defer, NULL, "torn", false);
    weft_snooze();
    weft__fiber *record = weft__fiber_find(weft__cord_self, f);
    if (record == NULL || record->phase != WEFT__ENDING)
        return 3;
    record->life = (weft__life *)64; /* nothing is mapped there */
    weft__list_cut(&record->sibling);
    record->parent = (weft__fiber *)64;
    compute(NULL);
    return 0;
}

START_TEST(the_report_after_the_grace_time_reads_records_only)
{
    if (IS_TSAN)
        return;
    const outcome *o = end_by(compute_in_the_middle_of_anything, SIGTERM);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "'main' has not ended 50 ms after the signal; it runs\n");
    assert_said(o, "'torn' has not ended 50 ms after the signal; it waits for sleep\n");
}
END_TEST

static weft_value churn(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0)
        return 0;
    weft_fiber children[2];
    for (int i = 0; i < 2; i++)
        children[i] = weft_spin(churn, as_arg(depth - 1));
    weft_await(children[0]);
    return 0; /* the other one is ended, or not */
}

static intptr_t depth_of_churn = 6;

/* Fibers are made and end all the time; it never looks whether it is to end. */
static int churn_for_ever(void)
{
    weft_shutdown_on_signals(0);
    say("!");
    while (depth_of_churn > 0)
        WEFT_SHIELD(INFINITY) {
            weft_await(weft_spin(churn, as_arg(depth_of_churn)));
        }
    return 0;
}

START_TEST(whatever_the_signal_interrupts_the_process_ends_with_a_report)
{
    if (IS_TSAN)
        return;
    for (int i = 0; i < (is_sanitized() ? 10 : 50); i++) {
        const outcome *o = end_by(churn_for_ever, i % 2 ? SIGINT : SIGTERM);
        ck_assert_msg(o->status == 1, "status %d: %.300s", o->status, o->text);
        assert_said(o, "'main' has not ended 0 ms after the signal");
    }
}
END_TEST

static int clean_up_too_slowly(void)
{
    weft_shutdown_on_signals(0.05);
    spin_named(ignore_all, NULL, "mule", false);
    weft_snooze();
    say("!");
    wait_for_nothing();
    return 0;
}

START_TEST(the_grace_time_goes_on_while_the_process_ends)
{
    if (IS_TSAN)
        return;
    const outcome *o = end_by(clean_up_too_slowly, SIGINT);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "'mule' has not ended "); /* in virtual time 5 s are over first */
}
END_TEST

static int have_no_time(void)
{
    weft_shutdown_on_signals(0);
    say("!");
    for (volatile bool goes_on = true; goes_on;)
        continue;
    return 0;
}

START_TEST(a_grace_time_of_0_ends_at_once_and_one_without_end_never_does)
{
    if (IS_TSAN)
        return;
    const outcome *o = end_by(have_no_time, SIGTERM);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "'main' has not ended 0 ms after the signal; it runs\n");
    ck_assert_int_eq(weft_shutdown_on_signals(INFINITY), 0);
}
END_TEST

static weft_value say_in_a_fiber(void *arg)
{
    say(arg);
    return weft_schedule(weft_main(), 0);
}

static int take_a_signal_back(void)
{
    weft_shutdown_on_signals(60);
    weft_on_signal(SIGTERM, say_in_a_fiber, (void *)"own");
    say("!");
    return (int)weft_suspend();
}

START_TEST(a_function_of_the_programs_own_takes_the_signal_over)
{
    if (IS_TSAN)
        return;
    assert_ended(end_by(take_a_signal_back, SIGTERM), 0, "own");
}
END_TEST

static int keep_a_signal_and_take_too_long(void)
{
    weft_shutdown_on_signals(0.05);
    weft_on_signal(SIGTERM, say_in_a_fiber, (void *)"taken over");
    say("!");
    while (wait_for_nothing() < 0)
        continue;
    return 0;
}

START_TEST(the_grace_time_of_one_signal_holds_also_where_the_other_is_the_programs)
{
    if (IS_TSAN)
        return;
    const outcome *o = end_by(keep_a_signal_and_take_too_long, SIGINT);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "'main' has not ended 50 ms after the signal");
    ck_assert_ptr_null(strstr(o->text, "taken over"));
}
END_TEST

static int work_until_done(void)
{
    weft_shutdown_on_signals(60);
    return weft_suspend() == 0 ? 3 : 1;
}

START_TEST(main_does_not_wait_for_these_signals)
{
    if (IS_TSAN)
        return;
    assert_silent(run_apart(work_until_done), 3);
}
END_TEST

static int shut_down_and_wait(void)
{
    weft_shutdown_on_signals(60);
    if (weft_shutdown_all(60) != 0)
        return 1;
    say("!");
    return wait_for_nothing() == -ECANCELED ? 0 : 1;
}

START_TEST(a_signal_ends_main_also_when_everything_else_has_been_ended)
{
    if (IS_TSAN)
        return;
    assert_ended(end_by(shut_down_and_wait, SIGTERM), 0, "");
}
END_TEST

static weft_value accept_aloud(void *arg)
{
    int rc = weft_accept((int)(intptr_t)arg, NULL, NULL);
    say(rc == -ECANCELED ? "door " : "accepted ");
    return rc;
}

static int serve_aloud(void)
{
    weft_shutdown_on_signals(60);
    int fd = weft_listen("tcp", "127.0.0.1:0");
    weft_spin(accept_aloud, as_arg(fd));
    weft_spin(clean_up_aloud, (void *)"worker");
    let_run();
    say("!");
    wait_for_nothing();
    say("main ");
    return 0;
}

START_TEST(a_signal_ends_those_first_who_accept)
{
    if (IS_TSAN)
        return;
    if (getenv("WEFT_BACKEND") != NULL && strcmp(getenv("WEFT_BACKEND"), "sim") == 0)
        return;
    assert_ended(end_by(serve_aloud, SIGTERM), 0, "door main worker");
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &all_end_but_daemons_parents_before_their_children,
        &a_daemon_ends_with_its_parent_and_a_daemons_child_is_no_daemon,
        &the_ancestors_of_the_caller_go_on,
        &each_knows_how_long_it_has_and_is_waited_for,
        &those_who_would_not_end_are_named_with_what_they_wait_for,
        &without_grace_they_get_to_run_once,
        &fibers_made_during_and_after_it_are_ended_too,
        &what_the_end_has_marked_does_not_stick_to_records,
        &one_that_hangs_and_becomes_a_daemon_is_not_waited_for,
        &however_often_it_becomes_a_daemon_main_waits_for_the_right_ones,
        &a_parked_fiber_and_one_that_never_ran_end_as_well,
        &what_is_supervised_does_not_start_again,
        &a_caller_that_is_cancelled_tells_the_others_and_does_not_wait,
        &a_bad_time_is_refused_with_words,
        &weft_shutdown_is_this_with_one_argument_and_the_socket_call_with_two,
        &those_who_accept_are_ended_first,
        &an_ancestor_that_accepts_returns_once,
        &threads_that_were_started_are_cancelled_and_waited_for,
        &only_the_main_thread_orders_the_end_of_the_program,
        &a_signal_ends_main_then_the_child_then_the_grandchild_and_the_status_is_0,
        &a_signal_ends_a_read_and_the_status_is_what_main_returns,
        &a_signal_ends_a_program_whose_fibers_never_wait,
        &main_that_ignores_it_is_refused_each_time,
        &a_second_signal_ends_the_process_at_once_also_while_a_fiber_computes,
        &a_signal_that_comes_twice_at_once_is_one,
        &after_the_grace_time_those_left_are_named_also_while_one_computes,
        &the_report_after_the_grace_time_reads_records_only,
        &whatever_the_signal_interrupts_the_process_ends_with_a_report,
        &the_grace_time_goes_on_while_the_process_ends,
        &a_grace_time_of_0_ends_at_once_and_one_without_end_never_does,
        &a_function_of_the_programs_own_takes_the_signal_over,
        &the_grace_time_of_one_signal_holds_also_where_the_other_is_the_programs,
        &main_does_not_wait_for_these_signals,
        &a_signal_ends_main_also_when_everything_else_has_been_ended,
        &a_signal_ends_those_first_who_accept,
    };
    return run_suite("shutdown", tests, COUNT_OF(tests));
}
