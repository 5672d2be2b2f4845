/*
 * Streams: buffered reading and writing over a descriptor, or over anything else that can read and
 * write.
 *
 * A stream keeps what it has read and was not asked for yet, and what was written to it and has not
 * gone out yet. A call that fails or is cancelled loses nothing of either: input that was not
 * returned is still there for the next call, output that was taken goes out once, with the next
 * flush. No error lasts: the next call tries again.
 *
 * Before a read waits for input, it flushes what the same fiber has written: a question is on its
 * way before its answer is waited for, and answers to questions that are there already go out
 * together. A fiber that only writes flushes for itself. If that flush finds that the other side
 * takes no more (-EPIPE, -ECONNRESET), the read goes on, and the next write, flush or close says
 * so.
 *
 * One fiber may read while another one writes. A second one that reads meanwhile, or a second one
 * that writes, gets -EBUSY.
 *
 * Every call on a stream that is not open is -EBADF; one whose memory is all zero is not open.
 * Calls fail with what the descriptor's read and write say, too, and with -ENOMEM if there is no
 * memory for a buffer. Buffers are made when first needed.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft/base.h>

#include <stdarg.h>
#include <sys/types.h>
#include <sys/uio.h>

WEFT_BEGIN

/*
 * The caller's memory; its content is private. Between open and close it must stay where it is.
 */
typedef struct weft_stream {
    uint64_t weft__private[20];
} weft_stream;

/*
 * What a stream stands on. All functions get its ctx and may suspend; wait and flush may be NULL.
 */
typedef struct weft_stream_type {
    /* Some bytes, at most so many; 0 at the end. Cancelled, it has read nothing. */
    ssize_t (*read)(void *ctx, void *data, size_t bytes);
    /*
     * Returns how many bytes it has taken, of those of several pieces in a row; one at least. They
     * are out, unless there is a flush to see to that. If it fails, none were taken.
     */
    ssize_t (*writev)(void *ctx, const struct iovec *pieces, int count);
    /* Called once, also by one who is cancelled; those in read or writev are woken, and fail. */
    int (*close)(void *ctx);
    /* Wait until read has something to return, or the end. NULL: weft_stream_wait does not wait. */
    int (*wait)(void *ctx);
    /* Send what writev has taken, but not sent yet. NULL: it never leaves anything. */
    int (*flush)(void *ctx);
} weft_stream_type;

/* Sizes of the buffers; all-zero is the default. */
typedef struct weft_stream_options {
    size_t read_bytes;  /* 0: 8 KiB. Grows for a longer line, up to the limit on that. */
    size_t write_bytes; /* 0: 8 KiB. It is only there while something waits to be flushed. */
    /*
     * Memory of the caller's to read into, of read_bytes + 1, until the stream is closed: where
     * that is enough, no other is allocated. NULL: none.
     */
    char *read_memory;
} weft_stream_options;

/** Open a stream over a descriptor, which is the stream's from now on. -EBADF if it is negative. */
WEFT_API int weft_stream_open(weft_stream *stream, int fd);

/** The same over something else. Type is not copied. -EINVAL if it lacks a function. */
WEFT_API int weft_stream_open_with(weft_stream *stream, const weft_stream_type *type, void *ctx);

/**
 * Set the sizes of the buffers that will be made from now on; NULL for the defaults. -EINVAL for
 * sizes over 1 GiB. -EBUSY if it is to read into other memory, and holds input.
 */
WEFT_API int weft_stream_configure(weft_stream *stream, const weft_stream_options *options);

/**
 * The descriptor that a stream stands on, which stays the stream's: for weft_sendfile and the like,
 * once what was written has been flushed. -EOPNOTSUPP if it stands on something else.
 */
WEFT_API int weft_stream_fd(weft_stream *stream);

/** What a stream stands on, if it is of that type; else NULL. */
WEFT_API void *weft_stream_ctx(weft_stream *stream, const weft_stream_type *type);

/**
 * Limit the length of a line, in bytes with its newline; 0 is the default, 64 KiB. -EINVAL if it is
 * over 1 GiB.
 */
WEFT_API int weft_stream_limit(weft_stream *stream, size_t line_bytes_max);

/**
 * Flush, close what is underneath, free the buffers. It is closed in any case; returns what the
 * flush said, else what the closing said. In a fiber that is cancelled the flush fails at once,
 * unless there is a shield. Fibers that wait in the stream get -EBADF and have left it when this
 * returns; -EBADF here, too, if one of them was writing: what it had not written is lost.
 */
WEFT_SWITCHPOINT int weft_stream_close(weft_stream *stream);

