/*
 * Threads with their own fibers: messages between them, deadlock detection, and the end of a
 * thread.
 */
#include "support/suite.h"

#include "core/cord/registry.h"

#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

static sem_t is_idle;

CALLBACK(post_idle, sem_post(&is_idle))
THREAD_DO(schedule_later, sem_wait(&is_idle), weft_schedule(*(weft_fiber *)arg, 42))

static pthread_t start_idle_waker(weft_fiber *f)
{
    sem_init(&is_idle, 0, 0);
    weft_on_idle(post_idle, NULL);
    return start_thread(schedule_later, f);
}

TEST(a_thread_without_fibers_wakes_a_main_fiber_or_a_fiber_that_main_awaits)
{ /* P8, P10 */
    weft_fiber self = weft_self();
    pthread_t thread = start_idle_waker(&self);
    ck_assert_int_eq(weft_suspend(), 42);
    ck_assert_ptr_null(join_thread(thread));
    weft_fiber f = spin_suspended();
    thread = start_idle_waker(&f);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_ptr_null(join_thread(thread));
}

THREAD(schedule_now, weft_schedule(*(weft_fiber *)arg, 42))

TEST(a_schedule_of_a_thread_that_ends_at_once_arrives)
{ /* P10, P80 */
    weft_fiber self = weft_self();
    for (int i = 0; i < 100; i++) {
        pthread_t thread = start_thread(schedule_now, &self);
        ck_assert_int_eq(weft_suspend(), 42);
        ck_assert_ptr_null(join_thread(thread));
    }
}

static void *schedule_one_after_the_other(void *arg)
{
    weft_value *values = arg; /* the first is the id of the receiver */
    return as_arg(weft_schedule((weft_fiber)values[0], values[1]) +
                  weft_schedule((weft_fiber)values[0], values[2]));
}

TEST(of_two_values_from_a_thread_the_later_wins_but_not_against_an_error)
{ /* P4 */
    weft_value values[] = {(weft_value)weft_self(), 1, 2};
    ck_assert_ptr_null(join_thread(start_thread(schedule_one_after_the_other, values)));
    ck_assert_int_eq(weft_suspend(), 2);
    values[1] = -EIO;
    ck_assert_ptr_null(join_thread(start_thread(schedule_one_after_the_other, values)));
    ck_assert_int_eq(weft_suspend(), -EIO);
    if (!is_sanitized()) /* TSan has its own threads, up to two in a forked process */
        ck_assert_int_eq(weft_suspend(), 0);
}

static weft_fiber receiver;
static pthread_t last_thread;
static atomic_bool may_send;
static bool is_send_due;       /* the next stat triggers the send */
static unsigned thread_counts; /* how many times weft has counted the threads */

static void *send_when_allowed(void *arg)
{
    while (!atomic_load(&may_send))
        sched_yield();
    return as_arg(weft_schedule(receiver, 42));
}

/*
 * Replace stat of the C library. weft calls it to count the threads during deadlock detection. The
 * last foreign thread sends and ends just before it is counted.
 */
int stat(const char *restrict path, struct stat *restrict out)
{
    thread_counts++;
    if (is_send_due) {
        is_send_due = false;
        atomic_store(&may_send, true);
        pthread_join(last_thread, NULL);
    }
    return fstatat(AT_FDCWD, path, out, 0);
}

TEST(a_last_message_of_the_last_foreign_thread_prevents_a_deadlock_report)
{ /* P10, P80 */
    receiver = spin_suspended();
    last_thread = start_thread(send_when_allowed, NULL);
    is_send_due = true;
    weft_value value = weft_await(receiver);
    if (is_send_due) { /* stat was not called */
        is_send_due = false;
        atomic_store(&may_send, true);
        pthread_join(last_thread, NULL);
    }
    ck_assert_int_eq(value, 42);
}

/* A backend that counts its polls. Polls that wait for foreign threads return at once. */
static const weft__backend_type *real_type;
static unsigned bounded_polls; /* polls with a timeout */
static sem_t unbounded_polls;  /* posted by polls without a timeout */

#define WAITS_MAX (10 * WEFT__FOREIGN_CHECKS_MAX)

static int count_and_poll(weft__backend *b, int64_t timeout_ns)
{
    if (timeout_ns < WEFT__POLL_FOREVER && ++bounded_polls < WAITS_MAX)
        return real_type->poll(b, 0);
    if (timeout_ns < 0)
        sem_post(&unbounded_polls);
    return real_type->poll(b, timeout_ns);
}

THREAD_DO(wake_after_last_count, sem_wait(&unbounded_polls), weft_schedule(*(weft_fiber *)arg, 42))

/* Count the polls of this thread from now on. */
static weft__backend_type counting_type;

