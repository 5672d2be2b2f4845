/*
 * Internal functions of the HTTP/1 parser: message.c (the head), line.c (the first line), fields.c
 * (the fields), body.c (the body). See message.h for the interface of the parser.
 */
#ifndef WEFT_HTTP_H1_INTERNAL_H
#define WEFT_HTTP_H1_INTERNAL_H

#include "http/h1/message.h"
#include "http/text/ctype.h"

/*
 * The maximum length of a method. All registered methods are shorter. The status for a longer
 * method is 501 (RFC 9112, 3).
 */
#define WEFT__METHOD_BYTES_MAX 32

/* Reject a message. status is for the reply. reason is for the log. Returns -EBADMSG. */
int weft__message_reject(weft__message *m, int status, const char *reason);

/*
 * Return true if the first line is valid. The line ends before data[end]. The call sets version,
 * and the method of a request or the status of a response.
 */
bool weft__message_line_is_valid(weft__message *m, const char *data, size_t end);

/*
 * Return true if a request line has a version other than HTTP/1. The line may be incomplete. The
 * status for such a line is 505.
 */
bool weft__message_line_is_not_http1(const char *line, size_t bytes);

/*
 * Return true if a whole line consists of three words of capital letters, like the preface of
 * HTTP/2. No target and no version of HTTP is such a word.
 */
bool weft__message_line_is_other_preface(const char *line, size_t bytes);

/* Reject a malformed request line with the matching status. Returns -EBADMSG. */
int weft__message_reject_line(weft__message *m, const char *line, size_t bytes);

/*
 * Return the length of the method in a complete request line. Returns 0 if the line is malformed,
 * the method is too long, or the method is PRI.
 */
size_t weft__message_line_method(const char *line, size_t bytes);

/* Return true if text is host:port. Unless needs_port is set, the port may be missing. */
bool weft__authority_is_valid(const char *text, size_t bytes, bool needs_port);

/* Return whether text is a path with an optional query. */
bool weft__path_is_valid(const char *text, size_t bytes);

/*
 * Check and evaluate the fields of a head. The head ends before data[end]. Returns 0 or -EBADMSG.
 */
int weft__message_read_fields(weft__message *m, const char *data, size_t end);

#endif
