/* What the files of the parser share: message.c (the head as it comes), message_line.c (its first
 * line), message_fields.c (what the fields mean), message_body.c (chunks and trailers). */
#ifndef WEFT_HTTP_MESSAGE_PARTS_H
#define WEFT_HTTP_MESSAGE_PARTS_H

#include "http/chars.h"
#include "http/message.h"

/* Refuse it: -EBADMSG, with what to answer a request, and why, in a few words. */
int weft__message_refuse(weft__message *m, int status, const char *reason);

/* Is the first line, which ends before data[end], exactly as it has to be? Sets version, method. */
bool weft__message_line_is_good(weft__message *m, const char *data, size_t end);

/*
 * Does a request line ask for another version than HTTP/1, as far as it has come? Whatever follows,
 * the answer is 505.
 */
bool weft__message_line_is_foreign(const char *line, size_t bytes);

/* Refuse a bad request line, or one in which llhttp has stopped. */
int weft__message_refuse_line(weft__message *m, const char *line, size_t bytes);

/*
 * Bytes of the method, if a request line is good except that llhttp does not know its method, or
 * knows it only in another protocol; else 0.
 */
size_t weft__message_line_method(const char *line, size_t bytes);

/* Is it host, or host:port? */
bool weft__is_authority(const char *text, size_t bytes, bool needs_port);

/* See to the fields of a head that ends before data[end]: 0 or -EBADMSG. */
int weft__message_take_fields(weft__message *m, const char *data, size_t end);

#endif
