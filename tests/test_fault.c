/*
 * The n-th call for memory, for a descriptor or to the kernel fails, for n = 1, 2, 3 ... until a whole
 * scenario needs fewer calls than that. Each time: no crash, no hang, every call returns a result or
 * an error and has done the whole or nothing, nothing is left behind, and done again without a fault
 * everything works. Under ASan nothing has leaked either.
 */
#include "fault_wrap.h"
#include "support.h"

#include <poll.h>
#include <pthread.h>

/* What a child process tells its parent, in shared memory. */
typedef struct verdict {
    bool is_struck; /* the scenario came as far as the call that was to fail */
    char text[256]; /* what did not hold; empty: all did */
} verdict;

static verdict *told;

/* As ck_assert, in the child process. */
#define REQUIRE(condition)                                                                          \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            snprintf(told->text, sizeof told->text, "line %d: %s", __LINE__, #condition);           \
            _exit(1);                                                                               \
        }                                                                                           \
    } while (0)

/* What a call returned is a result, or the error of a fault. True: a result. */
#define REQUIRE_TOLD(result)                                          \
    ({                                                                \
        long told_result = (long)(result);                            \
        REQUIRE(told_result >= 0 || fault_is_told(told_result));      \
        told_result >= 0;                                             \
    })

/* A fiber, or 0 because of a fault. */
static weft_fiber require_made(weft_fiber f)
{
    REQUIRE(f != 0 || atomic_load(&fault.struck) > 0);
    /* There are words, unless the memory for them was short as well. */
    if (f == 0 && !fault.is_lasting)
        REQUIRE(weft_error() != NULL && fault_is_told(weft_error()->code));
    return f;
}

static void require_nothing_left(void)
{
    weft_counters now;
    REQUIRE(weft_stats(&now) == 0);
    REQUIRE(now.fibers == 0);
    REQUIRE(now.fibers_unawaited == 0);
    REQUIRE(now.runnable == 0);
    REQUIRE(now.timers == 0);
    REQUIRE(now.ops_pending == 0);
    REQUIRE(now.stacks == now.stacks_cached);
    REQUIRE(weft_snooze() == 0); /* no error is still on its way */
}

/* A scenario returns whether it could do everything; without a fault it always can. */
typedef bool scenario(void);

static void child_main(scenario *run)
{
    alarm(30);
    atomic_store(&fault.is_on, true);
    bool is_done = run();
    atomic_store(&fault.is_on, false);
    told->is_struck = atomic_load(&fault.struck) > 0;
    REQUIRE(is_done || told->is_struck);
    require_nothing_left();
    /* A thread that got no backend goes without I/O for good. */
    bool has_backend = strcmp(weft_backend_name(), "none") != 0;
    atomic_store(&fault.struck, 0);
    bool is_done_again = has_backend ? run() : true;
    REQUIRE(is_done_again);
    require_nothing_left();
    exit(EXIT_SUCCESS);
}

/* stderr of the child, for the failure message. */
static void print_file(int fd)
{
    char text[4096];
    lseek(fd, 0, SEEK_SET);
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)n, stderr);
}

/* Run the scenario with one fault in a process of its own. Returns whether it came to the fault. */
static bool strike(scenario *run, unsigned first, bool is_lasting)
{
    int fd = memfd_create("stderr", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    *told = (verdict){0};
    fault.first = first;
    fault.is_lasting = is_lasting;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fd, STDERR_FILENO);
        child_main(run);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        print_file(fd);
        ck_abort_msg("call %u failing%s: %s %d, %s", first, is_lasting ? ", and all after it" : "",
                     WIFSIGNALED(status) ? "signal" : "exit status",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), told->text);
    }
    close(fd);
    return told->is_struck;
}

static void strike_each_call(scenario *run)
{
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(told, MAP_FAILED);
    for (int is_lasting = 0; is_lasting <= 1; is_lasting++) {
        unsigned n = 1;
        while (strike(run, n, is_lasting))
            ck_assert_uint_lt(++n, 2000);
        ck_assert_uint_gt(n, 1);
    }
}

static bool become_a_cord(void)
{
    return weft_self() != 0;
}

static bool adopting(void)
{
    if (!become_a_cord()) {
        REQUIRE(atomic_load(&fault.struck) > 0);
        REQUIRE(weft_main() == weft_self()); /* of the second try, or 0 of both */
        return false;
    }
    REQUIRE(weft_main() == weft_self());
    return strcmp(weft_backend_name(), "none") != 0;
}

/* DESIGN 3: a failed allocation is an error of the call that needed it. */
START_TEST(a_thread_becomes_a_cord_or_is_told_why_not)
{
    strike_each_call(adopting);
}
END_TEST

