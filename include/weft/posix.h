/*
 * Stock C libraries on fibers (libweft-posix, glibc only).
 *
 * A library such as libpq calls poll, recv and pthread_mutex_lock. In a fiber these calls block the
 * whole thread. weft_adopt replaces the calls of a loaded library by hooks. In a fiber, a hook
 * blocks only the fiber. The library itself does not change. In a thread without fibers, in a
 * signal handler and between weft_no_switch_begin and weft_no_switch_end, a hook calls libc.
 *
 *     weft_adopt("libpq.so.5", NULL);
 *
 * A hook keeps the behaviour of the call:
 *   - A call that need not wait does not switch.
 *   - A descriptor with O_NONBLOCK never waits. The call fails with EAGAIN.
 *   - SO_RCVTIMEO and SO_SNDTIMEO limit the wait, and the call fails with EAGAIN.
 *   - A blocking write returns after all bytes are written.
 *   - A signal handler of an adopted module without SA_RESTART ends the waits of its thread with
 *     EINTR. In a thread with several fibers, a handler must not leave a call by siglongjmp,
 *     because the handler may interrupt any of the fibers.
 * Some details differ:
 *   - A lock of a file (flock, lockf, F_SETLKW) is tried again after delays of up to 20 ms. The
 *     kernel does not see the wait, and does not report EDEADLK.
 *   - A signal that the mask of ppoll, pselect or epoll_pwait unblocks is handled up to 10 ms late.
 *   - SO_RCVLOWAT has no effect on calls that wait.
 *   - Set SO_RCVTIMEO and SO_SNDTIMEO in an adopted module, or before the first wait.
 *   - accept blocks the thread if another thread or process takes the connection first.
 *   - vfork creates the child as fork does. Parent and child do not share memory.
 * If a scope is cancelled, its deadline passes, or the fiber is stopped, a waiting call fails with
 * errno ECANCELED. Waits for locks are not cancelled, because the callers of lock functions cannot
 * handle a failure.
 *
 * Locks (mutexes, rwlocks, conditions, semaphores, barriers, pthread_once, C11 and C++ forms)
 * belong to the fiber that locked them. Fibers of one thread exclude each other. Fibers and plain
 * threads can share a lock. Adopt all modules that signal a condition, or use a barrier, on which
 * fibers wait. The main thread ends the process even if its fibers still wait for locks or threads.
 * The end of another thread waits until its fibers have got their locks.
 *
 * errno, h_errno, the locale of uselocale and the error queue of OpenSSL belong to each fiber.
 * Other thread-local data is shared by the fibers of a thread, for example the buffers of strerror,
 * inet_ntoa and localtime. Copy such data before the next wait. weft_thread_state_add makes more
 * state private to fibers.
 *
 * Hooks cannot reach calls inside of libc. stdio blocks the thread: use weft_fdopen, not fdopen,
 * for sockets and pipes. Raw system calls and futexes block the thread, too. weft_adopt refuses a
 * module that makes system calls by syscall(2).
 *
 * Give a fiber that uses an adopted library a stack of 256 KiB.
 *
 * For a whole program, start it with `weft run PROGRAM`. The command preloads libweft-preload,
 * which replaces the calls of all modules.
 */
#ifndef WEFT_POSIX_H
#define WEFT_POSIX_H

#include <weft/base.h>

#include <pthread.h>
#include <stdio.h>

WEFT_BEGIN

/* Options of weft_adopt. All-zero is the default. */
typedef struct weft_adopt_options {
    bool is_alone;     /* adopt only the named module, not the libraries that it needs */
    bool has_no_locks; /* do not hook locks */
    bool has_files;    /* also hook calls with paths, for example open and stat */
    bool is_forced;    /* also adopt a module that calls syscall(2) */
} weft_adopt_options;

