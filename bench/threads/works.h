/*
 * Workloads of the contender `threads`, one function each. main.c names them. ../README.md
 * describes them.
 */
#ifndef WEFT_BENCH_THREADS_WORKS_H
#define WEFT_BENCH_THREADS_WORKS_H

#include "bench.h"

/* threads.c */
void work_spin(size_t count, size_t n);
void work_mutex(size_t count, size_t n);
void work_condition(size_t count, size_t n);

/* messages.c */
void work_cords(size_t count, size_t n);
void work_cords_eventfd(size_t count, size_t n);
void work_flow(size_t count, size_t n);
void work_flow_eventfd(size_t count, size_t n);

/* pool.c */
void work_offload(size_t count, size_t n);

#endif
