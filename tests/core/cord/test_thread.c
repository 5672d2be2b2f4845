/* Threads, each with its own fibers: how they reach each other, what is left when one ends. */
#include "support.h"

#include "core/port.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

static pthread_t start(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static void *join(pthread_t thread)
{
    void *result;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

static weft_value add_one(void *arg)
{
    for (int i = 0; i < 3; i++)
        weft_snooze();
    weft_sleep(0.001);
    ++*(int *)arg;
    return 0;
}

static void *run_a_hundred_fibers(void *arg)
{
    int *sum = arg;
    for (int i = 0; i < 100; i++)
        weft_go(add_one, sum);
    return as_arg(weft_await_children());
}

/* DESIGN 8 */
START_TEST(several_threads_run_their_own_fibers_side_by_side)
{
    int sums[4] = {0};
    pthread_t threads[COUNT_OF(sums)];
    for (size_t i = 0; i < COUNT_OF(sums); i++)
        threads[i] = start(run_a_hundred_fibers, &sums[i]);
    int own = 0;
    ck_assert_ptr_null(run_a_hundred_fibers(&own));
    for (size_t i = 0; i < COUNT_OF(sums); i++) {
        ck_assert_ptr_null(join(threads[i]));
        ck_assert_int_eq(sums[i], 100);
    }
    ck_assert_int_eq(own, 100);
}
END_TEST

static void *say_ids(void *arg)
{
    weft_fiber *ids = arg;
    ids[0] = weft_self();
    ids[1] = weft_spin(return_arg, NULL);
    weft_await(ids[1]);
    return NULL;
}

/* T18 */
START_TEST(ids_of_different_threads_differ_also_when_one_comes_after_the_other)
{
    weft_fiber ids[20][2];
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        join(start(say_ids, ids[i]));
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        ck_assert_uint_ne(ids[i][0], weft_self());
        for (size_t j = 0; j < i; j++)
            ck_assert(ids[i][0] != ids[j][0] && ids[i][1] != ids[j][1]);
    }
}
END_TEST

static sem_t is_idle;

static void tell_idle(void *arg)
{
    (void)arg;
    sem_post(&is_idle);
}

/* Schedules once the other thread waits for the outside world. */
static void *schedule_later(void *arg)
{
    sem_wait(&is_idle);
    return as_arg(weft_schedule(*(weft_fiber *)arg, 42));
}

static pthread_t start_for_idle(weft_fiber *f)
{
    sem_init(&is_idle, 0, 0);
    weft_on_idle(tell_idle, NULL);
    return start(schedule_later, f);
}

/* P8, P10 */
START_TEST(a_plain_thread_wakes_a_main_fiber_that_has_nothing_else_to_wait_for)
{
    weft_fiber self = weft_self();
    pthread_t thread = start_for_idle(&self);
    ck_assert_int_eq(weft_suspend(), 42);
    ck_assert_ptr_null(join(thread));
}
END_TEST

/* P10 */
START_TEST(a_plain_thread_wakes_a_fiber_while_main_awaits_it)
{
    weft_fiber f = spin_suspended();
    pthread_t thread = start_for_idle(&f);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_ptr_null(join(thread));
}
END_TEST

static void *schedule_now(void *arg)
{
    return as_arg(weft_schedule(*(weft_fiber *)arg, 42));
}

/* P10, P80 */
START_TEST(what_a_thread_sent_arrives_although_the_thread_ends_at_once)
{
    weft_fiber self = weft_self();
    for (int i = 0; i < 500; i++) {
        pthread_t thread = start(schedule_now, &self);
        ck_assert_int_eq(weft_suspend(), 42);
        ck_assert_ptr_null(join(thread));
    }
}
END_TEST

static void *schedule_one_after_the_other(void *arg)
{
    weft_value *values = arg; /* the first is whom to send to */
    return as_arg(weft_schedule((weft_fiber)values[0], values[1]) +
                  weft_schedule((weft_fiber)values[0], values[2]));
}

/* P4 */
START_TEST(of_two_values_that_a_thread_sent_the_later_wins_but_not_against_an_error)
{
    weft_value values[] = {(weft_value)weft_self(), 1, 2};
    ck_assert_ptr_null(join(start(schedule_one_after_the_other, values)));
    ck_assert_int_eq(weft_suspend(), 2);
    values[1] = -EIO;
    ck_assert_ptr_null(join(start(schedule_one_after_the_other, values)));
    ck_assert_int_eq(weft_suspend(), -EIO);
    if (!is_sanitized()) /* TSan has threads of its own, in a forked process up to two */
        ck_assert_int_eq(weft_suspend(), 0);
}
END_TEST

static weft_fiber sent_to;
static pthread_t last_thread;
static atomic_bool may_send;
static bool is_watched; /* the next stat is the moment to send */
static unsigned looks;  /* how often weft has counted the threads */

static void *send_when_told(void *arg)
{
    (void)arg;
    while (!atomic_load(&may_send))
        sched_yield();
    return as_arg(weft_schedule(sent_to, 42));
}

/*
 * In place of the C library's: weft counts the threads by it, to find out whether anybody is left
 * who could wake a fiber. The last one sends and ends just before it is counted.
 */
int stat(const char *restrict path, struct stat *restrict out)
{
    looks++;
    if (is_watched) {
        is_watched = false;
        atomic_store(&may_send, true);
        pthread_join(last_thread, NULL);
    }
    return fstatat(AT_FDCWD, path, out, 0);
}

/* P10, P80 */
START_TEST(a_last_word_of_the_last_thread_is_not_taken_for_a_deadlock)
{
    sent_to = spin_suspended();
    last_thread = start(send_when_told, NULL);
    is_watched = true;
    weft_value value = weft_await(sent_to);
    if (is_watched) { /* it did not ask */
        is_watched = false;
        atomic_store(&may_send, true);
        pthread_join(last_thread, NULL);
    }
    ck_assert_int_eq(value, 42);
}
END_TEST

/* A backend whose waits are counted, and for other threads not waited. */
static const weft__backend_type *real_type;
static unsigned waits_for_threads; /* with an end */
static sem_t waits_for_ever;       /* and without */

#define WAITS_MAX (10 * WEFT__THREAD_LOOKS_MAX)

static int poll_by_spy(weft__backend *b, int64_t timeout_ns)
{
    if (timeout_ns < WEFT__POLL_FOR_EVER && ++waits_for_threads < WAITS_MAX)
        return real_type->poll(b, 0);
    if (timeout_ns < 0)
        sem_post(&waits_for_ever);
    return real_type->poll(b, timeout_ns);
}

static void *wake_after_the_last_look(void *arg)
{
    sem_wait(&waits_for_ever);
    return as_arg(weft_schedule(*(weft_fiber *)arg, 42));
}

/* Counts the waits of this thread from now on. */
static weft__backend_type spy;

static void spy_on_waits(void)
{
    weft__backend *b = weft__cord_self->backend;
    real_type = b->type;
    spy = *real_type;
    spy.poll = poll_by_spy;
    b->type = &spy;
    waits_for_threads = looks = 0;
    sem_init(&waits_for_ever, 0, 0);
}

static void stop_spying(void)
{
    weft__cord_self->backend->type = real_type;
}

static void wait_for_a_foreign_thread(weft_fiber *f)
{
    spy_on_waits();
    pthread_t thread = start(wake_after_the_last_look, f);
    ck_assert_int_eq(weft_suspend(), 42);
    ck_assert_ptr_null(join(thread));
    stop_spying();
}

START_TEST(a_main_fiber_that_waits_for_a_foreign_thread_stops_looking_for_it)
{
    weft_fiber self = weft_self();
    wait_for_a_foreign_thread(&self);
    ck_assert_uint_eq(waits_for_threads, WEFT__THREAD_LOOKS_MAX);
    ck_assert_uint_eq(looks, WEFT__THREAD_LOOKS_MAX + 1);
    /* It knows that there was one, and does not look at once. */
    wait_for_a_foreign_thread(&self);
    ck_assert_uint_eq(waits_for_threads, WEFT__THREAD_LOOKS_MAX);
    ck_assert_uint_eq(looks, WEFT__THREAD_LOOKS_MAX);
}
END_TEST

static weft_value return_after_the_last_look(void *arg)
{
    (void)arg;
    sem_wait(&waits_for_ever);
    return 0;
}

/* P8 */
START_TEST(a_main_fiber_that_suspends_hears_of_the_end_of_a_call_however_long_that_takes)
{
    if (is_sanitized()) /* TSan has threads of its own */
        return;
    weft_self();
    spy_on_waits();
    ck_assert_int_eq(weft_offload_go(return_after_the_last_look, NULL), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    stop_spying();
}
END_TEST

static bool is_to_be_let_go;

/* The cord is let go, and while it leaves its poll a message comes. */
static int poll_and_be_let_go(weft__backend *b, int64_t timeout_ns)
{
    if (timeout_ns >= 0 || !is_to_be_let_go)
        return real_type->poll(b, timeout_ns);
    is_to_be_let_go = false;
    ck_assert_ptr_null(join(start(schedule_now, &sent_to)));
    atomic_store(&weft__cord_self->is_let_go, true);
    return real_type->poll(b, 0);
}

static void *wait_for_semaphore(void *arg)
{
    sem_wait(arg);
    return NULL;
}

/* P80 */
START_TEST(a_cord_that_is_let_go_reads_its_messages_before_it_is_told_of_a_deadlock)
{
    sem_t may_end;
    sem_init(&may_end, 0, 0);
    sent_to = spin_suspended();
    pthread_t foreign = start(wait_for_semaphore, &may_end); /* else nobody could send anything */
    spy_on_waits();
    spy.poll = poll_and_be_let_go;
    is_to_be_let_go = true;
    ck_assert_int_eq(weft_await(sent_to), 42);
    ck_assert(!is_to_be_let_go);
    stop_spying();
    sem_post(&may_end);
    ck_assert_ptr_null(join(foreign));
}
END_TEST

static bool is_flag_set(weft_cord cord, size_t offset)
{
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = weft__port_visit(index);
    ck_assert_ptr_nonnull(c);
    bool is_set = atomic_load((atomic_bool *)((char *)c + offset));
    weft__port_leave(index);
    return is_set;
}

/* P80 */
START_TEST(no_other_cord_is_let_go_while_a_message_of_the_last_thread_is_pending)
{
    sent_to = spin_suspended();
    weft_cord serves = weft_cord_start(NULL, NULL, NULL);
    while (!is_flag_set(serves, offsetof(weft__cord, is_helpless)))
        sched_yield();
    last_thread = start(send_when_told, NULL);
    is_watched = true;
    ck_assert_int_eq(weft_await(sent_to), 42);
    ck_assert(!is_watched);
    ck_assert(!is_flag_set(serves, offsetof(weft__cord, is_let_go)));
    ck_assert_int_eq(weft_cord_call(serves, return_arg, as_arg(7)), 7);
    ck_assert_int_eq(weft_cord_cancel(serves), 0);
    ck_assert_int_eq(weft_cord_join(serves), -ECANCELED);
}
END_TEST

/* Two threads that hand a number to and fro. */
typedef struct match {
    _Atomic weft_fiber players[2];
    long rounds;
} match;

static weft_fiber player(match *m, int which)
{
    weft_fiber id;
    while ((id = atomic_load(&m->players[which])) == 0)
        sched_yield();
    return id;
}

static void *return_every_ball(void *arg)
{
    match *m = arg;
    atomic_store(&m->players[1], weft_self());
    weft_fiber other = player(m, 0);
    for (long i = 0; i < m->rounds; i++) {
        weft_value value = weft_suspend();
        if (value != i || weft_schedule(other, i) != 0)
            return as_arg(i + 1);
    }
    return NULL;
}

/* P10 */
START_TEST(ten_thousand_values_go_to_and_fro_between_two_threads_without_loss)
{
    match m = {.rounds = 10000};
    atomic_store(&m.players[0], weft_self());
    pthread_t thread = start(return_every_ball, &m);
    weft_fiber other = player(&m, 1);
    for (long i = 0; i < m.rounds; i++) {
        ck_assert_int_eq(weft_schedule(other, i), 0);
        ck_assert_int_eq(weft_suspend(), i);
    }
    ck_assert_ptr_null(join(thread));
}
END_TEST

#define CROWD 2000

static weft_fiber crowd[CROWD];

/* Every fourth one, from the first that is given. */
static void *schedule_a_quarter(void *arg)
{
    for (size_t i = (size_t)arg; i < CROWD; i += 4)
        if (weft_schedule(crowd[i], (weft_value)i) != 0)
            return as_arg(1);
    return NULL;
}

/* P10, P49 */
START_TEST(what_several_threads_send_to_many_fibers_all_arrives)
{
    for (size_t i = 0; i < CROWD; i++)
        crowd[i] = weft_spin(suspend, NULL);
    let_run();
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start(schedule_a_quarter, (void *)i);
    for (size_t i = 0; i < CROWD; i++)
        ck_assert_int_eq(weft_await(crowd[i]), (weft_value)i);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_ptr_null(join(threads[i]));
}
END_TEST

static weft_value snooze_until_awaited(void *arg)
{
    while (weft_state_of(arg_id(arg)) != WEFT_DEAD)
        weft_snooze();
    return 0;
}

/* P10, P11 */
START_TEST(what_a_thread_sends_arrives_although_another_fiber_snoozes_all_the_time)
{
    weft_fiber f = spin_suspended();
    weft_fiber snoozer = weft_spin(snooze_until_awaited, id_arg(f));
    pthread_t thread = start(schedule_now, &f);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_int_eq(weft_await(snoozer), 0);
    ck_assert_ptr_null(join(thread));
}
END_TEST

static void *schedule_twice_a_sleeper(void *arg)
{
    weft_fiber f = *(weft_fiber *)arg;
    return as_arg(weft_schedule(f, 1) + weft_schedule(f, 2));
}

static weft_value sleep_shortly(void *arg)
{
    (void)arg;
    int rc = weft_sleep(0.01);
    return rc == 0 ? weft_sleep(0.01) : rc;
}

/* API: weft_schedule */
START_TEST(a_fiber_that_waits_in_something_else_is_left_alone_by_other_threads)
{
    weft_fiber f = weft_spin(sleep_shortly, NULL);
    weft_snooze();
    ck_assert_ptr_null(join(start(schedule_twice_a_sleeper, &f)));
    ck_assert_int_eq(weft_await(f), 0);
}
END_TEST

/* Each call refuses the id of another thread; the index of the first that does not, else 0. */
static int refuse_foreign(weft_fiber f)
{
    weft_info info;
    void *frames[4];
    weft_value out;
    const weft_value results[] = {
        weft_await(f),
        weft_await_all(&f, 1, &out),
        weft_await_any(&f, 1, &out),
        weft_stop(f, 1),
        weft_cancel(f),
        weft_raise(f, -EIO, "far away"),
        weft_interrupt(f, -1),
        weft_terminate(f, 0),
        weft_restart(f),
        weft_attach(f, weft_self()),
        weft_detach(f),
        weft_start(f),
        weft_transfer(f, 1),
        weft_park(f),
        weft_unpark(f),
        weft_name(f, "far"),
        weft_children(f, NULL, 0),
        weft_info_of(f, &info),
        weft_backtrace(f, frames, 4),
    };
    for (size_t i = 0; i < COUNT_OF(results); i++)
        if (results[i] != -EXDEV)
            return (int)i + 1;
    return weft_spin_with(return_arg, NULL, &(weft_spin_options){.parent = f}) == 0 &&
                   weft_error()->code == -EXDEV && weft_parent(f) == 0 && weft_name_of(f) == NULL
               ? 0
               : -1;
}

static void *refuse_id(void *arg)
{
    return as_arg(refuse_foreign(*(weft_fiber *)arg));
}

/* DESIGN 8 */
START_TEST(calls_that_concern_the_own_thread_refuse_the_fibers_of_another)
{
    weft_fiber f = spin_suspended();
    ck_assert_int_eq((weft_value)join(start(refuse_id, &f)), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
}
END_TEST

static void *leave_id(void *arg)
{
    *(weft_fiber *)arg = weft_self();
    return NULL;
}

/* P7 */
START_TEST(scheduling_a_fiber_of_a_thread_that_has_ended_is_refused)
{
    weft_fiber gone;
    join(start(leave_id, &gone));
    weft_self();
    ck_assert_int_eq(weft_schedule(gone, 1), -ESRCH);
    ck_assert_int_eq(weft_schedule(0, 1), -ESRCH);
}
END_TEST

static weft_value clean_up_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.002);
        ++*(int *)arg;
    }
    return 0;
}

