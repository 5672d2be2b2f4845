/* The listening UNIX socket of the inspection socket: its path, its mode and its removal. */
#ifndef WEFT_CORE_INSPECT_SOCKET_LISTENER_H
#define WEFT_CORE_INSPECT_SOCKET_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>

/* The size of a path, with its final 0. */
#define WEFT__SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

typedef struct weft__listener {
    int fd;    /* non-blocking, close-on-exec; -1: closed */
    dev_t dev; /* with ino: the file that the listener has created */
    ino_t inode;
    char path[WEFT__SOCKET_PATH_BYTES];
} weft__listener;

/*
 * Copy a path. Replace %p by pid, and %% by %.
 *
 * Returns 0, or:
 * -EINVAL if path is empty, or has another %
 * -ENAMETOOLONG if the result does not fit
 */
int weft__socket_path_expand(const char *path, pid_t pid, char out[WEFT__SOCKET_PATH_BYTES]);

/*
 * Create the socket at an expanded path, with mode 0600, and listen. See weft_inspect_socket_open
 * for the errors.
 */
int weft__listener_open(weft__listener *listener, const char *path);

/*
 * Close the socket. If removes_file is true, also remove the file at the path, if the listener has
 * created it.
 */
void weft__listener_close(weft__listener *listener, bool removes_file);

/* Return whether the peer of a connected socket has the user of this process, or is root. */
bool weft__peer_is_allowed(int fd);

#endif