/**
 * Flush, and give the descriptor back instead of closing it; the stream is closed then. -ENOTEMPTY
 * if there is input that was not taken yet (weft_stream_peek shows it), -EBUSY if another fiber is
 * in the stream, -EOPNOTSUPP if it stands on something else, and what the flush says: the stream is
 * still open then.
 */
WEFT_SWITCHPOINT int weft_stream_detach(weft_stream *stream);

/**
 * Read a line with its newline into line, as fgets(3): NUL-terminated. Returns its length, which
 * tells of NULs in it; the last one may lack the newline. 0 at the end of the input. -EMSGSIZE if
 * the line with its newline and the NUL has no room, or is over the limit; nothing was taken, and a
 * call with more room, or weft_stream_read, finds it. -EINVAL if room is 0.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_gets(weft_stream *stream, char *line,
                                          size_t room) WEFT_MUST_CHECK;

/**
 * Read a line in place: *line points into the buffer until the next call that reads; its newline,
 * and a carriage return before that, are taken off, and a NUL is put there. Its length goes to
 * *bytes (may be NULL). Returns 1, or 0 at the end of the input; -EMSGSIZE if the line is over the
 * limit: nothing was taken.
 */
WEFT_SWITCHPOINT int weft_stream_line(weft_stream *stream, char **line,
                                      size_t *bytes) WEFT_MUST_CHECK;

/** Read some bytes, at most so many: what is there, or else what comes next. 0 at the end. */
WEFT_SWITCHPOINT ssize_t weft_stream_read(weft_stream *stream, void *data,
                                          size_t bytes) WEFT_MUST_CHECK;

/**
 * Read exactly so many bytes; returns bytes. 0 if the input has ended before the first one,
 * -ENODATA if it ends after that. Unless it is all there nothing is taken: the buffer grows for it,
 * so what is very large is better read in pieces with weft_stream_read.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_read_exact(weft_stream *stream, void *data,
                                                size_t bytes) WEFT_MUST_CHECK;

/**
 * Wait until at least min bytes are there, and look at them in place: *data points into the buffer
 * until the next call that reads. Returns how many there are: fewer than min only at the end of the
 * input. With min 0 it does not wait.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_peek(weft_stream *stream, size_t min, const void **data);

/** Take so many bytes of those that weft_stream_peek has shown. -EINVAL if there are fewer. */
WEFT_API int weft_stream_skip(weft_stream *stream, size_t bytes);

/**
 * Wait until there is something to read, or the end of the input, without holding memory: what was
 * written is flushed, and buffers that are empty are given back. For connections that may be idle
 * for long. Returns 0.
 */
WEFT_SWITCHPOINT int weft_stream_wait(weft_stream *stream);

/**
 * Write: into the buffer if there is room, else together with what is in it, until the rest has
 * room. Returns bytes. If it fails after some of them have gone out, it returns how many it has
 * taken, and the next write, flush or close fails instead (but for a cancellation, which is not
 * remembered: it strikes by itself as long as it holds); if it fails earlier, none were taken.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_write(weft_stream *stream, const void *data, size_t bytes);

/**
 * Write several pieces in a row, in one go where they have no room in the buffer. Returns their
 * bytes, or as weft_stream_write. -EINVAL for a negative count.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_writev(weft_stream *stream, const struct iovec *pieces,
                                            int count);

/**
 * Room for so many bytes in the buffer, to be written in place: NULL if there is none without
 * waiting. It is there until the next call that writes.
 */
WEFT_API char *weft_stream_reserve(weft_stream *stream, size_t bytes);

/** Write so many bytes of those that were put where weft_stream_reserve said. */
WEFT_API void weft_stream_commit(weft_stream *stream, size_t bytes);

/** Write a string, as fputs(3): without a newline of its own. As weft_stream_write. */
WEFT_SWITCHPOINT ssize_t weft_stream_puts(weft_stream *stream, const char *text);

/**
 * Write formatted text, as printf(3). Returns its length: it was taken as a whole, or not at all if
 * this fails. If it went into the buffer but could not be flushed from there, the next write, flush
 * or close fails. -EINVAL if the format does.
 */
WEFT_SWITCHPOINT ssize_t weft_stream_printf(weft_stream *stream, const char *format, ...)
    WEFT_PRINTF(2, 3);

/** The same with the arguments in a list. */
WEFT_SWITCHPOINT ssize_t weft_stream_vprintf(weft_stream *stream, const char *format, va_list args)
    WEFT_PRINTF(2, 0);

/** Write out what is in the buffer. Returns 0; what could not be written stays there. */
WEFT_SWITCHPOINT int weft_stream_flush(weft_stream *stream);

WEFT_END

#endif
