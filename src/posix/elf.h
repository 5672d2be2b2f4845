/*
 * The loaded modules of the process, and their import slots. An import slot is a word of memory
 * that the dynamic loader has set to the address of a function of another module.
 */
#ifndef WEFT_POSIX_ELF_H
#define WEFT_POSIX_ELF_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A table of relocations. */
typedef struct weft__elf_relocs {
    const ElfW(Rela) * first;
    size_t count;
} weft__elf_relocs;

/* A loaded module. All pointers are valid while the module is loaded. */
typedef struct weft__elf_module {
    const char *path;   /* "" for the program */
    const char *soname; /* NULL: none */
    uintptr_t base;
    const ElfW(Dyn) * dynamic;
    const char *strings;
    const ElfW(Sym) * symbols;
    weft__elf_relocs calls, data;    /* DT_JMPREL, DT_RELA */
    uintptr_t low, high;             /* the addresses of the module */
    uintptr_t relro_low, relro_high; /* read-only after relocation; 0: none */
    const ElfW(Phdr) * headers;
    size_t headers_count;
} weft__elf_module;

/* Call fn for every loaded module. Stop when fn returns a value other than 0, and return it. */
int weft__elf_each_module(int (*fn)(const weft__elf_module *m, void *context), void *context);

/* Call fn. Other threads cannot unload modules meanwhile. */
void weft__elf_hold_modules(void (*fn)(void *context), void *context);

/* Call fn for every import slot that holds the address of a function. */
void weft__elf_each_slot(const weft__elf_module *m,
                         void (*fn)(void *context, const char *symbol, void **slot), void *context);

/*
 * Call fn for every function of other modules whose address, in all modules, is a stub in this
 * program. A shared library has no such stubs.
 */
void weft__elf_each_stub(const weft__elf_module *m,
                         void (*fn)(void *context, const char *symbol, void *address),
                         void *context);

/* Call fn for the name of every library that the module needs. */
void weft__elf_each_needed(const weft__elf_module *m, void (*fn)(void *context, const char *name),
                           void *context);

/*
 * Return whether name is the file name, the path or the soname of the module. The file name or the
 * soname may have a version that name lacks.
 */
bool weft__elf_is_called(const weft__elf_module *m, const char *name);

/* Return the file name of the module, without folders. */
const char *weft__elf_file_name(const weft__elf_module *m);

/* Return whether the address is in the module. */
bool weft__elf_contains(const weft__elf_module *m, const void *address);

/*
 * Set an import slot, even if its page is read-only. Returns 0, or -errno if the page cannot be
 * made writable.
 */
int weft__elf_slot_set(const weft__elf_module *m, void **slot, void *value);

#endif