/**
 * Hook the calls of a loaded module and of the libraries that it needs.
 *
 * name is the file name of a shared library, for example "libpq.so.5", or "" for the program
 * itself. "libpq.so" means any version of the library. The libraries that the module needs are
 * adopted too, except libc, modules of its name service switch, the dynamic loader, memory
 * allocators, sanitizers, weft and the libraries that only weft needs. Needed libraries that call
 * syscall(2) are skipped unless is_forced is true. A module that is already adopted is adopted
 * again with the new options. Call weft_adopt again after dlopen has loaded more libraries.
 *
 * Call weft_adopt before the library runs in fibers. A lock that is held during the call has no
 * known owner. After -EACCES and -ENOMEM, some of the modules may be adopted.
 *
 * Returns the number of calls that are hooked in all these modules, or:
 * -EACCES if the system does not allow to change an import slot
 * -EINVAL if name is NULL
 * -ENOENT if the module is not loaded
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if the module is weft, contains weft, or is one of the exceptions above
 * -ENOTSUP if the module calls syscall(2), and is_forced is false
 */
WEFT_API int weft_adopt(const char *name, const weft_adopt_options *options);

/**
 * Adopt the program and all loaded libraries, as by weft_adopt.
 *
 * Modules that weft_adopt would refuse are skipped. weft_posix_report names the modules that call
 * syscall(2).
 *
 * Returns the number of hooked calls, or:
 * -EACCES if the system does not allow to change an import slot
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_adopt_all(const weft_adopt_options *options);

/**
 * Undo weft_adopt for one module.
 *
 * Returns the number of calls that are not hooked any more, or:
 * -EBUSY if a fiber waits in a hooked call
 * -EINVAL if name is NULL
 * -ENOENT if the module is not loaded or not adopted
 */
WEFT_API int weft_disown(const char *name);

/**
 * Switch the hooks off (true) or on again (false) for the calling fiber.
 *
 * Calls nest. While hooks are off, the calls of the fiber block the thread.
 *
 * Returns the nesting depth after the call, or:
 * -EINVAL if is_off is false and the hooks are on
 */
WEFT_API int weft_posix_pass(bool is_off);

/**
 * Return the fiber of the calling thread that holds a mutex.
 *
 * The fiber is known only for recursive and error-checking mutexes.
 *
 * Returns 0 if the mutex is free, if another thread holds it, or if its type is another.
 */
WEFT_API weft_fiber weft_posix_owner(pthread_mutex_t *mutex);

/**
 * Open a stdio stream for a descriptor. The stream waits with weft.
 *
 * mode is as in fdopen(3). Only one fiber may use the stream at a time. fclose closes the
 * descriptor. Do not call fflush(NULL) while the stream has unwritten data: libc holds a lock of
 * all streams during the call.
 *
 * On failure, the caller still owns the descriptor. Returns the stream, or NULL with an error in
 * errno and in weft_error():
 * -EBADF if fd is not open
 * -EINVAL if mode is invalid, or the descriptor does not allow mode
 * -ENOMEM if memory is exhausted
 */
WEFT_API FILE *weft_fdopen(int fd, const char *mode);

/* Counters of the process, since its start. */
typedef struct weft_posix_counters {
    uint64_t slots;      /* calls that are hooked now */
    uint64_t waits;      /* hooked calls that waited with weft, except for locks */
    uint64_t lock_waits; /* waits for a lock, condition, semaphore, barrier or once */
    uint64_t handovers;  /* mutexes that passed directly from one fiber to another */
    uint64_t offloads;   /* hooked calls that ran in a worker thread */
    uint64_t interrupts; /* hooked calls that ended with EINTR */
} weft_posix_counters;

/** Like weft_posix_stats, for a result of size bytes. Private. */
WEFT_API int weft__posix_stats(weft_posix_counters *out, size_t size);

/** Read the counters of the process. Returns 0. */
static inline int weft_posix_stats(weft_posix_counters *out)
{
    return weft__posix_stats(out, sizeof *out);
}

/**
 * Print the adopted modules to a descriptor: the number of hooked calls, and the calls of each
 * module that block the thread because hooks cannot reach them.
 *
 * The call blocks the thread until the text is written, so do not print to a pipe that a fiber of
 * the thread reads.
 *
 * Returns 0, or the error of the write.
 */
WEFT_API int weft_posix_report(int fd);

WEFT_END

#endif