#define FIBERS 200

static weft_value snooze_and_return(void *arg)
{
    int rc = weft_snooze();
    return rc < 0 ? rc : (weft_value)arg;
}

static weft_value sum_of_copy(void *arg)
{
    const unsigned char *bytes = arg;
    weft_value sum = 0;
    int rc = weft_snooze();
    for (int i = 0; i < 100; i++)
        sum += bytes[i];
    return rc < 0 ? rc : sum;
}

/* Default stacks, bigger and smaller ones, names, copies of arguments. */
static weft_fiber spin_one_of_many(int i, weft_value *expected)
{
    static const size_t sizes[] = {0, 16 << 10, 0, 128 << 10, 0, 2 << 20};
    unsigned char copied[100];
    memset(copied, i, sizeof copied);
    weft_spin_options options = {.stack_bytes = sizes[i % 6], .name = i % 2 ? "odd" : NULL};
#ifdef __SANITIZE_ADDRESS__
    if (options.stack_bytes == 16 << 10)
        options.stack_bytes = 64 << 10;
#endif
    *expected = i;
    if (i % 5 != 0)
        return weft_spin_with(snooze_and_return, as_arg(i), &options);
    options.arg_bytes = sizeof copied;
    *expected = 100 * i;
    return weft_spin_with(sum_of_copy, copied, &options);
}

static bool spinning(void)
{
    static weft_fiber f[FIBERS];
    static weft_value expected[FIBERS];
    if (!become_a_cord())
        return false;
    bool is_done = true;
    for (int i = 0; i < FIBERS; i++)
        is_done &= (f[i] = require_made(spin_one_of_many(i, &expected[i]))) != 0;
    for (int i = 0; i < FIBERS; i++)
        if (f[i] != 0)
            REQUIRE(weft_await(f[i]) == expected[i]);
    weft_error_clear();
    return is_done;
}

/* T48, T50, T51 */
START_TEST(fibers_of_all_kinds_are_made_whole_or_not_at_all)
{
    strike_each_call(spinning);
}
END_TEST

static int runs;

static weft_value count_run(void *arg)
{
    (void)arg;
    runs++;
    int rc = weft_snooze();
    runs++;
    return rc;
}

static bool going(void)
{
    if (!become_a_cord())
        return false;
    runs = 0;
    int made = 0;
    for (int i = 0; i < 70; i++)
        made += REQUIRE_TOLD(weft_go(count_run, NULL));
    REQUIRE(weft_await_children() == 0);
    REQUIRE(runs == 2 * made);
    for (int i = 0; i < 10; i++) {
        runs = 0;
        weft_fiber f = require_made(weft_new(count_run, NULL));
        made += f != 0;
        if (f == 0)
            continue;
        REQUIRE(runs == 0);
        REQUIRE(weft_start(f) == 0);
        REQUIRE(runs == 1);
        REQUIRE(weft_await(f) == 0);
        REQUIRE(runs == 2);
    }
    weft_error_clear();
    return made == 80;
}

/* P1, T8 */
START_TEST(what_is_told_to_run_runs_and_nothing_else)
{
    strike_each_call(going);
}
END_TEST

static weft_value sleep_in_scopes(void *arg)
{
    (void)arg;
    int rc = 1, slept = 1;
    WEFT_CANCEL_AFTER(0.001, rc) {
        WEFT_MOVE_ON_AFTER(1e-9) {
            slept = weft_sleep(10);
        }
        REQUIRE(slept == -ECANCELED);
        slept = weft_sleep(INFINITY);
    }
    REQUIRE(slept == -ECANCELED && rc == -ETIMEDOUT);
    return weft_sleep(0.0005);
}

static bool sleeping(void)
{
    if (!become_a_cord())
        return false;
    int made = 0;
    for (int i = 0; i < 10; i++)
        made += require_made(weft_spin(sleep_in_scopes, NULL)) != 0;
    weft_fiber f[16];
    int living = weft_children(weft_self(), f, COUNT_OF(f));
    REQUIRE(living == made);
    for (int i = 0; i < living; i++)
        REQUIRE(weft_await(f[i]) == 0);
    weft_error_clear();
    return made == 10;
}

/* P41, P46: time needs no memory, and a poll that fails is made again. */
START_TEST(deadlines_and_sleeps_hold_whatever_fails)
{
    strike_each_call(sleeping);
}
END_TEST

static int defers_run, values_destroyed;

static void count_defer(void *arg)
{
    (void)arg;
    defers_run++;
}

static void count_destroyed(void *value)
{
    (void)value;
    values_destroyed++;
}

