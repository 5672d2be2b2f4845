/*
 * weft_fork: what the child inherits, what it does not inherit, and that the parent continues
 * unchanged.
 */
#include "core/cord/fork_support.h"
#include "support/suite.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

static weft_value fork_with_state(void *arg)
{
    weft_key key = weft_key_new(mark_arg);
    weft_local_set(key, "local");
    char *memory = weft_alloc(4);
    memcpy(memory, "mem", 4);
    weft_tell(weft_self(), 41);
    weft_tell(weft_self(), 42);
    pid_t pid = weft_fork();
    if (pid == 0) {
        require(strcmp(weft_name_of(weft_self()), "carrier") == 0);
        require(strcmp(weft_local_get(key), "local") == 0 && strcmp(memory, "mem") == 0);
        require(weft_receive() == 41 && weft_try_receive() == 42);
        require(weft_try_receive() == -EAGAIN);
        require(weft_tell(weft_self(), 43) == 0 && weft_receive() == 43);
        require(arg == &trail);
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    ck_assert_int_eq(weft_receive(), 41);
    ck_assert_int_eq(weft_receive(), 42);
    return 0;
}

TEST(the_calling_fiber_keeps_its_name_its_local_values_and_its_messages)
{
    weft_spin_options o = {.name = "carrier"};
    ck_assert_int_eq(weft_await(weft_spin_with(fork_with_state, &trail, &o)), 0);
    ck_assert_trail("local");
}

static weft_value fork_in_scopes(void *arg)
{
    int outer = 1, inner = 1;
    pid_t pid = -1;
    WEFT_CANCEL_AFTER(0.03, outer) {
        WEFT_CANCEL_AFTER(1000, inner) {
            pid = weft_fork();
            weft_value rc = weft_sleep(INFINITY);
            if (pid == 0)
                require(rc == -ECANCELED && weft_is_cancelled());
            else
                ck_assert_int_eq(rc, -ECANCELED);
        }
    }
    if (pid == 0) {
        require(outer == -ETIMEDOUT && inner == 0);
        require_runtime_works();
        _exit(0);
    }
    ck_assert_int_eq(outer, -ETIMEDOUT);
    ck_assert_int_eq(wait_for_exit(pid), 0);
    return 0;
}

TEST(deadlines_expire_in_both_processes)
{
    ck_assert_int_eq(weft_await(weft_spin(fork_in_scopes, NULL)), 0);
}

static void fork_on_exit(weft_fiber child, weft_value value, void *arg)
{
    pid_t *pid = arg;
    *pid = weft_fork();
}

TEST(groups_and_supervisors_have_no_children_in_the_child_process)
{
    pid_t pid = -1;
    weft_child children[] = {{.fn = return_arg, .restart = WEFT_NEVER},
                             {.fn = suspend, .restart = WEFT_ON_ERROR},
                             {.fn = sleep_forever}};
    weft_supervise_options o = {.on_exit = fork_on_exit, .on_exit_arg = &pid};
    int rc = 1, supervised = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, suspend, NULL);
        weft_group_spin(&g, suspend, NULL);
        WEFT_MOVE_ON_AFTER(0.02)
            supervised = weft_supervise(children, COUNT_OF(children), &o);
        if (pid == 0)
            require(weft_group_count(&g) == 0);
        else
            weft_group_cancel(&g);
    }
    if (pid == 0) {
        require(rc == 0 && supervised == 0);
        require_runtime_works();
        _exit(0);
    }
    ck_assert_int_eq(supervised, -ECANCELED);
    ck_assert_int_eq(wait_for_exit(pid), 0);
}

static weft_value return_from_child(void *arg)
{
    int *value = arg;
    weft_defer(mark_arg, "defer ");
    pid_t pid = weft_fork();
    if (pid != 0)
        return wait_for_exit(pid);
    is_exiting_in_a_fiber = true;
    return *value;
}

static int fork_and_return(int returned)
{
    weft_fiber sleeper = spin_waiting(suspend_and_mark, "never ");
    weft_value status = weft_await(
        weft_spin_with(return_from_child, &returned, &(weft_spin_options){.name = "forker"}));
    weft_cancel(sleeper);
    return strcmp(trail, "defer ") == 0 ? (int)status : 98;
}

