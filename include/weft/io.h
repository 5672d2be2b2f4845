/*
 * I/O on descriptors: system calls that block only the calling fiber.
 *
 * Descriptors may be blocking or non-blocking. See net.h for sockets, file.h for files, and
 * stream.h for lines and buffers. The comment of a call may name a manual page. The page describes
 * the arguments, the results and the errors. Calls return errors as negative errno values.
 *
 * Each thread performs its I/O with a backend: io_uring, epoll, libev or sim. For tests, the sim
 * backend simulates time, pipes and socket pairs.
 *
 * A cancelled weft_read or weft_write has moved no data. A cancelled call returns when the kernel
 * has released the buffer. If the I/O has already completed, the call returns its result. The
 * cancellation then takes effect at the next call.
 *
 * Any thread may use any descriptor, including descriptors that another thread has created or used.
 * The kernel reuses the number of a closed descriptor for a new file. weft detects a reused number
 * only if weft closed the old file or created the new file. Three rules apply:
 *   - Use weft_close to close a descriptor that weft has used. Any thread may close the descriptor.
 *   - Close a descriptor only when no fiber of another thread is in a call on the descriptor.
 *     weft_close does not wake such a fiber. The fiber gets no data from the next file with the
 *     number. The call of the fiber returns -EBADF when its thread next uses the number. The old
 *     file may remain open while the fiber waits.
 *   - Read a descriptor in one thread only. weft preserves the order of reads only within a thread.
 *     Another thread may write to the descriptor.
 *
 * If the program closes weft's own descriptors, for example with closefrom(3), weft opens new
 * descriptors within 0.1 s. weft reports the repair once on stderr. Operations on closed
 * descriptors end with -EBADF. If the kernel stops supporting the backend, for example because of a
 * seccomp filter, weft opens another backend. Pending operations then end with -EIO. Calls on
 * worker threads continue.
 *
 * On the sim backend, a call on a descriptor from weft_pipe or weft_socketpair blocks only the
 * fiber. A call on any other descriptor blocks the thread. If the program closes the descriptor of
 * the sim backend, other threads can no longer wake the thread.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <weft/base.h>

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

WEFT_BEGIN

/**
 * Read from a descriptor.
 *
 * Returns the number of bytes read, 0 at the end of the input, or an error of read(2).
 */
WEFT_SWITCHPOINT ssize_t weft_read(int fd, void *buffer, size_t bytes);

/**
 * Write to a descriptor.
 *
 * The call may write fewer bytes than requested. If the peer has closed the connection, the call
 * returns -EPIPE and raises no SIGPIPE. Returns the number of bytes written, or an error of
 * write(2).
 */
WEFT_SWITCHPOINT ssize_t weft_write(int fd, const void *buffer, size_t bytes);

/**
 * Read from a descriptor into several buffers.
 *
 * Returns the number of bytes read, 0 at the end of the input, or an error of readv(2).
 */
WEFT_SWITCHPOINT ssize_t weft_readv(int fd, const struct iovec *pieces, int count) WEFT_MUST_CHECK;

/**
 * Write several buffers to a descriptor.
 *
 * The call may write fewer bytes than requested. If the peer has closed the connection, the call
 * returns -EPIPE and raises no SIGPIPE. Returns the number of bytes written, or an error of
 * writev(2).
 */
WEFT_SWITCHPOINT ssize_t weft_writev(int fd, const struct iovec *pieces, int count);

/**
 * Write all bytes of a buffer, with as many calls as needed.
 *
 * Returns bytes, or the error that stopped the call. After an error, the number of bytes written is
 * unknown.
 */
WEFT_SWITCHPOINT ssize_t weft_write_all(int fd, const void *buffer, size_t bytes);

/**
 * Write all bytes of several buffers, with as many calls as needed.
 *
 * The call does not change pieces. After an error, the number of bytes written is unknown.
 *
 * Returns the total number of bytes, the error that stopped the call, or:
 * -EINVAL if count is negative
 */
WEFT_SWITCHPOINT ssize_t weft_writev_all(int fd, const struct iovec *pieces, int count);

