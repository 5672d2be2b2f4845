/*
 * Tests of snapshots: which fibers and cords they have, callers in fibers and in plain threads,
 * stalled cords, cords that wait for each other, and children of fork.
 */
#include "support/cases.h"
#include "support/cord_support.h"

#include "support/suite.h"

#include <weft/snapshot.h>

#include <math.h>
#include <sched.h>
#include <semaphore.h>

/* With ucontext the frames of a waiting fiber cannot be found. */
#if defined(WEFT_UCONTEXT) || !defined(WEFT_HAS_BACKTRACE)
#define HAS_BACKTRACES false
#else
#define HAS_BACKTRACES true
#endif

static weft_snapshot *take(weft_snapshot_options options)
{
    weft_snapshot *s = NULL;
    ck_assert_int_eq(weft_snapshot_take(&options, &s), 0);
    ck_assert_ptr_nonnull(s);
    return s;
}

static const weft_snapshot_fiber *fiber_in(const weft_snapshot *s, weft_fiber id)
{
    for (size_t i = 0; i < s->fibers_count; i++)
        if (s->fibers[i].info.id == id)
            return &s->fibers[i];
    return NULL;
}

static const weft_snapshot_cord *cord_in(const weft_snapshot *s, weft_cord id)
{
    for (size_t i = 0; i < s->cords_count; i++)
        if (s->cords[i].id == id)
            return &s->cords[i];
    return NULL;
}

static size_t count_named(const weft_snapshot *s, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < s->fibers_count; i++)
        count += strcmp(s->fibers[i].info.name, name) == 0;
    return count;
}

TEST(a_snapshot_has_the_fibers_of_the_calling_thread_parents_first)
{
    weft_fiber outer = spin_named(sleep_forever, NULL, "outer");
    let_run();
    weft_fiber inner = weft_spin_with(suspend, NULL, &(weft_spin_options){.parent = outer});
    let_run();
    weft_snapshot *s = take((weft_snapshot_options){0});
    ck_assert_uint_eq(s->cords_count, 1);
    ck_assert_uint_eq(s->fibers_count, 3);
    ck_assert_uint_eq(s->cords[0].fibers_count, 3);
    ck_assert(s->cords[0].has_replied);
    ck_assert_uint_eq(s->cords[0].id, weft_main());
    ck_assert_int_eq(s->cords[0].thread_id, gettid());
    ck_assert_str_eq(s->cords[0].backend, weft_backend_name());
    ck_assert_double_gt(s->taken_s, 1e9);
    ck_assert_uint_eq(s->fibers[0].info.id, weft_main());
    ck_assert_int_eq(s->fibers[0].info.state, WEFT_RUNNING);
    ck_assert_uint_eq(s->fibers[1].info.id, outer);
    ck_assert_uint_eq(s->fibers[1].depth, 1);
    ck_assert_str_eq(s->fibers[1].info.name, "outer");
    ck_assert_str_eq(s->fibers[1].info.waits_for, "sleep");
    ck_assert_uint_gt(s->fibers[1].info.stack_used, 0);
    ck_assert_ptr_null((void *)s->fibers[1].frames);
    ck_assert_uint_eq(s->fibers[2].info.id, inner);
    ck_assert_uint_eq(s->fibers[2].info.parent, outer);
    ck_assert_uint_eq(s->fibers[2].depth, 2);
    weft_set_name(outer, "renamed");
    ck_assert_str_eq(s->fibers[1].info.name, "outer");
    weft_snapshot_free(s);
    weft_snapshot_free(NULL);
}

static weft_value spin_ten(void *arg)
{
    for (int i = 0; i < 10; i++)
        spin_named(suspend, NULL, arg);
    return weft_suspend();
}

/* Start cords with ten fibers each. */
static void start_cords(weft_cord *cords, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cords[i] = weft_cord_start(NULL, NULL, &(weft_cord_options){.name = "cord"});
        ck_assert_uint_ne(weft_cord_spin(cords[i], spin_ten, "far"), 0);
    }
}