TEST_PROGRAM(the_child_process_ends_when_the_function_returns, 0, "")
{
    return fork_and_return(5);
}

TEST_PROGRAM_PRINTS(an_error_returned_by_the_function_in_the_child_is_reported, 1,
                    "weft: an error reached the main fiber", "forker")
{
    return fork_and_return(-EIO);
}

static weft_value fork_recursively(void *arg)
{
    int depth = (int)(intptr_t)arg;
    weft_spin(sleep_forever, NULL);
    weft_snooze();
    if (depth == 4) {
        require_runtime_works();
        _exit(depth);
    }
    pid_t pid = weft_fork();
    if (pid == 0)
        return weft_await(weft_spin(fork_recursively, as_arg(depth + 1)));
    require_runtime_works();
    int status;
    require(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    _exit(WEXITSTATUS(status));
}

TEST(a_child_can_fork_in_turn)
{
    pid_t pid = weft_fork();
    if (pid == 0)
        weft_await(weft_spin(fork_recursively, NULL));
    ck_assert_int_eq(wait_for_exit(pid), 4);
    require_runtime_works();
}

TEST(many_children_can_be_forked_one_after_the_other)
{
    weft_fiber f = spin_sleeping();
    for (int i = 0; i < 30; i++) {
        pid_t pid = weft_fork();
        if (pid == 0)
            _exit(weft_sleep(0) == 0 && weft_await(f) == -ESRCH ? i : 99);
        ck_assert_int_eq(wait_for_exit(pid), i);
    }
    weft_cancel(f);
}

FIBER(sleep_20ms, weft_sleep(0.02))

static weft_value read_and_count(void *arg)
{
    int *fd = arg;
    char text[8];
    ssize_t n = weft_read(*fd, text, sizeof text);
    return n > 0 && memcmp(text, "parents", 7) == 0 ? n : -EIO;
}

/* The operations are pending during the fork. The child uses only its own backend. */
TEST(pending_operations_stay_with_the_parent)
{
    int fd[2], proceed[2], done[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(pipe(proceed), 0);
    ck_assert_int_eq(pipe(done), 0);
    weft_fiber reader = weft_spin(read_and_count, &fd[0]);
    weft_fiber sleeper = spin_waiting(sleep_20ms, NULL);
    pid_t pid = weft_fork();
    if (pid == 0) {
        char byte;
        require_runtime_works();
        require(write(done[1], "", 1) == 1 && read(proceed[0], &byte, 1) == 1);
        require_runtime_works();
        _exit(0);
    }
    char byte;
    ck_assert_int_eq(read(done[0], &byte, 1), 1); /* the child has closed its copy of the ring */
    ck_assert_int_eq(weft_write(fd[1], "parents", 7), 7);
    ck_assert_int_eq(weft_await(reader), 7);
    ck_assert_int_eq(weft_await(sleeper), 0);
    require_runtime_works();
    ck_assert_int_eq(write(proceed[1], "", 1), 1);
    ck_assert_int_eq(wait_for_exit(pid), 0);
    ck_assert_int_eq(weft_close(fd[0]) | weft_close(fd[1]), 0);
}

/* Count the descriptors of each kind of kernel object that backends use. */
static void list_kinds(char *text, size_t room)
{
    static const char *const kinds[] = {"anon_inode:[io_uring]", "anon_inode:[eventpoll]",
                                        "anon_inode:[eventfd]"};
    int counts[COUNT_OF(kinds)] = {0};
    DIR *folder = opendir("/proc/self/fd");
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
        char name[64];
        ssize_t n = readlinkat(dirfd(folder), e->d_name, name, sizeof name - 1);
        name[n > 0 ? n : 0] = '\0';
        for (size_t i = 0; i < COUNT_OF(kinds); i++)
            counts[i] += strcmp(name, kinds[i]) == 0;
    }
    closedir(folder);
    snprintf(text, room, "%d %d %d", counts[0], counts[1], counts[2]);
}

TEST(the_child_has_no_descriptors_of_the_backends_of_the_parent)
{
    char before[64], after[64];
    require_runtime_works();
    list_kinds(before, sizeof before);
    weft_cord cord =
        strncmp(weft_backend_name(), "libev", 5) == 0 ? 0 : weft_cord_start(NULL, NULL, NULL);
    if (cord != 0)
        ck_assert_int_eq(weft_cord_call(cord, return_arg, as_arg(3)), 3);
    pid_t pid = weft_fork();
    if (pid == 0) {
        require_runtime_works();
        list_kinds(after, sizeof after);
        require(strcmp(before, after) == 0);
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    if (cord == 0)
        return;
    ck_assert_int_eq(weft_cord_call(cord, return_arg, as_arg(4)), 4);
    weft_cord_cancel(cord);
    weft_cord_join(cord);
}

/* Limit the number of descriptors, so that no further one can be opened. */
static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = count;
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

TEST(a_child_that_cannot_open_a_backend_opens_one_later)
{
    require_runtime_works();
    limit_descriptors(3);
    pid_t pid = weft_fork();
    limit_descriptors(pid == 0 ? 3 : 1024);
    if (pid == 0) {
        int fd[2];
        require(weft_sleep(0.001) == 0 && weft_pipe(fd) == -EMFILE);
        limit_descriptors(1024);
        require_runtime_works();
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    require_runtime_works();
}

static weft_value fork_in_cord(void *arg)
{
    weft_cord main_cord = arg_id(arg);
    struct stat s;
    ck_assert_int_eq(weft_stat("/", &s), 0);
    ck_assert_int_eq(weft_offload(return_arg, as_arg(8)), 8);
    pid_t pid = weft_fork();
    if (pid != 0)
        return wait_for_exit(pid);
    require(weft_cord_self() == weft_self());
    require(weft_tell(main_cord, 1) == -ESRCH && weft_cord_spin(main_cord, suspend, NULL) == 0);
    require(weft_cord_join(main_cord) == -ESRCH);
    require_runtime_works();
    struct addrinfo *found;
    require(weft_resolve("localhost", NULL, NULL, &found) == 0);
    weft_resolve_free(found);
    require(weft_stat("/", &s) == 0 && weft_offload(return_arg, as_arg(9)) == 9);
    weft_cord other = weft_cord_start(return_arg, as_arg(21), NULL);
    require(other != 0 && other != main_cord && weft_cord_join(other) == 21);
    is_exiting_in_a_fiber = true;
    return 0;
}

TEST(a_child_of_any_cord_starts_its_own_threads)
{
    if (HAS_TSAN)
        return;
    weft_cord cord = weft_cord_start(fork_in_cord, id_arg(weft_cord_self()), NULL);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    ck_assert_int_eq(fork_in_cord(id_arg(0)), 0);
}

static void end_before_leak_check(void)
{
    _exit(0);
}

/* The memory of the parent's cord is still allocated in the child: ASan would report it. */
static void fork_in_cleanup(void *arg)
{
    *(pid_t *)arg = weft_fork();
    if (*(pid_t *)arg == 0)
        atexit(end_before_leak_check);
}

FIBER_DO(fork_when_ending, weft_defer(fork_in_cleanup, arg), 7)

TEST(the_cleanup_of_a_cord_can_fork)
{
    if (HAS_TSAN)
        return; /* its runtime crashes when the forked thread of the child exits */
    pid_t child = -1;
    weft_cord cord = weft_cord_start(fork_when_ending, &child, NULL);
    ck_assert_int_eq(weft_cord_join(cord), 7);
    ck_assert_int_eq(wait_for_exit(child), 0);
}

static weft_value use_signals_in_a_child(void *arg)
{
    int runs = 0;
    pid_t pid = weft_fork();
    if (pid != 0)
        return wait_for_exit(pid);
    is_exiting_in_a_fiber = true;
    require_runtime_works();
    require(weft_on_signal(SIGUSR1, increment_int, &runs) == 0);
    raise(SIGUSR1);
    while (runs == 0)
        weft_sleep(0.001);
    require(weft_offload(return_arg, as_arg(5)) == 5);
    return arg == NULL ? 0 : weft_fail(-EIO, "%s", (char *)arg);
}

/* On sim, an offloaded function runs in the calling thread. */
static bool can_fork_in_worker(void)
{
    return !HAS_TSAN && !runs_on("sim");
}

TEST(the_child_of_an_offloaded_function_has_signals_and_ends_when_the_function_returns)
{
    if (can_fork_in_worker())
        ck_assert_int_eq(weft_offload(use_signals_in_a_child, NULL), 0);
    require_runtime_works();
}

static int use_signals_and_fail(void)
{
    return (int)weft_offload(use_signals_in_a_child, "in a worker thread");
}

TEST(an_offloaded_function_that_fails_in_the_child_fails_the_process)
{
    if (can_fork_in_worker())
        assert_prints(run_apart(use_signals_and_fail), 1,
                      (const char *[]){"in a worker thread", NULL});
}

static weft_value fail_in_cord(void *arg)
{
    pid_t pid = weft_fork();
    is_exiting_in_a_fiber = pid == 0;
    return pid == 0 ? weft_fail(-EIO, "%s", (char *)arg) : wait_for_exit(pid);
}

TEST_PROGRAM_PRINTS(the_function_of_a_cord_that_fails_in_the_child_fails_the_process, 1,
                    "in a cord")
{
    return (int)weft_cord_join(weft_cord_start(fail_in_cord, "in a cord", NULL));
}

static atomic_bool is_done;
static atomic_int pending_count;

#define PENDING_MAX 10000

static weft_value tell_and_spin(void *arg)
{
    weft_fiber to = arg_id(arg);
    for (weft_value i = 1; !is_done; i++) {
        if (pending_count < PENDING_MAX && weft_tell(to, i) == 0)
            pending_count++;
        if (i % 64 == 0 && pending_count < PENDING_MAX)
            weft_cord_spin(to, return_arg, NULL);
        if (i % 64 == 0)
            weft_snooze();
    }
    return 0;
}

/*
 * Other threads hold locks, send remote messages and reserve ids. The fork waits for none of them,
 * and no message is left.
 */
TEST(a_cord_that_receives_messages_all_the_time_can_fork)
{
    if (is_sanitized()) /* the allocators of sanitizers may be locked after a fork */
        return;
    weft_cord cords[2];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = weft_cord_start(tell_and_spin, id_arg(weft_self()), NULL);
    for (int i = 0; i < 30; i++) {
        pending_count -= weft_receive() > 0;
        while (weft_try_receive() > 0)
            pending_count--;
        pid_t pid = weft_fork();
        if (pid == 0) {
            while (weft_try_receive() > 0)
                continue;
            require_runtime_works();
            require(weft_try_receive() == -EAGAIN);
            weft_cord other = weft_cord_start(return_arg, as_arg(i), NULL);
            require(weft_cord_join(other) == i);
            _exit(0);
        }
        ck_assert_int_eq(wait_for_exit(pid), 0);
    }
    is_done = true;
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

typedef struct loop_state {
    int fd[2];
    pid_t pid;
    size_t bytes;
    int rc;
} loop_state;

static int fork_once(const void *data, size_t bytes, void *ctx)
{
    loop_state *t = ctx;
    require(memcmp(data, "hello", 5) == 0);
    if (t->pid < 0)
        t->pid = weft_fork();
    t->bytes += bytes;
    return 0;
}

static weft_value receive_all(void *arg)
{
    loop_state *t = arg;
    t->rc = weft_recv_loop(t->fd[0], fork_once, t);
    if (t->pid == 0) {
        require(t->rc == -EBADF && t->bytes == 5);
        require_runtime_works();
        _exit(0);
    }
    return t->rc;
}

TEST(a_receive_loop_around_the_fork_continues_only_in_the_parent)
{
    loop_state t = {.pid = -1};
    ck_assert_int_eq(weft_socketpair(t.fd), 0);
    weft_fiber f = spin_waiting(receive_all, &t);
    ck_assert_int_eq(weft_write(t.fd[1], "hello", 5), 5);
    while (t.pid < 0)
        weft_sleep(0.001);
    ck_assert_int_eq(wait_for_exit(t.pid), 0);
    ck_assert_int_eq(weft_write(t.fd[1], "hello", 5), 5);
    ck_assert_int_eq(weft_close(t.fd[1]), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_uint_eq(t.bytes, 10);
    ck_assert_int_eq(weft_close(t.fd[0]), 0);
}
