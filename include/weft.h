/*
 * weft: fibers for C. Everything public, in one include.
 *
 * weft reads these variables of the environment, most of them when a thread first calls weft:
 *
 *   WEFT_BACKEND       the backend: io_uring, epoll, libev, sim (see weft_backend_why)
 *   WEFT_SEED          a number; on sim the order of runnable fibers is shuffled by it
 *   WEFT_STACK         the default size of a stack: 128K, 1M (see weft_spin_options)
 *   WEFT_GUARD         the size of the guard below each stack: 64K (see weft_guard_set)
 *   WEFT_CATCH_FAULTS  0 or off: do not handle SIGSEGV and SIGBUS (see weft_catch_faults)
 *   WEFT_DUMP_SIGNAL   a signal that writes the fibers to stderr: USR1 (see weft_dump)
 *
 * fetch.h names the variables for proxies. weft_resolve reads LOCALDOMAIN and RES_OPTIONS as the C
 * library does.
 */
#ifndef WEFT_H
#define WEFT_H

#include <weft/chan.h>
#include <weft/cord.h>
#include <weft/debug.h>
#include <weft/error.h>
#include <weft/fetch.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/fork.h>
#include <weft/group.h>
#include <weft/http.h>
#include <weft/http_files.h>
#include <weft/http_proxy.h>
#include <weft/http_route.h>
#include <weft/io.h>
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
#include <weft/time.h>
#include <weft/tls.h>
#include <weft/url.h>
#include <weft/version.h>

#endif
