/*
 * weft: fibers for C. Everything public, in one include.
 *
 * From the environment, read when a thread first calls weft: WEFT_BACKEND (io_uring, epoll, libev,
 * sim), WEFT_STACK (the default stack size: 128K, 1M), WEFT_DUMP_SIGNAL (a signal that writes the
 * fibers to stderr: USR1), and on sim WEFT_SEED (a number by which the order of runnable fibers is
 * shuffled, the same each time).
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
