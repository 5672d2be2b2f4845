/* The ring of provided buffers, see buffers.h. */
#include "backend/uring/buffers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/*
 * The number and the size of the buffers. All multishot operations of a cord share these 2 MiB. The
 * kernel allocates pages on first use. The number of buffers must be a power of two.
 */
#define BUFFERS 512
#define BUFFER_BYTES 4096

static size_t ring_bytes(void)
{
    return BUFFERS * sizeof(struct io_uring_buf);
}

char *weft__uring_buffer_data(const weft__uring *b, int buffer)
{
    return b->buffers.memory + (size_t)buffer * BUFFER_BYTES;
}

void weft__uring_buffer_recycle(weft__uring *b, int buffer)
{
    io_uring_buf_ring_add(b->buffers.ring, weft__uring_buffer_data(b, buffer), BUFFER_BYTES,
                          (unsigned short)buffer, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(b->buffers.ring, 1);
}

static void *map_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap_memory(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
}

void weft__uring_buffers_free(weft__uring *b)
{
    unmap_memory(b->buffers.ring, ring_bytes());
    unmap_memory(b->buffers.memory, BUFFERS * BUFFER_BYTES);
    free(b->buffers.infos);
    b->buffers = (weft__uring_buffers){0};
}

int weft__uring_buffers_ensure(weft__uring *b)
{
    if (b->buffers.ring != NULL)
        return 0;
    b->buffers.ring = map_memory(ring_bytes());
    b->buffers.memory = map_memory(BUFFERS * BUFFER_BYTES);
    b->buffers.infos = malloc(BUFFERS * sizeof *b->buffers.infos);
    int rc = -ENOMEM;
    if (b->buffers.ring != NULL && b->buffers.memory != NULL && b->buffers.infos != NULL) {
        struct io_uring_buf_reg registration = {.ring_addr = (uintptr_t)b->buffers.ring,
                                                .ring_entries = BUFFERS,
                                                .bgid = WEFT__URING_BUFFER_GROUP};
        rc = io_uring_register_buf_ring(&b->ring, &registration, 0);
    }
    if (rc < 0) {
        weft__uring_buffers_free(b);
        return rc;
    }
    io_uring_buf_ring_init(b->buffers.ring);
    for (int i = 0; i < BUFFERS; i++)
        weft__uring_buffer_recycle(b, i);
    return 0;
}

void weft__uring_buffer_append(weft__uring *b, int *first, int *last, int buffer)
{
    b->buffers.infos[buffer].next = WEFT__URING_NO_BUFFER;
    if (*first == WEFT__URING_NO_BUFFER)
        *first = buffer;
    else
        b->buffers.infos[*last].next = buffer;
    *last = buffer;
}

int weft__uring_buffer_pop(const weft__uring *b, int *first)
{
    int buffer = *first;
    *first = b->buffers.infos[buffer].next;
    return buffer;
}
