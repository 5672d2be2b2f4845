/*
 * weft is a fiber library for C. <weft.h> includes the public headers of libweft.
 *
 * weft reads these environment variables, most of them when a thread becomes a cord (see cord.h):
 *
 *   WEFT_BACKEND       the backend: io_uring, epoll, libev or sim (see weft_backend_why)
 *   WEFT_CATCH_FAULTS  0 or off: do not handle SIGSEGV and SIGBUS (see weft_catch_faults)
 *   WEFT_DUMP_SIGNAL   the signal that dumps the fibers to stderr, for example USR1 (see weft_dump)
 *   WEFT_GUARD         the size of the guard below each stack, for example 64K (see weft_set_guard)
 *   WEFT_INSPECT       the path of a socket for `weft top` and `weft profile` (inspect_socket.h)
 *   WEFT_SEED          a number: the seed for a random order of runnable fibers on sim
 *   WEFT_STACK         the default size of a stack, for example 128K (see weft_spin_options)
 *   WEFT_STACK_ADVICE  1: print the deepest use of stacks at exit (see weft_stack_advice)
 *   WEFT_TRACE         the file for a trace of all fibers, for example trace.%p.json (see trace.h)
 *   WEFT_WATCHDOG      report fibers that do not switch for this many seconds (see weft_watchdog)
 *
 * See fetch.h for the variables that select proxies. Like the C library, weft_resolve reads
 * LOCALDOMAIN and RES_OPTIONS.
 */
#ifndef WEFT_H
#define WEFT_H

#include <weft/chan.h>
#include <weft/cord.h>
#include <weft/debug.h>
#include <weft/error.h>
#include <weft/fd_watch.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/fork.h>
#include <weft/group.h>
#include <weft/histogram.h>
#include <weft/inspect_socket.h>
#include <weft/io.h>
#include <weft/local.h>
#include <weft/log.h>
#include <weft/mailbox.h>
#include <weft/net.h>
#include <weft/offload.h>
#include <weft/pool.h>
#include <weft/process.h>
#include <weft/queue.h>
#include <weft/scope.h>
#include <weft/select.h>
#include <weft/shutdown.h>
#include <weft/signal.h>
#include <weft/stream.h>
#include <weft/supervise.h>
#include <weft/sync.h>
#include <weft/thread_state.h>
#include <weft/time.h>
#include <weft/trace.h>
#include <weft/version.h>

#endif
