/*
 * The properties of cords under load. Cords start and end while many fibers call, tell, join and
 * cancel them. Each call returns, each argument is dropped exactly once, each message arrives once
 * and in the order of its sender, and no cord, descriptor or memory is left.
 */
#include "support/cord_support.h"
#include "support/property_suite.h"

#include "core/cord/inbox.h"
#include "core/cord/registry.h"

#include <malloc.h>
#include <sched.h>
#include <semaphore.h>

#define TARGETS 6
#define WORKERS 4
#define FIBERS 6
#define STEPS (IS_SLOW ? 40 : 120)

enum { DROP, NOT_TOLD }; /* events: an argument was dropped; an attempt to tell failed */

static _Atomic(weft_cord) targets[TARGETS];
static atomic_int handed_over; /* arguments of calls that returned before the called fiber ended */
static uint64_t first_seed;

/* A fiber that calls cords. */
struct actor {
    weft_cord to;
    int number; /* of the call */
};

typedef struct call_arg {
    int number;
    atomic_int drops;
} call_arg;

static void drop_arg(void *arg)
{
    call_arg *p = arg;
    REQUIRE(atomic_fetch_add(&p->drops, 1) == 0);
    count_event(DROP);
    free(p);
}

static weft_value check_number(void *arg)
{
    const call_arg *p = arg;
    int number = p->number;
    if (number % 3 == 1)
        weft_snooze();
    if (number % 3 == 2)
        weft_sleep(0.0001 * (number % 7));
    REQUIRE(p->number == number);
    return number;
}

static bool is_end_of_cord(weft_value value)
{
    return value == -ESRCH || value == -ECANCELED;
}

static double short_timeout(const actor *me)
{
    return 0.0001 * (me->number % 5);
}

static void call_with_local_arg(actor *me)
{
    call_arg p = {.number = me->number};
    weft_value value = weft_cord_call(me->to, check_number, &p);
    REQUIRE(value == me->number || is_end_of_cord(value));
    p.number = -1;
}

/* The call may return early. Then weft owns the argument; otherwise the caller owns it. */
static void call_with_drop(actor *me)
{
    call_arg *p = malloc(sizeof *p);
    *p = (call_arg){.number = me->number};
    bool has_ended;
    weft_value value = 0;
    WEFT_MOVE_ON_AFTER(short_timeout(me))
        value = weft_cord_call_with(me->to, check_number, p,
                                    &(weft_call_options){drop_arg, 0, NULL, &has_ended});
    REQUIRE(value == me->number || is_end_of_cord(value));
    if (!has_ended) {
        REQUIRE(value != me->number);
        atomic_fetch_add(&handed_over, 1);
        return;
    }
    REQUIRE(p->drops == 0);
    free(p);
}

static void call_with_copy(actor *me)
{
    call_arg p = {.number = me->number};
    weft_value value = 0;
    WEFT_MOVE_ON_AFTER(short_timeout(me))
        value = weft_cord_call_with(me->to, check_number, &p,
                                    &(weft_call_options){.arg_bytes = sizeof p});
    REQUIRE(value == me->number || is_end_of_cord(value));
}

static void spin_in_cord(actor *me)
{
    weft_cord_spin(me->to, return_arg, as_arg(me->number));
}

/* The schedule ends a cord without a function. */
static void tell_and_end(actor *me)
{
    int rc = weft_tell(me->to, me->number);
    REQUIRE(rc == 0 || is_end_of_cord(rc));
    weft_schedule(me->to, 0);
}

static void join_with_timeout(actor *me)
{
    weft_value value = 0;
    WEFT_MOVE_ON_AFTER(short_timeout(me))
        value = weft_cord_join(me->to);
    REQUIRE(value == 0 || value == -EDEADLK || is_end_of_cord(value));
}

static void cancel_cord(actor *me)
{
    if (me->number % 4 == 0)
        weft_cord_cancel(me->to);
}

static const action calls[] = {
    ACTION(call_with_local_arg, 1), ACTION(call_with_drop, 2), ACTION(call_with_copy, 1),
    ACTION(spin_in_cord, 1),        ACTION(tell_and_end, 1),   ACTION(join_with_timeout, 1),
    ACTION(cancel_cord, 1),
};

static weft_value run_random_calls(void *arg)
{
    actor me = {0};
    random_state ^= (uintptr_t)arg * 2654435761u + first_seed;
    for (me.number = 1; me.number <= STEPS; me.number++) {
        me.to = atomic_load(&targets[random_below(TARGETS)]);
        do_random_action(&me, (unsigned)(uintptr_t)arg, calls, COUNT_OF(calls));
    }
    return 0;
}