/**
 * Read until the buffer is full or the input ends.
 *
 * Returns the number of bytes read, or the error that stopped the call. After an error, the number
 * of bytes read is unknown. Use weft_stream_read_exact if an error or a cancellation must not lose
 * bytes.
 */
WEFT_SWITCHPOINT ssize_t weft_read_full(int fd, void *buffer, size_t bytes) WEFT_MUST_CHECK;

/**
 * Wait until a descriptor is ready.
 *
 * events contains POLLIN, POLLOUT or both. The call rejects regular files and directories, because
 * these are always ready.
 *
 * Returns the events that are ready, including POLLERR and POLLHUP, or:
 * -EBADF if fd is not open
 * -EBADF if a fiber closes fd during the call
 * -EINVAL if events contains neither POLLIN nor POLLOUT
 * -ENOMEM if memory is exhausted
 * -EPERM if fd is a regular file or a directory
 */
WEFT_SWITCHPOINT int weft_wait_fd(int fd, int events);

/**
 * Wait until one of several descriptors is ready. poll(2) for fibers.
 *
 * fds has n entries, as in poll(2), with any events. The call ignores entries with a negative
 * descriptor. A descriptor may occur several times. The call stores the ready events in revents of
 * each entry. timeout_s is the maximum time of the wait. If timeout_s is 0, the call does not wait,
 * but lets other fibers run. If timeout_s is INFINITY, the wait has no limit.
 *
 * If weft_close closes a descriptor during the call, the call returns -EBADF. The call does not
 * notice the close if there are more than 8 descriptors, or events other than POLLIN and POLLOUT.
 * The call does not know in-memory descriptors of the sim backend, and reports POLLNVAL for them.
 *
 * Returns the number of entries with ready events, 0 after timeout_s, an error of poll(2), or:
 * -EBADF if a fiber closes a descriptor during the call
 * -EINVAL if timeout_s is negative or NaN
 * -EMFILE if the process has too many descriptors
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_poll(struct pollfd *fds, size_t n, double timeout_s);

/**
 * Close a descriptor. Wake its waiters with -EBADF.
 *
 * The waiters are the fibers of this thread that are in a call on the descriptor. weft_close does
 * not wake fibers of other threads. See the rules at the start of io.h. Use weft_close instead of
 * close(2) for a descriptor that weft has used. After close(2), weft may mistake the next file with
 * the number for the old file.
 *
 * The call cannot be cancelled, and always closes the descriptor. If a worker thread uses the
 * descriptor, weft closes the descriptor when the worker thread has finished.
 *
 * Returns 0, an error of close(2), or:
 * -EBADF if fd is not open
 */
WEFT_SWITCHPOINT int weft_close(int fd);

/**
 * Discard the state that this thread keeps for a descriptor.
 *
 * Call weft_fd_release before another thread takes over the descriptor. After the call, input on
 * the descriptor no longer wakes this thread. Use the function in a server that accepts connections
 * in one thread and handles the connections in other threads. Call weft_fd_release before you pass
 * the number on with weft_cord_spin or weft_tell.
 *
 * The other thread can use the descriptor without this call. However, if this thread has waited on
 * the descriptor, input continues to wake this thread.
 *
 * The call does not close the descriptor and does not switch. This thread may use the descriptor
 * again. Do not call this function in a callback of weft_recv_loop or weft_accept_loop on fd. If
 * such a loop has left unread input or connections, this thread must take them first. An in-memory
 * descriptor of the sim backend cannot move to another thread.
 *
 * Returns 0, or:
 * -EBADF if fd is not open
 * -EBUSY if a fiber of this thread is in a call on fd
 * -EBUSY if weft_recv_loop has left unread input of fd
 * -EBUSY if weft_accept_loop has left connections of fd
 * -EOPNOTSUPP if fd is an in-memory descriptor of the sim backend
 */
WEFT_API int weft_fd_release(int fd);

