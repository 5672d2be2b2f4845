/*
 * Streams: buffered input and output over a descriptor or another transport.
 *
 * A stream buffers input that no call has returned yet, and output that has not been sent yet. A
 * call that fails or is cancelled loses no input and no output. The next call can still read the
 * input. The next flush sends the output, exactly once. Errors are not permanent. The next call
 * tries again.
 *
 * A read that waits for input first flushes the output of its fiber, unless another fiber has
 * written since. The stream therefore sends a request before the fiber waits for the response. If
 * the input buffer already contains several requests, the stream sends the responses together. If
 * the flush before a read fails with -EPIPE or -ECONNRESET, the read continues. The next write,
 * flush or close then returns the error. A fiber that only writes must flush.
 *
 * One fiber may read while other fibers write. All fibers must belong to one thread. A second
 * reader gets -EBUSY, because two readers would each get an arbitrary part of the input.
 *
 * Several fibers may write. Each call of write, writev, puts, printf, vprintf, flush and detach
 * waits until no other fiber is in such a call. Waiting fibers continue in FIFO order. The bytes of
 * one call are therefore contiguous. A call that is cancelled while it waits has written nothing.
 *
 * weft_stream_printf takes the whole text or nothing, even if the call is cancelled. The next
 * writer first sends the rest of the text. weft_stream_write, writev and puts can end after a part
 * of their bytes. All fibers that wait at that time then get an error and have written nothing: the
 * error of the transport, or -EIO if the write was cancelled or interrupted. Later calls continue
 * after the part.
 *
 * Calls that write also return:
 * -EBADF if another fiber closes the stream while the call waits
 * -EDEADLK if a function of the transport writes to its own stream
 * -EIO if the write of another fiber was cancelled or interrupted after a part
 *
 * In a child of weft_fork, a fiber of the parent may have been in a call at the time of the fork.
 * If that call reads, calls that read return -EOWNERDEAD. If that call writes, calls that write
 * return -EOWNERDEAD. weft_stream_close then returns -EBADF and discards the output.
 *
 * Calls on a stream that is not open return -EBADF or NULL. An all-zero stream is not open. Calls
 * also return the errors of the transport, and -ENOMEM if memory for a buffer is exhausted. A
 * stream allocates a buffer when the stream first needs the buffer.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft/base.h>

#include <stdarg.h>
#include <sys/types.h>
#include <sys/uio.h>

WEFT_BEGIN

/*
 * A stream, in the caller's memory. The content is private. Do not move a stream between open and
 * close.
 */
typedef struct weft_stream {
    uint64_t weft__private[20];
} weft_stream;

/*
 * The transport of a stream. All functions get ctx and may suspend the fiber. wait and flush may be
 * NULL.
 */
typedef struct weft_stream_type {
    /* Read at most bytes bytes. Returns 0 at the end. A cancelled call has read no bytes. */
    ssize_t (*read)(void *ctx, void *data, size_t bytes);
    /*
     * Write several buffers. Returns the number of bytes taken, at least 1. The function sends
     * these bytes, or flush sends them later. If the function fails, it has taken no bytes.
     */
    ssize_t (*writev)(void *ctx, const struct iovec *pieces, int count);
    /*
     * Close the transport. Wake fibers in read or writev with an error. The stream calls close
     * once, even in a cancelled fiber.
     */
    int (*close)(void *ctx);
    /* Wait until read can return bytes or the end. NULL: weft_stream_wait does not wait. */
    int (*wait)(void *ctx);
    /* Send the bytes that writev has taken but not sent. NULL: writev sends all bytes. */
    int (*flush)(void *ctx);
} weft_stream_type;

/* Buffers of a stream. All-zero is the default. */
typedef struct weft_stream_options {
    size_t read_bytes;  /* 0: 8 KiB; grows for a longer line, see weft_stream_set_line_max */
    size_t write_bytes; /* 0: 8 KiB; allocated only while there is output to flush */
    /*
     * Memory of the caller for input, of read_bytes + 1 bytes. The stream uses the memory until the
     * stream is closed. The stream allocates another buffer only if this memory is too small. NULL:
     * none.
     */
    char *read_memory;
} weft_stream_options;

/**
 * Open a stream over a descriptor.
 *
 * The stream owns the descriptor.
 *
 * Returns 0, or:
 * -EBADF if fd is negative
 */
WEFT_API int weft_stream_open(weft_stream *stream, int fd);

/**
 * Like weft_stream_open, but over another transport.
 *
 * The call does not copy type. type must remain valid until the stream is closed.
 *
 * Returns 0, or:
 * -EINVAL if type has no read, writev or close
 * -EINVAL if type is NULL
 */
WEFT_API int weft_stream_open_with(weft_stream *stream, const weft_stream_type *type, void *ctx);