/* Await all callers, or end them early if arg has a deadline. */
static weft_value run_callers(void *arg)
{
    uintptr_t worker = (uintptr_t)arg;
    for (uintptr_t i = 0; i < FIBERS; i++)
        weft_spin(run_random_calls, (void *)(worker * FIBERS + i));
    return worker <= WORKERS ? weft_await_children() : weft_sleep(0.0005 * (double)(worker % 7));
}

static weft_cord start_target(unsigned i)
{
    return i % 2 == 0 ? start_cord(NULL, NULL) : start_cord(sleep_forever, NULL);
}

static void end_target(weft_cord cord)
{
    weft_cord_cancel(cord);
    weft_value value = weft_cord_join(cord);
    REQUIRE(value == 0 || is_end_of_cord(value));
}

/* Replace one target after the other while the workers run. */
static weft_value replace_targets(void *arg)
{
    for (unsigned i = 0;; i++) {
        _Atomic(weft_cord) *at = &targets[i % TARGETS];
        weft_cord old = atomic_load(at);
        atomic_store(at, start_target(i / TARGETS + i));
        end_target(old);
        int rc = weft_sleep(0.001);
        if (rc < 0)
            return rc;
    }
}

static void run_until_done(void)
{
    weft_cord workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = start_cord(run_callers, as_arg((weft_value)i + 1));
    weft_fiber replacer = weft_spin(replace_targets, NULL);
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE(weft_cord_join(workers[i]) == 0);
    weft_cancel(replacer);
    weft_await(replacer);
}

/* Callers are cancelled, and end with their cord. */
static void run_until_cancelled(void)
{
    for (int i = 1; i <= (IS_SLOW ? 10 : 40); i++) {
        weft_cord cord = start_cord(run_callers, as_arg(WORKERS + i));
        if (i % 2)
            weft_cord_cancel(cord);
        weft_value value = weft_cord_join(cord);
        REQUIRE(value == 0 || value == -ECANCELED);
    }
}

static void run_calls(int variant)
{
    first_seed = random_state;
    for (unsigned i = 0; i < TARGETS; i++)
        targets[i] = start_target(i);
    if (variant == 0)
        run_until_done();
    else
        run_until_cancelled();
    for (unsigned i = 0; i < TARGETS; i++)
        end_target(targets[i]);
    unsigned drops = run_report->events[DROP], given = (unsigned)handed_over;
    REQUIRE(variant == 0 ? drops == given : drops >= given);
}

/* Messages between all cords. A message is the number of the sender and a serial. */

#define CORDS 16
#define MESSAGES (IS_SLOW ? 60 : 200)
#define SERIALS 1000

static weft_cord peer_cords[CORDS];
static atomic_long received;
static atomic_int ready;

/* Change the bound of the mailbox at random. */
static weft_value receive_all(void *arg)
{
    weft_value last[CORDS + 1] = {0}, m;
    weft_mailbox_set_bound(random_below(4));
    while ((m = weft_receive()) > 0) {
        REQUIRE(m % SERIALS > last[m / SERIALS]);
        last[m / SERIALS] = m % SERIALS;
        atomic_fetch_add(&received, 1);
        if (random_below(16) == 0)
            weft_mailbox_set_bound(random_below(4));
    }
    REQUIRE(m == 0);
    return 0;
}

/* Tell a message, in as many attempts as needed. */
static void tell_in_attempts(weft_fiber to, weft_value m)
{
    int rc = -EAGAIN;
    do {
        if (random_below(3) == 0)
            rc = weft_try_tell(to, m);
        else
            WEFT_MOVE_ON_AFTER(random_below(2) ? INFINITY : random_below(60) * 1e-6)
                rc = weft_tell(to, m);
        REQUIRE(rc == 0 || rc == -EAGAIN || rc == -ECANCELED || rc == -EINTR);
        if (rc != 0)
            count_event(NOT_TOLD);
        if (rc == -EAGAIN)
            weft_snooze();
    } while (rc != 0);
}

/* Half of the messages go to main fibers, half to other fibers, some of which are replaced. */
static weft_value send_at_random(void *arg)
{
    weft_fiber partner = 0;
    for (int i = 1; i <= MESSAGES; i++) {
        weft_cord target = peer_cords[random_below(CORDS)];
        if (partner == 0 && random_below(4) == 0)
            partner = weft_cord_spin(target, receive_all, NULL);
        if (partner != 0 && random_below(8) == 0) {
            tell_in_attempts(partner, 0);
            partner = 0;
        }
        tell_in_attempts(partner != 0 ? partner : target, (weft_value)arg * SERIALS + i);
        if (random_below(3) == 0)
            weft_snooze();
    }
    if (partner != 0)
        tell_in_attempts(partner, 0);
    return 0;
}

