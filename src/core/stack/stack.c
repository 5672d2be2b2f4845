/*
 * The stack cache: map chunks of slots, carve stacks from chunks, unmap chunks.
 *
 * The fast paths of acquire and release are inline functions in stack.h. pages.c discards pages of
 * free stacks. guard.c installs guards, and overflow.c reports faults in guards.
 */
#include "core/stack/guard.h"
#include "core/stack/internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(WEFT__STACK_COLOURS *WEFT__STACK_COLOUR_BYTES <= WEFT__SLOT_ALIGN_BYTES,
               "weft__slot_end requires colours below one page");
_Static_assert(WEFT__STACK_BATCH <= 64, "weft__guard_result has 64 bits");
_Static_assert(WEFT__STACK_BYTES_MIN << (WEFT__STACK_CLASSES - 1) == WEFT__STACK_BYTES_MAX &&
                   WEFT__STACK_BYTES_MIN == (size_t)1 << WEFT__STACK_BITS_MIN,
               "the classes cover all sizes");

/* One mapping with several slots. A large stack has its own mapping and no chunk. */
typedef struct weft__stack_chunk {
    weft__list link;  /* in the class, in the order of mapping */
    char *memory;     /* the mapping; its size is `slots` times the stride of the class */
    size_t slots;     /* slots in the mapping */
    size_t carved;    /* slots that have a guard and were added to the cache */
    size_t protected; /* guards made by mprotect */
} weft__stack_chunk;

void weft__stack_cache_init(weft__stack_cache *cache)
{
    *cache = (weft__stack_cache){0};
    /* A stack has at least four pages. */
    while (weft__stack_class_bytes(cache->index_min) < 4 * weft__page_bytes())
        cache->index_min++;
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &cache->classes[i];
        weft__list_init(&class->chunks);
        class->sample_every = weft__stack_class_is_large(i) ? 1 : WEFT__STACK_SAMPLE_EVERY_FIRST;
        class->until_sample = class->slow_interval = class->until_slow = class->sample_every;
    }
}

static void chunk_unmap(weft__stack_chunk *chunk, unsigned index)
{
    weft__list_remove(&chunk->link);
    munmap(chunk->memory, chunk->slots * weft__stack_class_stride(index));
    weft__guard_forget(chunk->protected);
    free(chunk);
}

static void large_stack_unmap(const weft__stack *stack)
{
    munmap(stack->low - weft__stack_guard_bytes(), weft__stack_class_stride(stack->index));
    weft__guard_forget(stack->is_protected);
}

void weft__stack_cache_close(weft__stack_cache *cache)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &cache->classes[i];
        for (size_t j = 0; weft__stack_class_is_large(i) && j < class->count; j++)
            large_stack_unmap(&class->cache[j]);
        while (!weft__list_is_empty(&class->chunks))
            chunk_unmap(CONTAINER_OF(class->chunks.next, weft__stack_chunk, link), i);
        free(class->cache);
    }
    weft__stack_cache_init(cache);
}

/* Grow the cache to the number of slots. A release then never allocates. */
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

/*
 * Map slots of a class, and grow the cache of the class for these slots. Return NULL if memory is
 * exhausted.
 */
