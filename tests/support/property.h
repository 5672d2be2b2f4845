/*
 * The driver of the property tests: random programs, whose steps are checked against a model.
 *
 * A property is a function that runs a program of random actions from a seed. The driver runs each
 * seed in a separate process. At the end no fiber, timer, operation, stack or descriptor may be
 * left. If a requirement does not hold, if the program crashes or if it hangs, the driver prints
 * the seed and the last actions. On sim, odd seeds also shuffle the order of the runnable fibers.
 *
 *   WEFT_TEST_SEED=n    start at seed n, and run one seed of each property
 *   WEFT_TEST_ROUNDS=n  run n times as many seeds as by default
 */
#ifndef TESTS_SUPPORT_PROPERTY_H
#define TESTS_SUPPORT_PROPERTY_H

#include "support/random.h"
#include "support/support.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define EVENTS_MAX 8
#define LAST_ACTIONS 16
#define PROGRAM_TIMEOUT_S 20

/* A fiber or another party that acts. Each program defines its own. */
typedef struct actor actor;

/* An action, chosen with a probability proportional to its weight. */
typedef struct action {
    const char *name;
    void (*run)(actor *me);
    unsigned weight;
} action;
#define ACTION(function, weight)    \
    {                               \
#function, function, weight \
    }

/* A property. Programs list their properties in a table. */
typedef struct property {
    const char *name; /* a sentence; CK_RUN_CASE selects a property by this name */
    void (*run)(int variant);
    int variant; /* parameter of run */
    unsigned seeds;
    unsigned sim_seeds;         /* on sim; 0: as many as on other backends */
    unsigned least[EVENTS_MAX]; /* the least counts of events in a run */
    bool is_repeatable;         /* on sim, a seed must produce the same results twice */
    bool keeps_order;           /* depends on the order of the run queue: no shuffle on sim */
    bool needs_kernel;          /* does not run on sim */
} property;

/* The report of a run, in memory shared with the test process. */
typedef struct report {
    uint64_t hash; /* of all actions and results */
    _Atomic unsigned steps, actions;
    _Atomic unsigned events[EVENTS_MAX];
    struct {
        _Atomic(const char *) name;
        _Atomic unsigned actor;
    } last[LAST_ACTIONS];
    char text[300]; /* the requirement that did not hold; empty: all held */
} report;

static report *run_report;

/* End the process if a condition does not hold. Cheap if it holds, and valid in any thread. */
#define REQUIRE(condition)                                                                 \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            snprintf(run_report->text, sizeof run_report->text, "%s:%d: %s does not hold", \
                     __FILE__, __LINE__, #condition);                                      \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

static inline void hash_result(uint64_t x)
{
    run_report->hash = (run_report->hash ^ x) * UINT64_C(0x100000001b3) + (run_report->hash >> 29);
}

static inline void count_event(unsigned event)
{
    atomic_fetch_add_explicit(&run_report->events[event], 1, memory_order_relaxed);
}

/* Relaxed, so that the record orders no accesses of threads, and TSan finds their races. */
static inline void note_action(const char *name, unsigned actor_number)
{
    unsigned at = atomic_fetch_add_explicit(&run_report->actions, 1, memory_order_relaxed);
    at %= LAST_ACTIONS;
    atomic_store_explicit(&run_report->last[at].name, name, memory_order_relaxed);
    atomic_store_explicit(&run_report->last[at].actor, actor_number, memory_order_relaxed);
}

/* Choose one of the first n actions, record it for a failure report, and run it. */
static inline void do_random_action(actor *me, unsigned number, const action *actions, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += actions[i].weight;
    unsigned at = random_below(sum);
    for (; at >= actions->weight; actions++)
        at -= actions->weight;
    note_action(actions->name, number);
    actions->run(me);
}

static inline void require_nothing_left(void)
{
    weft_counters now;
    REQUIRE(weft_stats(&now) == 0);
    REQUIRE(now.fibers == 0 && now.fibers_unawaited == 0);
    REQUIRE(now.runnable == 0 && now.timers == 0 && now.ops_pending == 0);
    REQUIRE(now.stacks == now.stacks_cached);
}

