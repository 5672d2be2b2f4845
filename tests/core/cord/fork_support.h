/* Helpers for the tests of fork: assertions in a child, and its exit status. */
#ifndef TESTS_CORE_CORD_FORK_SUPPORT_H
#define TESTS_CORE_CORD_FORK_SUPPORT_H

#include "support/support.h"

#include <sys/mman.h>

#ifdef __SANITIZE_THREAD__
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifndef HAS_TSAN
#define HAS_TSAN 0 /* TSan does not let the child of a process with threads start a thread */
#endif

__attribute__((noreturn)) static inline void fail_requirement(int line, const char *what)
{
    dprintf(STDERR_FILENO, "line %d, in the child: %s\n", line, what);
    _exit(99);
}

/* Assert in a child process, in which Check cannot report failures. */
#define require(condition)                          \
    do {                                            \
        if (!(condition))                           \
            fail_requirement(__LINE__, #condition); \
    } while (0)

/* Wait for a child. Return its exit status, or minus the signal that killed it. */
static inline int wait_for_exit(pid_t pid)
{
    int status;
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Return zeroed memory that the process shares with its children. */
static inline void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return memory;
}

FIBER_DO(snooze_and_increment, weft_snooze(), ++*(int *)arg, 0)

/* Require that fibers, timers and pipes work in this process. */
static inline void require_runtime_works(void)
{
    int sum = 0, fd[2];
    weft_fiber f[3];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(snooze_and_increment, &sum);
    require(weft_await_all(f, COUNT_OF(f), NULL) == 0 && sum == 3);
    double begin = weft_now();
    require(weft_sleep(0.002) == 0 && weft_now() - begin >= 0.002 - 1e-9);
    require(weft_pipe(fd) == 0);
    char text[4];
    require(weft_write(fd[1], "abc", 3) == 3);
    require(weft_read(fd[0], text, sizeof text) == 3 && memcmp(text, "abc", 3) == 0);
    require(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
}

#endif
