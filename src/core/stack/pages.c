/*
 * The pages of free stacks: which ones stay warm, and when the others go back to the kernel.
 */
#include "core/guard.h"
#include "core/stack_parts.h"

#include <sys/mman.h>

/*
 * The memory of a slot except `kept` bytes at its top, and except what the running frame needs,
 * if it is in there. Empty (0 bytes) if nothing remains.
 */
static struct iovec slot_pages(const weft__stack *stack, size_t kept, const char *frame)
{
    uintptr_t low = (uintptr_t)stack->low, end = (uintptr_t)weft__slot_end(stack) - kept;
    if (weft__slot_holds(stack, frame)) {
        /* The calls from here down to the kernel take less than this. */
        uintptr_t below = ((uintptr_t)frame & ~(weft__page_bytes() - 1)) - WEFT__STACK_TOP_BYTES;
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

void weft__stack_trim(weft__stack_pool *pool, size_t keep)
{
    for (unsigned i = 0; i < WEFT__STACK_CLASSES; i++) {
        weft__stack_class *class = &pool->classes[i];
        if (weft__stack_class_is_alone(i))
            weft__stack_class_unmap(pool, i, keep);
        if (class->count > keep)
            class_cool(class, class->count - keep);
    }
}

/* Mark a slot whose pages below the top part are there. Only a sparse use can escape. */
static bool slot_is_found_deep(weft__stack *stack)
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

/* Empty the lower parts of the deep stacks in the cache, except a few of the warmest. */
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
        size_t max = WEFT__STACK_DEEP_BYTES_MAX / weft__stack_class_bytes(index);
        class->sample_every = 1;
        if (++class->deep_found >= max)
            class_sweep(class, max / 2);
    } else if (class->sample_every < WEFT__STACK_SAMPLE_EVERY_MAX &&
               !weft__stack_class_is_alone(index)) {
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
    return weft__stack_class_is_alone(index) ? 0 : WEFT__STACK_WARM_REST;
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
    if (weft__stack_class_is_alone(index))
        weft__stack_class_unmap(pool, index, WEFT__STACK_ALONE_CACHED);
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

/* What a function may use below its stack pointer (the red zone), and the calls made here. */
#define BELOW_BYTES ((uintptr_t)256)

void weft__stack_trim_below(const weft__stack *stack, const void *sp)
{
    uintptr_t end = ((uintptr_t)sp - BELOW_BYTES) & ~((uintptr_t)weft__page_bytes() - 1);
    if (end > (uintptr_t)stack->low)
        madvise(stack->low, end - (uintptr_t)stack->low, MADV_DONTNEED);
}