typedef struct owner {
    weft_key key;
    int defers_left, values_set, blocks;
} owner;

static weft_value own_things(void *arg)
{
    owner *o = arg;
    for (int i = 0; i < 3; i++) {
        o->defers_left += REQUIRE_TOLD(weft_defer(count_defer, NULL));
        void *old = weft_local_get(o->key);
        bool is_set = REQUIRE_TOLD(weft_local_set(o->key, o));
        REQUIRE(weft_local_get(o->key) == (is_set ? o : old));
        o->values_set += is_set && old == NULL;
        char *block = weft_alloc(1000);
        REQUIRE(block != NULL || atomic_load(&fault.struck) > 0);
        if (block != NULL)
            memset(block, i, 1000);
        o->blocks += block != NULL;
    }
    return weft_snooze();
}

static bool owning(void)
{
    static weft_key key;
    if (!become_a_cord())
        return false;
    if (key == 0)
        key = weft_key_new(count_destroyed);
    owner o = {.key = key};
    int made = 0;
    defers_run = values_destroyed = 0;
    for (int i = 0; i < 3; i++) {
        weft_fiber f = require_made(weft_spin(own_things, &o));
        made += f != 0;
        REQUIRE(f == 0 || weft_await(f) == 0);
    }
    REQUIRE(defers_run == o.defers_left);
    REQUIRE(values_destroyed == o.values_set);
    weft_error_clear();
    return made == 3 && o.defers_left == 9 && o.values_set == 3 && o.blocks == 9;
}

/* P24, T105 */
START_TEST(defers_locals_and_memory_are_there_or_refused)
{
    strike_each_call(owning);
}
END_TEST

static weft_value fail_deep(void *arg)
{
    int code = -(int)(intptr_t)arg;
    weft_fail(-EIO, "the cause");
    return weft_fail(code, "the effect");
}

/* Its child's error comes to it at its next blocking call; it ends with that. */
static weft_value pass_on_child_error(void *arg)
{
    if (weft_go(fail_deep, arg) < 0)
        return -(weft_value)arg;
    int rc = weft_sleep(10);
    REQUIRE(rc == -(int)(intptr_t)arg);
    return weft_fail(rc, "my child failed");
}

/* Its value has a bit for each of the errors that arrived. */
static weft_value note_errors(void *arg)
{
    weft_value rc, seen = 0;
    while ((rc = weft_suspend()) < 0)
        seen |= rc == -EDOM ? 1 : rc == -ERANGE ? 2 : 4;
    (void)arg;
    return seen;
}

static bool raise_two(weft_fiber f)
{
    bool is_first = REQUIRE_TOLD(weft_raise(f, -EDOM, "%s", "first"));
    bool is_second = REQUIRE_TOLD(weft_raise(f, -ERANGE, "%s", "second"));
    for (int i = 0; i < 3; i++)
        REQUIRE(weft_snooze() == 0);
    REQUIRE(weft_schedule(f, 0) == 0);
    REQUIRE(weft_await(f) == is_first + 2 * is_second);
    return is_first && is_second;
}

static bool failing(void)
{
    if (!become_a_cord())
        return false;
    int made = 0;
    for (int i = 0; i < 3; i++) {
        weft_fiber f = require_made(weft_spin(pass_on_child_error, as_arg(EPROTO)));
        made += f != 0;
        REQUIRE(f == 0 || weft_await(f) == -EPROTO);
        /* One that has failed before it is awaited: its error is told once. */
        f = require_made(weft_spin(fail_deep, as_arg(EXFULL)));
        made += f != 0;
        if (f != 0 && weft_state_of(f) != WEFT_DEAD) {
            WEFT_SHIELD(INFINITY)
                REQUIRE(weft_snooze() == 0);
            REQUIRE(weft_state_of(f) == WEFT_DEAD);
            REQUIRE(weft_await(f) == -EXFULL);
            REQUIRE(weft_snooze() == 0);
        }
    }
    weft_fiber f = require_made(weft_spin(note_errors, NULL));
    if (f != 0) {
        REQUIRE(weft_snooze() == 0);
        made += raise_two(f);
    }
    weft_error_clear();
    return made == 7;
}

/* P19, P20, P21, T25: words may be lost for want of memory, codes never, and none is told twice. */
START_TEST(error_codes_arrive_once_though_their_words_cannot)
{
    strike_each_call(failing);
}
END_TEST

static weft_value return_soon(void *arg)
{
    int rc = weft_sleep(0.0001);
    return rc < 0 ? rc : (weft_value)arg;
}

