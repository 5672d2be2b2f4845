/*
 * Workloads of the contender `weft`, one function each. main.c names them. ../README.md describes
 * them.
 */
#ifndef WEFT_BENCH_WEFT_WORKS_H
#define WEFT_BENCH_WEFT_WORKS_H

#include "bench.h"

/* switch.c */
void work_switch(size_t count, size_t n);
void work_transfer(size_t count, size_t n);

/* fibers.c */
void work_snooze(size_t count, size_t n);
void work_spin(size_t count, size_t n);
void work_spin_batch(size_t count, size_t n);
void work_go(size_t count, size_t n);
void work_new(size_t count, size_t n);
void work_parked(size_t count, size_t n);

/* messages.c */
void work_rendezvous(size_t count, size_t n);
void work_rendezvous_shared(size_t count, size_t n);
void work_buffered(size_t count, size_t n);
void work_buffered_shared(size_t count, size_t n);
void work_mailbox(size_t count, size_t n);
void work_mailbox_stream(size_t count, size_t n);

/* select.c */
void work_select(size_t count, size_t n);
void work_select_ready(size_t count, size_t n);
void work_selector(size_t count, size_t n);

/* sync.c */
void work_mutex(size_t count, size_t n);
void work_mutex_free(size_t count, size_t n);
void work_condition(size_t count, size_t n);

/* time.c */
void work_timeout(size_t count, size_t n);
void work_timeout_wait(size_t count, size_t n);
void work_sleepers(size_t count, size_t n);

/* trace.c */
void work_trace_mark(size_t count, size_t n);

/* cords.c */
void work_cords(size_t count, size_t n);
void work_cords_woken(size_t count, size_t n);
void work_cords_chan(size_t count, size_t n);
void work_flow(size_t count, size_t n);
void work_flow_chan(size_t count, size_t n);
void work_call(size_t count, size_t n);
void work_cord_spin(size_t count, size_t n);
void work_cord_start(size_t count, size_t n);

/* flood.c */
void work_flood(size_t count, size_t n);

/* offload.c */
void work_offload(size_t count, size_t n);

/* echo.c */
void work_echo(size_t port, size_t n);
void work_echo_loop(size_t port, size_t n); /* as work_echo, with weft_recv_loop */

#endif
