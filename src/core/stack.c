/*
 * The pool of stacks: mapping and carving chunks, giving pages back.
 *
 * Responsible for what is rare; the warm acquire and release are inline in stack.h. How guards are
 * made is guard.c's, what happens when one is hit overflow.c's.
 *
 * A cached stack may be the running one, if a fiber released its own and has not switched away
 * yet. So everything here that empties or unmaps a slot first looks where its own frame is.
 */
#include "core/stack.h"

#include "core/guard.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Slot ends are multiples of the page size, and pages are multiples of this on every system. */
#define ALIGN_BYTES ((uintptr_t)4096)

_Static_assert(WEFT__STACK_COLOURS *WEFT__STACK_COLOUR_BYTES <= ALIGN_BYTES,
               "slot_end relies on a colour being less than a page");
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

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t class_bytes(unsigned index)
{
    return WEFT__STACK_BYTES_MIN << index;
}

/*
 * From one slot to the next: with its guard an odd number of pages. At a power of two, all tops
 * would share the same few sets of the second cache, and of the table of pages.
 */
static size_t class_stride(unsigned index)
{
    return class_bytes(index) + weft__stack_guard_bytes();
}

static bool class_is_alone(unsigned index)
{
    return class_bytes(index) > WEFT__STACK_ALONE_BYTES;
}

static char *slot_end(const weft__stack *stack)
{
    return (char *)(((uintptr_t)stack->low + stack->bytes + ALIGN_BYTES - 1) & ~(ALIGN_BYTES - 1));
}

static bool slot_holds(const weft__stack *stack, const char *address)
{
    return address >= stack->low && address < slot_end(stack);
}

void weft__stack_pool_init(weft__stack_pool *pool)
{
    *pool = (weft__stack_pool){0};
    /* Less than four pages would be no stack. */
    while (class_bytes(pool->index_min) < 4 * page_bytes())
        pool->index_min++;
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        weft__list_init(&class->chunks);
        class->sample_every = class_is_alone(i) ? 1 : WEFT__STACK_SAMPLE_EVERY_FIRST;
        class->until_sample = class->look_span = class->until_look = class->sample_every;
    }
}

static void chunk_unmap(weft__stack_chunk *chunk, unsigned index)
{
    weft__list_remove(&chunk->link);
    munmap(chunk->memory, chunk->slots * class_stride(index));
    weft__guard_forget(chunk->protected);
    free(chunk);
}

/* The same for a stack that has a mapping to itself. */
static void stack_unmap(const weft__stack *stack)
{
    munmap(stack->low - weft__stack_guard_bytes(), class_stride(stack->index));
    weft__guard_forget(stack->is_protected);
}

void weft__stack_pool_close(weft__stack_pool *pool)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        for (size_t j = 0; class_is_alone(i) && j < class->count; j++)
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
    size_t bytes = slots * class_stride(index);
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
    size_t max = WEFT__STACK_CHUNK_BYTES_MAX / class_bytes(index);
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
    size_t guard = weft__stack_guard_bytes(), stride = class_stride(index);
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
    size_t page = page_bytes();
    struct iovec tops[WEFT__STACK_BATCH];
    for (size_t i = 0; i < class->count; i++)
        tops[i] = (struct iovec){slot_end(&class->cache[i]) - page, page};
    weft__pages_populate(tops, class->count);
}

/* Make the next few slots of a chunk. */
static void chunk_carve(weft__stack_pool *pool, weft__stack_chunk *chunk, unsigned index)
{
    size_t left = chunk->slots - chunk->carved;
    size_t count = left < WEFT__STACK_BATCH ? left : WEFT__STACK_BATCH;
    char *from = chunk->memory + chunk->carved * class_stride(index);
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
    if (class_is_alone(index))
        return fill_alone(pool, index);
    weft__stack_chunk *chunk = chunk_get(pool, index);
    if (chunk == NULL)
        return -ENOMEM;
    chunk_carve(pool, chunk, index);
    return 0;
}

/*
 * The memory of a slot but for `kept` bytes at its top, and but for what the running frame needs,
 * if it is in there. Empty (0 bytes) if nothing remains.
 */
static struct iovec slot_pages(const weft__stack *stack, size_t kept, const char *frame)
{
    uintptr_t low = (uintptr_t)stack->low, end = (uintptr_t)slot_end(stack) - kept;
    if (slot_holds(stack, frame)) {
        /* The calls from here down to the kernel take less than this. */
        uintptr_t below = ((uintptr_t)frame & ~(page_bytes() - 1)) - WEFT__STACK_TOP_BYTES;
        end = below < end ? below : end;
    }
    return (struct iovec){stack->low, end > low ? end - low : 0};
}