/* Spin n; returns how many could be. */
static size_t spin_some(weft_fiber *f, size_t n)
{
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        f[made] = require_made(weft_spin(return_soon, as_arg((weft_value)made + 1)));
        made += f[made] != 0;
    }
    return made;
}

static void await_each(const weft_fiber *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_await(f[i]) == (weft_value)i + 1);
}

/* A wait for several that was refused has changed nothing. */
static bool awaiting(void)
{
    weft_fiber f[8];
    weft_value out[8];
    if (!become_a_cord())
        return false;
    size_t n = spin_some(f, COUNT_OF(f));
    bool is_done = n == COUNT_OF(f);
    if (REQUIRE_TOLD(weft_await_all(f, n, out))) {
        for (size_t i = 0; i < n; i++)
            REQUIRE(out[i] == (weft_value)i + 1);
    } else {
        is_done = false;
        await_each(f, n);
    }
    n = spin_some(f, COUNT_OF(f));
    is_done &= n == COUNT_OF(f);
    int first = n > 0 ? weft_select_fibers(f, n, out) : 0;
    if (REQUIRE_TOLD(first))
        REQUIRE(n == 0 || out[0] == first + 1);
    else
        await_each(f, n);
    weft_error_clear();
    return is_done && first >= 0;
}

/* P34, P35, P37 */
START_TEST(a_wait_for_several_happens_or_changes_nothing)
{
    strike_each_call(awaiting);
}
END_TEST

static bool restarting(void)
{
    if (!become_a_cord())
        return false;
    runs = 0;
    weft_fiber f = require_made(weft_spin(count_run, NULL));
    bool is_done = f != 0;
    if (f != 0) {
        WEFT_MOVE_ON_AFTER(0.001)
            weft_suspend();
        REQUIRE(weft_state_of(f) == WEFT_DEAD && runs == 2);
        is_done = REQUIRE_TOLD(weft_restart(f));
        REQUIRE(weft_await(f) == 0);
        REQUIRE(runs == (is_done ? 4 : 2));
    }
    weft_error_clear();
    return is_done;
}

/* P31 */
START_TEST(an_ended_fiber_restarts_or_stays_as_it_was)
{
    strike_each_call(restarting);
}
END_TEST

#define STREAM_BYTES ((ssize_t)150000)

/* One end of a stream. Fibers, each with its own end, close it when they are done. */
typedef struct stream {
    int fd;
    ssize_t moved;
    ssize_t result; /* of the call that ended it */
} stream;

static weft_value write_stream(void *arg)
{
    stream *s = arg;
    static const char bytes[7000];
    do {
        s->result = weft_write(s->fd, bytes, sizeof bytes);
        s->moved += s->result > 0 ? s->result : 0;
    } while (s->result > 0 && s->moved < STREAM_BYTES);
    REQUIRE(weft_close(s->fd) == 0);
    REQUIRE(s->result == -EPIPE || REQUIRE_TOLD(s->result) || fault.struck > 0);
    return 0;
}

static weft_value read_stream(void *arg)
{
    stream *s = arg;
    char bytes[5000];
    while ((s->result = weft_read(s->fd, bytes, sizeof bytes)) > 0)
        s->moved += s->result;
    REQUIRE(weft_close(s->fd) == 0);
    REQUIRE_TOLD(s->result);
    return 0;
}

/* Whether all that was to be moved was. */
static bool stream_through(int (*make)(int fd[2]))
{
    int fd[2];
    if (!REQUIRE_TOLD(make(fd)))
        return false;
    stream to = {.fd = fd[1]}, from = {.fd = fd[0]};
    weft_fiber reader = require_made(weft_spin(read_stream, &from));
    weft_fiber writer = reader != 0 ? require_made(weft_spin(write_stream, &to)) : 0;
    if (reader == 0)
        REQUIRE(weft_close(fd[0]) == 0);
    if (writer == 0)
        REQUIRE(weft_close(fd[1]) == 0);
    REQUIRE(reader == 0 || weft_await(reader) == 0);
    REQUIRE(writer == 0 || weft_await(writer) == 0);
    REQUIRE(from.moved == to.moved || from.result < 0); /* a reader that failed left some */
    return writer != 0 && from.result == 0 && to.moved >= STREAM_BYTES;
}

