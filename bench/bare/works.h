/*
 * Workloads of the contender `bare`, one function each. main.c names them. ../README.md describes
 * them.
 */
#ifndef WEFT_BENCH_BARE_WORKS_H
#define WEFT_BENCH_BARE_WORKS_H

#include "bench.h"

/* switch.c */
void work_switch(size_t count, size_t n);
void work_switch_control(size_t count, size_t n);
void work_switch_ucontext(size_t count, size_t n);

/* queue.c */
void work_snooze(size_t count, size_t n);
void work_snooze_linked(size_t count, size_t n);

/* pair.c */
void work_spin(size_t count, size_t n);
void work_rendezvous(size_t count, size_t n);
void work_buffered(size_t count, size_t n);

/* flow.c */
void work_flow(size_t count, size_t n);

/* echo_epoll.c, and echo_uring.c (only with liburing) */
void work_echo_epoll(size_t port, size_t n);
void work_echo_uring(size_t port, size_t n);

#endif
