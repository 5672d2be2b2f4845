/*
 * The pool of stacks: mapping, carving and unmapping chunks.
 *
 * The warm acquire and release are inline in stack.h. stack_pages.c gives pages of free stacks
 * back, guard.c makes guards, overflow.c reports that one was hit.
 */
#include "core/guard.h"
#include "core/stack_parts.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(WEFT__STACK_COLOURS *WEFT__STACK_COLOUR_BYTES <= WEFT__SLOT_ALIGN_BYTES,
               "weft__slot_end relies on a colour being less than a page");
_Static_assert(WEFT__STACK_BATCH <= 64, "guards are reported in 64 bits");
_Static_assert(WEFT__STACK_BYTES_MIN << (WEFT__STACK_CLASSES - 1) == WEFT__STACK_BYTES_MAX &&
                   WEFT__STACK_BYTES_MIN == (size_t)1 << WEFT__STACK_BITS_MIN,
               "the classes go from the smallest size to the biggest");

/* One mapping of several slots. A stack that has a mapping to itself has no such record. */
typedef struct weft__stack_chunk {
    weft__list link; /* in its class, in the order of mapping */
    char *memory;    /* the mapping: `slots` times the stride of the class */
    size_t slots;
    size_t carved;    /* of these, guarded and given to the cache so far */
    size_t protected; /* guards made by mprotect */
} weft__stack_chunk;

void weft__stack_pool_init(weft__stack_pool *pool)
{
    *pool = (weft__stack_pool){0};
    /* Less than four pages would be no stack. */
    while (weft__stack_class_bytes(pool->index_min) < 4 * weft__page_bytes())
        pool->index_min++;
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        weft__list_init(&class->chunks);
        class->sample_every = weft__stack_class_is_alone(i) ? 1 : WEFT__STACK_SAMPLE_EVERY_FIRST;
        class->until_sample = class->look_span = class->until_look = class->sample_every;
    }
}

static void chunk_unmap(weft__stack_chunk *chunk, unsigned index)
{
    weft__list_remove(&chunk->link);
    munmap(chunk->memory, chunk->slots * weft__stack_class_stride(index));
    weft__guard_forget(chunk->protected);
    free(chunk);
}

/* The same for a stack that has a mapping to itself. */
static void stack_unmap(const weft__stack *stack)
{
    munmap(stack->low - weft__stack_guard_bytes(), weft__stack_class_stride(stack->index));
    weft__guard_forget(stack->is_protected);
}

void weft__stack_pool_close(weft__stack_pool *pool)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        for (size_t j = 0; weft__stack_class_is_alone(i) && j < class->count; j++)
            stack_unmap(&class->cache[j]);
        while (!weft__list_is_empty(&class->chunks))
            chunk_unmap(CONTAINER_OF(class->chunks.next, weft__stack_chunk, link), i);
        free(class->cache);
    }
    weft__stack_pool_init(pool);
}

/* Room in the cache for every slot that exists, so that a release never needs memory. */
static bool cache_reserve(weft__stack_class *class, size_t slots)
{
    if (slots <= class->capacity)
        return true;
    size_t capacity = class->capacity * 2 > slots ? class->capacity * 2 : slots;
    weft__stack *cache = realloc(class->cache, capacity * sizeof *cache);
    if (cache == NULL)
        return false;
    class->cache = cache;
    class->capacity = capacity;
    return true;
}

/* Memory for so many slots of the class, and room for them in its cache. NULL: there is none. */
static char *map_slots(weft__stack_class *class, unsigned index, size_t slots)
{
    if (!cache_reserve(class, class->slots + slots))
        return NULL;
    size_t bytes = slots * weft__stack_class_stride(index);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    /* A huge page under a top would cost a fiber 2 MiB. Fails where there are none: as good. */
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    class->slots += slots;
    return memory;
}

static weft__stack_chunk *chunk_map(weft__stack_class *class, unsigned index, size_t slots)
{
    weft__stack_chunk *chunk = malloc(sizeof *chunk);
    char *memory = chunk != NULL ? map_slots(class, index, slots) : NULL;
    if (memory == NULL) {
        free(chunk);
        return NULL;
    }
    *chunk = (weft__stack_chunk){.memory = memory, .slots = slots};
    weft__list_insert(&class->chunks, &chunk->link);
    return chunk;
}

/* As many slots as the class has already, within bounds: sizes double. */
static size_t chunk_slots(const weft__stack_class *class, unsigned index)
{
    size_t max = WEFT__STACK_CHUNK_BYTES_MAX / weft__stack_class_bytes(index);
    if (max > WEFT__STACK_CHUNK_SLOTS_MAX)
        max = WEFT__STACK_CHUNK_SLOTS_MAX;
    size_t slots = class->slots;
    if (slots < WEFT__STACK_CHUNK_SLOTS_MIN)
        slots = WEFT__STACK_CHUNK_SLOTS_MIN;
    return slots < max ? slots : max;
}

