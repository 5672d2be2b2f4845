/* Helpers for the tests of stacks: a stack cache for each test, and functions to inspect it. */
#ifndef TESTS_CORE_STACK_STACK_CACHE_H
#define TESTS_CORE_STACK_STACK_CACHE_H

#include "core/stack/stack.h"
#include "support/suite.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define IS_ASAN 1
#else
#define IS_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define IS_TSAN 1
#else
#define IS_TSAN 0
#endif

/* Valgrind records every mapping and every byte. */
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static weft__stack_cache cache;
static size_t page;

static inline void pool_open(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    /* Disable core files. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    weft__stack_cache_init(&cache);
}

static inline void pool_close(void)
{
    ck_assert_uint_eq(cache.cached, cache.mapped);
    weft__stack_cache_close(&cache);
    ck_assert_uint_eq(cache.mapped, 0);
}

FIXTURE(pool_open, pool_close)

static inline weft__stack acquire_stack(size_t bytes)
{
    weft__stack stack;
    ck_assert_int_eq(weft__stack_acquire(&cache, bytes, &stack), 0);
    return stack;
}

static inline void release_stacks(weft__stack *stacks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        weft__stack_release(&cache, &stacks[i]);
}

static inline char *top_of(const weft__stack *stack)
{
    return stack->low + stack->bytes;
}

/* Write to the stack down to bytes below its top. */
static inline void touch_stack(const weft__stack *stack, size_t bytes)
{
    volatile char *top = top_of(stack);
    for (size_t i = 1; i < bytes; i += page)
        top[-(ptrdiff_t)i] = 1;
    top[-(ptrdiff_t)bytes] = 1;
}

/* Acquire n stacks, touch each, and copy their addresses. */
static inline void acquire_touched(weft__stack *stacks, weft__stack *copies, size_t n, size_t bytes,
                                   size_t touched)
{
    for (size_t i = 0; i < n; i++) {
        copies[i] = stacks[i] = acquire_stack(bytes);
        touch_stack(&stacks[i], touched);
    }
}

static inline size_t stack_resident_pages(const weft__stack *stack)
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

static inline size_t count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t lines = 0;
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* True if a write to address kills the process. The stderr of the child is ignored. */
static inline bool is_fatal_to_write(char *address)
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
