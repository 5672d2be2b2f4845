/* Read the dynamic sections of loaded modules, see elf.h. */
#include "posix/elf.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The relocation types of import slots. */
#if defined(__x86_64__)
#define RELOC_CALL R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#define RELOC_WORD R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_CALL R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#define RELOC_WORD R_AARCH64_ABS64
#else
#error "libweft-posix does not know the relocations of this machine"
#endif

/* glibc has added the base to most addresses of a dynamic section, but not in the vdso. */
static uintptr_t dynamic_address(const weft__elf_module *m, const ElfW(Dyn) * d)
{
    return d->d_un.d_ptr < m->base ? m->base + d->d_un.d_ptr : d->d_un.d_ptr;
}

static void read_dynamic(weft__elf_module *m)
{
    size_t calls_bytes = 0, data_bytes = 0, soname = 0;
    bool has_soname = false;
    for (const ElfW(Dyn) *d = m->dynamic; d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_STRTAB:
            m->strings = (const char *)dynamic_address(m, d);
            break;
        case DT_SYMTAB:
            m->symbols = (const ElfW(Sym) *)dynamic_address(m, d);
            break;
        case DT_JMPREL:
            m->calls.first = (const ElfW(Rela) *)dynamic_address(m, d);
            break;
        case DT_PLTRELSZ:
            calls_bytes = d->d_un.d_val;
            break;
        case DT_RELA:
            m->data.first = (const ElfW(Rela) *)dynamic_address(m, d);
            break;
        case DT_RELASZ:
            data_bytes = d->d_un.d_val;
            break;
        case DT_SONAME:
            soname = d->d_un.d_val;
            has_soname = true;
            break;
        default:
            break;
        }
    }
    m->calls.count = m->calls.first != NULL ? calls_bytes / sizeof(ElfW(Rela)) : 0;
    m->data.count = m->data.first != NULL ? data_bytes / sizeof(ElfW(Rela)) : 0;
    m->soname = has_soname && m->strings != NULL ? m->strings + soname : NULL;
}

/* Read the program headers. Return false if the module has no dynamic section. */
static bool module_open(weft__elf_module *m, const struct dl_phdr_info *info)
{
    *m = (weft__elf_module){.path = info->dlpi_name,
                            .base = info->dlpi_addr,
                            .low = UINTPTR_MAX,
                            .headers = info->dlpi_phdr,
                            .headers_count = info->dlpi_phnum};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = m->base + header->p_vaddr, end = begin + header->p_memsz;
        if (header->p_type == PT_DYNAMIC) {
            m->dynamic = (const ElfW(Dyn) *)begin;
        } else if (header->p_type == PT_GNU_RELRO) {
            m->relro_low = begin;
            m->relro_high = end;
        } else if (header->p_type == PT_LOAD) {
            m->low = begin < m->low ? begin : m->low;
            m->high = end > m->high ? end : m->high;
        }
    }
    if (m->dynamic == NULL)
        return false;
    read_dynamic(m);
    return m->strings != NULL && m->symbols != NULL;
}

typedef struct each_module {
    int (*fn)(const weft__elf_module *m, void *context);
    void *context;
} each_module;

static int visit_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    const each_module *each = arg;
    weft__elf_module m;
    return module_open(&m, info) ? each->fn(&m, each->context) : 0;
}

int weft__elf_each_module(int (*fn)(const weft__elf_module *m, void *context), void *context)
{
    return dl_iterate_phdr(visit_module, &(each_module){fn, context});
}

static bool is_import(const ElfW(Rela) * r)
{
    unsigned type = ELF64_R_TYPE(r->r_info);
    bool is_word = type == RELOC_WORD && r->r_addend == 0;
    return ELF64_R_SYM(r->r_info) != 0 && (type == RELOC_CALL || type == RELOC_DATA || is_word);
}

/* The context of visit_once. */
typedef struct held_call {
    void (*fn)(void *context);
    void *context;
} held_call;

static int visit_once(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info;
    (void)size;
    const held_call *call = arg;
    call->fn(call->context);
    return 1;
}