static weft__stack_chunk *chunk_get(weft__stack_pool *pool, unsigned index)
{
    weft__stack_class *class = &pool->classes[index];
    weft__stack_chunk *chunk = CONTAINER_OF(class->chunks.prev, weft__stack_chunk, link);
    if (!weft__list_is_empty(&class->chunks) && chunk->carved < chunk->slots)
        return chunk;
    for (size_t slots = chunk_slots(class, index); slots != 0; slots /= 2) {
        chunk = chunk_map(class, index, slots);
        if (chunk != NULL)
            return chunk;
    }
    weft__stack_trim(pool, 0);
    return chunk_map(class, index, 1);
}

/* Guard the slots that begin there, and put them into the cache of the class, which is empty. */
static weft__guard_result carve(weft__stack_pool *pool, unsigned index, char *from, size_t count)
{
    weft__stack_class *class = &pool->classes[index];
    size_t guard = weft__stack_guard_bytes(), stride = weft__stack_class_stride(index);
    struct iovec guards[WEFT__STACK_BATCH];
    for (size_t i = 0; i < count; i++)
        guards[i] = (struct iovec){from + i * stride, guard};
    weft__guard_result result = weft__guard_install(guards, count);
    for (size_t i = 0; i < count; i++) {
        size_t colour = i % WEFT__STACK_COLOURS * WEFT__STACK_COLOUR_BYTES;
        /* Backwards: the lowest is taken first, and neighbours share page tables. */
        class->cache[count - 1 - i] = (weft__stack){
            .low = (char *)guards[i].iov_base + guard,
            .bytes = (uint32_t)(stride - guard - colour),
            .index = (uint8_t)index,
            .is_unguarded = result.unguarded >> i & 1,
            .is_protected = result.protected > 0,
        };
        pool->unguarded += result.unguarded >> i & 1;
    }
    class->count = class->cold = count;
    class->mapped += count;
    pool->mapped += count;
    pool->cached += count;
    return result;
}

/* Get the top pages of what is in the cache of the class, all of which is new. */
static void populate(const weft__stack_class *class)
{
    size_t page = weft__page_bytes();
    struct iovec tops[WEFT__STACK_BATCH];
    for (size_t i = 0; i < class->count; i++)
        tops[i] = (struct iovec){weft__slot_end(&class->cache[i]) - page, page};
    weft__pages_populate(tops, class->count);
}

/* Make the next few slots of a chunk. */
static void chunk_carve(weft__stack_pool *pool, weft__stack_chunk *chunk, unsigned index)
{
    size_t left = chunk->slots - chunk->carved;
    size_t count = left < WEFT__STACK_BATCH ? left : WEFT__STACK_BATCH;
    char *from = chunk->memory + chunk->carved * weft__stack_class_stride(index);
    chunk->protected += carve(pool, index, from, count).protected;
    chunk->carved += count;
    if (pool->classes[index].mapped > WEFT__STACK_POPULATE_FROM)
        populate(&pool->classes[index]);
}

/* A stack with a mapping to itself. */
static int fill_alone(weft__stack_pool *pool, unsigned index)
{
    char *memory = map_slots(&pool->classes[index], index, 1);
    if (memory == NULL) {
        weft__stack_trim(pool, 0);
        memory = map_slots(&pool->classes[index], index, 1);
    }
    if (memory == NULL)
        return -ENOMEM;
    carve(pool, index, memory, 1);
    return 0;
}

COLD int weft__stack_fill(weft__stack_pool *pool, unsigned index)
{
    if (weft__stack_class_is_alone(index))
        return fill_alone(pool, index);
    weft__stack_chunk *chunk = chunk_get(pool, index);
    if (chunk == NULL)
        return -ENOMEM;
    chunk_carve(pool, chunk, index);
    return 0;
}

void weft__stack_class_unmap(weft__stack_pool *pool, unsigned index, size_t keep)
{
    weft__stack_class *class = &pool->classes[index];
    size_t excess = class->count > keep ? class->count - keep : 0, kept = 0;
    for (size_t i = 0; i < class->count; i++) {
        weft__stack stack = class->cache[i];
        if (i >= excess || weft__slot_holds(&stack, __builtin_frame_address(0))) {
            class->cache[kept++] = stack;
            continue;
        }
        pool->unguarded -= stack.is_unguarded;
        stack_unmap(&stack);
    }
    size_t gone = class->count - kept;
    class->count = kept;
    class->cold = class->cold > gone ? class->cold - gone : 0;
    class->slots -= gone;
    class->mapped -= gone;
    pool->mapped -= gone;
    pool->cached -= gone;
}

bool weft__stack_guards(const weft__stack *stack, const void *address)
{
    if (stack->low == NULL || stack->is_unguarded)
        return false;
    const char *at = address;
    return at >= stack->low - weft__stack_guard_bytes() && at < stack->low;
}