/**
 * Discard the state of a descriptor that other code closes or replaces.
 *
 * Call weft_fd_forget immediately before code that does not use weft closes the descriptor, or
 * before dup2(2) replaces the file. The call ends calls of other fibers of this thread on the
 * descriptor with -EBADF. It does not close the descriptor and does not switch. Unlike
 * weft_fd_release, it also discards unread input of weft_recv_loop and connections of
 * weft_accept_loop. Any thread may call this function.
 *
 * Returns 0, or:
 * -EBADF if fd is negative
 * -EBUSY if a worker thread uses the descriptor. All other waiters are woken. Call again later.
 */
WEFT_API int weft_fd_forget(int fd);

/**
 * Create a pipe with close-on-exec set.
 *
 * fd[0] is the read end. fd[1] is the write end. On the sim backend, the pipe is in memory. Returns
 * 0, or an error of pipe(2).
 */
WEFT_API int weft_pipe(int fd[2]);

/**
 * Move bytes between two descriptors inside the kernel.
 *
 * One of the descriptors must be a pipe. offset_in and offset_out may be NULL. The call may move
 * fewer bytes than requested. If flags contains SPLICE_F_NONBLOCK, the call returns -EAGAIN instead
 * of waiting.
 *
 * Returns the number of bytes moved, 0 at the end of the input, an error of splice(2), or:
 * -EINVAL if weft_recv_loop has left unread input of fd_in
 * -EOPNOTSUPP if a descriptor is an in-memory descriptor of the sim backend
 */
WEFT_SWITCHPOINT ssize_t weft_splice(int fd_in, int64_t *offset_in, int fd_out, int64_t *offset_out,
                                     size_t bytes, unsigned flags);

/**
 * Copy bytes from one pipe to another without consuming them.
 *
 * The call may copy fewer bytes than requested. If flags contains SPLICE_F_NONBLOCK, the call
 * returns -EAGAIN instead of waiting.
 *
 * Returns the number of bytes copied, 0 at the end of the input, an error of tee(2), or:
 * -EOPNOTSUPP if a descriptor is an in-memory descriptor of the sim backend
 */
WEFT_SWITCHPOINT ssize_t weft_tee(int fd_in, int fd_out, size_t bytes, unsigned flags);

/**
 * Send bytes of a file to a descriptor, with as many calls as needed.
 *
 * The call starts at *offset and advances *offset. If offset is NULL, the call uses the position of
 * the file instead. Neither a slow disk nor a slow peer blocks other fibers. After an error or a
 * cancellation, *offset or the position shows how many bytes the call has sent. After -EBADF, the
 * position is unchanged. The call sends fewer bytes than requested only at the end of the file.
 *
 * Returns the number of bytes sent, an error of sendfile(2), or:
 * -EINVAL if *offset is negative
 * -ENOMEM if memory is exhausted
 * -ESPIPE if fd_in is not seekable
 */
WEFT_SWITCHPOINT ssize_t weft_sendfile(int fd_out, int fd_in, off_t *offset, size_t bytes);

/**
 * Move all bytes from one descriptor to another until the input ends.
 *
 * The call moves the bytes inside the kernel if possible. Neither descriptor needs to be a pipe.
 *
 * A slow output slows the input down. The call holds at most 256 KiB. If the output is a socket,
 * the call reads only as many bytes as the output accepts. A cancelled call first writes the bytes
 * that it has read, for at most 5 s. The call loses bytes only if the output fails or does not
 * accept them in this time.
 *
 * Returns the number of bytes moved, an error of the input or the output, or:
 * -ENOMEM if memory is exhausted
 * -ETIMEDOUT if a cancelled call cannot write its bytes within 5 s
 */
WEFT_SWITCHPOINT ssize_t weft_splice_all(int fd_in, int fd_out);

/** The format of weft_splice_chunks. All-zero writes only the bytes. NULL: no text. */
typedef struct weft_chunk_format {
    const char *prefix;       /* before the first chunk */
    const char *postfix;      /* after the last chunk */
    const char *chunk_prefix; /* printf format with one %zu, %zx or %zX for the size of the chunk */
    const char *chunk_postfix;
    size_t chunk_bytes_max; /* 0: 16 KiB; more than 1 MiB: 1 MiB */
} weft_chunk_format;

