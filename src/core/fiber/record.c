/*
 * Where records of fibers come from and go to: chunks of them, the table in which they are found,
 * ids.
 */
#include "core/rest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void weft__record_init(const weft__cord *c, weft__fiber *f, uint32_t slot)
{
    uint32_t place = c->index << WEFT__FIBERS_BITS | slot;
    *f = (weft__fiber){.last_id = (weft_fiber)c->serial_base << 32 | place};
    weft__list_init(&f->sibling);
}

/* A table of chunks has room for 2^i of them. */
static int grow_table(weft__cord *c)
{
    uint32_t n = c->chunks_count;
    if ((n & (n - 1)) != 0)
        return 0;
    unsigned i = n == 0 ? 0 : (unsigned)__builtin_ctz(n) + 1;
    if (c->tables[i] != NULL)
        return 0; /* from the last time, when there was no memory for the chunk */
    weft__fiber **table = malloc(((size_t)1 << i) * sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    if (n > 0)
        memcpy(table, c->chunks, n * sizeof *table);
    c->tables[i] = table;
    __atomic_store_n(&c->chunks, table, __ATOMIC_RELEASE);
    return 0;
}

/*
 * Memory for a chunk, in whole pages, so that they can be given back. LeakSanitizer looks for
 * pointers in what comes from malloc only.
 */
static weft__fiber *map_chunk(void)
{
#ifdef WEFT__ASAN
    return aligned_alloc(_Alignof(weft__fiber), WEFT__CHUNK_BYTES);
#else
    void *memory =
        mmap(NULL, WEFT__CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
#endif
}

static void unmap_chunk(weft__fiber *chunk)
{
#ifdef WEFT__ASAN
    free(chunk);
#else
    munmap(chunk, WEFT__CHUNK_BYTES);
#endif
}

void weft__records_close(weft__cord *c)
{
    for (uint32_t i = 0; i < c->chunks_count; i++) {
        for (uint32_t j = 0; j < WEFT__CHUNK_FIBERS; j++)
            if (c->chunks[i][j].stack.low != NULL)
                weft__fiber_release_stack(c, &c->chunks[i][j]);
        unmap_chunk(c->chunks[i]);
    }
    for (unsigned i = 0; i < WEFT__TABLES_MAX; i++)
        free(c->tables[i]);
    free(c->rest.dormant);
}

int weft__cord_new_chunk(weft__cord *c, weft__fiber **out)
{
    uint32_t n = c->chunks_count;
    if (n >= (1u << WEFT__FIBERS_BITS) / WEFT__CHUNK_FIBERS)
        return -EAGAIN;
    int rc = grow_table(c);
    weft__fiber *chunk = rc == 0 ? map_chunk() : NULL;
    if (chunk == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++)
        weft__record_init(c, &chunk[i], n * WEFT__CHUNK_FIBERS + i);
    c->chunks[n] = *out = chunk;
    __atomic_store_n(&c->chunks_count, n + 1, __ATOMIC_RELEASE);
    return 0;
}

COLD int weft__cord_add_chunk(weft__cord *c)
{
    weft__fiber *chunk;
    pthread_mutex_lock(&c->reserve.lock);
    int rc = weft__cord_make_room(c, 1);
    if (rc == 0)
        rc = weft__cord_new_chunk(c, &chunk);
    pthread_mutex_unlock(&c->reserve.lock);
    for (uint32_t i = 0; rc == 0 && i < WEFT__CHUNK_FIBERS; i++)
        weft__list_insert(&c->bare, &chunk[i].sibling);
    return rc;
}

int weft__cord_make_room(weft__cord *c, unsigned more_chunks)
{
    uint32_t n = __atomic_load_n(&c->chunks_count, __ATOMIC_RELAXED) + more_chunks;
    return weft__runqueue_reserve(&c->runqueue, (size_t)n * WEFT__CHUNK_FIBERS);
}

uint32_t weft__cord_serial_max(const weft__cord *c)
{
    uint32_t max = c->serial_base > c->rest.serial_max ? c->serial_base : c->rest.serial_max;
    uint32_t chunks = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    for (uint32_t slot = 0; slot < chunks * WEFT__CHUNK_FIBERS; slot++) {
        uint32_t serial = (uint32_t)(weft__cord_at(c, slot)->last_id >> 32);
        max = serial > max ? serial : max;
    }
    return max;
}

/* A free record that has a stack of the default size from its last fiber; NULL: there is none. */
static weft__fiber *take_warm(weft__cord *c)
{
    while (c->warm_count > 0) {
        weft__fiber *f = c->warm[--c->warm_count];
        if (LIKELY(!weft__fiber_is_spent(f)))
            return f;
        weft__fiber_release_stack(c, f);
        weft__list_init(&f->sibling); /* in no list from now on */
        c->records_used--;
    }
    return NULL;
}

/* From a chunk that is dormant, or a new one. */
COLD static int more_records(weft__cord *c)
{
    weft__rest_expect(c);
    return weft__rest_wake(c) ? weft__cord_make_room(c, 0) : weft__cord_add_chunk(c);
}

int weft__record_take(weft__cord *c, size_t stack_bytes, weft__fiber **out)
{
    if (stack_bytes == 0 && (*out = take_warm(c)) != NULL)
        return 0;
    /* One that another thread has added, and could not use, has no room on the run queue yet. */
    int rc = weft__list_is_empty(&c->bare) ? more_records(c) : weft__cord_make_room(c, 0);
    if (rc < 0)
        return rc;
    weft__fiber *f = weft__fiber_of_sibling(c->bare.next);
    rc = weft__fiber_take_stack(c, f, weft__stack_bytes(stack_bytes));
    if (rc < 0)
        return rc;
    weft__list_remove(&f->sibling);
    weft__records_count(c);
    *out = f;
    return 0;
}