static weft_value send_and_receive(void *arg)
{
    random_state = first_seed + (uintptr_t)arg;
    atomic_fetch_add(&ready, 1);
    weft_receive(); /* all cords have started */
    weft_spin(send_at_random, arg);
    return receive_all(NULL);
}

static void run_messages(int variant)
{
    first_seed = random_state;
    for (int i = 0; i < CORDS; i++)
        peer_cords[i] = start_cord(send_and_receive, as_arg(i + 1));
    while (atomic_load(&ready) < CORDS)
        weft_sleep(0.001);
    for (int i = 0; i < CORDS; i++)
        REQUIRE(weft_tell(peer_cords[i], 1) == 0);
    while (atomic_load(&received) < CORDS * MESSAGES)
        weft_sleep(0.001);
    for (int i = 0; i < CORDS; i++)
        REQUIRE(weft_tell(peer_cords[i], 0) == 0);
    for (int i = 0; i < CORDS; i++)
        REQUIRE(weft_cord_join(peer_cords[i]) == 0);
    REQUIRE(received == CORDS * MESSAGES);
}

static const property properties[] = {
    {"every_call_returns_and_every_abandoned_argument_is_dropped_once", run_calls, .variant = 0,
     .seeds = 2, .least = {[DROP] = 1}},
    {"callers_may_end_during_their_calls", run_calls, .variant = 1, .seeds = 2},
    {"every_message_between_cords_arrives_once_and_in_the_order_of_its_sender", run_messages,
     .seeds = 4, .least = {[NOT_TOLD] = 1}},
};

PROPERTIES(properties)

typedef struct exchange {
    _Atomic weft_fiber ids[2];
    long rounds;
    _Atomic long lost;
} exchange;

static weft_fiber wait_for_id(exchange *m, int i)
{
    weft_fiber f;
    while ((f = atomic_load(&m->ids[i])) == 0)
        sched_yield();
    return f;
}

static void *schedule_back(void *arg)
{
    exchange *m = arg;
    atomic_store(&m->ids[1], weft_self());
    weft_fiber other = wait_for_id(m, 0);
    for (long i = 0; i < m->rounds; i++) {
        m->lost += weft_suspend() != i;
        m->lost += weft_schedule(other, i + 1) != 0;
    }
    return NULL;
}

/* P10: repeat often enough to hit the window between the last check and the poll. */
TEST(no_wake_up_between_threads_is_lost)
{
    exchange m = {.rounds = IS_SLOW ? 2000 : 10000};
    atomic_store(&m.ids[0], weft_self());
    pthread_t thread = start_thread(schedule_back, &m);
    weft_fiber other = wait_for_id(&m, 1);
    for (long i = 0; i < m.rounds; i++) {
        m.lost += weft_schedule(other, i) != 0;
        m.lost += weft_suspend() != i + 1;
    }
    join_thread(thread);
    ck_assert_int_eq(m.lost, 0);
}

static weft_value echo_messages(void *arg)
{
    weft_value v;
    WEFT_MOVE_ON_AFTER(is_sim() ? INFINITY : 3600)
        while ((v = weft_receive()) > 0)
            weft_tell(arg_id(arg), v);
    return 0;
}

TEST(cords_with_different_backends_and_distant_timers_wake_each_other)
{
    static const char *const names[] = {"epoll", "io_uring", "sim"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        weft_cord cord = weft_cord_start(echo_messages, id_arg(weft_self()),
                                         &(weft_cord_options){.backend = names[i]});
        if (cord == 0)
            continue; /* backend not built in */
        for (weft_value n = 1; n <= (IS_SLOW ? 200 : 1000); n++) {
            ck_assert_int_eq(weft_tell(cord, n), 0);
            ck_assert_int_eq(weft_receive(), n);
        }
        weft_tell(cord, 0);
        ck_assert_int_eq(weft_cord_join(cord), 0);
    }
}

/* True if the cord is asleep with an empty inbox. */
static bool is_asleep(weft_cord cord)
{
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = weft__registry_acquire(index);
    ck_assert_ptr_nonnull(c);
    bool is = atomic_load(&c->is_asleep) && weft__inbox_is_empty(c);
    weft__registry_release(index);
    return is;
}

static sem_t is_busy, may_continue;

