/*
 * Limits of the chat, and the words that all parts of it use.
 *
 * A room is an actor: a fiber that owns the list of its members and reads events from its inbox. A
 * user is a connection with two fibers: the reader handles the commands of the browser, and the
 * writer sends the packets in its mailbox. The house knows all rooms and all users, and supervises
 * the rooms. All fibers run in one thread and switch only where they wait, so no part needs a lock.
 *
 * With --hub, several processes are a cluster and share their rooms. A shared room has an actor in
 * each process, with the members that are connected to the process. One process owns the room: its
 * link writes the messages to a durable log. The links of the other processes follow the owner, and
 * each of them takes the room over when the owner is gone. Couriers deliver the commands of users
 * to the owner. Without --hub, rooms are local, and there is no link, courier or log.
 */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include <weft/web.h>

#define NAME_CHARS_MAX 24 /* of a user */
#define NAME_BYTES (NAME_CHARS_MAX * 4 + 1)
#define ROOM_BYTES 25       /* name of a room: at most 24 letters, digits and hyphens */
#define CLIENT_BYTES 33     /* secret of a browser window: 16 to 32 letters, digits, '-' and '_' */
#define EPOCH_BYTES 17      /* the name of a run of the program */
#define TEXT_BYTES_MAX 2000 /* of a message */

#define ROOMS_MAX 16
#define USERS_MAX 512
#define MEMBERS_MAX 128 /* of a room */
#define HISTORY_MAX 200 /* messages that a room keeps */
#define CLIENTS_MAX 256 /* windows whose last message a room remembers, to detect repetitions */
#define LOG_ENTRIES_MAX 1000 /* messages of a room in the log of a cluster */
#define LEASE_S 10.0         /* of the owner of a room: the longest time without an owner */
#define INBOX_MAX 64         /* unread events of a room; then the readers of users wait */
#define COMMAND_BYTES_MAX (16 * 1024) /* a text of 2,000 bytes may consist of escapes */

/* Commands of a user: a burst, and a rate afterwards. The reader then waits before each command. */
#define COMMANDS_BURST 20.0
#define COMMANDS_PER_S 10.0

/*
 * Unsent packets of a user; then the user is disconnected. A burst of all members of a full room
 * fits, so that no user is disconnected because others talk. Members share the packets.
 */
#define MAILBOX_MAX 4096
_Static_assert(MAILBOX_MAX > MEMBERS_MAX * COMMANDS_BURST, "a burst fits in a mailbox");

/* Close codes. Codes from 4000 on belong to the application (RFC 6455, 7.4.2). */
#define CLOSE_BAD_COMMAND 4000 /* the text is not JSON, or not a command */
#define CLOSE_TOO_SLOW 4001    /* the mailbox of the user is full */
#define CLOSE_REPLACED 4002    /* the same window has connected again */
#define CLOSE_NAME_TAKEN 4003
#define CLOSE_FULL 4004 /* there are too many users */

#endif