static void start_counting_polls(void)
{
    weft__backend *b = weft__cord_self->backend;
    real_type = b->type;
    counting_type = *real_type;
    counting_type.poll = count_and_poll;
    b->type = &counting_type;
    bounded_polls = thread_counts = 0;
    sem_init(&unbounded_polls, 0, 0);
}

static void stop_counting_polls(void)
{
    weft__cord_self->backend->type = real_type;
}

static void wait_for_a_foreign_thread(weft_fiber *f)
{
    start_counting_polls();
    pthread_t thread = start_thread(wake_after_last_count, f);
    ck_assert_int_eq(weft_suspend(), 42);
    ck_assert_ptr_null(join_thread(thread));
    stop_counting_polls();
}

TEST(a_main_fiber_that_waits_for_a_foreign_thread_stops_polling_for_it)
{
    weft_fiber self = weft_self();
    wait_for_a_foreign_thread(&self);
    ck_assert_uint_eq(bounded_polls, WEFT__FOREIGN_CHECKS_MAX);
    ck_assert_uint_eq(thread_counts, WEFT__FOREIGN_CHECKS_MAX + 1);
    /* The thread remembers the foreign thread and does not count at once. */
    wait_for_a_foreign_thread(&self);
    ck_assert_uint_eq(bounded_polls, WEFT__FOREIGN_CHECKS_MAX);
    ck_assert_uint_eq(thread_counts, WEFT__FOREIGN_CHECKS_MAX);
}

FIBER_DO(return_after_last_count, sem_wait(&unbounded_polls), 0)

TEST(a_suspended_main_fiber_wakes_at_the_end_of_an_offloaded_call_of_any_duration)
{ /* P8 */
    if (is_sanitized())
        return; /* TSan has its own threads */
    weft_self();
    start_counting_polls();
    ck_assert_int_eq(weft_offload_go(return_after_last_count, NULL), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    stop_counting_polls();
}

static bool becomes_victim;

/* Make this cord a deadlock victim. A message arrives while the poll returns. */
static int poll_as_victim(weft__backend *b, int64_t timeout_ns)
{
    if (timeout_ns >= 0 || !becomes_victim)
        return real_type->poll(b, timeout_ns);
    becomes_victim = false;
    ck_assert_ptr_null(join_thread(start_thread(schedule_now, &receiver)));
    atomic_store(&weft__cord_self->is_deadlock_victim, true);
    return real_type->poll(b, 0);
}

THREAD_DO(wait_for_semaphore, sem_wait(arg), 0)

TEST(a_deadlock_victim_handles_its_messages_before_it_reports_a_deadlock)
{ /* P80 */
    sem_t may_end;
    sem_init(&may_end, 0, 0);
    receiver = spin_suspended();
    /* Without it no thread could send. */
    pthread_t foreign = start_thread(wait_for_semaphore, &may_end);
    start_counting_polls();
    counting_type.poll = poll_as_victim;
    becomes_victim = true;
    ck_assert_int_eq(weft_await(receiver), 42);
    ck_assert(!becomes_victim);
    stop_counting_polls();
    sem_post(&may_end);
    ck_assert_ptr_null(join_thread(foreign));
}

static bool is_flag_set(weft_cord cord, size_t offset)
{
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = weft__registry_acquire(index);
    ck_assert_ptr_nonnull(c);
    bool is_set = atomic_load((atomic_bool *)((char *)c + offset));
    weft__registry_release(index);
    return is_set;
}

TEST(no_cord_becomes_a_deadlock_victim_while_a_message_of_the_last_thread_is_pending)
{ /* P80 */
    receiver = spin_suspended();
    weft_cord idle_cord = weft_cord_start(NULL, NULL, NULL);
    while (!is_flag_set(idle_cord, offsetof(weft__cord, is_quiescent)))
        sched_yield();
    last_thread = start_thread(send_when_allowed, NULL);
    is_send_due = true;
    ck_assert_int_eq(weft_await(receiver), 42);
    ck_assert(!is_send_due);
    ck_assert(!is_flag_set(idle_cord, offsetof(weft__cord, is_deadlock_victim)));
    ck_assert_int_eq(weft_cord_call(idle_cord, return_arg, as_arg(7)), 7);
    ck_assert_int_eq(weft_cord_cancel(idle_cord), 0);
    ck_assert_int_eq(weft_cord_join(idle_cord), -ECANCELED);
}

#define RECEIVERS 2000

static weft_fiber receivers[RECEIVERS];

static void *schedule_a_quarter(void *arg)
{
    for (size_t i = (size_t)arg; i < RECEIVERS; i += 4)
        if (weft_schedule(receivers[i], (weft_value)i) != 0)
            return as_arg(1);
    return NULL;
}

TEST(all_values_from_several_threads_to_many_fibers_arrive)
{ /* P10, P49 */
    for (size_t i = 0; i < RECEIVERS; i++)
        receivers[i] = weft_spin(suspend, NULL);
    let_run();
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(schedule_a_quarter, (void *)i);
    for (size_t i = 0; i < RECEIVERS; i++)
        ck_assert_int_eq(weft_await(receivers[i]), (weft_value)i);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_ptr_null(join_thread(threads[i]));
}

static weft_value snooze_until_awaited(void *arg)
{
    while (weft_state_of(arg_id(arg)) != WEFT_DEAD)
        weft_snooze();
    return 0;
}

TEST(a_value_from_a_thread_arrives_while_another_fiber_snoozes_all_the_time)
{ /* P10, P11 */
    weft_fiber f = spin_suspended();
    weft_fiber snoozer = weft_spin(snooze_until_awaited, id_arg(f));
    pthread_t thread = start_thread(schedule_now, &f);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_int_eq(weft_await(snoozer), 0);
    ck_assert_ptr_null(join_thread(thread));
}

static void *schedule_twice_a_sleeper(void *arg)
{
    weft_fiber f = *(weft_fiber *)arg;
    return as_arg(weft_schedule(f, 1) + weft_schedule(f, 2));
}

FIBER_DO(sleep_shortly, int rc = weft_sleep(0.01), rc == 0 ? weft_sleep(0.01) : rc)

TEST(a_schedule_from_another_thread_does_not_wake_a_sleeping_fiber)
{ /* API: weft_schedule */
    weft_fiber f = weft_spin(sleep_shortly, NULL);
    weft_snooze();
    ck_assert_ptr_null(join_thread(start_thread(schedule_twice_a_sleeper, &f)));
    ck_assert_int_eq(weft_await(f), 0);
}

/*
 * Make calls with the id of another thread. Return the index of the first that is not refused, or
 * 0.
 */
static int make_foreign_calls(weft_fiber f)
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
        weft_set_name(f, "far"),
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

THREAD(make_foreign_calls_in_thread, make_foreign_calls(*(weft_fiber *)arg))

TEST(calls_for_fibers_of_the_same_thread_refuse_fibers_of_another)
{ /* DESIGN 8 */
    weft_fiber f = spin_suspended();
    ck_assert_int_eq((weft_value)join_thread(start_thread(make_foreign_calls_in_thread, &f)), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
}

THREAD_DO(store_id_of_thread, *(weft_fiber *)arg = weft_self(), 0)

TEST(scheduling_a_fiber_of_a_thread_that_has_ended_is_refused)
{ /* P7 */
    weft_fiber ended;
    join_thread(start_thread(store_id_of_thread, &ended));
    weft_self();
    ck_assert_int_eq(weft_schedule(ended, 1), -ESRCH);
    ck_assert_int_eq(weft_schedule(0, 1), -ESRCH);
}

static weft_value clean_up_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.002);
        ++*(int *)arg;
    }
    return 0;
}