/* dl_iterate_phdr holds a recursive lock, which dlclose takes too. */
void weft__elf_hold_modules(void (*fn)(void *context), void *context)
{
    dl_iterate_phdr(visit_once, &(held_call){fn, context});
}

/* Relocations of code are in segments that the program cannot write. */
static bool is_in_data(const weft__elf_module *m, ElfW(Addr) offset)
{
    for (size_t i = 0; i < m->headers_count; i++) {
        const ElfW(Phdr) *header = &m->headers[i];
        if (header->p_type == PT_LOAD && header->p_flags & PF_W && offset >= header->p_vaddr &&
            offset < header->p_vaddr + header->p_memsz)
            return true;
    }
    return false;
}

static void each_import(const weft__elf_module *m, const weft__elf_relocs *relocs,
                        void (*fn)(void *context, const char *symbol, void **slot), void *context)
{
    for (size_t i = 0; i < relocs->count; i++) {
        const ElfW(Rela) *r = &relocs->first[i];
        if (!is_import(r) || !is_in_data(m, r->r_offset))
            continue;
        const ElfW(Sym) *symbol = &m->symbols[ELF64_R_SYM(r->r_info)];
        if (symbol->st_shndx != SHN_UNDEF)
            continue; /* the module defines the function itself */
        fn(context, m->strings + symbol->st_name, (void **)(m->base + r->r_offset));
    }
}

void weft__elf_each_slot(const weft__elf_module *m,
                         void (*fn)(void *context, const char *symbol, void **slot), void *context)
{
    each_import(m, &m->calls, fn, context);
    each_import(m, &m->data, fn, context);
}

/* The symbol of a stub is not defined, but has an address. */
void weft__elf_each_stub(const weft__elf_module *m,
                         void (*fn)(void *context, const char *symbol, void *address),
                         void *context)
{
    for (size_t i = 0; i < m->calls.count; i++) {
        const ElfW(Sym) *symbol = &m->symbols[ELF64_R_SYM(m->calls.first[i].r_info)];
        if (symbol->st_shndx == SHN_UNDEF && symbol->st_value != 0)
            fn(context, m->strings + symbol->st_name, (void *)(m->base + symbol->st_value));
    }
}

void weft__elf_each_needed(const weft__elf_module *m, void (*fn)(void *context, const char *name),
                           void *context)
{
    for (const ElfW(Dyn) *d = m->dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED)
            fn(context, m->strings + d->d_un.d_val);
}

const char *weft__elf_file_name(const weft__elf_module *m)
{
    const char *slash = strrchr(m->path, '/');
    return slash != NULL ? slash + 1 : m->path;
}

/* Return whether file is name, or name with a version: libpq.so.5 for libpq.so. */
static bool is_version_of(const char *file, const char *name)
{
    size_t bytes = strlen(name);
    bool has_version = bytes > 3 && strcmp(name + bytes - 3, ".so") == 0 &&
                       strncmp(file, name, bytes) == 0 && file[bytes] == '.';
    return has_version || strcmp(file, name) == 0;
}

bool weft__elf_is_called(const weft__elf_module *m, const char *name)
{
    return is_version_of(weft__elf_file_name(m), name) || strcmp(m->path, name) == 0 ||
           (m->soname != NULL && is_version_of(m->soname, name));
}

bool weft__elf_contains(const weft__elf_module *m, const void *address)
{
    return (uintptr_t)address >= m->low && (uintptr_t)address < m->high;
}

int weft__elf_slot_set(const weft__elf_module *m, void **slot, void *value)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    /* The loader protects whole pages of the segment only. */
    uintptr_t protected_low = m->relro_low & ~(page_bytes - 1);
    uintptr_t protected_high = m->relro_high & ~(page_bytes - 1);
    uintptr_t address = (uintptr_t)slot;
    bool is_protected = address >= protected_low && address < protected_high;
    void *page = (void *)(address & ~(page_bytes - 1));
    if (is_protected && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) < 0)
        return -errno;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (is_protected)
        mprotect(page, page_bytes, PROT_READ); /* a failure leaves the page writable */
    return 0;
}
