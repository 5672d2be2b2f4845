/*
 * Notes: what hooks know about descriptor numbers, in one table for the whole process. A note is
 * one word, so threads need no lock. A note belongs to a generation of its number
 * (backend/fd_generation.h), and is empty after the number was closed. If code without hooks has
 * closed the number, the note is wrong. Then a call may make more system calls, block the thread,
 * or not see a time limit that such code has set. Apart from that, the call has the right result.
 *
 * O_NONBLOCK is never noted, because other processes can change it.
 */
#ifndef WEFT_POSIX_IO_FD_NOTE_H
#define WEFT_POSIX_IO_FD_NOTE_H

#include "core/op/op.h"

#include <stdbool.h>
#include <stdint.h>

/* The kind of a file: the way to read and write it without blocking. */
typedef enum weft__fd_kind_note {
    WEFT__FD_UNKNOWN,
    WEFT__FD_SOCKET,    /* MSG_DONTWAIT */
    WEFT__FD_SEQPACKET, /* a socket of records: MSG_DONTWAIT, and MSG_EOR in writes */
    WEFT__FD_NOWAIT,    /* RWF_NOWAIT, for example a pipe */
    WEFT__FD_DISK,      /* a regular file or block device: RWF_NOWAIT in reads */
    WEFT__FD_POLLED,    /* poll(2) with timeout 0 before the call, for example a terminal */
} weft__fd_kind_note;

/* The bits of a note. */
enum {
    WEFT__NOTE_KIND = 7,            /* a weft__fd_kind_note */
    WEFT__NOTE_RECV_KNOWN = 1 << 3, /* WEFT__NOTE_RECV_LIMIT is valid */
    WEFT__NOTE_RECV_LIMIT = 1 << 4, /* SO_RCVTIMEO is set */
    WEFT__NOTE_SEND_KNOWN = 1 << 5, /* WEFT__NOTE_SEND_LIMIT is valid */
    WEFT__NOTE_SEND_LIMIT = 1 << 6, /* SO_SNDTIMEO is set */
    WEFT__NOTE_LIMITS = 15 << 3,
    WEFT__NOTE_WAITED = 1 << 7, /* the last read waited */
    WEFT__NOTE_FULL = 1 << 8,   /* the last read filled its buffer */
    WEFT__NOTE_EXACT = 1 << 9,  /* full reads say nothing, because the caller knows sizes */
    WEFT__NOTE_READS = 7 << 7,
};

/* Return the bits of the note of a number. Returns 0 if there is no note. */
uint32_t weft__fd_note(int fd);

/* Clear some bits of a note, and set others. */
void weft__fd_note_change(int fd, uint32_t clear, uint32_t set);

/* Return the kind of a file. The first call for a file makes system calls. */
weft__fd_kind_note weft__fd_kind_of(int fd);

/* Like weft__fd_kind_of, but replace a note that may be wrong. */
weft__fd_kind_note weft__fd_kind_renew(int fd);

/* Replace the noted kind of a file. */
static inline void weft__fd_kind_set(int fd, weft__fd_kind_note kind)
{
    weft__fd_note_change(fd, WEFT__NOTE_KIND, kind);
}

/*
 * Prediction: will the next read wait? If so, the hook does not try the real call first, because
 * weft makes the first attempt itself. A read that has waited is usually followed by one that
 * waits. But if it has filled its buffer, more data is probably there. Some programs read exactly
 * one message each time. For them, a full buffer says nothing (WEFT__NOTE_EXACT).
 */

/* One of so many reads that probably wait tries the real call, to correct the prediction. */
#define WEFT__READS_PER_TRY 16

/* Return whether the next read will probably wait. */
bool weft__fd_note_expects_wait(uint32_t note);

/* Note that a read did not wait. note is the note before the read. */
static inline void weft__fd_note_ready(int fd, uint32_t note)
{
    if (UNLIKELY(note & WEFT__NOTE_READS))
        weft__fd_note_change(fd, WEFT__NOTE_READS, 0);
}

/*
 * Note that a read waited. note is the note before the read. was_tried means that the hook has
 * tried the real call. is_full means that the read has filled its buffer.
 */
void weft__fd_note_waited(int fd, uint32_t note, bool was_tried, bool is_full);

#endif
