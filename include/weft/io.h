/*
 * I/O on descriptors: the system call's arguments; blocks the calling fiber only. A blocking or a
 * non-blocking descriptor, it makes no difference. Sockets are in net.h, files in file.h, lines and
 * buffers in stream.h.
 *
 * A cancelled call has moved no data. It returns when the kernel has released the buffer. If the
 * kernel was faster, the call returns its result, and the next call is cancelled.
 *
 * Any thread may use any descriptor, also one that another thread has created or used: weft notices
 * that a number has become another file. Three rules apply:
 *   - Close a descriptor that was used with weft by weft_close, in any thread.
 *   - Close a descriptor when no fiber of another thread is in a call on it. Such a fiber is not
 *     woken. It gets no data of the next file with that number, but -EBADF when its thread next
 *     uses the number. The old file may stay open while the fiber waits.
 *   - Fibers of one thread that read from the same descriptor are served in their order. Between
 *     threads there is no order: let one thread read, and one thread write.
 * To hand a descriptor to another thread for good, call weft_fd_release first.
 *
 * If the program closes weft's own descriptors, as with closefrom(3), weft opens new ones within
 * 0.1 s and reports it once on stderr. Operations on closed descriptors end with -EBADF. If the
 * kernel begins to refuse the backend (seccomp), weft opens another one: operations under way end
 * with -EIO, and calls on other threads go on.
 *
 * On the sim backend only what weft_pipe and weft_socketpair make blocks the fiber alone; a
 * descriptor of the kernel blocks the thread. If the program closes weft's own descriptor there,
 * other threads can no longer wake the thread.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <weft/base.h>

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

WEFT_BEGIN

/** Read up to so many bytes; 0 at the end. As read(2). */
WEFT_SWITCHPOINT ssize_t weft_read(int fd, void *buffer, size_t bytes);

/**
 * Write up to so many bytes; may write fewer. As write(2), but a closed peer is -EPIPE and no
 * signal.
 */
WEFT_SWITCHPOINT ssize_t weft_write(int fd, const void *buffer, size_t bytes);

/** Read into several buffers in a row. As readv(2). */
WEFT_SWITCHPOINT ssize_t weft_readv(int fd, const struct iovec *pieces, int count) WEFT_MUST_CHECK;

/** Write several buffers in a row; may write fewer bytes. As writev(2), without the signal. */
WEFT_SWITCHPOINT ssize_t weft_writev(int fd, const struct iovec *pieces, int count);

/**
 * Write all of it, in as many calls as it takes. Returns bytes, or the error that stopped it; how
 * much had gone out by then is not known.
 */
WEFT_SWITCHPOINT ssize_t weft_write_all(int fd, const void *buffer, size_t bytes);

/**
 * Write all of several buffers; pieces is left as it is. Returns how many bytes that was, or the
 * error that stopped it; how much had gone out by then is not known.
 */
WEFT_SWITCHPOINT ssize_t weft_writev_all(int fd, const struct iovec *pieces, int count);

/**
 * Read until so many bytes are there or the other side is done; returns how many came. Cut short by
 * an error or a cancellation it returns that, and how much had come by then is not known: where
 * that matters, weft_stream_read_exact keeps it.
 */
WEFT_SWITCHPOINT ssize_t weft_read_full(int fd, void *buffer, size_t bytes) WEFT_MUST_CHECK;

/**
 * Wait until the descriptor is ready for one of events (POLLIN, POLLOUT); returns those it is ready
 * for, with POLLERR and POLLHUP. -EINVAL if events asks for nothing, -EPERM for a regular file or a
 * folder, which are always ready.
 */
WEFT_SWITCHPOINT int weft_wait_fd(int fd, int events);

/**
 * Close a descriptor. Fibers of this thread that wait on it get -EBADF, unless their operations are
 * done already. Fibers of other threads are not woken: see the rules above. Close a descriptor that
 * was used with weft by this call, not by close(2): weft would take the next file with that number
 * for the same one. Cannot be cancelled: the descriptor is closed in any case. If a pool thread is
 * working on it, it is closed when that thread is done.
 *
 * -EBADF if fd is not open
 */
WEFT_SWITCHPOINT int weft_close(int fd);

/**
 * Hand a descriptor over: make this thread forget it, so that only its next user is woken for it. A
 * server that accepts in one thread and serves in others calls this before it passes the number on
 * (weft_cord_spin, weft_tell). Another thread can use the descriptor without this call, but input
 * on a descriptor that this thread has waited on keeps waking this thread.
 *
 * Does not close the descriptor, and does not switch. This thread may use the descriptor again. Do
 * not call this inside a loop on fd.
 *
 * -EBADF if fd is not open
 * -EBUSY if a fiber of this thread is in a call on fd
 * -EBUSY if a loop (weft_recv_loop, weft_accept_loop) has left unread input: read it in this thread
 *  first
 * -EOPNOTSUPP on the sim backend for a pipe or socket in memory: it belongs to its thread
 */
WEFT_API int weft_fd_release(int fd);

/** A pipe: fd[0] to read from, fd[1] to write to, close-on-exec. In memory on the sim backend. */
WEFT_API int weft_pipe(int fd[2]);

