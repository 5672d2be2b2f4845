/*
 * Guard pages, and advice to the kernel about many stretches of memory at once.
 *
 * MADV_GUARD_INSTALL (Linux 6.13) makes guards that cost no mapping; elsewhere mprotect makes them,
 * as long as there are mappings to spare; then stacks go without. What works is found out at run
 * time, for the whole process. Any thread may call these.
 */
#ifndef WEFT_CORE_GUARD_H
#define WEFT_CORE_GUARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Ways to make a guard, the best first. */
enum weft__guard_method {
    WEFT__GUARD_BATCH,   /* process_madvise on ourselves: one call for many */
    WEFT__GUARD_SINGLE,  /* madvise, one by one */
    WEFT__GUARD_PROTECT, /* mprotect: each splits its mapping in three */
    WEFT__GUARD_NONE
};

/* The best method not yet known to fail. Only ever goes up; a test may set it to force another. */
extern _Atomic int weft__guard_method;

/* What weft__guard_install did. */
typedef struct weft__guard_result {
    uint64_t unguarded; /* bit i: pages[i] has no guard */
    size_t protected;   /* how many were made by mprotect: to be given to weft__guard_forget */
} weft__guard_result;

/* Turn each of at most 64 stretches into a guard. One that cannot be had is said once on stderr. */
weft__guard_result weft__guard_install(const struct iovec *pages, size_t count);

/* So many guards made by mprotect have been unmapped. */
void weft__guard_forget(size_t protected);

/* Get memory for these pages now, as if they were written to. Best effort. */
void weft__pages_populate(const struct iovec *pages, size_t count);

/* Give memory back to the system; it reads as zeros afterwards. Guards in it stay. Best effort. */
void weft__pages_give_back(const struct iovec *pages, size_t count);

#endif
