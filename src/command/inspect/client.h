/* A client of an inspection socket. See core/inspect_socket/request.h for the protocol. */
#ifndef WEFT_COMMAND_INSPECT_CLIENT_H
#define WEFT_COMMAND_INSPECT_CLIENT_H

#include <weft/stream.h>

#include <stdbool.h>

/* The most words of a line that a client uses. */
#define INSPECT_WORDS_MAX 160

typedef struct inspect_client {
    weft_stream stream;
    int pid;
    char program[64];
    char error[160]; /* the error of the last request; "": none */
} inspect_client;

/* A line of a reply. The words are unescaped. Missing words are "". */
typedef struct inspect_line {
    char *words[INSPECT_WORDS_MAX];
    size_t count;
} inspect_line;

typedef void inspect_on_line(void *context, const inspect_line *line);

/*
 * Connect to the socket at path, and read the greeting. Return 0, or the exit status after a
 * message of the command. The caller must call weft__inspect_close after a success.
 */
int weft__inspect_connect(inspect_client *c, const char *command, const char *path);

/*
 * Like weft__inspect_connect, without messages.
 *
 * Returns 0, an error of weft_dial, or:
 * -EACCES if the server has closed the connection
 * -EPROTO if the server does not send a known greeting
 */
int weft__inspect_try_connect(inspect_client *c, const char *path);

/*
 * Send a request, and call on_line for each line of the reply.
 *
 * Returns 0, an error of the connection, or:
 * -EBADMSG if the server has refused the request; c->error is the reason
 * -EPIPE if the process has ended
 */
int weft__inspect_request(inspect_client *c, const char *request, inspect_on_line *on_line,
                          void *context);

/* Append the escaped form of a text to a request. Returns false if it does not fit. */
bool weft__inspect_append_word(char *request, size_t room, const char *text);

void weft__inspect_close(inspect_client *c);

#endif