static bool streaming(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = stream_through(weft_pipe);
    is_done &= stream_through(weft_socketpair);
    int fd[2];
    if (REQUIRE_TOLD(weft_pipe(fd))) {
        int rc = weft_wait_fd(fd[1], POLLOUT);
        is_done &= REQUIRE_TOLD(rc);
        REQUIRE(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
    } else {
        is_done = false;
    }
    weft_error_clear();
    return is_done;
}

/* P60 */
START_TEST(a_stream_carries_all_its_bytes_or_its_ends_are_told)
{
    strike_each_call(streaming);
}
END_TEST

/* A descriptor is closed whatever else is missing, also without a backend. */
static bool closing(void)
{
    atomic_store(&fault.is_on, false);
    int fd[2];
    REQUIRE(__real_pipe2(fd, 0) == 0);
    atomic_store(&fault.is_on, true);
    bool is_cord = become_a_cord() || become_a_cord();
    int rc[2] = {weft_close(fd[0]), weft_close(fd[1])};
    if (is_cord) {
        REQUIRE(rc[0] == 0 && rc[1] == 0);
        REQUIRE(weft_close(fd[0]) == -EBADF);
    }
    return is_cord;
}

START_TEST(a_descriptor_is_closed_in_any_case)
{
    strike_each_call(closing);
}
END_TEST

/* The main thread's fiber that the other thread schedules, and how that went. */
typedef struct thread_job {
    weft_fiber target;
    int scheduled;
    bool is_done;
} thread_job;

static void *cord_thread(void *arg)
{
    thread_job *job = arg;
    job->scheduled = weft_schedule(job->target, 7);
    job->is_done = become_a_cord();
    for (int i = 0; i < 3 && job->is_done; i++) {
        weft_fiber f = require_made(weft_spin(return_soon, as_arg(5)));
        weft_fiber failing = require_made(weft_spin(fail_deep, as_arg(EPROTO)));
        job->is_done &= f != 0 && failing != 0;
        REQUIRE(f == 0 || weft_await(f) == 5 || failing != 0);
        REQUIRE(failing == 0 || weft_await(failing) == -EPROTO);
        REQUIRE(f == 0 || weft_state_of(f) == WEFT_DEAD || weft_await(f) == 5);
    }
    return NULL;
}

static weft_value suspended_target(void *arg)
{
    (void)arg;
    return weft_suspend();
}

static bool threading(void)
{
    if (!become_a_cord())
        return false;
    thread_job job = {.target = require_made(weft_spin(suspended_target, NULL))};
    if (job.target != 0)
        REQUIRE(weft_snooze() == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, cord_thread, &job) == 0);
    pthread_join(thread, NULL);
    if (job.target != 0) {
        if (!REQUIRE_TOLD(job.scheduled))
            REQUIRE(weft_schedule(job.target, 7) == 0);
        REQUIRE(weft_await(job.target) == 7);
    }
    weft_error_clear();
    return job.target != 0 && job.scheduled == 0 && job.is_done;
}

/* P10, P78 */
START_TEST(a_thread_comes_and_goes_with_its_fibers)
{
    strike_each_call(threading);
}
END_TEST

static int count_fiber(const weft_info *info, void *count)
{
    (void)info;
    ++*(int *)count;
    return 0;
}

static bool looking(void)
{
    if (!become_a_cord())
        return false;
    weft_fiber f[8];
    size_t n = spin_some(f, COUNT_OF(f));
    weft_snooze();
    int seen = 0;
    REQUIRE(weft_walk(count_fiber, &seen) == 0);
    REQUIRE(seen == (int)n + 1);
    REQUIRE(weft_dump(STDERR_FILENO) == 0);
    void *frames[8];
    weft_info info;
    for (size_t i = 0; i < n; i++) {
        REQUIRE(weft_info_of(f[i], &info) == 0 && info.id == f[i]);
        REQUIRE(weft_backtrace(f[i], frames, COUNT_OF(frames)) >= 0);
    }
    await_each(f, n);
    weft_error_clear();
    return n == COUNT_OF(f);
}

/* T20, T21 */
START_TEST(looking_inside_works_whatever_fails)
{
    strike_each_call(looking);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_thread_becomes_a_cord_or_is_told_why_not,
        &fibers_of_all_kinds_are_made_whole_or_not_at_all,
        &what_is_told_to_run_runs_and_nothing_else,
        &deadlines_and_sleeps_hold_whatever_fails,
        &defers_locals_and_memory_are_there_or_refused,
        &error_codes_arrive_once_though_their_words_cannot,
        &a_wait_for_several_happens_or_changes_nothing,
        &an_ended_fiber_restarts_or_stays_as_it_was,
        &a_stream_carries_all_its_bytes_or_its_ends_are_told,
        &a_descriptor_is_closed_in_any_case,
        &a_thread_comes_and_goes_with_its_fibers,
        &looking_inside_works_whatever_fails,
    };
    return run_suite("fault", tests, COUNT_OF(tests));
}
