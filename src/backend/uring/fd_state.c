/* Create the state of a descriptor on a ring (weft__uring_fd), and detect its file type. */
#include "backend/uring/uring.h"

#include "backend/syscall/count.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool slab_add(weft__uring *b)
{
    weft__uring_fd_slab *slab;
    if (posix_memalign((void **)&slab, CACHE_LINE_BYTES, sizeof *slab) != 0)
        return false;
    slab->next = b->fds;
    slab->used = 0;
    b->fds = slab;
    return true;
}

weft__uring_fd *weft__uring_fd_new(weft__uring *b, weft__descriptor *d)
{
    if ((b->fds == NULL || b->fds->used == WEFT__URING_SLAB_FDS) && !slab_add(b))
        return NULL;
    weft__uring_fd *f = &b->fds->fds[b->fds->used++];
    *f = (weft__uring_fd){.descriptor = d};
    for (int i = 0; i < WEFT__DIRECTIONS; i++)
        weft__list_init(&f->queues[i]);
    d->backend_data = f;
    return f;
}

/* One probe per descriptor is cheaper than operations that fail because of the file type. */
COLD void weft__uring_fd_probe(weft__uring_fd *f, int fd)
{
    int type;
    socklen_t bytes = sizeof type;
    bool is_socket = WEFT__COUNTED(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes)) == 0;
    struct stat status = {0};
    if (!is_socket)
        (void)WEFT__COUNTED(fstat(fd, &status));
    f->is_probed = true;
    f->has_messages = is_socket && type != SOCK_STREAM;
    f->is_stream = is_socket && type == SOCK_STREAM;
    f->is_drained = false;
    f->is_terminal = S_ISCHR(status.st_mode) && WEFT__COUNTED(isatty(fd));
    f->descriptor->is_not_socket = !is_socket;
    f->descriptor->is_on_disk = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
}

static COLD weft__uring_fd *fd_state_create(weft__uring *b, int fd)
{
    weft__descriptor *d = weft__ready_find(&b->ready, fd);
    if (WEFT__COUNTED(fcntl(fd, F_GETFD)) < 0)
        return NULL; /* a closed number may be large, and would need a large table */
    if (d == NULL)
        d = weft__ready_ensure(&b->ready, fd);
    if (d == NULL)
        return NULL;
    weft__uring_fd *f = d->backend_data != NULL ? d->backend_data : weft__uring_fd_new(b, d);
    if (f != NULL)
        weft__uring_fd_probe(f, fd);
    return f;
}

weft__uring_fd *weft__uring_fd_ensure(weft__uring *b, int fd)
{
    weft__descriptor *d = weft__ready_current(&b->ready, fd);
    weft__uring_fd *f = LIKELY(d != NULL) ? d->backend_data : NULL;
    return LIKELY(f != NULL && f->is_probed) ? f : fd_state_create(b, fd);
}

void weft__uring_fd_set_accepted(weft__uring *b, int fd, bool has_messages)
{
    weft__descriptor *d = weft__ready_ensure(&b->ready, fd);
    weft__uring_fd *f = d != NULL ? d->backend_data : NULL;
    if (d != NULL && f == NULL)
        f = weft__uring_fd_new(b, d);
    if (f == NULL)
        return; /* the next operation on fd returns the error */
    f->is_probed = true;
    f->has_messages = has_messages;
    f->is_stream = !has_messages;
    f->is_terminal = f->is_drained = false;
    d->is_not_socket = d->is_on_disk = d->is_drained = false;
}