/**
 * Move up to so many bytes from one descriptor to the other inside the kernel; one of them is a
 * pipe. 0 at the end of the input. As splice(2), offsets may be NULL; may move fewer;
 * SPLICE_F_NONBLOCK makes it -EAGAIN instead of waiting.
 */
WEFT_SWITCHPOINT ssize_t weft_splice(int fd_in, int64_t *offset_in, int fd_out, int64_t *offset_out,
                                     size_t bytes, unsigned flags);

/** Copy up to so many bytes from one pipe to another, leaving them in the first. As tee(2). */
WEFT_SWITCHPOINT ssize_t weft_tee(int fd_in, int fd_out, size_t bytes, unsigned flags);

/**
 * Send so many bytes of a file, from *offset on (moved along) or from its position if offset is
 * NULL; in as many calls as it takes. Returns how many went: fewer only at the end of the file.
 * Failed or cancelled, *offset, or the position, tells how many had gone by then. Neither the disk
 * nor a slow peer holds up anybody else. -ESPIPE if fd_in is no file.
 */
WEFT_SWITCHPOINT ssize_t weft_sendfile(int fd_out, int fd_in, off_t *offset, size_t bytes);

/**
 * Move everything from one descriptor to the other until the input ends, inside the kernel where it
 * can be; neither need be a pipe. Returns how many bytes that was.
 *
 * A slow output holds up the input: no more is taken than the output has room for, and at most
 * 256 KiB are on the way. Cancelled, nothing is lost that was read: it has been written, or the
 * error says that the output failed. If it has room after all for a part only, a cancellation waits
 * for the rest, but no longer than 5 s: -ETIMEDOUT.
 */
WEFT_SWITCHPOINT ssize_t weft_splice_all(int fd_in, int fd_out);

/** How weft_splice_chunks writes; all-zero writes the bytes alone. NULL is no text. */
typedef struct weft_chunk_format {
    const char *prefix;       /* before the first chunk */
    const char *postfix;      /* after the last */
    const char *chunk_prefix; /* printf format for the chunk's size, one %zu or %zx: "%zx\r\n" */
    const char *chunk_postfix;
    size_t chunk_bytes_max; /* 0: 16 KiB; no more than 1 MiB counts */
} weft_chunk_format;

/**
 * Move everything from one descriptor to the other in chunks, each between its prefix and its
 * postfix: HTTP's chunked encoding is {.chunk_prefix = "%zx\r\n", .chunk_postfix = "\r\n",
 * .postfix = "0\r\n\r\n"}. Returns how many bytes of the input that was. A chunk is what was there
 * to be taken: it is not waited for until it is full. Cancelled, a chunk that was begun is written
 * to its end, as weft_splice_all does it, but no postfix. -EINVAL for a chunk_prefix that is not
 * such a format (%% is a percent sign), -EMSGSIZE for one that is longer than 256 bytes.
 */
WEFT_SWITCHPOINT ssize_t weft_splice_chunks(int fd_in, int fd_out, const weft_chunk_format *format);

/** What a link of a chain does. */
typedef enum weft_link_kind {
    WEFT_LINK_READ = 1, /* at most bytes */
    WEFT_LINK_WRITE,    /* all of them */
    WEFT_LINK_RECV,
    WEFT_LINK_SEND,   /* all of them */
    WEFT_LINK_SPLICE, /* from fd to fd_out: all of them, or to the end of the input */
    WEFT_LINK_FSYNC,
} weft_link_kind;

/** One operation of a chain. All that a kind does not name is zero. */
typedef struct weft_link {
    weft_link_kind kind;
    int fd;
    int fd_out; /* SPLICE */
    int flags;  /* of recv, send or splice */
    void *data; /* READ, WRITE, RECV, SEND */
    size_t bytes;
    ssize_t result; /* set by weft_chain: bytes, 0, or an error; -ECANCELED: not begun */
} weft_link;

/**
 * Do several operations in a row, each when the one before it has succeeded, submitted as one where
 * the kernel can. The first failure ends the chain and is what comes back; else the result of the
 * last link. Fewer bytes than asked for are no failure: writes go on until all is out, and a read
 * takes what is there, or the end. A deadline or a cancellation ends it, too; the results
 * tell how far it came. All descriptors stay open until it returns: a number that is closed before
 * its link has begun may be another file's by then. Another fiber's operation may come between two
 * links. -EINVAL for a link that is wrong in itself, before anything has been done.
 */
WEFT_SWITCHPOINT ssize_t weft_chain(weft_link *links, size_t count);

/**
 * The name of the backend that the calling thread uses: "io_uring", "epoll", "libev" (or
 * "libev-epoll", "libev-poll", "libev-select" if WEFT_BACKEND asks for one method), "sim"; "none"
 * if none could be opened.
 */
WEFT_API const char *weft_backend_name(void);

/**
 * Return a sentence that says why the calling thread uses its backend.
 *
 * Weft uses the first of io_uring, epoll and libev that works. io_uring works if a first submission
 * completes; under Valgrind it is used only if it is named. WEFT_BACKEND in the environment names a
 * backend. If that one cannot be opened, one line on stderr says why, and which one is used
 * instead.
 */
WEFT_API const char *weft_backend_why(void);

WEFT_END

#endif
