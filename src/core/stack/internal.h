/*
 * Slots and size classes, for stack.c and pages.c.
 *
 * A fiber can release its own stack before it switches away. Therefore the running stack can be in
 * the cache. Code that empties or unmaps a slot must check first whether its own frame is in the
 * slot.
 */
#ifndef WEFT_CORE_STACK_INTERNAL_H
#define WEFT_CORE_STACK_INTERNAL_H

#include "core/stack/stack.h"

#include <unistd.h>

/*
 * The alignment of the end of a slot. On every system, the page size is a multiple of this
 * alignment.
 */
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
 * Return the distance between two slots. The distance is an odd number of pages. If the distance
 * were a power of two, the tops of all stacks would share few sets of the L2 cache and of the TLB.
 */
static inline size_t weft__stack_class_stride(unsigned index)
{
    return weft__stack_class_bytes(index) + weft__stack_guard_bytes();
}

/* Return true if each stack of the class has its own mapping. */
static inline bool weft__stack_class_is_large(unsigned index)
{
    return weft__stack_class_bytes(index) > WEFT__STACK_LARGE_BYTES;
}

static inline char *weft__slot_end(const weft__stack *stack)
{
    return (char *)(((uintptr_t)stack->low + stack->bytes + WEFT__SLOT_ALIGN_BYTES - 1) &
                    ~(WEFT__SLOT_ALIGN_BYTES - 1));
}

static inline bool weft__slot_contains(const weft__stack *stack, const char *address)
{
    return address >= stack->low && address < weft__slot_end(stack);
}

/* Unmap the free stacks of a large class, except the `keep` most recently released stacks. */
void weft__stack_class_unmap(weft__stack_cache *cache, unsigned index, size_t keep);

#endif