static void end_cords(const weft_cord *cords, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_cord_cancel(cords[i]);
        weft_cord_join(cords[i]);
    }
}

static void assert_full(const weft_snapshot *s, const weft_cord *cords, size_t count)
{
    ck_assert_uint_eq(count_named(s, "far"), 10 * count);
    for (size_t i = 0; i < count; i++) {
        const weft_snapshot_cord *c = cord_in(s, cords[i]);
        ck_assert_ptr_nonnull(c);
        ck_assert(c->has_replied);
        ck_assert_str_eq(c->name, "cord");
        ck_assert_uint_eq(c->fibers_count, 12);
        ck_assert_uint_eq(c->counters.fibers, 11);
    }
    for (size_t i = 1; i < s->fibers_count; i++)
        ck_assert_uint_le(s->fibers[i - 1].cord, s->fibers[i].cord);
}

/* Wait until the fibers of all cords exist. A call runs after the spin, and before its fibers. */
static void settle(const weft_cord *cords, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (weft_counters counters = {0}; counters.fibers < 11;) {
            weft_cord_call(cords[i], return_arg, NULL);
            weft_stats_of(cords[i], &counters);
            weft_snapshot_free(take((weft_snapshot_options){.cord = cords[i]}));
        }
}

FIBER_DO(count_snoozes, while (weft_snooze() == 0)++ *(int *)arg, 0)

TEST(a_snapshot_has_the_fibers_of_all_cords)
{
    weft_cord cords[3];
    start_cords(cords, 3);
    settle(cords, 3);
    weft_snapshot *s = take((weft_snapshot_options){.timeout_s = 60});
    ck_assert_uint_eq(s->cords_count, 4);
    assert_full(s, cords, 3);
    weft_snapshot_free(s);
    s = take((weft_snapshot_options){.cord = cords[1], .timeout_s = 60});
    ck_assert_uint_eq(s->cords_count, 1);
    ck_assert_uint_eq(s->fibers_count, 12);
    weft_fiber one = s->fibers[7].info.id;
    weft_snapshot_free(s);
    s = take((weft_snapshot_options){.fiber = one, .timeout_s = 60});
    ck_assert_uint_eq(s->fibers_count, 1);
    ck_assert_uint_eq(s->fibers[0].info.id, one);
    ck_assert_uint_eq(s->fibers[0].depth, 2);
    weft_snapshot_free(s);
    end_cords(cords, 3);
    weft_snapshot *gone = NULL;
    ck_assert_int_eq(weft_snapshot_take(&(weft_snapshot_options){.cord = cords[1]}, &gone), -ESRCH);
    ck_assert_int_eq(weft_snapshot_take(&(weft_snapshot_options){.fiber = one}, &gone), -ESRCH);
    ck_assert_int_eq(weft_snapshot_take(&(weft_snapshot_options){.fiber = weft_self() + 1}, &gone),
                     -ESRCH);
    ck_assert_int_eq(weft_snapshot_take(&(weft_snapshot_options){.timeout_s = -1}, &gone), -EINVAL);
    ck_assert_ptr_null(gone);
}

static void *take_in_thread(void *arg)
{
    weft_cord *cords = arg;
    weft_snapshot *s = take((weft_snapshot_options){.timeout_s = 60, .frames_max = 8});
    ck_assert_uint_eq(s->cords_count, 3); /* the thread is not a cord */
    assert_full(s, cords, 2);
    weft_snapshot_free(s);
    return NULL;
}

TEST(a_plain_thread_takes_a_snapshot_and_does_not_become_a_cord)
{
    weft_cord cords[2];
    start_cords(cords, 2);
    settle(cords, 2);
    pthread_t thread = start_thread(take_in_thread, cords);
    while (pthread_tryjoin_np(thread, NULL) == EBUSY)
        weft_sleep(0.001); /* the main cord replies when it sleeps */
    end_cords(cords, 2);
}

static sem_t blocked, resume;

static __attribute__((noinline)) weft_value block_thread(void *arg)
{
    sem_post(&blocked);
    while (sem_wait(&resume) != 0)
        continue;
    return 0;
}