static void add_ten(void *arg)
{
    *(int *)arg += 10;
}

static void add_hundred(void *arg)
{
    *(int *)arg += 100;
}

static weft_key key;

static void *leave_fibers_behind(void *arg)
{
    weft_defer(add_ten, arg);
    weft_local_set(key, arg);
    weft_spin(clean_up_slowly, arg);
    weft_spin(clean_up_slowly, arg);
    weft_snooze();
    return NULL;
}

/* P77, P33 */
START_TEST(when_a_thread_ends_its_fibers_are_ended_and_their_clean_up_is_done)
{
    int sum = 0;
    key = weft_key_new(add_hundred);
    join(start(leave_fibers_behind, &sum));
    ck_assert_int_eq(sum, 112);
}
END_TEST

static void *leave_an_error(void *arg)
{
    (void)arg;
    weft_spin(fail_with, as_arg(-EIO));
    weft_snooze();
    return NULL;
}

static int run_a_failing_thread(void)
{
    join(start(leave_an_error, NULL));
    return 0;
}

/* P77 */
START_TEST(an_error_that_nobody_in_a_thread_handles_is_reported_when_it_ends)
{
    const outcome *o = run_apart(run_a_failing_thread);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "broken"), 1);
}
END_TEST

static int open_descriptors(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

static void *use_everything_once(void *arg)
{
    static __thread int sum; /* the fiber outlives this function */
    int fd[2];
    char byte;
    weft_pipe(fd);
    weft_spin(clean_up_slowly, &sum);
    weft_write(fd[1], "x", 1);
    weft_read(fd[0], &byte, 1);
    weft_close(fd[0]);
    weft_close(fd[1]);
    return as_arg(weft_await(weft_spin(return_arg, arg)));
}

/* P78 */
START_TEST(two_hundred_threads_in_turn_leave_no_descriptor_behind)
{
    join(start(use_everything_once, NULL));
    int before = open_descriptors();
    for (int i = 0; i < 200; i++)
        ck_assert_ptr_eq(join(start(use_everything_once, as_arg(i))), as_arg(i));
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

static void *sleep_in_a_scope(void *arg)
{
    (void)arg;
    int rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        if (weft_sleep(60) != -ECANCELED)
            return as_arg(1);
    }
    return as_arg(rc);
}

/* P12, DESIGN 8 */
START_TEST(timers_of_a_thread_fire_while_another_thread_waits)
{
    weft_fiber self = weft_self();
    pthread_t thread = start(sleep_in_a_scope, NULL), waker = start_for_idle(&self);
    ck_assert_int_eq(weft_suspend(), 42);
    ck_assert_int_eq((weft_value)join(thread), -ETIMEDOUT);
    join(waker);
}
END_TEST

static const TTest *const *const tests[] = {
    &several_threads_run_their_own_fibers_side_by_side,
    &ids_of_different_threads_differ_also_when_one_comes_after_the_other,
    &a_plain_thread_wakes_a_main_fiber_that_has_nothing_else_to_wait_for,
    &a_plain_thread_wakes_a_fiber_while_main_awaits_it,
    &what_a_thread_sent_arrives_although_the_thread_ends_at_once,
    &of_two_values_that_a_thread_sent_the_later_wins_but_not_against_an_error,
    &a_last_word_of_the_last_thread_is_not_taken_for_a_deadlock,
    &a_main_fiber_that_waits_for_a_foreign_thread_stops_looking_for_it,
    &a_cord_that_is_let_go_reads_its_messages_before_it_is_told_of_a_deadlock,
    &no_other_cord_is_let_go_while_a_message_of_the_last_thread_is_pending,
    &a_main_fiber_that_suspends_hears_of_the_end_of_a_call_however_long_that_takes,
    &ten_thousand_values_go_to_and_fro_between_two_threads_without_loss,
    &what_several_threads_send_to_many_fibers_all_arrives,
    &what_a_thread_sends_arrives_although_another_fiber_snoozes_all_the_time,
    &a_fiber_that_waits_in_something_else_is_left_alone_by_other_threads,
    &calls_that_concern_the_own_thread_refuse_the_fibers_of_another,
    &scheduling_a_fiber_of_a_thread_that_has_ended_is_refused,
    &when_a_thread_ends_its_fibers_are_ended_and_their_clean_up_is_done,
    &an_error_that_nobody_in_a_thread_handles_is_reported_when_it_ends,
    &two_hundred_threads_in_turn_leave_no_descriptor_behind,
    &timers_of_a_thread_fire_while_another_thread_waits,
};

int main(void)
{
    return run_suite("thread", tests, COUNT_OF(tests));
}