/* Count the messages and wakes of a cord that receives arg messages. */
static weft_value count_wakes(void *arg)
{
    weft_counters counters;
    if (as_arg(1) != arg) {
        sem_post(&is_busy);
        sem_wait(&may_continue);
    }
    for (weft_value i = 0; i < (weft_value)arg; i++)
        ck_assert_int_eq(weft_receive(), i);
    weft_stats(&counters);
    ck_assert_int_eq(counters.messages, (weft_value)arg);
    return (weft_value)counters.wakes;
}

TEST(a_sleeping_cord_is_woken_once_and_an_awake_cord_gets_all_messages_at_its_next_tick)
{
    weft_cord cord = start_cord(count_wakes, as_arg(1));
    while (!is_asleep(cord))
        sched_yield();
    ck_assert_int_eq(weft_tell(cord, 0), 0);
    ck_assert_int_eq(weft_cord_join(cord), 1);
    sem_init(&is_busy, 0, 0);
    sem_init(&may_continue, 0, 0);
    cord = start_cord(count_wakes, as_arg(100));
    sem_wait(&is_busy);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_tell(cord, i), 0);
    sem_post(&may_continue);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

static weft_value run_three_children(void *arg)
{
    weft_fiber children[3];
    for (int i = 0; i < 3; i++)
        children[i] = weft_spin(return_arg, arg);
    return weft_await_all(children, 3, NULL);
}

static void start_and_join(int count)
{
    weft_cord cords[10];
    for (int i = 0; i < count; i += 10) {
        for (int k = 0; k < 10; k++)
            cords[k] = start_cord(run_three_children, as_arg(k));
        for (int k = 0; k < 10; k++)
            ck_assert_int_eq(weft_cord_join(cords[k]), 0);
    }
}

TEST(a_thousand_cords_leave_neither_descriptors_nor_memory)
{
    start_and_join(100);
    int descriptors = count_descriptors();
    size_t heap = mallinfo2().uordblks;
    start_and_join(IS_SLOW ? 400 : 1000);
    ck_assert_int_eq(count_descriptors(), descriptors);
    /* A thousand cords would need much more memory. Threads keep a few small blocks. */
    ck_assert_uint_le(mallinfo2().uordblks, heap + (256 << 10));
}

static _Atomic(weft_cord) ended_cord;
static atomic_bool is_over;

static void *use_ended_cord(void *arg)
{
    while (!atomic_load(&is_over)) {
        weft_cord cord = atomic_load(&ended_cord);
        ck_assert(weft_cord_cancel(cord) == -ESRCH);
        ck_assert(weft_tell(cord, 1) == -ESRCH);
        ck_assert(weft_cord_spin(cord, return_arg, NULL) == 0);
        sched_yield();
    }
    return NULL;
}

TEST(the_id_of_an_ended_cord_does_not_name_the_next_cord_of_its_slot)
{
    pthread_t threads[2];
    ended_cord = start_cord(return_arg, NULL);
    weft_cord_join(ended_cord);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(use_ended_cord, NULL);
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(weft_cord_join(start_cord(return_arg, as_arg(i))), i);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        join_thread(threads[i]);
}

#if !IS_SLOW
static void assert_refused(bool is_refused)
{
    ck_assert(is_refused);
    ck_assert_error(-EAGAIN, "the thread cannot have fibers: too many other threads do");
    weft_error_clear();
}

/* Every call that returns an id or a pointer fails with a message. */
static void *use_thread_without_fibers(void *arg)
{
    ck_assert_ptr_null(weft_error());
    assert_refused(weft_self() == 0);
    assert_refused(weft_spin(return_arg, NULL) == 0);
    assert_refused(weft_alloc(1) == NULL);
    ck_assert_int_eq(weft_go(return_arg, NULL), -EAGAIN);
    ck_assert_int_eq(weft_fail(-EIO, "text"), -EIO);
    ck_assert_error(-EIO, strerror(EIO));
    weft_error_clear();
    return arg;
}

TEST(a_thousand_cords_can_exist_and_no_more_until_some_have_been_joined)
{
    static weft_cord cords[1100];
    size_t n = 0;
    while (n < COUNT_OF(cords) && (cords[n] = weft_cord_start(sleep_forever, NULL, NULL)) != 0)
        n++;
    ck_assert_any_error(-EAGAIN);
    ck_assert_uint_eq(n, 1023); /* without this thread */
    join_thread(start_thread(use_thread_without_fibers, NULL));
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_cord_cancel(cords[i]), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), -ECANCELED);
    ck_assert_int_eq(weft_cord_join(start_cord(return_arg, as_arg(3))), 3);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), -ESRCH);
}
#endif