TEST(a_stalled_cord_has_its_running_fiber_and_replies_again_later)
{
    sem_init(&blocked, 0, 0);
    sem_init(&resume, 0, 0);
    weft_cord cord = weft_cord_start(NULL, NULL, &(weft_cord_options){.name = "stalled"});
    weft_cord_spin(cord, spin_ten, "far");
    settle(&cord, 1);
    weft_fiber f =
        weft_cord_spin_with(cord, block_thread, NULL, &(weft_spin_options){.name = "blocker"});
    while (sem_wait(&blocked) != 0)
        continue;
    for (int i = 0; i < 3; i++) {
        weft_snapshot *s = take((weft_snapshot_options){.frames_max = 32, .timeout_s = 0.02});
        const weft_snapshot_cord *c = cord_in(s, cord);
        ck_assert_ptr_nonnull(c);
        ck_assert(!c->has_replied);
        ck_assert_double_ge(c->stalled_s, 0.02);
        ck_assert_int_ne(c->thread_id, 0);
        ck_assert_str_eq(c->name, "stalled");
        ck_assert_uint_eq(c->fibers_count, 1);
        const weft_snapshot_fiber *in = fiber_in(s, f);
        ck_assert_ptr_nonnull(in);
        ck_assert_str_eq(in->info.name, "blocker");
        ck_assert(in->info.fn == block_thread);
        ck_assert_int_eq(in->info.state, WEFT_RUNNING);
#ifdef WEFT_HAS_BACKTRACE
        ck_assert_uint_gt(in->frames_count, 0);
#endif
        weft_snapshot_free(s);
    }
    sem_post(&resume);
    weft_snapshot *s = take((weft_snapshot_options){.timeout_s = 60});
    ck_assert(cord_in(s, cord)->has_replied);
    ck_assert_uint_eq(count_named(s, "far"), 10);
    weft_snapshot_free(s);
    end_cords(&cord, 1);
}

static weft_value take_many(void *arg)
{
    for (int i = 0; i < 50; i++)
        weft_snapshot_free(take((weft_snapshot_options){.timeout_s = 60, .frames_max = 16}));
    return 0;
}

