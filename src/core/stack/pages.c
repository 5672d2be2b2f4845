/*
 * The pages of free stacks. A free stack is warm while it keeps its pages, and cold after its pages
 * have been discarded.
 */
#include "core/stack/guard.h"
#include "core/stack/internal.h"

#include <sys/mman.h>

/*
 * Return the memory of a slot that can be discarded, without `kept` bytes at the top. If `frame` is
 * in the slot, exclude that frame, the frames above it, and the frames of its calls. The result may
 * have 0 bytes.
 */
static struct iovec slot_pages(const weft__stack *stack, size_t kept, const char *frame)
{
    uintptr_t low = (uintptr_t)stack->low, end = (uintptr_t)weft__slot_end(stack) - kept;
    if (weft__slot_contains(stack, frame)) {
        /* All calls from `frame` down to the system call need less than WEFT__STACK_TOP_BYTES. */
        uintptr_t below = ((uintptr_t)frame & ~(weft__page_bytes() - 1)) - WEFT__STACK_TOP_BYTES;
        end = below < end ? below : end;
    }
    return (struct iovec){stack->low, end > low ? end - low : 0};
}

/* Page ranges to discard with one call. */
typedef struct page_batch {
    struct iovec pages[WEFT__STACK_BATCH];
    size_t count;
} page_batch;

static void batch_flush(page_batch *batch)
{
    weft__pages_release(batch->pages, batch->count);
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

/*
 * Empty warm stacks, the least recently released first, until `cold` stacks in the cache are cold.
 */
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

void weft__stack_trim(weft__stack_cache *cache, size_t keep)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &cache->classes[i];
        if (weft__stack_class_is_large(i))
            weft__stack_class_unmap(cache, i, keep);
        if (class->count > keep)
            class_cool(class, class->count - keep);
    }
}

/*
 * If pages below the top part of a stack are resident, mark the stack as deep and return true. The
 * function inspects at most WEFT__STACK_SAMPLE_PAGES pages, and may miss others.
 */
static bool slot_mark_deep(weft__stack *stack)
{
    unsigned char resident[WEFT__STACK_SAMPLE_PAGES];
    size_t page = weft__page_bytes(), span = WEFT__STACK_SAMPLE_PAGES * page;
    struct iovec deep = slot_pages(stack, WEFT__STACK_TOP_BYTES, NULL);
    size_t bytes = deep.iov_len < span ? deep.iov_len : span;
    char *from = (char *)deep.iov_base + (deep.iov_len - bytes);
    if (stack->is_deep || bytes == 0 || mincore(from, bytes, resident) < 0)
        return false;
    for (size_t i = 0; i < bytes / page; i++)
        stack->is_deep |= resident[i] & 1;
    return stack->is_deep;
}

/*
 * Empty the deep stacks in the cache below their top parts, except the `spared` most recently
 * released deep stacks.
 */
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

/* Check whether the stack that was just released is deep. Adapt the interval between checks. */
static void class_sample(weft__stack_class *class, unsigned index)
{
    if (slot_mark_deep(&class->cache[class->count - 1])) {
        size_t max = WEFT__STACK_DEEP_BYTES_MAX / weft__stack_class_bytes(index);
        class->sample_every = 1;
        if (++class->deep_found >= max)
            class_sweep(class, max / 2);
    } else if (class->sample_every < WEFT__STACK_SAMPLE_EVERY_MAX &&
               !weft__stack_class_is_large(index)) {
        class->sample_every *= 2;
    }
    class->until_sample = class->sample_every;
}

/*
 * Return the number of further free stacks that may be warm in a class. The limit is min, or 1/part
 * of all stacks if that is more. The result is negative if the class exceeds the limit.
 */
static ptrdiff_t class_headroom(const weft__stack_class *class, size_t min, size_t part)
{
    size_t max = class->mapped / part > min ? class->mapped / part : min;
    return (ptrdiff_t)max - (ptrdiff_t)(class->count - class->cold);
}

static ptrdiff_t class_idle_headroom(const weft__stack_class *class)
{
    return class_headroom(class, WEFT__STACK_WARM_MIN, WEFT__STACK_WARM_PART);
}

/* Empty two batches of stacks. The step is small, so that the thread pauses only briefly. */
static void class_cool_some(weft__stack_class *class)
{
    class_cool(class, class->cold + 2 * WEFT__STACK_BATCH);
}

/*
 * If a class exceeds the limit of warm stacks, trim the class. Return the number of further stacks
 * that may become warm.
 */
