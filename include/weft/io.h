/*
 * I/O on descriptors: the system call's arguments; blocks the calling fiber only. A blocking or a
 * non-blocking descriptor, it makes no difference. Sockets are in net.h, files in file.h, lines and
 * buffers in stream.h.
 *
 * A call that is cancelled has moved no data: it returns when the kernel has let go of the buffer,
 * and if the kernel was faster, its result is returned and the cancellation strikes at the next
 * call.
 *
 * Any thread may use any descriptor, also one that another thread made or has used: weft notices
 * when a number has become another file. Three rules keep it so:
 *   - Close a descriptor that was used with weft with weft_close, in any thread.
 *   - Close it when no fiber of another thread is in a call on it. Such a fiber is not woken; it
 *     gets nothing from the next file with that number, and -EBADF when its thread next uses the
 *     number. The old file may stay open as long as it waits.
 *   - Fibers of one thread that read from the same descriptor are served in their order. Between
 *     threads there is no order: let one thread read, and one thread write.
 * To hand a descriptor to another thread for good, call weft_fd_release first.
 *
 * A program may close all descriptors, as with closefrom(3): weft opens its own anew within 0.1 s,
 * and says so once on stderr. Operations on closed descriptors end with -EBADF then. If the kernel
 * refuses the backend from some time on (seccomp), another one is used; operations under way end
 * with -EIO, and calls on other threads go on.
 *
 * (On the sim backend this holds for what weft_pipe and weft_socketpair make; a descriptor of the
 * kernel blocks the thread there.)
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
 * was used with weft with this call, not with close(2): weft would take the next file with that
 * number for the same one. Not cancellable: the descriptor is closed in any case, while a pool
 * thread works on it a little later.
 *
 * -EBADF if fd is not open.
 */
WEFT_SWITCHPOINT int weft_close(int fd);

/**
 * Hand a descriptor over: this thread forgets it, and another one may use it. A server that accepts
 * in one thread and serves in others calls it before it passes the number on (weft_cord_spin,
 * weft_tell). Without this call the other thread can use the descriptor, too; but what arrives on a
 * descriptor that this thread has waited on keeps waking this thread.
 *
 * It does not close the descriptor, and does not switch. This thread may use the descriptor again.
 *
 * -EBUSY if a fiber of this thread is in a call on fd.
 * -EBUSY if a loop (weft_recv_loop, weft_accept_loop) has left input that nobody has read yet: read
 *  it in this thread first. Do not call it inside a loop on fd.
 * -EBADF if fd is not open.
 * -EOPNOTSUPP on the sim backend for a pipe or socket in memory: it belongs to its thread.
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
 * Tell in a sentence why the calling thread uses that backend.
 *
 * The best backend that works is used: io_uring, then epoll, then libev. io_uring counts as working
 * after a first submission has completed, and is not used under Valgrind unless it is named.
 * WEFT_BACKEND in the environment names another one; if that cannot be opened, one line on stderr
 * says why and which one is used instead.
 */
WEFT_API const char *weft_backend_why(void);

WEFT_END

#endif
