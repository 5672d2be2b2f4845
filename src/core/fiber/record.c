/* The fiber records of a cord: chunks of records, the table of chunks, and free records. */
#include "core/sched/trim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void weft__record_init(const weft__cord *c, weft__fiber *f, uint32_t slot)
{
    uint32_t id_low = c->index << WEFT__FIBERS_BITS | slot;
    *f = (weft__fiber){.last_id = (weft_fiber)c->serial_base << 32 | id_low};
    weft__list_init(&f->sibling);
    f->is_traced = f->is_wake_traced = c->are_records_traced;
}

/*
 * Reserve space for another chunk in the table. Table i has space for 2^i chunks. Old tables are
 * not freed, because other threads may read them.
 */
static int record_table_grow(weft__cord *c)
{
    uint32_t n = c->chunks_count;
    if ((n & (n - 1)) != 0)
        return 0;
    unsigned i = n == 0 ? 0 : (unsigned)__builtin_ctz(n) + 1;
    if (c->tables[i] != NULL)
        return 0; /* the table is left from a call that failed later */
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
 * Allocate a chunk of whole pages, which can be discarded later. LeakSanitizer finds pointers only
 * in memory from malloc, so ASan builds use malloc.
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
    free(c->trim.dormant);
}

int weft__cord_new_chunk(weft__cord *c, weft__fiber **out)
{
    uint32_t n = c->chunks_count;
    if (n >= (1u << WEFT__FIBERS_BITS) / WEFT__CHUNK_FIBERS)
        return -EAGAIN;
    int rc = record_table_grow(c);
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
    pthread_mutex_lock(&c->id_reserve.lock);
    int rc = weft__cord_make_room(c, 1);
    if (rc == 0)
        rc = weft__cord_new_chunk(c, &chunk);
    pthread_mutex_unlock(&c->id_reserve.lock);
    for (uint32_t i = 0; rc == 0 && i < WEFT__CHUNK_FIBERS; i++)
        weft__list_insert(&c->uncached, &chunk[i].sibling);
    return rc;
}

int weft__cord_make_room(weft__cord *c, unsigned more_chunks)
{
    uint32_t n = __atomic_load_n(&c->chunks_count, __ATOMIC_RELAXED) + more_chunks;
    return weft__runqueue_reserve(&c->runqueue, (size_t)n * WEFT__CHUNK_FIBERS);
}

uint32_t weft__cord_serial_max(const weft__cord *c)
{
    uint32_t max = c->serial_base > c->trim.serial_max ? c->serial_base : c->trim.serial_max;
    uint32_t chunks = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    for (uint32_t slot = 0; slot < chunks * WEFT__CHUNK_FIBERS; slot++) {
        uint32_t serial = (uint32_t)(weft__record_at(c, slot)->last_id >> 32);
        max = serial > max ? serial : max;
    }
    return max;
}

/* Take a free record with a stack of the default size. Return NULL if there is none. */
static weft__fiber *warm_take(weft__cord *c)
{
    while (c->warm_count > 0) {
        weft__fiber *f = c->warm[--c->warm_count];
        if (LIKELY(!weft__fiber_id_is_exhausted(f)))
            return f;
        weft__fiber_release_stack(c, f);
        weft__list_init(&f->sibling); /* the record is never used again */
        c->records_used--;
    }
    return NULL;
}

/* Add free records, from a dormant chunk (sched/trim.h) or from a new chunk. */
COLD static int records_add(weft__cord *c)
{
    weft__trim_schedule(c);
    return weft__trim_restore_chunk(c) ? weft__cord_make_room(c, 0) : weft__cord_add_chunk(c);
}

int weft__record_take(weft__cord *c, size_t stack_bytes, weft__fiber **out)
{
    if (stack_bytes == 0 && (*out = warm_take(c)) != NULL)
        return 0;
    /* Another thread may have added records for which the run queue has no space. */
    int rc = weft__list_is_empty(&c->uncached) ? records_add(c) : weft__cord_make_room(c, 0);
    if (rc < 0)
        return rc;
    weft__fiber *f = weft__fiber_of_sibling(c->uncached.next);
    rc = weft__fiber_take_stack(c, f, weft__stack_bytes(stack_bytes));
    if (rc < 0)
        return rc;
    weft__list_remove(&f->sibling);
    weft__records_add_used(c);
    *out = f;
    return 0;
}