/* Make the backend open all its descriptors. */
static inline void open_backend(void)
{
    int fd[2];
    char byte;
    REQUIRE(weft_pipe(fd) == 0);
    WEFT_MOVE_ON_AFTER(1e-6)
        REQUIRE(weft_read(fd[0], &byte, 1) == -ECANCELED);
    REQUIRE(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
}

static inline void run_program(const property *p, unsigned seed)
{
    const char *times = getenv("CK_TIMEOUT_MULTIPLIER");
    alarm((unsigned)(PROGRAM_TIMEOUT_S * (times != NULL ? atof(times) : 1)));
    random_state = seed;
    open_backend();
    int descriptors = count_descriptors();
    p->run(p->variant);
    require_nothing_left();
    REQUIRE(count_descriptors() == descriptors);
    hash_result((uint64_t)(weft_now() * 1e9));
    exit(EXIT_SUCCESS);
}

static inline void print_failure(const property *p, unsigned seed, int status)
{
    unsigned n = run_report->actions, first = n > LAST_ACTIONS ? n - LAST_ACTIONS : 0;
    fprintf(stderr, "status %#x: %s\nrepeat with: CK_RUN_CASE=%s WEFT_TEST_SEED=%u\n",
            (unsigned)status, run_report->text, p->name, seed);
    for (unsigned i = first; i < n; i++)
        fprintf(stderr, "  action %u: actor %u, %s\n", i, run_report->last[i % LAST_ACTIONS].actor,
                run_report->last[i % LAST_ACTIONS].name);
}

/* Run a seed. Return the hash of its actions and results. */
static inline uint64_t run_seed(const property *p, unsigned seed)
{
    run_report =
        mmap(NULL, sizeof *run_report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(run_report, MAP_FAILED);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        run_program(p, seed);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (status != 0)
        print_failure(p, seed, status);
    ck_assert_msg(status == 0, "seed %u: status %#x: %s", seed, status, run_report->text);
    for (unsigned i = 0; i < EVENTS_MAX; i++)
        ck_assert_msg(run_report->events[i] >= p->least[i], "seed %u: event %u: %u times", seed, i,
                      run_report->events[i]);
    uint64_t hash = run_report->hash;
    munmap(run_report, sizeof *run_report);
    return hash;
}

static inline bool is_backend_sim(void)
{
    const char *backend = getenv("WEFT_BACKEND");
    return backend != NULL && strcmp(backend, "sim") == 0;
}

static inline unsigned number_in_environment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static const property *properties_run;
#define SEEDS_MAX 100000 /* a number of a loop test is a property and a seed */

START_TEST(property_holds)
{
    const property *p = &properties_run[_i / SEEDS_MAX];
    unsigned seed = number_in_environment("WEFT_TEST_SEED", 1) + (unsigned)(_i % SEEDS_MAX);
    char text[16];
    snprintf(text, sizeof text, "%u", seed);
    if (seed % 2 == 1 && !p->keeps_order)
        setenv("WEFT_SEED", text, 1);
    else
        unsetenv("WEFT_SEED");
    uint64_t hash = run_seed(p, seed);
    if (!p->is_repeatable || !is_backend_sim())
        return;
    ck_assert_uint_eq(run_seed(p, seed), hash);
    ck_assert_uint_ne(run_seed(p, seed + SEEDS_MAX), hash);
}
END_TEST

static inline unsigned seeds_of(const property *p)
{
    if (p->needs_kernel && is_backend_sim())
        return 0;
    unsigned seeds = is_backend_sim() && p->sim_seeds > 0 ? p->sim_seeds : p->seeds;
    if (is_sanitized())
        seeds = (seeds + 3) / 4;
    return getenv("WEFT_TEST_SEED") != NULL && getenv("WEFT_TEST_ROUNDS") == NULL
               ? 1
               : seeds * number_in_environment("WEFT_TEST_ROUNDS", 1);
}

/* Run properties, and then tests of single behaviours. Return the exit status for main. */
static inline int run_properties(const char *name, const property *properties, size_t n,
                                 const TTest *const *const tests[], size_t tests_count)
{
    Suite *suite = suite_create(name);
    properties_run = properties;
    for (size_t i = 0; i < n + tests_count; i++) {
        TCase *tcase = tcase_create(i < n ? properties[i].name : (*tests[i - n])->name);
        int first = (int)i * SEEDS_MAX;
        tcase_set_timeout(tcase, 2 * PROGRAM_TIMEOUT_S);
        if (i < n)
            tcase_add_loop_test(tcase, property_holds, first,
                                first + (int)seeds_of(&properties[i]));
        else
            tcase_add_test(tcase, *tests[i - n]);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

#endif
