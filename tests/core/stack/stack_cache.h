/* What the tests of stacks share: a pool around each test, and ways to look at it. */
#ifndef WEFT_TESTS_STACK_POOL_H
#define WEFT_TESTS_STACK_POOL_H

#include "core/stack.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define IS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_ASAN 1
#endif
#endif
#ifndef IS_ASAN
#define IS_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define IS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_TSAN 1
#endif
#endif
#ifndef IS_TSAN
#define IS_TSAN 0
#endif

/* Valgrind keeps a record of every mapping, and of every byte. */
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static weft__stack_pool pool;
static size_t page;

static inline void pool_open(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    /* No test leaves a core file behind. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    weft__stack_pool_init(&pool);
}

static inline void pool_close(void)
{
    ck_assert_uint_eq(pool.cached, pool.mapped);
    weft__stack_pool_close(&pool);
    ck_assert_uint_eq(pool.mapped, 0);
}

static inline weft__stack take(size_t bytes)
{
    weft__stack stack;
    ck_assert_int_eq(weft__stack_acquire(&pool, bytes, &stack), 0);
    return stack;
}

static inline char *top_of(const weft__stack *stack)
{
    return stack->low + stack->bytes;
}

/* Use the stack down to so many bytes below its top. */
static inline void use(const weft__stack *stack, size_t bytes)
{
    volatile char *top = top_of(stack);
    for (size_t i = 1; i < bytes; i += page)
        top[-(ptrdiff_t)i] = 1;
    top[-(ptrdiff_t)bytes] = 1;
}

static inline size_t resident_pages(const weft__stack *stack)
{
    static unsigned char vector[65536];
    size_t pages = (stack->bytes + page - 1) / page, resident = 0;
    ck_assert_uint_le(pages, sizeof vector);
    ck_assert_int_eq(mincore(stack->low, pages * page, vector), 0);
    for (size_t i = 0; i < pages; i++)
        resident += vector[i] & 1;
    return resident;
}

static inline bool is_mapped(char *address)
{
    unsigned char vector[1];
    return mincore(address, 1, vector) == 0;
}

static inline size_t lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t lines = 0;
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* Does it end the process to write there? The child's own stderr is of no interest. */
static inline bool is_deadly(char *address)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)address = 1;
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

#endif