/**
 * Move all bytes from one descriptor to another in chunks.
 *
 * The call writes each chunk between its prefix and its postfix. For HTTP's chunked encoding, use:
 *
 *     {.chunk_prefix = "%zx\r\n", .chunk_postfix = "\r\n", .postfix = "0\r\n\r\n"}
 *
 * In chunk_prefix, %% is a percent sign. A chunk consists of the bytes that are available. The call
 * does not wait until a chunk is full. A cancelled call completes the current chunk, as
 * weft_splice_all does, and does not write postfix.
 *
 * Returns the number of input bytes moved, an error of the input or the output, or:
 * -EINVAL if chunk_prefix does not contain exactly one conversion
 * -EINVAL if chunk_prefix contains a conversion other than %zu, %zx and %zX
 * -EMSGSIZE if chunk_prefix is longer than 256 bytes
 * -ENOMEM if memory is exhausted
 * -ETIMEDOUT if a cancelled call cannot complete its chunk within 5 s
 */
WEFT_SWITCHPOINT ssize_t weft_splice_chunks(int fd_in, int fd_out, const weft_chunk_format *format);

/** The operation of a link in a chain. See weft_chain. */
typedef enum weft_link_kind {
    WEFT_LINK_READ = 1, /* read once, at most bytes bytes */
    WEFT_LINK_WRITE,    /* write all bytes */
    WEFT_LINK_RECV,     /* receive once, at most bytes bytes */
    WEFT_LINK_SEND,     /* send all bytes */
    WEFT_LINK_SPLICE,   /* move all bytes from fd to fd_out, or until the input ends */
    WEFT_LINK_FSYNC,    /* see weft_fsync */
} weft_link_kind;

/** One operation of a chain. weft_chain ignores the fields that a kind does not use. */
typedef struct weft_link {
    weft_link_kind kind;
    int fd;
    int fd_out;     /* SPLICE */
    int flags;      /* RECV, SEND, SPLICE */
    void *data;     /* READ, WRITE, RECV, SEND */
    size_t bytes;   /* of data, or to move */
    ssize_t result; /* set by weft_chain: the number of bytes, 0 for FSYNC, or an error */
} weft_link;

/**
 * Run several operations in order, and stop at the first failure.
 *
 * The call submits the operations together if the kernel supports chains. A short transfer is not a
 * failure. A write continues until all bytes are written. A read returns the available bytes, or 0
 * at the end. A deadline or a cancellation also ends the chain. The result of each link shows how
 * far the chain has progressed. If the result of a link is -ECANCELED, the link moved no data.
 *
 * Keep all descriptors open until the call returns. The number of a closed descriptor may refer to
 * another file when its link starts. Operations of other fibers may run between two links. If a
 * link is invalid, the call starts no link.
 *
 * Returns the result of the last link, the error of the first link that failed, or:
 * -EINVAL if a link has an unknown kind
 * -EINVAL if a link has a negative descriptor
 * -EINVAL if data is NULL and bytes is not 0 in a link
 */
WEFT_SWITCHPOINT ssize_t weft_chain(weft_link *links, size_t count);

/**
 * Return the name of the backend of the calling thread.
 *
 * The name is "io_uring", "epoll", "libev" or "sim". If WEFT_BACKEND selects a method of libev, the
 * name is "libev-epoll", "libev-poll" or "libev-select". If no backend could be opened, the name is
 * "none".
 */
WEFT_API const char *weft_backend_name(void);

/**
 * Return a sentence that explains the choice of the backend.
 *
 * weft uses the first of io_uring, epoll and libev that works. io_uring works if a test submission
 * completes. WEFT_BACKEND in the environment selects a backend by its name, and weft_cord_options
 * selects a backend for one cord. Under Valgrind, weft uses io_uring only if it is selected. If the
 * selected backend cannot be opened, weft prints one line to stderr, or passes it to the log
 * function (log.h), once per process. The line contains the reason and the name of the backend that
 * weft uses instead.
 */
WEFT_API const char *weft_backend_why(void);

WEFT_END

#endif
