/*
 * What is known of descriptors, by their numbers: a table in chunks that never move, because a
 * descriptor has to stay where it is while done runs. See ready.h.
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
    weft__descriptor *made = calloc(WEFT__CHUNK_DESCRIPTORS, sizeof *made);
    if (made == NULL)
        return NULL;
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
