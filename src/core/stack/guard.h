/*
 * Guard pages, and madvise for many page ranges at once.
 *
 * MADV_GUARD_INSTALL (Linux 6.13) installs guards that need no mapping. On older kernels, mprotect
 * makes guards until they use a part of vm.max_map_count. Further stacks have no guard. The method
 * is detected at run time, for the whole process. Any thread may call these functions.
 */
#ifndef WEFT_CORE_STACK_GUARD_H
#define WEFT_CORE_STACK_GUARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Methods to make a guard, the best method first. */
enum weft__guard_method {
    WEFT__GUARD_BATCH,   /* process_madvise: one call for many guards */
    WEFT__GUARD_SINGLE,  /* madvise: one call per guard */
    WEFT__GUARD_PROTECT, /* mprotect: each guard splits its mapping into three mappings */
    WEFT__GUARD_NONE
};

/* The best method that has not failed. The value only increases, unless a test sets it. */
extern _Atomic int weft__guard_method;

/* The result of weft__guard_install. */
typedef struct weft__guard_result {
    uint64_t unguarded; /* bit i: pages[i] has no guard */
    size_t protected;   /* guards made by mprotect; pass this number to weft__guard_forget */
} weft__guard_result;

/*
 * Turn each of at most 64 page ranges into a guard. The first failure in the process prints a
 * warning to stderr.
 */
weft__guard_result weft__guard_install(const struct iovec *pages, size_t count);

/* Subtract unmapped guards from the process-wide count of guards made by mprotect. */
void weft__guard_forget(size_t protected);

/* Populate page ranges, as if the program had written to each page. Errors are ignored. */
void weft__pages_populate(const struct iovec *pages, size_t count);

/*
 * Discard the content of page ranges. The pages then read as zeros. Guards in the ranges remain.
 * Errors are ignored.
 */
void weft__pages_release(const struct iovec *pages, size_t count);

#endif
