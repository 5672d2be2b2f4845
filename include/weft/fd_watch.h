/*
 * Watches: a fiber when a descriptor is readable.
 *
 * A fiber that waits in weft_read keeps its stack, at least one page of memory. A watch keeps only
 * its record of 72 bytes. When the descriptor is readable, when the peer closes it, or when the
 * time is over, weft creates a fiber. Use watches for many connections that are silent most of the
 * time. The fiber ends when its connection is silent, and the next input starts a new fiber.
 *
 *     static weft_value on_input(void *arg)
 *     {
 *         session *s = arg;
 *         if (weft_fd_watch_result(&s->watch) < 0)     // silent for 60 s
 *             return session_free(s);
 *         session_handle_input(s);
 *         return weft_fd_watch_open(&s->watch, s->fd, 60, NULL, on_input, s, NULL);
 *     }
 *
 * A watch ends once: its fiber is created, or weft_fd_watch_close closes the watch. To watch again,
 * open the watch again. The fiber may do so. After weft has created the fiber, weft does not use
 * the memory of the watch.
 *
 * All watches of a thread share one epoll(7) descriptor, which the backend of the thread watches.
 * The descriptor exists while at least one watch is open. weft creates at most 64 fibers at a time,
 * and lets them run before it creates more. 20,000 descriptors that become readable at the same
 * time therefore need few stacks. Watches end in the order in which their events occur. If memory
 * for a fiber is exhausted, weft tries again until it succeeds or the watch is closed. No event is
 * lost.
 *
 * For weft_suspend and for deadlock detection, a watch counts as a fiber that waits for input.
 * With is_daemon, it counts as a daemon.
 *
 * Call these functions in the thread that opened the watch. In a child of weft_fork, all watches of
 * the parent are closed, and drop is not called. The parent's watches continue.
 */
#ifndef WEFT_FD_WATCH_H
#define WEFT_FD_WATCH_H

#include <weft/fiber.h>
#include <weft/group.h>

WEFT_BEGIN

/*
 * A watch, in memory of the caller. Do not move or free an open watch. The fields are private. An
 * all-zero watch is not open.
 */
typedef struct weft_fd_watch {
    uint64_t weft__private[9];
} weft_fd_watch;

/**
 * Watch a descriptor, and create a fiber when the descriptor is readable.
 *
 * The fiber runs fn(arg). weft also creates the fiber after timeout_s seconds. If timeout_s is
 * INFINITY, the watch has no time limit.
 *
 * A descriptor is readable if a read would not wait. Errors and the end of the input also make a
 * descriptor readable. Input that has already arrived counts. In fn, weft_fd_watch_result returns
 * the reason.
 *
 * The fiber belongs to group. If group is NULL, the fiber is a child of options->parent, or of the
 * main fiber of the thread if parent is 0. No fiber awaits the fiber, as with weft_go. Keep the
 * group open until the watch has ended or is closed.
 *
 * options are those of weft_spin_with, except that arg_bytes must be 0. The call copies them. If
 * options is NULL, the defaults apply. weft calls drop once in these cases:
 *   - The fiber ends before weft calls fn, as in weft_spin_with.
 *   - The parent has ended, or the group is closed, when the fiber is due.
 *   - The thread ends while the watch is open.
 *
 * The descriptor remains the caller's. A thread can have one watch per descriptor. Fibers of the
 * thread may read the descriptor meanwhile, but a watch may then end although no input is left.
 * weft_close ends the watch of the descriptor with -EBADF. Like a fiber in weft_wait_fd, a watch
 * does not notice that another thread closes the descriptor.
 *
 * On the sim backend, each watch has its own operation instead of the epoll(7) descriptor, and the
 * call does not detect a second watch on fd.
 *
 * The call does not switch. Returns 0, or:
 * -EBADF if fd is not open
 * -EBUSY if another watch of this thread is open on fd
 * -EINVAL if watch or fn is NULL
 * -EINVAL if an option is invalid, as for weft_spin_with
 * -EINVAL if timeout_s is negative or NaN
 * -EMFILE or -ENFILE if no descriptor is available for epoll(7)
 * -ENOMEM if memory or the keys of fiber-local values are exhausted
 * -ENOSPC if the limit of epoll(7) is reached (/proc/sys/fs/epoll/max_user_watches)
 * -EPERM if fd is a regular file or a directory, which are always readable
 * -ESRCH if the parent has ended
 * -EXDEV if the parent belongs to another thread
 */
WEFT_API int weft_fd_watch_open(weft_fd_watch *watch, int fd, double timeout_s, weft_group *group,
                                weft_fn *fn, void *arg, const weft_spin_options *options);

/**
 * Return the reason for which weft has created the fiber of a watch.
 *
 * Call this function in fn. The result is valid until the watch is opened again.
 *
 * Returns 0 if the descriptor was readable, the code of weft_fd_watch_interrupt, an error of
 * epoll_ctl(2), or:
 * -EBADF if weft_close has closed the descriptor; its number may belong to another file
 * -EINVAL if the watch has no fiber
 * -ETIMEDOUT if timeout_s seconds have passed
 */
WEFT_API int weft_fd_watch_result(const weft_fd_watch *watch);

/**
 * End an open watch: create its fiber now. weft_fd_watch_result then returns code.
 *
 * Use this function to end a connection at the shutdown of a server. If the event of the watch has
 * already occurred, and weft has not created the fiber yet, code replaces the result.
 *
 * The call does not switch. Returns 0, or:
 * -EALREADY if weft has created the fiber
 * -EINVAL if code is not in -4095..-1
 * -EINVAL if the watch is not open
 * -EXDEV if another thread has opened the watch
 */
WEFT_API int weft_fd_watch_interrupt(weft_fd_watch *watch, int code);

/**
 * Close a watch. Its fiber is not created, and weft does not call drop.
 *
 * The call does not close the descriptor, and does not switch. After -EALREADY, fn or drop runs or
 * has run.
 *
 * Returns 0, or:
 * -EALREADY if weft has created the fiber
 * -EINVAL if the watch is not open
 * -EXDEV if another thread has opened the watch
 */
WEFT_API int weft_fd_watch_close(weft_fd_watch *watch);

WEFT_END

#endif
