/*
 * What stack.c and stack_pages.c share: where a slot ends, and the classes of sizes.
 *
 * A cached stack may be the running one, if a fiber has released its own stack and has not switched
 * away yet. Code that empties or unmaps a slot first checks where its own frame is.
 */
#ifndef WEFT_CORE_STACK_PARTS_H
#define WEFT_CORE_STACK_PARTS_H

#include "core/stack.h"

#include <unistd.h>

/* Slot ends are multiples of the page size, and pages are multiples of this on every system. */
#define WEFT__SLOT_ALIGN_BYTES ((uintptr_t)4096)

static inline size_t weft__page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t weft__stack_class_bytes(unsigned index)
{
    return WEFT__STACK_BYTES_MIN << index;
}

/*
 * From one slot to the next: with its guard an odd number of pages. At a power of two, all tops
 * would share the same few sets of the second cache, and of the table of pages.
 */
static inline size_t weft__stack_class_stride(unsigned index)
{
    return weft__stack_class_bytes(index) + weft__stack_guard_bytes();
}

static inline bool weft__stack_class_is_alone(unsigned index)
{
    return weft__stack_class_bytes(index) > WEFT__STACK_ALONE_BYTES;
}

static inline char *weft__slot_end(const weft__stack *stack)
{
    return (char *)(((uintptr_t)stack->low + stack->bytes + WEFT__SLOT_ALIGN_BYTES - 1) &
                    ~(WEFT__SLOT_ALIGN_BYTES - 1));
}

static inline bool weft__slot_holds(const weft__stack *stack, const char *address)
{
    return address >= stack->low && address < weft__slot_end(stack);
}

/* Unmap all free stacks except the `keep` warmest, of a class whose slots have a mapping each. */
void weft__stack_class_unmap(weft__stack_pool *pool, unsigned index, size_t keep);

#endif
