/*
 * Commands of a browser, one JSON object each. "t" is the kind. A command has exactly the members
 * of its kind:
 *
 *   {"t":"hello","name":"Ada","client":"SECRET"}                      the first command, only once
 *   {"t":"join","room":"lobby","epoch":"...","since":12}              go to a room; create it
 *   {"t":"say","room":"lobby","id":7,"text":"hello"}
 *   {"t":"typing","room":"lobby","on":true}
 *   {"t":"fail","room":"lobby"}                                       make the room fail
 *   {"t":"ping","id":3}
 *
 * since is the last message that the browser has, of the run of the program that epoch names. The
 * ids of a window increase. A window repeats a message with the same id until it has seen it.
 */
#ifndef CHAT_COMMAND_H
#define CHAT_COMMAND_H

#include "chat.h"

typedef enum command_kind {
    COMMAND_HELLO,
    COMMAND_JOIN,
    COMMAND_SAY,
    COMMAND_TYPING,
    COMMAND_FAIL,
    COMMAND_PING,
} command_kind;

typedef struct command {
    command_kind kind;
    char name[NAME_BYTES];
    char client[CLIENT_BYTES];
    char room[ROOM_BYTES];
    char epoch[EPOCH_BYTES];
    char text[TEXT_BYTES_MAX + 1];
    int64_t since, id;
    bool is_on;
} command;

/*
 * Read a command. Returns 0, or:
 * -EBADMSG if the text is not JSON
 * -EINVAL if the text is not a command
 * -EMSGSIZE if a string or the command is too long
 */
int command_read(command *c, const char *text, size_t bytes);

#endif
