/*
 * Shutdown: shut down a server gracefully.
 *
 * weft stops accepting connections, and then cancels the other fibers. Each fiber has a grace time
 * to end. After the grace time, weft reports the remaining fibers on stderr. If work must finish
 * first, for example a request in progress, do the work in WEFT_SHIELD(weft_grace()) { }.
 *
 *     int main(void)
 *     {
 *         weft_shutdown_on_signals(5.0);
 *         int fd = weft_listen("tcp", ":8080");
 *         return fd < 0 || weft_accept_loop(fd, serve, NULL) != -ECANCELED;
 *     }
 */
#ifndef WEFT_SHUTDOWN_H
#define WEFT_SHUTDOWN_H

#include <weft/base.h>

WEFT_BEGIN

/**
 * End all fibers except the caller, its ancestors and daemons.
 *
 * The call first cancels the fibers that wait in an accept, including daemons. If an ancestor of
 * the caller waits in an accept, the accept returns -ECANCELED once. The call then cancels all
 * other fibers of the thread, and all cords (cord.h). The call also cancels the children of
 * daemons. A daemon with a cancelled parent ends with its parent. See is_daemon in
 * weft_spin_options.
 *
 * Each fiber has grace_s seconds to end. weft_grace returns the remaining time. The call waits
 * until all cancelled fibers and cords have ended. If some of them have not ended after grace_s
 * seconds, the call reports each of them on stderr. The report of a fiber contains the reason for
 * its wait. If grace_s is 0, each fiber runs once, and the call does not wait. If the caller is
 * being cancelled, the call cancels the fibers and does not wait.
 *
 * After the call, weft cancels new children of the caller, of its ancestors and of daemons before
 * they run. Calls that create fibers internally still work: weft_run, weft_resolve and weft_dial.
 *
 * weft_shutdown (net.h) shuts down a socket and ends no fiber.
 *
 * Returns 0, the error that ended the wait, or:
 * -EAGAIN if a cord is running, and no thread can be created to wait for the cord
 * -EINVAL if grace_s is negative or NaN
 * -ENOMEM if memory is exhausted
 * -ETIMEDOUT if a fiber or a cord has not ended in time
 */
WEFT_SWITCHPOINT int weft_shutdown_all(double grace_s);

/**
 * Make SIGTERM and SIGINT shut down the program gracefully.
 *
 * Call this function in the main thread. The first signal cancels the fibers of the main thread
 * that wait in an accept, and then the main fiber. Blocking calls of the main fiber then fail
 * with -ECANCELED. main must then return. Its result is the exit status.
 *
 * If the process has not ended after grace_s seconds, weft ends the process with status 1. Before
 * that, weft reports the remaining fibers of the main thread and the remaining cords on stderr. If
 * there are none, for example while an exit handler runs, weft reports the process. The time limit
 * applies even while a fiber computes. If grace_s is INFINITY, there is no limit.
 *
 * A second signal ends the process at once, by the default action of the signal. The status of the
 * process then contains the signal. timeout(1) sends its signal twice. weft therefore ignores a
 * repetition of the first signal within 0.02 s.
 *
 * weft_suspend in the main fiber does not wait for these signals. weft_on_signal replaces the
 * handlers of this function. The main thread must not block the signals.
 *
 * Returns 0, or:
 * -EAGAIN if no timer or no thread can be created
 * -EINVAL if grace_s is negative or NaN
 * -ENOMEM if memory is exhausted
 * -EPERM if the caller is not in the main thread
 */
WEFT_API int weft_shutdown_on_signals(double grace_s);

/**
 * Make the caller a daemon, or an ordinary fiber again.
 *
 * See is_daemon in weft_spin_options. If the caller becomes a daemon, weft_shutdown_all no longer
 * waits for the caller. Do not call this function in a callback of weft_supervise.
 *
 * Returns 0, or:
 * -EINVAL if the caller is a main fiber
 */
WEFT_API int weft_set_daemon(bool is_daemon);

WEFT_END

#endif
