/* The layout of weft's data, for debuggers. See layout.h. */
#include "core/debug/layout.h"

#include "core/cord/handle.h"
#include "core/lifetime/scope.h"

/* 0, checked at compile time: the name fits. */
#define FITS(name) (0 * sizeof(char[sizeof(name) <= WEFT__LAYOUT_NAME_BYTES ? 1 : -1]))

/* The members of a fact: the offset of a field, under the name "TYPE.FIELD". */
#define AT(type, field) \
#type "." #field, (uint32_t)(offsetof(weft__##type, field) + FITS(#type "." #field))

#ifdef WEFT_UCONTEXT
#define SWITCH_BEGIN NULL
#define SWITCH_END NULL
#else
#define SWITCH_BEGIN weft__context_swap
#define SWITCH_END weft__frame_call
#endif

/*
 * A linker that removes unused data must keep the table. registry.c refers to it, so that programs
 * with the static library contain it. The section has a name that survives strip(1).
 */
#if __has_attribute(retain)
#define KEPT __attribute__((used, retain, section("weft_debug_layout")))
#else
#define KEPT __attribute__((used, section("weft_debug_layout")))
#endif

KEPT const weft__layout weft__debug_layout = {
    .magic = "weft layout",
    .version = WEFT__LAYOUT_VERSION,
    .fact_bytes = sizeof(weft__layout_fact),
    .register_bytes = sizeof(weft__saved_register),
    .facts_at = offsetof(weft__layout, facts),
    .registers_at = offsetof(weft__layout, registers),
    .facts_max = WEFT__LAYOUT_FACTS_MAX,
    .registry = &weft__registry_view_here,
    .switch_begin = (const void *)SWITCH_BEGIN,
    .switch_end = (const void *)SWITCH_END,
    .registers =
        {
#define SAVED(name, at, is_value) {name, at, is_value},
            WEFT__SAVED_REGISTERS(SAVED)
#undef SAVED
        },
    .facts =
        {
            {"id.fibers_bits", WEFT__FIBERS_BITS},
            {"id.cords_bits", WEFT__CORDS_BITS},
            {"chunk.fibers", WEFT__CHUNK_FIBERS},
            {"phase.free", WEFT__FREE},
            {"phase.fresh", WEFT__FRESH},
            {"phase.ended", WEFT__ENDED},
            {"name.bytes", WEFT__NAME_BYTES},

            {AT(cord, current)},
            {AT(cord, main)},
            {AT(cord, backend)},
            {AT(cord, now_ns)},
            {AT(cord, chunks)},
            {AT(cord, chunks_count)},
            {AT(cord, is_asleep)},
            {AT(cord, handle)},
            {AT(cord_handle, name)},
            {AT(backend, type)},
            {AT(backend, thread)},
            {AT(backend_type, name)},
            {AT(backend_type, inherit_clock)},

            {"fiber.bytes", sizeof(weft__fiber)},
            {AT(fiber, context.sp)},
            {AT(fiber, switches)},
            {AT(fiber, queued.queue_index)},
            {AT(fiber, phase)},
            {AT(fiber, wake_flags)},
            {AT(fiber, live)},
            {AT(fiber, waits_in)},
            {AT(fiber, wait_object)},
            {AT(fiber, wait_since_ns)},
            {AT(fiber, id)},
            {AT(fiber, fn)},
            {AT(fiber, stack.low)},
            {AT(fiber, stack.bytes)},
            {AT(fiber, result)},
            {AT(fiber, parent)},
            {AT(fiber, owner_generation)},
            {AT(fiber, name)},
            {AT(fiber_live, timer)},
            {AT(fiber_live, deadline)},
            {AT(timer, link.next)},
            {AT(timer, deadline_ns)},

            {AT(wait_kind, name)},
            {AT(wait_kind, is_for_fiber)},
            {AT(wait_kind, fd_at)},
            {AT(wait_kind, owner_at)},
            {AT(wait_kind, owner_generation_at)},

            {AT(scope, outer)},
            {AT(scope, fiber)},
            {AT(scope, deadline_ns)},
            {AT(scope, is_cancelled)},
            {AT(scope, is_shield)},
        },
};
