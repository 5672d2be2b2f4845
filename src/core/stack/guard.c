/* Guard pages and batched madvise: detection of the kernel interface, and fallbacks. */
#include "core/stack/guard.h"

#include "base/compiler.h"
#include "core/debug/diag.h"
#include "core/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Constants that the headers of older systems lack. */
#define ADVICE_GUARD_INSTALL 102 /* MADV_GUARD_INSTALL, Linux 6.13 */
#define ADVICE_POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, Linux 5.14 */
#define FD_SELF (-10000)         /* PIDFD_SELF, Linux 6.14: needs no descriptor, even after fork */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

_Atomic int weft__guard_method = WEFT__GUARD_BATCH;

/*
 * The number of guards made by mprotect in this process, and the limit of this number (0: not read
 * yet).
 */
static _Atomic size_t protected_now;
static _Atomic size_t protected_max;

static void method_abandon(int method)
{
    int current = atomic_load_explicit(&weft__guard_method, memory_order_relaxed);
    while (current <= method &&
           !atomic_compare_exchange_weak(&weft__guard_method, &current, method + 1))
        continue;
}

static bool method_is_usable(int method)
{
    return atomic_load_explicit(&weft__guard_method, memory_order_relaxed) <= method;
}

/*
 * Return true if a call that failed with this error would always fail. Other errors may be
 * temporary.
 */
static bool is_permanent_error(int error)
{
    return error == EINVAL || error == ENOSYS || error == EBADF || error == EPERM ||
           error == EOPNOTSUPP;
}

/*
 * Advise many page ranges in one call. Return the number of leading ranges that the call has
 * processed. If the call fails, set *error to errno, otherwise to 0.
 */
static size_t advise_batch(const struct iovec *pages, size_t count, int advice, int *error)
{
    *error = 0;
    long bytes = syscall(SYS_process_madvise, FD_SELF, pages, count, (unsigned long)advice, 0ul);
    if (bytes < 0) {
        *error = errno;
        return 0;
    }
    size_t done = 0;
    for (size_t left = (size_t)bytes; done < count && left >= pages[done].iov_len; done++)
        left -= pages[done].iov_len;
    return done;
}

static size_t guards_max(void)
{
    size_t max = atomic_load_explicit(&protected_max, memory_order_relaxed);
    if (max != 0)
        return max;
    unsigned long mappings = 65530; /* the kernel's default */
    char text[32];
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, text, sizeof text - 1);
        if (got > 0) {
            text[got] = '\0';
            mappings = strtoul(text, NULL, 10);
        }
        close(fd);
    }
    max = mappings / 100 * WEFT__GUARD_MAPS_PERCENT / 2 + 1;
    atomic_store_explicit(&protected_max, max, memory_order_relaxed);
    return max;
}

static bool guard_by_mprotect(const struct iovec *page)
{
    if (atomic_fetch_add(&protected_now, 1) < guards_max() &&
        mprotect(page->iov_base, page->iov_len, PROT_NONE) == 0)
        return true;
    atomic_fetch_sub(&protected_now, 1);
    return false;
}

static void warn_unguarded(void)
{
    static atomic_flag was_printed = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&was_printed))
        weft__diag(LOG_WARNING, "guard pages are exhausted (vm.max_map_count): stack overflows may "
                                "go undetected");
}

static bool guard_by_advice(const struct iovec *page)
{
    if (!method_is_usable(WEFT__GUARD_SINGLE))
        return false;
    if (madvise(page->iov_base, page->iov_len, ADVICE_GUARD_INSTALL) == 0)
        return true;
    if (is_permanent_error(errno))
        method_abandon(WEFT__GUARD_SINGLE);
    return false;
}

weft__guard_result weft__guard_install(const struct iovec *pages, size_t count)
{
    weft__guard_result result = {0};
    size_t done = 0;
    if (method_is_usable(WEFT__GUARD_BATCH)) {
        int error;
        done = advise_batch(pages, count, ADVICE_GUARD_INSTALL, &error);
        if (is_permanent_error(error))
            method_abandon(WEFT__GUARD_BATCH);
    }
    for (; done < count; done++) {
        if (guard_by_advice(&pages[done]))
            continue;
        if (method_is_usable(WEFT__GUARD_PROTECT) && guard_by_mprotect(&pages[done])) {
            result.protected ++;
            continue;
        }
        result.unguarded |= UINT64_C(1) << done;
        warn_unguarded();
    }
    return result;
}

void weft__guard_forget(size_t protected)
{
    atomic_fetch_sub(&protected_now, protected);
}

void weft__pages_populate(const struct iovec *pages, size_t count)
{
    int error;
    if (method_is_usable(WEFT__GUARD_BATCH))
        advise_batch(pages, count, ADVICE_POPULATE_WRITE, &error);
}

void weft__pages_release(const struct iovec *pages, size_t count)
{
    size_t done = 0;
    int error;
    /*
     * Since Linux 6.13, process_madvise accepts MADV_DONTNEED and guards for the calling process.
     */
    if (count > 1 && method_is_usable(WEFT__GUARD_BATCH))
        done = advise_batch(pages, count, MADV_DONTNEED, &error);
    /* madvise fails for locked memory. The pages are then not discarded. */
    for (; done < count; done++)
        madvise(pages[done].iov_base, pages[done].iov_len, MADV_DONTNEED);
}