/* Stretches to give back, collected until a call is worth it. */
typedef struct page_batch {
    struct iovec pages[WEFT__STACK_BATCH];
    size_t count;
} page_batch;

static void batch_flush(page_batch *batch)
{
    weft__pages_give_back(batch->pages, batch->count);
    batch->count = 0;
}

static void batch_add(page_batch *batch, struct iovec pages)
{
    if (pages.iov_len == 0)
        return;
    batch->pages[batch->count++] = pages;
    if (batch->count == WEFT__STACK_BATCH)
        batch_flush(batch);
}

/* Empty the coldest warm stacks, until the first `cold` of the cache are. */
static void class_cool(weft__stack_class *class, size_t cold)
{
    page_batch batch = {.count = 0};
    for (; class->cold < cold; class->cold++) {
        weft__stack *stack = &class->cache[class->cold];
        batch_add(&batch, slot_pages(stack, 0, __builtin_frame_address(0)));
        stack->is_deep = false;
    }
    batch_flush(&batch);
}

/* Unmap all but the `keep` warmest of a class whose slots have a mapping each. */
static void class_unmap(weft__stack_pool *pool, unsigned index, size_t keep)
{
    weft__stack_class *class = &pool->classes[index];
    size_t excess = class->count > keep ? class->count - keep : 0, kept = 0;
    for (size_t i = 0; i < class->count; i++) {
        weft__stack stack = class->cache[i];
        if (i >= excess || slot_holds(&stack, __builtin_frame_address(0))) {
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

void weft__stack_trim(weft__stack_pool *pool, size_t keep)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        if (class_is_alone(i))
            class_unmap(pool, i, keep);
        if (class->count > keep)
            class_cool(class, class->count - keep);
    }
}

/* Mark a slot whose pages below the top part are there. Only a sparse use can escape. */
static bool slot_is_found_deep(weft__stack *stack)
{
    unsigned char resident[WEFT__STACK_SAMPLE_PAGES];
    size_t page = page_bytes(), span = WEFT__STACK_SAMPLE_PAGES * page;
    struct iovec deep = slot_pages(stack, WEFT__STACK_TOP_BYTES, NULL);
    size_t bytes = deep.iov_len < span ? deep.iov_len : span;
    char *from = (char *)deep.iov_base + (deep.iov_len - bytes);
    if (stack->is_deep || bytes == 0 || mincore(from, bytes, resident) < 0)
        return false;
    for (size_t i = 0; i < bytes / page; i++)
        stack->is_deep |= resident[i] & 1;
    return stack->is_deep;
}

/* Empty the lower parts of the deep stacks in the cache, but for a few of the warmest. */
static void class_sweep(weft__stack_class *class, size_t spared)
{
    page_batch batch = {.count = 0};
    for (size_t i = class->count; i-- > class->cold;) {
        weft__stack *stack = &class->cache[i];
        if (!stack->is_deep || (spared != 0 && spared--))
            continue;
        batch_add(&batch, slot_pages(stack, WEFT__STACK_TOP_BYTES, __builtin_frame_address(0)));
        stack->is_deep = false;
    }
    batch_flush(&batch);
    class->deep_found = 0;
}

/* Examine the stack that was just released, and learn from it how often to. */
static void class_sample(weft__stack_class *class, unsigned index)
{
    if (slot_is_found_deep(&class->cache[class->count - 1])) {
        size_t max = WEFT__STACK_DEEP_BYTES_MAX / class_bytes(index);
        class->sample_every = 1;
        if (++class->deep_found >= max)
            class_sweep(class, max / 2);
    } else if (class->sample_every < WEFT__STACK_SAMPLE_EVERY_MAX && !class_is_alone(index)) {
        class->sample_every *= 2;
    }
    class->until_sample = class->sample_every;
}

/*
 * Warm stacks that a class may have beyond those it has: the more of both limits. Negative: fewer.
 */
static ptrdiff_t class_room(const weft__stack_class *class, size_t min, size_t part)
{
    size_t max = class->mapped / part > min ? class->mapped / part : min;
    return (ptrdiff_t)max - (ptrdiff_t)(class->count - class->cold);
}

static ptrdiff_t class_calm_room(const weft__stack_class *class)
{
    return class_room(class, WEFT__STACK_WARM_MIN, WEFT__STACK_WARM_PART);
}

/* Two batches at once: it catches up in small stops. */
static void class_cool_some(weft__stack_class *class)
{
    class_cool(class, class->cold + 2 * WEFT__STACK_BATCH);
}

/* See to stacks that are warm beyond the limits. Returns how many more may get warm. */
static size_t class_relieve(weft__stack_pool *pool, unsigned index)
{
    weft__stack_class *class = &pool->classes[index];
    ptrdiff_t room = class_calm_room(class);
    if (room > 0)
        return (size_t)room;
    pool->excess |= 1u << index;
    room = class_room(class, WEFT__STACK_WARM_BUSY_MIN, WEFT__STACK_WARM_BUSY_PART);
    if (room > 0)
        return (size_t)room;
    class_cool_some(class);
    return WEFT__STACK_BATCH;
}

void weft__stack_relieve(weft__stack_pool *pool)
{
    unsigned index = (unsigned)__builtin_ctz(pool->excess);
    if (class_calm_room(&pool->classes[index]) < 0)
        class_cool_some(&pool->classes[index]);
    else
        pool->excess &= ~(1u << index);
}

/* How many unused free stacks of a class keep their pages. */
static size_t class_rest(unsigned index)
{
    return class_is_alone(index) ? 0 : WEFT__STACK_WARM_REST;
}

void weft__stack_rest_begin(weft__stack_pool *pool)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        size_t rest = class_rest(i);
        class->to_cool = class->unused > rest ? class->unused - rest : 0;
        class->unused = class->count;
    }
}