TEST(cords_take_snapshots_of_each_other_at_the_same_time)
{
    weft_cord cords[3];
    for (size_t i = 0; i < 3; i++)
        cords[i] = weft_cord_start(take_many, NULL, NULL);
    take_many(NULL);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

static atomic_bool is_over;

static void *take_repeatedly(void *arg)
{
    while (!atomic_load(&is_over))
        weft_snapshot_free(take((weft_snapshot_options){.frames_max = 8, .has_addresses = true}));
    return arg;
}

/* Create and end fibers, and block the thread sometimes. */
static weft_value churn(void *arg)
{
    for (int i = 0; i < 20; i++) {
        weft_fiber f = spin_named(suspend, NULL, "short");
        weft_snooze();
        if (i == 10)
            usleep(1000);
        weft_terminate(f, 1.0);
    }
    return (weft_value)(intptr_t)arg;
}

/* Take a snapshot in a child of weft_fork, which has only the forking cord. */
static void snapshot_in_child(void)
{
    pid_t pid = weft_fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        weft_snapshot *s = take((weft_snapshot_options){.frames_max = 8});
        _exit(s->cords_count == 1 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

TEST(snapshots_are_taken_while_cords_start_end_and_fork)
{
    enum { CORDS = 4 };
    atomic_store(&is_over, false);
    pthread_t thread = start_thread(take_repeatedly, NULL);
    for (int round = 0; round < (IS_SLOW ? 5 : 30); round++) {
        weft_cord cords[CORDS];
        for (int i = 0; i < CORDS; i++)
            cords[i] = weft_cord_start(churn, as_arg(i), NULL);
        weft_snapshot *s = take((weft_snapshot_options){.frames_max = 8});
        ck_assert_ptr_nonnull(fiber_in(s, weft_main()));
        weft_snapshot_free(s);
        if (HAS_ONLY_OWN_THREADS)
            snapshot_in_child();
        for (int i = 0; i < CORDS; i++)
            ck_assert_int_eq(weft_cord_join(cords[i]), i);
    }
    atomic_store(&is_over, true);
    join_thread(thread);
}

TEST(a_snapshot_does_not_delay_a_deadlock)
{
    if (!HAS_ONLY_OWN_THREADS)
        return;
    weft_cord cords[2];
    start_cords(cords, 2);
    settle(cords, 2);
    weft_snapshot_free(take((weft_snapshot_options){.timeout_s = 60}));
    weft_fiber f = weft_spin(suspend, NULL);
    ck_assert_int_eq(weft_await(f), -EDEADLK);
    end_cords(cords, 2);
}

FIBER_DO(take_stalled, weft_snapshot_free(take((weft_snapshot_options){.timeout_s = 3600})), 1)

TEST(a_cancelled_caller_leaves_and_the_late_reply_is_dropped)
{
    sem_init(&blocked, 0, 0);
    sem_init(&resume, 0, 0);
    weft_cord cord = weft_cord_start(block_thread, NULL, NULL);
    while (sem_wait(&blocked) != 0)
        continue;
    if (!runs_on("sim")) { /* there, the caller blocks its thread */
        weft_snapshot *s = NULL;
        ck_assert_times_out(
            0.01,
            ck_assert_int_eq(weft_snapshot_take(&(weft_snapshot_options){.timeout_s = 3600}, &s),
                             -ECANCELED));
        ck_assert_ptr_null(s);
    }
    sem_post(&resume);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

/* Backtraces. */

static void *wait_returns_to;

static __attribute__((noinline)) weft_value wait_here(void)
{
    wait_returns_to = __builtin_return_address(0);
    weft_value rc = weft_suspend();
    __asm__ volatile("" : "+r"(rc)); /* prevents a tail call */
    return rc;
}

static __attribute__((noinline)) weft_value wait_deep(void *arg)
{
    weft_value rc = wait_here();
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

static __attribute__((noinline)) weft_value wait_elsewhere(void *arg)
{
    char pad[200];
    __asm__ volatile("" : : "r"(pad) : "memory");
    weft_value rc = weft_suspend();
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

static bool has_frame(const weft_snapshot_fiber *f, const void *address)
{
    for (uint32_t i = 0; i < f->frames_count; i++)
        if (f->frames[i] == address)
            return true;
    return false;
}

TEST(equal_stacks_share_their_frames_and_equal_weft_backtrace)
{
    enum { EACH = 100 };
    weft_fiber ids[2 * EACH];
    for (int i = 0; i < 2 * EACH; i++)
        ids[i] = weft_spin(i % 2 == 0 ? wait_deep : wait_elsewhere, NULL);
    let_run();
    weft_snapshot *s = take((weft_snapshot_options){.frames_max = 256});
    for (int i = 2; i < 2 * EACH && HAS_BACKTRACES; i++) {
        const weft_snapshot_fiber *f = fiber_in(s, ids[i]);
        ck_assert_uint_gt(f->frames_count, 1);
        if (!IS_SLOW) /* sanitizers prevent tail calls, so the frames of the switch differ */
            ck_assert_ptr_eq((void *)f->frames, (void *)fiber_in(s, ids[i % 2])->frames);
        ck_assert_int_eq(has_frame(f, wait_returns_to), i % 2 == 0);
        void *all[256];
        int n = weft_backtrace(ids[i], all, 256);
        ck_assert_uint_eq((unsigned)n, f->frames_count);
        ck_assert_int_eq(memcmp(all, f->frames, (size_t)n * sizeof *all), 0);
    }
    ck_assert_ptr_ne((void *)fiber_in(s, ids[0])->frames, (void *)fiber_in(s, ids[1])->frames);
    weft_snapshot_free(s);
    s = take((weft_snapshot_options){.frames_max = 1});
    ck_assert_uint_eq(fiber_in(s, ids[0])->frames_count, HAS_BACKTRACES);
    weft_snapshot_free(s);
}
