/*
 * The table of descriptor states (ready.h), and the handling of newly created descriptors. Chunks
 * of the table never move, because a pointer to a state must remain valid while the callback
 * op->done runs.
 */
#include "backend/ready/ready.h"

#include "backend/syscall/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int table_grow(weft__ready *r, size_t chunk_count)
{
    size_t doubled = r->chunk_count * 2;
    size_t wanted = doubled > chunk_count ? doubled : chunk_count;
    weft__descriptor **chunks = realloc(r->chunks, wanted * sizeof *chunks);
    if (chunks == NULL)
        return -ENOMEM;
    memset(chunks + r->chunk_count, 0, (wanted - r->chunk_count) * sizeof *chunks);
    r->chunks = chunks;
    r->chunk_count = wanted;
    return 0;
}

static COLD weft__descriptor *chunk_new(weft__ready *r, int fd)
{
    size_t chunk = (unsigned)fd / WEFT__CHUNK_DESCRIPTORS;
    if (weft__fd_reserve(fd) < 0 || (chunk >= r->chunk_count && table_grow(r, chunk + 1) < 0))
        return NULL;
    weft__descriptor *chunk_fds;
    size_t bytes = WEFT__CHUNK_DESCRIPTORS * sizeof *chunk_fds;
    if (posix_memalign((void **)&chunk_fds, CACHE_LINE_BYTES, bytes) != 0)
        return NULL;
    memset(chunk_fds, 0, bytes);
    for (int i = 0; i < WEFT__CHUNK_DESCRIPTORS; i++) {
        int number = (int)chunk * WEFT__CHUNK_DESCRIPTORS + i;
        chunk_fds[i].fd_counter = weft__fd_counter(number);
        chunk_fds[i].fd_generation = weft__fd_generation(number);
        weft__waiters_init(&chunk_fds[i].waiters);
        weft__list_init(&chunk_fds[i].worker_ops);
        weft__list_init(&chunk_fds[i].secondary_ops);
        weft__list_init(&chunk_fds[i].closing_link);
    }
    r->chunks[chunk] = chunk_fds;
    return weft__ready_find(r, fd);
}

weft__descriptor *weft__ready_ensure(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_current(r, fd);
    return d != NULL ? d : chunk_new(r, fd);
}

int weft__ready_fd_of(const weft__ready *r, const weft__descriptor *d)
{
    size_t i = 0;
    while (r->chunks[i] == NULL || (uintptr_t)d < (uintptr_t)r->chunks[i] ||
           (uintptr_t)d >= (uintptr_t)(r->chunks[i] + WEFT__CHUNK_DESCRIPTORS))
        i++;
    return (int)(i * WEFT__CHUNK_DESCRIPTORS + (size_t)(d - r->chunks[i]));
}

void weft__ready_free_table(weft__ready *r)
{
    for (size_t i = 0; i < r->chunk_count; i++)
        free(r->chunks[i]);
    free(r->chunks);
}

void weft__ready_fd_created(weft__ready *r, int fd)
{
    weft__fd_advance(fd);
    r->backend->type->forget_fd(r->backend, fd);
}

/* Handle the descriptors of an SCM_RIGHTS message as new descriptors. */
static void handle_received_fds(weft__ready *r, struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            weft__ready_fd_created(r, fd);
        }
    }
}

void weft__ready_op_created_fds(weft__ready *r, weft__op *op, intptr_t result)
{
    if (op->code != WEFT__OP_RECVMSG)
        weft__ready_fd_created(r, (int)result);
    else if (op->u.message.header->msg_control != NULL)
        handle_received_fds(r, op->u.message.header);
}

int weft__ready_pipe(weft__ready *r, int fd[2])
{
    int rc = weft__call_pipe(r->backend, fd);
    for (int i = 0; i < 2 && rc == 0; i++)
        weft__ready_fd_created(r, fd[i]);
    return rc;
}

int weft__ready_socketpair(weft__ready *r, int fd[2])
{
    int rc = weft__call_socketpair(r->backend, fd);
    for (int i = 0; i < 2 && rc == 0; i++)
        weft__ready_fd_created(r, fd[i]);
    return rc;
}
