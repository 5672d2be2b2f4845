/*
 * The layout of weft's data, for debuggers. A debugger finds the table by its symbol or by its
 * section, and needs no other information about weft. The table therefore works in stripped
 * libraries, in core files, and with every build option.
 *
 * The table has no readers in C. packages/gdb/weft-gdb.py reads it (docs/adr/0072).
 */
#ifndef WEFT_CORE_DEBUG_LAYOUT_H
#define WEFT_CORE_DEBUG_LAYOUT_H

#include "arch/saved_registers.h"
#include "base/compiler.h"
#include "core/cord/registry.h"

/* The version of struct weft__layout. New facts do not change the version. */
#define WEFT__LAYOUT_VERSION 1

#define WEFT__LAYOUT_NAME_BYTES 36

/* One number by name, for example the offset of a field. */
typedef struct weft__layout_fact {
    char name[WEFT__LAYOUT_NAME_BYTES]; /* "": the end of the table */
    uint32_t value;
} weft__layout_fact;

#define WEFT__LAYOUT_FACTS_MAX 64

typedef struct weft__layout {
    char magic[16]; /* "weft layout" */
    uint32_t version;
    uint32_t fact_bytes;
    uint32_t register_bytes;
    uint32_t facts_at;     /* the offset of facts */
    uint32_t registers_at; /* the offset of registers */
    uint32_t facts_max;
    const weft__registry_view *registry;
    const void *switch_begin, *switch_end; /* the code that replaces the stack pointer */
    weft__saved_register registers[WEFT__SAVED_REGISTERS_MAX];
    weft__layout_fact facts[WEFT__LAYOUT_FACTS_MAX];
} weft__layout;

extern FOR_POSIX const weft__layout weft__debug_layout;

#endif