static size_t class_trim_excess(weft__stack_cache *cache, unsigned index)
{
    weft__stack_class *class = &cache->classes[index];
    ptrdiff_t headroom = class_idle_headroom(class);
    if (headroom > 0)
        return (size_t)headroom;
    cache->excess |= 1u << index;
    headroom = class_headroom(class, WEFT__STACK_WARM_BUSY_MIN, WEFT__STACK_WARM_BUSY_PART);
    if (headroom > 0)
        return (size_t)headroom;
    class_cool_some(class);
    return WEFT__STACK_BATCH;
}

void weft__stack_trim_excess(weft__stack_cache *cache)
{
    unsigned index = (unsigned)__builtin_ctz(cache->excess);
    if (class_idle_headroom(&cache->classes[index]) < 0)
        class_cool_some(&cache->classes[index]);
    else
        cache->excess &= ~(1u << index);
}

/* Return the number of free stacks of a class that keep their pages after an unused period. */
static size_t class_warm_idle(unsigned index)
{
    return weft__stack_class_is_large(index) ? 0 : WEFT__STACK_WARM_IDLE;
}

void weft__stack_trim_begin(weft__stack_cache *cache)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &cache->classes[i];
        size_t warm_idle = class_warm_idle(i);
        class->to_cool = class->unused > warm_idle ? class->unused - warm_idle : 0;
        class->unused = class->count;
    }
}

/* Empty the stacks that remain warm below their top parts, because these stacks may be deep. */
static void class_trim_deep(weft__stack_class *class)
{
    weft__stack *stacks[WEFT__STACK_WARM_IDLE];
    size_t count = 0;
    for (size_t i = class->cold; i < class->count && count < WEFT__STACK_WARM_IDLE; i++)
        stacks[count++] = &class->cache[i];
    weft__stack_trim_deep(stacks, count);
}

bool weft__stack_trim_step(weft__stack_cache *cache)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &cache->classes[i];
        size_t to_cool = class->to_cool < class->count ? class->to_cool : class->count;
        if (class->cold >= to_cool)
            continue;
        size_t cold_next = class->cold + 2 * WEFT__STACK_BATCH;
        class_cool(class, cold_next < to_cool ? cold_next : to_cool);
        if (class->cold == to_cool)
            class_trim_deep(class);
        return true;
    }
    return false;
}

static bool class_can_trim(const weft__stack_class *class, unsigned index)
{
    return class->count - class->cold > class_warm_idle(index);
}

void weft__stack_update_can_trim(weft__stack_cache *cache)
{
    cache->can_trim = false;
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++)
        cache->can_trim |= class_can_trim(&cache->classes[i], i);
}

void weft__stack_trim_deep(weft__stack *const *stacks, size_t count)
{
    page_batch batch = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        const char *frame = __builtin_frame_address(0);
        batch_add(&batch, slot_pages(stacks[i], WEFT__STACK_TOP_BYTES, frame));
        stacks[i]->is_deep = false;
    }
    batch_flush(&batch);
}

COLD void weft__stack_release_slow(weft__stack_cache *cache, unsigned index)
{
    weft__stack_class *class = &cache->classes[index];
    class->until_sample -= class->slow_interval;
    if (class->until_sample == 0)
        class_sample(class, index);
    if (weft__stack_class_is_large(index))
        weft__stack_class_unmap(cache, index, WEFT__STACK_LARGE_CACHED);
    cache->can_trim |= class_can_trim(class, index);
    size_t headroom = class_trim_excess(cache, index);
    if (headroom < WEFT__STACK_BATCH)
        headroom = WEFT__STACK_BATCH;
    /* Run again at the next check, or when the class may exceed the limit of warm stacks. */
    class->slow_interval = class->until_sample < headroom ? class->until_sample : headroom;
    class->until_slow = class->slow_interval;
}

size_t weft__stack_used(const weft__stack *stack)
{
    unsigned char resident[256];
    size_t page = weft__page_bytes();
    const char *end = weft__slot_end(stack);
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

/* Bytes below sp that weft__stack_trim_below keeps, for the red zone and for its own calls. */
#define KEPT_BELOW_BYTES ((uintptr_t)256)

void weft__stack_trim_below(const weft__stack *stack, const void *sp)
{
    uintptr_t end = ((uintptr_t)sp - KEPT_BELOW_BYTES) & ~((uintptr_t)weft__page_bytes() - 1);
    if (end > (uintptr_t)stack->low)
        madvise(stack->low, end - (uintptr_t)stack->low, MADV_DONTNEED);
}