static char *map_slots(weft__stack_class *class, unsigned index, size_t slots)
{
    if (!cache_reserve(class, class->slots + slots))
        return NULL;
    size_t bytes = slots * weft__stack_class_stride(index);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    /*
     * With huge pages, each fiber would use 2 MiB. The call fails if the kernel does not support
     * huge pages.
     */
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

/* Return the number of slots of the next chunk. Each chunk doubles the total number of slots. */
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

static weft__stack_chunk *chunk_get(weft__stack_cache *cache, unsigned index)
{
    weft__stack_class *class = &cache->classes[index];
    weft__stack_chunk *chunk = CONTAINER_OF(class->chunks.prev, weft__stack_chunk, link);
    if (!weft__list_is_empty(&class->chunks) && chunk->carved < chunk->slots)
        return chunk;
    for (size_t slots = chunk_slots(class, index); slots != 0; slots /= 2) {
        chunk = chunk_map(class, index, slots);
        if (chunk != NULL)
            return chunk;
    }
    weft__stack_trim(cache, 0);
    return chunk_map(class, index, 1);
}

/*
 * Guard `count` slots, starting at `from`, and add them to the cache of the class. The cache must
 * be empty.
 */
static weft__guard_result slots_carve(weft__stack_cache *cache, unsigned index, char *from,
                                      size_t count)
{
    weft__stack_class *class = &cache->classes[index];
    size_t guard = weft__stack_guard_bytes(), stride = weft__stack_class_stride(index);
    struct iovec guards[WEFT__STACK_BATCH];
    for (size_t i = 0; i < count; i++)
        guards[i] = (struct iovec){from + i * stride, guard};
    weft__guard_result result = weft__guard_install(guards, count);
    for (size_t i = 0; i < count; i++) {
        size_t colour = i % WEFT__STACK_COLOURS * WEFT__STACK_COLOUR_BYTES;
        /*
         * Add in reverse order, so that the lowest slot is acquired first. Neighbours share page
         * tables.
         */
        class->cache[count - 1 - i] = (weft__stack){
            .low = (char *)guards[i].iov_base + guard,
            .bytes = (uint32_t)(stride - guard - colour),
            .index = (uint8_t)index,
            .is_unguarded = result.unguarded >> i & 1,
            .is_protected = result.protected > 0,
        };
        cache->unguarded += result.unguarded >> i & 1;
    }
    class->count = class->cold = count;
    class->mapped += count;
    cache->mapped += count;
    cache->mapped_bytes += count * stride;
    cache->cached += count;
    return result;
}

/* Populate the top pages of all stacks in the cache. The stacks must be new. */
static void slots_populate(const weft__stack_class *class)
{
    size_t page = weft__page_bytes();
    struct iovec tops[WEFT__STACK_BATCH];
    for (size_t i = 0; i < class->count; i++)
        tops[i] = (struct iovec){weft__slot_end(&class->cache[i]) - page, page};
    weft__pages_populate(tops, class->count);
}

/* Carve the next slots of a chunk, and add them to the cache. */
static void chunk_carve(weft__stack_cache *cache, weft__stack_chunk *chunk, unsigned index)
{
    size_t left = chunk->slots - chunk->carved;
    size_t count = left < WEFT__STACK_BATCH ? left : WEFT__STACK_BATCH;
    char *from = chunk->memory + chunk->carved * weft__stack_class_stride(index);
    chunk->protected += slots_carve(cache, index, from, count).protected;
    chunk->carved += count;
    if (cache->classes[index].mapped > WEFT__STACK_POPULATE_FROM)
        slots_populate(&cache->classes[index]);
}

/* Add one stack with its own mapping to the cache. */
static int class_fill_large(weft__stack_cache *cache, unsigned index)
{
    char *memory = map_slots(&cache->classes[index], index, 1);
    if (memory == NULL) {
        weft__stack_trim(cache, 0);
        memory = map_slots(&cache->classes[index], index, 1);
    }
    if (memory == NULL)
        return -ENOMEM;
    slots_carve(cache, index, memory, 1);
    return 0;
}

COLD int weft__stack_fill(weft__stack_cache *cache, unsigned index)
{
    if (weft__stack_class_is_large(index))
        return class_fill_large(cache, index);
    weft__stack_chunk *chunk = chunk_get(cache, index);
    if (chunk == NULL)
        return -ENOMEM;
    chunk_carve(cache, chunk, index);
    return 0;
}

void weft__stack_class_unmap(weft__stack_cache *cache, unsigned index, size_t keep)
{
    weft__stack_class *class = &cache->classes[index];
    size_t excess = class->count > keep ? class->count - keep : 0, kept = 0;
    for (size_t i = 0; i < class->count; i++) {
        weft__stack stack = class->cache[i];
        if (i >= excess || weft__slot_contains(&stack, __builtin_frame_address(0))) {
            class->cache[kept++] = stack;
            continue;
        }
        cache->unguarded -= stack.is_unguarded;
        large_stack_unmap(&stack);
    }
    size_t unmapped = class->count - kept;
    class->count = kept;
    class->cold = class->cold > unmapped ? class->cold - unmapped : 0;
    class->slots -= unmapped;
    class->mapped -= unmapped;
    cache->mapped -= unmapped;
    cache->mapped_bytes -= unmapped * weft__stack_class_stride(index);
    cache->cached -= unmapped;
}

bool weft__stack_guard_contains(const weft__stack *stack, const void *address)
{
    if (stack->low == NULL || stack->is_unguarded)
        return false;
    const char *byte = address;
    return byte >= stack->low - weft__stack_guard_bytes() && byte < stack->low;
}