CALLBACK(add_ten, *(int *)arg += 10)
CALLBACK(add_hundred, *(int *)arg += 100)

static weft_key key;

static void *end_with_fibers(void *arg)
{
    weft_defer(add_ten, arg);
    weft_local_set(key, arg);
    weft_spin(clean_up_slowly, arg);
    weft_spin(clean_up_slowly, arg);
    weft_snooze();
    return NULL;
}

TEST(a_thread_that_ends_ends_its_fibers_and_runs_their_cleanup)
{ /* P77, P33 */
    int sum = 0;
    key = weft_key_new(add_hundred);
    join_thread(start_thread(end_with_fibers, &sum));
    ck_assert_int_eq(sum, 112);
}

static void *end_with_error(void *arg)
{
    weft_spin(fail_with, as_arg(-EIO));
    weft_snooze();
    return NULL;
}

TEST_PROGRAM_PRINTS(an_unhandled_error_in_a_thread_is_reported_when_it_ends, 0, "broken")
{ /* P77 */
    join_thread(start_thread(end_with_error, NULL));
    return 0;
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
    close_fd_pair(fd);
    return as_arg(weft_await(weft_spin(return_arg, arg)));
}

TEST(fifty_successive_threads_leave_no_open_descriptor)
{ /* P78 */
    join_thread(start_thread(use_everything_once, NULL));
    int before = count_descriptors();
    for (int i = 0; i < 50; i++)
        ck_assert_ptr_eq(join_thread(start_thread(use_everything_once, as_arg(i))), as_arg(i));
    ck_assert_int_eq(count_descriptors(), before);
}