/* Empty the lower parts of the stacks that stay warm: they may be deep. */
static void class_shorten(weft__stack_class *class)
{
    weft__stack *stacks[WEFT__STACK_WARM_REST];
    size_t count = 0;
    for (size_t i = class->cold; i < class->count && count < WEFT__STACK_WARM_REST; i++)
        stacks[count++] = &class->cache[i];
    weft__stack_shorten(stacks, count);
}

bool weft__stack_rest(weft__stack_pool *pool)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        size_t to_cool = class->to_cool < class->count ? class->to_cool : class->count;
        if (class->cold >= to_cool)
            continue;
        size_t some = class->cold + 2 * WEFT__STACK_BATCH;
        class_cool(class, some < to_cool ? some : to_cool);
        if (class->cold == to_cool)
            class_shorten(class);
        return true;
    }
    return false;
}

static bool class_is_rich(const weft__stack_class *class, unsigned index)
{
    return class->count - class->cold > class_rest(index);
}

void weft__stack_look_rich(weft__stack_pool *pool)
{
    pool->is_rich = false;
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++)
        pool->is_rich |= class_is_rich(&pool->classes[i], i);
}

void weft__stack_shorten(weft__stack *const *stacks, size_t count)
{
    page_batch batch = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        const char *frame = __builtin_frame_address(0);
        batch_add(&batch, slot_pages(stacks[i], WEFT__STACK_TOP_BYTES, frame));
        stacks[i]->is_deep = false;
    }
    batch_flush(&batch);
}

COLD void weft__stack_look(weft__stack_pool *pool, unsigned index)
{
    weft__stack_class *class = &pool->classes[index];
    class->until_sample -= class->look_span;
    if (class->until_sample == 0)
        class_sample(class, index);
    if (class_is_alone(index))
        class_unmap(pool, index, WEFT__STACK_ALONE_CACHED);
    pool->is_rich |= class_is_rich(class, index);
    size_t room = class_relieve(pool, index);
    if (room < WEFT__STACK_BATCH)
        room = WEFT__STACK_BATCH;
    /* Not later than the next sample, nor than there could be too many warm ones. */
    class->look_span = class->until_sample < room ? class->until_sample : room;
    class->until_look = class->look_span;
}

size_t weft__stack_used(const weft__stack *stack)
{
    unsigned char resident[256];
    size_t page = page_bytes();
    const char *end = slot_end(stack);
    for (char *low = stack->low; low < end;) {
        size_t bytes = (size_t)(end - low);
        if (bytes > sizeof resident * page)
            bytes = sizeof resident * page;
        if (mincore(low, bytes, resident) < 0)
            return 0;
        for (size_t i = 0; i < bytes / page; i++, low += page) {
            size_t used = (size_t)(end - low);
            if (resident[i] & 1)
                return used < stack->bytes ? used : stack->bytes;
        }
    }
    return 0;
}

/* What a function may use below its stack pointer (the red zone), and the calls made here. */
#define BELOW_BYTES ((uintptr_t)256)

void weft__stack_trim_below(const weft__stack *stack, const void *sp)
{
    uintptr_t end = ((uintptr_t)sp - BELOW_BYTES) & ~((uintptr_t)page_bytes() - 1);
    if (end > (uintptr_t)stack->low)
        madvise(stack->low, end - (uintptr_t)stack->low, MADV_DONTNEED);
}

bool weft__stack_guards(const weft__stack *stack, const void *address)
{
    if (stack->low == NULL || stack->is_unguarded)
        return false;
    const char *at = address;
    return at >= stack->low - weft__stack_guard_bytes() && at < stack->low;
}
