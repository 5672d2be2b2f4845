/*
 * The end of a program that serves: nothing more is accepted, every fiber is told to end and has
 * some time to do so, and who would not is named. What is to be finished first, a request that was
 * begun say, goes into WEFT_SHIELD(weft_grace()) { }.
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
 * End everything but the caller, its ancestors, and daemons.
 *
 * First those who accept connections: they are cancelled (an ancestor of the caller's, which has to
 * stay, returns from its accept with -ECANCELED once). Then every other fiber of the thread, each
 * with grace_s seconds to end, which weft_grace tells it, and every thread started as a cord. Waits
 * until all have ended; after grace_s those that have not are named on stderr, with what they wait
 * for. Children of daemons are told to end, too; daemons whose parent ends, end with it.
 *
 * A child that the caller, an ancestor or a daemon makes from now on is cancelled before it runs
 * (calls that make some for themselves work: weft_run, weft_resolve, weft_dial). With a grace time
 * of 0 they only get to run once. A caller that is being cancelled tells all others to end, and
 * does not wait.
 *
 * Returns 0. -ETIMEDOUT if some would not end; -EINVAL for a time that is negative or NaN; or why
 * the wait was cut short. In C, weft_shutdown with one argument is this function, with two it is
 * the one of net.h, as is its address. In C++ it is overloaded.
 */
WEFT_SWITCHPOINT int weft_shutdown_all(double grace_s);

/**
 * Let SIGTERM and SIGINT end the program in order. To be called in the main thread.
 *
 * At the first of them those who accept connections are cancelled, then the main fiber of the main
 * thread: its blocking calls fail with -ECANCELED from then on, so it returns, its children end,
 * and the exit status is what main returns. If the process has not ended grace_s seconds later, the
 * fibers of the main thread that are still there are named on stderr, and its status is 1; that
 * happens also while a fiber computes. (INFINITY: there is no limit.) At a second signal the
 * process ends at once by what that signal does by default, as its parent can see; the same one
 * within 0.02 s is taken for an echo of the first (timeout(1) sends it twice).
 *
 * These signals are not something that main's weft_suspend waits for. They belong to this until
 * weft_on_signal takes them; they must not be blocked in the main thread.
 *
 * Returns 0. -EINVAL for a time that is negative or NaN, -EPERM in another thread, -EAGAIN if the
 * system has no timer or no thread left for it, -ENOMEM.
 */
WEFT_API int weft_shutdown_on_signals(double grace_s);

/**
 * Make the caller a daemon, or an ordinary fiber again: see is_daemon of weft_spin_options. One
 * that becomes a daemon while weft_shutdown_all waits for it, is not waited for any more. Not for
 * use in a callback of weft_supervise. -EINVAL for a main fiber.
 */
WEFT_API int weft_set_daemon(bool is_daemon);

WEFT_END

#ifdef __cplusplus
/** As weft_shutdown_all. Private. */
extern "C++" inline int weft_shutdown(double grace_s)
{
    return weft_shutdown_all(grace_s);
}
#else
/* weft_shutdown(grace_s) and weft_shutdown(fd, how): by the number of arguments. */
#define weft_shutdown(...) \
    WEFT__SHUTDOWN_PICK(__VA_ARGS__, weft_shutdown, weft_shutdown_all, 0)(__VA_ARGS__)
#define WEFT__SHUTDOWN_PICK(a, b, pick, ...) pick
#endif

#endif
