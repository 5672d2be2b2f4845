/*
 * Requests of the inspection socket.
 *
 * The protocol has lines of text in UTF-8. Words are separated by one space. In a word, %XX is the
 * byte XX, and "-" is an empty word (reply.h). The server first sends a greeting:
 *
 *     weft-inspect 1 PID WEFT_VERSION PROGRAM
 *
 * 1 is the version of the protocol. Clients must ignore further words at the end of any line, and
 * lines that begin with an unknown word. A client sends a request of one line, of at most 511 bytes
 * with the newline. The server replies with lines, and ends each reply with a line ".". If a
 * request fails, the reply is "error TEXT". After a line that is too long, the server closes the
 * connection. The server reads the next request after the client has taken the reply.
 *
 * Requests:
 *
 *     view [sort=cpu|wait|stack|switches|id] [tree] [group] [limit=N] [offset=N] [filter=TEXT]
 *         The process, its cords, and rows of fibers (view.h). The first view of a client switches
 *         weft_account on in all cords. The end of the last such client switches it off.
 *     backtrace ID
 *         The frames of a fiber, the innermost first:
 *         frame FUNCTION FILE LINE MODULE OFFSET
 *     stats
 *         The process and its cords, without fibers.
 *     dump
 *         The text of weft_dump, each line as: text LINE
 *     profile start [cpu] [wait] [hz=N]
 *         Start a profile (profile.h). Without a kind, the profile has both kinds.
 *     profile read
 *         The result since the start or the last read.
 *     profile stop
 *         Like read, and end the profile. The end of the client also ends its profile. If the
 *         process exits, the server sends the result without a request.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_REQUEST_H
#define WEFT_CORE_INSPECT_SOCKET_REQUEST_H

#include "core/inspect_socket/reply.h"

#define WEFT__INSPECT_VERSION 1

/* The size of a request, with its newline. */
#define WEFT__REQUEST_BYTES_MAX 512

/* What a client uses. All-zero: nothing. */
typedef struct weft__inspect_uses {
    bool has_accounting;
    bool has_profile;
} weft__inspect_uses;

/* Append the greeting. */
void weft__request_greet(weft__inspect_reply *r);

/* Handle a request without its newline, and append the reply. The call may change the line. */
void weft__request_handle(char *line, weft__inspect_uses *uses, weft__inspect_reply *r);

/* Append the result of the client's profile, because the process exits. */
void weft__request_flush(weft__inspect_uses *uses, weft__inspect_reply *r);

/* End everything that a client uses. */
void weft__request_release(weft__inspect_uses *uses);

/* Forget what clients of the parent use, in a child of fork(2). */
void weft__request_after_fork(void);

#endif
