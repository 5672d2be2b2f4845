/*
 * Support for tests of stock libraries. tests/stock/servers starts the servers and passes their
 * addresses in the environment. A test adopts a library, or runs with libweft-preload.
 */
#ifndef TESTS_STOCK_STOCK_SUPPORT_H
#define TESTS_STOCK_STOCK_SUPPORT_H

#include "posix/posix_support.h"

#include <dlfcn.h>

#define STOCK_FIBERS 100
#define STOCK_STACK_BYTES (256 * 1024)

/* Skip the program if no servers run. */
__attribute__((constructor)) static void require_servers(void)
{
    if (getenv("STOCK_FOLDER") != NULL)
        return;
    puts("skipped: run tests/stock/servers PROGRAM");
    exit(77);
}

static inline const char *server_address(const char *variable)
{
    const char *address = getenv(variable);
    ck_assert_msg(address != NULL, "%s is not set", variable);
    return address;
}

/* Adopt the library that defines a function. The file name of a library depends on its version. */
static inline void adopt_library_of(const char *function)
{
    Dl_info library;
    void *address = dlsym(RTLD_DEFAULT, function);
    ck_assert_ptr_nonnull(address);
    ck_assert_int_ne(dladdr(address, &library), 0);
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt(library.dli_fname, NULL), 0);
}

static inline weft_fiber spin_stock(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin_with(fn, arg, &(weft_spin_options){.stack_bytes = STOCK_STACK_BYTES});
    ck_assert_uint_ne(f, 0);
    return f;
}

/* Calls of several fibers, to observe whether the calls overlap. */
static struct {
    weft_barrier ready;
    int began, ended;
    int began_before_first_end;
} calls;

/* Wait for all fibers, so that connecting is over. Then begin a call. */
static inline void call_begin(void)
{
    ck_assert_int_ge(weft_barrier_wait(&calls.ready), 0);
    calls.began++;
}

static inline void call_end(void)
{
    if (calls.ended++ == 0)
        calls.began_before_first_end = calls.began;
}

/*
 * Run fn in n fibers. Each calls call_begin and call_end once. Assert that all calls began before
 * the first call ended.
 */
static inline void assert_calls_overlap(weft_fn *fn, void *arg, int n)
{
    weft_fiber fibers[STOCK_FIBERS];
    ck_assert_int_eq(weft_barrier_open(&calls.ready, (size_t)n), 0);
    for (int i = 0; i < n; i++)
        fibers[i] = spin_stock(fn, arg);
    ck_assert_int_eq(weft_await_all(fibers, (size_t)n, NULL), 0);
    ck_assert_int_eq(calls.ended, n);
    ck_assert_int_eq(calls.began_before_first_end, n);
}

#endif
