/*
 * What is known of descriptors, by their numbers: a table in chunks that never move, because a
 * descriptor has to stay where it is while done runs; and which numbers are those of new files. See
 * ready.h.
 */
#include "backend/ready.h"

#include "backend/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int grow(weft__ready *r, size_t chunk_count)
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

static COLD weft__descriptor *make(weft__ready *r, int fd)
{
    size_t chunk = (unsigned)fd / WEFT__CHUNK_DESCRIPTORS;
    if (chunk >= r->chunk_count && grow(r, chunk + 1) < 0)
        return NULL;
    weft__descriptor *made;
    size_t bytes = WEFT__CHUNK_DESCRIPTORS * sizeof *made;
    if (posix_memalign((void **)&made, CACHE_LINE_BYTES, bytes) != 0)
        return NULL;
    memset(made, 0, bytes);
    for (int i = 0; i < WEFT__CHUNK_DESCRIPTORS; i++) {
        weft__waiters_init(&made[i].waiters);
        weft__list_init(&made[i].pooled);
        weft__list_init(&made[i].also);
        weft__list_init(&made[i].closing);
    }
    r->chunks[chunk] = made;
    return weft__ready_find(r, fd);
}

weft__descriptor *weft__ready_note(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    return d != NULL ? d : make(r, fd);
}

uint32_t weft__ready_life(weft__ready *r, int fd)
{
    const weft__descriptor *d = fd >= 0 ? weft__ready_find(r, fd) : NULL;
    if (d == NULL && weft__call_is_open(fd)) /* a stray number would make a huge table */
        d = weft__ready_note(r, fd);
    return d != NULL ? d->life : 0;
}

void weft__ready_free_table(weft__ready *r)
{
    for (size_t i = 0; i < r->chunk_count; i++)
        free(r->chunks[i]);
    free(r->chunks);
}

/* Descriptors that came with a message are new ones. */
static void forget_received(weft__ready *r, struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            r->backend->type->forget_fd(r->backend, fd);
        }
    }
}

void weft__ready_forget_made(weft__ready *r, weft__op *op, intptr_t result)
{
    if (op->code != WEFT__OP_RECVMSG)
        r->backend->type->forget_fd(r->backend, (int)result);
    else if (op->u.message.header->msg_control != NULL)
        forget_received(r, op->u.message.header);
}

int weft__ready_pipe(weft__ready *r, int fd[2])
{
    int rc = weft__call_pipe(r->backend, fd);
    for (int i = 0; i < 2 && rc == 0; i++)
        r->backend->type->forget_fd(r->backend, fd[i]);
    return rc;
}

int weft__ready_socketpair(weft__ready *r, int fd[2])
{
    int rc = weft__call_socketpair(r->backend, fd);
    for (int i = 0; i < 2 && rc == 0; i++)
        r->backend->type->forget_fd(r->backend, fd[i]);
    return rc;
}
