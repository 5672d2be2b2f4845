/* Modules whose calls must not be hooked. */
#ifndef WEFT_POSIX_MODULE_H
#define WEFT_POSIX_MODULE_H

#include "posix/elf.h"

/* Return whether the module is never adopted: weft, a part of libc, an allocator. */
bool weft__module_is_excluded(const weft__elf_module *m);

/* Return whether the module calls syscall(2), so that hooks cannot reach all of its calls. */
bool weft__module_makes_system_calls(const weft__elf_module *m);

#endif