/**
 * Set the buffers of a stream.
 *
 * The options apply to buffers that the stream allocates later. The stream replaces an empty input
 * buffer of another size at the next read. If options is NULL, the defaults apply.
 *
 * Returns 0, or:
 * -EBUSY if read_memory changes while a fiber reads
 * -EBUSY if read_memory changes while the stream holds input
 * -EINVAL if a size is more than 1 GiB
 */
WEFT_API int weft_stream_configure(weft_stream *stream, const weft_stream_options *options);

/**
 * Return the descriptor of a stream.
 *
 * The stream still owns the descriptor. Flush the stream before another call writes to the
 * descriptor, for example weft_sendfile.
 *
 * Returns the descriptor, or:
 * -EOPNOTSUPP if the stream has another transport
 */
WEFT_API int weft_stream_fd(weft_stream *stream);

/**
 * Return the ctx of a stream with a transport of this type.
 *
 * Returns NULL if the stream has another transport or is not open. The call records no error.
 */
WEFT_API void *weft_stream_ctx(weft_stream *stream, const weft_stream_type *type);

/**
 * Set the maximum length of a line, in bytes including its newline.
 *
 * If line_bytes_max is 0, the default of 64 KiB applies.
 *
 * Returns 0, or:
 * -EINVAL if line_bytes_max is more than 1 GiB
 */
WEFT_API int weft_stream_set_line_max(weft_stream *stream, size_t line_bytes_max);

/**
 * Flush and close a stream. Wake its waiters with -EBADF.
 *
 * Except after -EDEADLK and -EPERM below, the call always closes the stream and its transport, and
 * frees the buffers. If the caller is cancelled, the flush fails at once, unless the caller is in
 * WEFT_SHIELD. The call returns after the waiters have left the stream. If another fiber is
 * writing, the call does not wait for its turn to write. The remaining output is then lost.
 *
 * In a section in which switching is forbidden (weft_no_switch_begin), the call closes a stream
 * without output that no other fiber uses. Functions of the transport that would switch then fail.
 * TLS, for example, sends no close_notify.
 *
 * If the flush or an earlier write has failed, the call returns that error. Otherwise returns the
 * result of closing the transport, or:
 * -EBADF if another fiber was writing
 * -EDEADLK if read, writev or flush of the transport closes its own stream; nothing is closed
 * -EPERM if switching is forbidden and another fiber uses the stream; nothing is closed
 * -EPERM if switching is forbidden and the stream has output; nothing is closed
 */
WEFT_SWITCHPOINT int weft_stream_close(weft_stream *stream);

/**
 * Flush a stream, return its descriptor, and close only the stream.
 *
 * If the call fails, the stream is still open. After -ENOTEMPTY, weft_stream_peek shows the input.
 *
 * Returns the descriptor, the error of the flush, or:
 * -EBUSY if another fiber reads
 * -EBUSY if another fiber waits to write after the flush
 * -ENOTEMPTY if the stream holds input
 * -EOPNOTSUPP if the stream has another transport
 */
WEFT_SWITCHPOINT int weft_stream_detach(weft_stream *stream);

/**
 * Move an open stream to other memory.
 *
 * from is then not open. to is a stream that is not open. The input, the output and the settings
 * move too, except read_memory. The call copies input in read_memory to a buffer of the stream.
 * Use this call if a connection outlives the memory of its stream.
 *
 * Returns 0. On failure, from is still open:
 * -EBUSY if a fiber is in a call on from
 * -EINVAL if to and from are the same stream
 */
WEFT_API int weft_stream_move(weft_stream *to, weft_stream *from);

/**
 * Read a line of a stream, including its newline. See fgets(3).
 *
 * The call adds a NUL after the line. The line itself may contain NULs, which the length includes.
 * The last line may have no newline. If the call fails, the call has taken no input.
 * After -EMSGSIZE, weft_stream_read or a call with a larger buffer can read the line.
 *
 * Returns the length of the line, 0 at the end of the input, or:
 * -EINVAL if room is 0
 * -EMSGSIZE if room is too small for the line and the NUL
 * -EMSGSIZE if the line is longer than the limit
 */
WEFT_SWITCHPOINT ssize_t weft_stream_gets(weft_stream *stream, char *line,
                                          size_t room) WEFT_MUST_CHECK;

/**
 * Read a line of a stream in place.
 *
 * The call sets *line to the line in the input buffer. The line is valid until the next call that
 * reads. The line ends with a NUL, without its newline and without a carriage return before the
 * newline. The call stores the length in *bytes, unless bytes is NULL. If the call fails, the call
 * has taken no input.
 *
 * Returns 1, 0 at the end of the input, or:
 * -EMSGSIZE if the line is longer than the limit
 */
