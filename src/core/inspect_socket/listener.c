/* The listening UNIX socket. See listener.h. */
#include "core/inspect_socket/listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Clients that wait for an accept. */
#define BACKLOG 8

int weft__socket_path_expand(const char *path, pid_t pid, char out[WEFT__SOCKET_PATH_BYTES])
{
    size_t bytes = 0;
    if (*path == '\0')
        return -EINVAL;
    for (; *path != '\0'; path++) {
        char piece[16] = {*path};
        if (*path == '%') {
            path++;
            if (*path == 'p')
                snprintf(piece, sizeof piece, "%d", (int)pid);
            else if (*path != '%')
                return -EINVAL;
        }
        size_t more = strlen(piece);
        if (bytes + more >= WEFT__SOCKET_PATH_BYTES)
            return -ENAMETOOLONG;
        memcpy(out + bytes, piece, more);
        bytes += more;
    }
    out[bytes] = '\0';
    return 0;
}

static struct sockaddr_un socket_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    return address;
}

/* Connect to a path. Return 0, or a positive errno. */
static int try_connect(const char *path)
{
    struct sockaddr_un address = socket_address(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? errno : 0;
    close(fd);
    return error;
}

/*
 * Remove a socket on which no process listens. lstat does not follow a symbolic link, so the call
 * neither removes nor replaces the target of a link.
 */
static int remove_stale(const char *path)
{
    struct stat found;
    if (lstat(path, &found) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(found.st_mode) || found.st_uid != geteuid())
        return -EEXIST;
    if (try_connect(path) != ECONNREFUSED)
        return -EADDRINUSE;
    return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/*
 * Bind and listen. Linux gives the file the mode of the unbound socket, without the bits of the
 * umask (unix_bind). Therefore the file never has more than mode 0600, and the umask of the process
 * does not change.
 */
static int bind_private(weft__listener *l)
{
    struct sockaddr_un address = socket_address(l->path);
    struct stat created;
    if (fchmod(l->fd, S_IRUSR | S_IWUSR) < 0 ||
        bind(l->fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    if (lstat(l->path, &created) < 0)
        return -errno;
    l->dev = created.st_dev;
    l->inode = created.st_ino;
    int rc = 0;
    if (!S_ISSOCK(created.st_mode) || (created.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        rc = -EPERM; /* the file system has its own modes */
    else if (listen(l->fd, BACKLOG) < 0)
        rc = -errno;
    if (rc < 0)
        unlink(l->path);
    return rc;
}

int weft__listener_open(weft__listener *l, const char *path)
{
    *l = (weft__listener){.fd = -1};
    memcpy(l->path, path, strlen(path) + 1);
    int rc = remove_stale(path);
    if (rc < 0)
        return rc;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return -errno;
    rc = bind_private(l);
    if (rc < 0)
        weft__listener_close(l, false);
    return rc;
}

void weft__listener_close(weft__listener *l, bool removes_file)
{
    struct stat found;
    if (l->fd < 0)
        return;
    if (removes_file && lstat(l->path, &found) == 0 && found.st_dev == l->dev &&
        found.st_ino == l->inode)
        unlink(l->path);
    close(l->fd);
    l->fd = -1;
}

bool weft__peer_is_allowed(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}
