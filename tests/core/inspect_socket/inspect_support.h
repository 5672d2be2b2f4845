/* Helpers for the tests of the inspection socket: a path, and a client in a fiber. */
#ifndef TESTS_CORE_INSPECT_SOCKET_INSPECT_SUPPORT_H
#define TESTS_CORE_INSPECT_SOCKET_INSPECT_SUPPORT_H

#include "support/suite.h"

#include <weft/inspect_socket.h>

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char socket_folder[] = "/tmp/weft-inspect-XXXXXX";
static char socket_path[64];

static inline void create_socket_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(socket_folder));
    snprintf(socket_path, sizeof socket_path, "%s/socket", socket_folder);
}

static inline void remove_socket_folder(void)
{
    weft_inspect_socket_close();
    unlink(socket_path);
    rmdir(socket_folder);
}

/* The text of the last reply. */
static char reply[1 << 20];

/* Read a reply up to its last line. Return its length, or 0 if the server closes the connection. */
static inline size_t read_inspect_reply(int fd)
{
    size_t bytes = 0;
    for (;;) {
        ssize_t got = weft_read(fd, reply + bytes, sizeof reply - 1 - bytes);
        if (got <= 0)
            return 0;
        bytes += (size_t)got;
        reply[bytes] = '\0';
        if (bytes >= 2 && strcmp(reply + bytes - 2, ".\n") == 0 &&
            (bytes == 2 || reply[bytes - 3] == '\n'))
            return bytes;
    }
}

/* Connect, and read the greeting. */
static inline int connect_client(void)
{
    int fd = weft_dial("unix", socket_path);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_gt(read_inspect_reply(fd), 0);
    ck_assert_msg(strncmp(reply, "weft-inspect 1 ", 15) == 0, "%s", reply);
    return fd;
}

static inline void send_raw(int fd, const char *text)
{
    ck_assert_int_eq(weft_write_all(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Send a request. Return the reply. */
static inline const char *request(int fd, const char *request)
{
    send_raw(fd, format("%s\n", request));
    ck_assert_uint_gt(read_inspect_reply(fd), 0);
    return reply;
}

#define ck_assert_reply_has(text) \
    ck_assert_msg(strstr(reply, (text)) != NULL, "no \"%s\" in:\n%s", (text), reply)
#define ck_assert_reply_lacks(text) \
    ck_assert_msg(strstr(reply, (text)) == NULL, "\"%s\" in:\n%s", (text), reply)

/* Return the word with this index of the first line that contains `part`. "": no such line. */
static inline const char *word_of_line(const char *part, int index)
{
    static char word[256];
    const char *at = strstr(reply, part);
    word[0] = '\0';
    if (at == NULL)
        return word;
    while (at > reply && at[-1] != '\n')
        at--;
    for (; index > 0; index--)
        at += strcspn(at, " \n") + 1;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " \n"), at);
    return word;
}

/* Words of a line of a fiber (core/inspect_socket/view.h). */
enum { WORD_ID = 1, WORD_COUNT = 2, WORD_STATE = 5, WORD_SHARE = 6 };

#endif
