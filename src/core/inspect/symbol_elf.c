/*
 * Names of code addresses from the symbol tables of ELF files, for systems without libdw. A program
 * that is not stripped has all functions in .symtab. A stripped file has its exported functions in
 * .dynsym.
 */
#include "core/inspect/symbol.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The argument of module_matches. */
typedef struct module_search {
    uintptr_t address;
    weft__module *out;
} module_search;

static bool segment_has(const struct dl_phdr_info *info, const ElfW(Phdr) * segment,
                        uintptr_t address)
{
    uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
    return segment->p_type == PT_LOAD && address >= begin && address - begin < segment->p_memsz;
}

static int module_matches(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    const module_search *search = arg;
    weft__module *out = search->out;
    (void)bytes;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (!segment_has(info, &info->dlpi_phdr[i], search->address))
            continue;
        *out = (weft__module){.base = info->dlpi_addr,
                              .loads = info->dlpi_adds + info->dlpi_subs,
                              .is_executable = info->dlpi_phdr[i].p_flags & PF_X};
        if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0')
            snprintf(out->path, sizeof out->path, "%s", info->dlpi_name);
        return 1;
    }
    return 0;
}

bool weft__module_find(uintptr_t address, weft__module *out)
{
    module_search search = {address, out};
    if (dl_iterate_phdr(module_matches, &search) == 0)
        return false;
    if (out->path[0] == '\0') { /* the program has no name in the list of modules */
        ssize_t bytes = readlink("/proc/self/exe", out->path, sizeof out->path - 1);
        out->path[bytes > 0 ? bytes : 0] = '\0';
    }
    return true;
}

/* A mapped file. */
typedef struct elf_file {
    const char *data;
    size_t bytes;
} elf_file;

/* Return the bytes at an offset, or NULL if the file does not have them. */
static const void *file_part(const elf_file *file, uint64_t offset, uint64_t bytes)
{
    bool is_in = offset <= file->bytes && bytes <= file->bytes - offset;
    return is_in ? file->data + offset : NULL;
}

static const ElfW(Shdr) * find_section(const elf_file *file, unsigned type)
{
    const ElfW(Ehdr) *head = file_part(file, 0, sizeof *head);
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shentsize != sizeof(ElfW(Shdr)))
        return NULL;
    const ElfW(Shdr) *sections =
        file_part(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof *sections);
    for (unsigned i = 0; sections != NULL && i < head->e_shnum; i++)
        if (sections[i].sh_type == type && sections[i].sh_link < head->e_shnum)
            return &sections[i];
    return NULL;
}

/* Return the section of strings that belongs to a symbol table. */
static const ElfW(Shdr) * strings_of(const elf_file *file, const ElfW(Shdr) * table)
{
    const ElfW(Ehdr) *head = (const void *)file->data;
    const ElfW(Shdr) *sections = (const void *)(file->data + head->e_shoff);
    return &sections[table->sh_link];
}

/* Return the function that contains an address of the file. */
static const ElfW(Sym) *
    find_function(const elf_file *file, const ElfW(Shdr) * table, uintptr_t address)
{
    const ElfW(Sym) *symbols = file_part(file, table->sh_offset, table->sh_size);
    for (size_t i = 0; symbols != NULL && i < table->sh_size / sizeof *symbols; i++) {
        const ElfW(Sym) *s = &symbols[i];
        bool is_function = (s->st_info & 15) == STT_FUNC && s->st_shndx != SHN_UNDEF;
        if (is_function && address >= s->st_value && address - s->st_value < s->st_size)
            return s;
    }
    return NULL;
}

static bool find_in_table(const elf_file *file, unsigned type, uintptr_t address, char *buffer,
                          size_t bytes)
{
    const ElfW(Shdr) *table = find_section(file, type);
    const ElfW(Sym) *symbol = table != NULL ? find_function(file, table, address) : NULL;
    if (symbol == NULL)
        return false;
    const ElfW(Shdr) *strings = strings_of(file, table);
    const char *texts = file_part(file, strings->sh_offset, strings->sh_size);
    if (texts == NULL || symbol->st_name >= strings->sh_size)
        return false;
    size_t bytes_max = strings->sh_size - symbol->st_name;
    snprintf(buffer, bytes, "%.*s", (int)(bytes_max < bytes ? bytes_max : bytes),
             texts + symbol->st_name);
    return true;
}

bool weft__elf_find(const weft__module *module, uintptr_t address, char *buffer, size_t bytes)
{
    int fd = open(module->path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0)
        return false;
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    elf_file file = {NULL, is_file ? (size_t)status.st_size : 0};
    void *data = is_file ? mmap(NULL, file.bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (data == MAP_FAILED)
        return false;
    file.data = data;
    uintptr_t in_file = address - module->base;
    bool is_found = find_in_table(&file, SHT_SYMTAB, in_file, buffer, bytes) ||
                    find_in_table(&file, SHT_DYNSYM, in_file, buffer, bytes);
    munmap(data, file.bytes);
    return is_found;
}
