/* The count of system calls. See count.h. */
#include "backend/syscall/count.h"

#include <stdatomic.h>

__thread uint64_t weft__syscalls_made;

static _Atomic(uint64_t) of_workers;

void weft__syscalls_add_worker(void)
{
    atomic_fetch_add_explicit(&of_workers, weft__syscalls_made, memory_order_relaxed);
    weft__syscalls_made = 0;
}

uint64_t weft__syscalls_of_workers(void)
{
    return atomic_load_explicit(&of_workers, memory_order_relaxed);
}

void weft__syscalls_reset_workers(void)
{
    atomic_store_explicit(&of_workers, 0, memory_order_relaxed);
}