WEFT_SWITCHPOINT int weft_stream_line(weft_stream *stream, char **line,
                                      size_t *bytes) WEFT_MUST_CHECK;

/**
 * Read some bytes from a stream.
 *
 * The call reads at most bytes bytes. If the input buffer contains bytes, the call does not wait.
 * If the input buffer is empty, the call waits for input. Returns the number of bytes read, 0 at
 * the end of the input, or an error of the transport.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_read(weft_stream *stream, void *data,
                                          size_t bytes) WEFT_MUST_CHECK;

/**
 * Read an exact number of bytes from a stream.
 *
 * The call reads bytes bytes, or takes no input. The input buffer grows to hold all bytes. Use
 * weft_stream_read for very large data.
 *
 * Returns bytes, 0 if the input ends before the first byte, or:
 * -ENODATA if the input ends after the first byte
 */
WEFT_SWITCHPOINT ssize_t weft_stream_read_exact(weft_stream *stream, void *data,
                                                size_t bytes) WEFT_MUST_CHECK;

/**
 * Wait until at least min bytes are in the input buffer, and show them.
 *
 * The call sets *data to the bytes in the input buffer. The bytes are valid until the next call
 * that reads. If min is 0, the call does not wait.
 *
 * Returns the number of bytes in the input buffer, or an error of the transport. The number is less
 * than min only at the end of the input.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_peek(weft_stream *stream, size_t min, const void **data);

/**
 * Take bytes that weft_stream_peek has shown.
 *
 * Returns 0, or:
 * -EINVAL if the input buffer contains fewer bytes
 */
WEFT_API int weft_stream_skip(weft_stream *stream, size_t bytes);

/**
 * Wait for input of a stream, or its end, without holding memory.
 *
 * If the stream holds input, the call returns at once. Otherwise the call flushes the output of the
 * calling fiber and frees empty buffers. Use this call for connections that may be idle for a long
 * time. Returns 0, or an error of the transport.
 */
WEFT_SWITCHPOINT int weft_stream_wait(weft_stream *stream);

/**
 * Write bytes to a stream.
 *
 * If the output buffer has space, the call copies the bytes to the buffer. Otherwise the call sends
 * the buffer and the bytes, until the remaining bytes fit into the buffer. If sending fails before
 * any of the bytes is sent, the call takes no bytes and returns the error. If sending fails later,
 * the call returns the number of bytes taken. The next write, flush or close then returns the
 * error. The stream does not store a cancellation, because a cancellation also ends the next call.
 *
 * Returns the number of bytes taken, or an error of the transport.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_write(weft_stream *stream, const void *data, size_t bytes);

/**
 * Like weft_stream_write, but with several buffers.
 *
 * If the bytes do not fit into the output buffer, the call sends them together. Errors in addition
 * to those of weft_stream_write:
 * -EINVAL if count is negative
 */
WEFT_SWITCHPOINT ssize_t weft_stream_writev(weft_stream *stream, const struct iovec *pieces,
                                            int count);

/**
 * Reserve space for bytes bytes in the output buffer of a stream.
 *
 * The caller writes to the space and then calls weft_stream_commit. The space is valid until the
 * next call that writes, also by another fiber. Returns NULL if the output buffer has too little
 * space. Returns NULL also if another fiber writes, an error is pending, memory is exhausted or the
 * stream is not open. The call then records no error. Call weft_stream_write instead.
 */
WEFT_API char *weft_stream_reserve(weft_stream *stream, size_t bytes);

/** Add the first bytes bytes of the reserved space to the output. */
WEFT_API void weft_stream_commit(weft_stream *stream, size_t bytes);

/**
 * Write a string to a stream, without adding a newline. See fputs(3).
 *
 * Returns the number of bytes taken, or an error of weft_stream_write.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_puts(weft_stream *stream, const char *text);

/**
 * Write formatted text to a stream. See printf(3).
 *
 * The call takes the whole text, or nothing if the call fails. After taking the text, the call may
 * flush the output buffer. If that flush fails, the next write, flush or close returns the error.
 *
 * Returns the length of the text, an error of the transport, or:
 * -EINVAL if format is invalid
 */
WEFT_SWITCHPOINT ssize_t weft_stream_printf(weft_stream *stream, const char *format, ...)
    WEFT_PRINTF(2, 3);

/** Like weft_stream_printf, but with a va_list. */
WEFT_SWITCHPOINT ssize_t weft_stream_vprintf(weft_stream *stream, const char *format, va_list args)
    WEFT_PRINTF(2, 0);

/**
 * Send all buffered output of a stream.
 *
 * Output that cannot be sent remains in the buffer. Returns 0, or an error of the transport.
 */
WEFT_SWITCHPOINT int weft_stream_flush(weft_stream *stream);

WEFT_END

#endif
