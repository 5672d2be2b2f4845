/* The inspection socket of another process, for `weft top` and `weft profile`. */
#ifndef WEFT_COMMAND_INSPECT_TARGET_H
#define WEFT_COMMAND_INSPECT_TARGET_H

#include "core/inspect_socket/listener.h"

/*
 * Find the socket of a process. target is a process id, or the path of a socket. The environment of
 * the process names the socket (WEFT_INSPECT). Return 0, or the exit status after a message of the
 * command.
 */
int weft__target_find(const char *command, const char *target, char path[WEFT__SOCKET_PATH_BYTES]);

/* Print a message of a command. Return EXIT_FAILURE. */
int weft__target_fail(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
