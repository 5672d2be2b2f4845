/*
 * The sources of names for code addresses: libdw, and the symbol tables of ELF files.
 *
 * The functions are called with the lock of symbol.c held.
 */
#ifndef WEFT_CORE_INSPECT_SYMBOL_H
#define WEFT_CORE_INSPECT_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The module that contains an address. */
typedef struct weft__module {
    uintptr_t base;     /* the difference between addresses in memory and in the file */
    char path[4096];    /* of the file */
    uint64_t loads;     /* changes when a module is loaded or unloaded */
    bool is_executable; /* the address is in a segment with code */
} weft__module;

/* Find the module of an address. Return false if no module contains the address. */
bool weft__module_find(uintptr_t address, weft__module *out);

/* A name as a source returns it. The strings are valid until the next call. */
typedef struct weft__symbol_name {
    const char *function; /* NULL: not known */
    const char *file;     /* NULL: not known */
    unsigned line;        /* 0: not known */
} weft__symbol_name;

/*
 * Look up an address with libdw. The first call loads libdw. `loads` is weft__module.loads. Return
 * false if libdw is not installed or does not know the address.
 */
bool weft__dwfl_find(uintptr_t address, uint64_t loads, weft__symbol_name *out);

/* Close the files that libdw has opened. The next lookup opens them again. */
void weft__dwfl_close(void);

/* Forget the state of libdw in a child of fork(2), because another thread may have changed it. */
void weft__dwfl_after_fork(void);

/* Look up an address in the symbol table of its file. Copy the name to buffer. */
bool weft__elf_find(const weft__module *module, uintptr_t address, char *buffer, size_t bytes);

/* Close the files that lookups have opened. Call this function after a report. */
void weft__symbols_close(void);

/* Reset the lock of symbols in a child of fork(2). */
void weft__symbols_after_fork(void);

#endif
