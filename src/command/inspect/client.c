/* A client of an inspection socket. See client.h. */
#include "command/inspect/client.h"

#include "command/command.h"
#include "command/inspect/target.h"
#include "core/inspect_socket/word.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest line of a reply: a stack of 64 functions with long names. */
#define LINE_BYTES_MAX (64 << 10)
/* Time for a reply. The server waits for its cords for at most 0.5 s. */
#define REPLY_S 20.0

static void line_split(inspect_line *line, char *text)
{
    char *word;
    static char empty[1];
    line->count = 0;
    while (line->count < INSPECT_WORDS_MAX && (word = strsep(&text, " ")) != NULL) {
        bool is_empty = strcmp(word, "-") == 0;
        weft__word_unescape(word);
        line->words[line->count++] = is_empty ? empty : word;
    }
    for (size_t i = line->count; i < INSPECT_WORDS_MAX; i++)
        line->words[i] = empty;
}

/* Read a reply up to its last line. */
static int read_reply(inspect_client *c, inspect_on_line *on_line, void *context)
{
    inspect_line line;
    char *text;
    c->error[0] = '\0';
    for (;;) {
        int rc = weft_stream_line(&c->stream, &text, NULL);
        if (rc == 0 || rc == -ECONNRESET)
            return -EPIPE;
        if (rc < 0)
            return rc;
        if (strcmp(text, ".") == 0)
            return c->error[0] != '\0' ? -EBADMSG : 0;
        line_split(&line, text);
        if (strcmp(line.words[0], "error") == 0)
            snprintf(c->error, sizeof c->error, "%s", line.words[1]);
        else if (on_line != NULL)
            on_line(context, &line);
    }
}

int weft__inspect_request(inspect_client *c, const char *request, inspect_on_line *on_line,
                          void *context)
{
    int rc = 0, timeout = 0;
    WEFT_CANCEL_AFTER(REPLY_S, timeout) {
        ssize_t sent = weft_stream_printf(&c->stream, "%s\n", request);
        rc = sent < 0 ? (int)sent : weft_stream_flush(&c->stream);
        /* A process that exits may have sent the result of a profile, and closed the socket. */
        if (rc >= 0 || rc == -EPIPE || rc == -ECONNRESET)
            rc = read_reply(c, on_line, context);
    }
    return timeout < 0 ? timeout : rc;
}

bool weft__inspect_append_word(char *request, size_t room, const char *text)
{
    size_t at = strlen(request);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (at + 4 > room)
            return false;
        at += (size_t)snprintf(request + at, room - at,
                               weft__word_must_escape(byte) ? "%%%02X" : "%c", byte);
    }
    return true;
}

static void take_greeting(void *context, const inspect_line *line)
{
    inspect_client *c = context;
    if (strcmp(line->words[0], "weft-inspect") == 0 && strcmp(line->words[1], "1") == 0) {
        c->pid = (int)strtol(line->words[2], NULL, 10);
        snprintf(c->program, sizeof c->program, "%s", line->words[4]);
    }
}

int weft__inspect_try_connect(inspect_client *c, const char *path)
{
    *c = (inspect_client){0};
    int fd = weft_dial("unix", path), timeout = 0;
    if (fd < 0)
        return fd;
    int rc = weft_stream_open(&c->stream, fd);
    if (rc < 0) {
        weft_close(fd);
        return rc;
    }
    weft_stream_set_line_max(&c->stream, LINE_BYTES_MAX);
    WEFT_CANCEL_AFTER(REPLY_S, timeout) {
        rc = read_reply(c, take_greeting, c);
    }
    if (rc == 0 && timeout == 0 && c->pid != 0)
        return 0;
    weft__inspect_close(c);
    return rc == -EPIPE ? -EACCES : -EPROTO;
}

int weft__inspect_connect(inspect_client *c, const char *command, const char *path)
{
    int rc = weft__inspect_try_connect(c, path);
    switch (rc) {
    case 0:
        return 0;
    case -ENOENT:
        return weft__target_fail(
            command, "there is no socket %s; the program may not use weft, or not yet", path);
    case -ECONNREFUSED:
        return weft__target_fail(command, "no process listens on %s", path);
    case -EACCES:
        return weft__target_fail(command, "%s refuses this user, or has too many clients", path);
    case -EPROTO:
        return weft__target_fail(command, "%s is not an inspection socket of a known version",
                                 path);
    default:
        return weft__target_fail(command, "cannot connect to %s: %s", path, strerror(-rc));
    }
}

void weft__inspect_close(inspect_client *c)
{
    weft_stream_close(&c->stream);
}
