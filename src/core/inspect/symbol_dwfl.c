/*
 * Names of code addresses by libdw of elfutils, which finds separate debug files and source lines.
 *
 * libdw is loaded when the first name is needed, so that programs do not depend on it. This file
 * repeats the few declarations of its stable ABI, so that a build does not need its headers.
 * WEFT_LIBDW names another library. If WEFT_LIBDW is empty, no library is loaded.
 */
#include "core/inspect/symbol.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory that must be available for a lookup. A lookup in the debug files of libc needs 60 MiB. */
#define LOOKUP_BYTES ((size_t)128 << 20)

typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef struct Dwfl_Line Dwfl_Line;

typedef int find_elf_fn(Dwfl_Module *module, void **data, const char *name, uint64_t base,
                        char **path, void **elf);
typedef int find_debuginfo_fn(Dwfl_Module *module, void **data, const char *name, uint64_t base,
                              const char *path, const char *link, unsigned crc, char **debug_path);

/* As in <elfutils/libdwfl.h>. */
typedef struct Dwfl_Callbacks {
    find_elf_fn *find_elf;
    find_debuginfo_fn *find_debuginfo;
    void *section_address; /* only for relocatable files */
    char **debuginfo_path;
} Dwfl_Callbacks;

static struct {
    bool is_tried;  /* the library was loaded, or is not available */
    bool is_loaded; /* all functions below are valid */
    Dwfl *dwfl;     /* NULL: not open */
    uint64_t loads; /* weft__module.loads of the last report */

    find_elf_fn *find_elf;
    find_debuginfo_fn *find_debuginfo;
    Dwfl *(*begin)(const Dwfl_Callbacks *callbacks);
    void (*end)(Dwfl *dwfl);
    void (*report_begin)(Dwfl *dwfl);
    int (*report_process)(Dwfl *dwfl, pid_t pid);
    int (*report_end)(Dwfl *dwfl, void *removed, void *arg);
    Dwfl_Module *(*module_of)(Dwfl *dwfl, uint64_t address);
    const char *(*name_of)(Dwfl_Module *module, uint64_t address);
    Dwfl_Line *(*line_of)(Dwfl_Module *module, uint64_t address);
    const char *(*line_info)(Dwfl_Line *line, uint64_t *address, int *number, int *column,
                             uint64_t *time, uint64_t *length);
} dw;

/* Load a function. Return false if the library does not have it. */
static bool load(void *library, const char *name, void *out)
{
    return (*(void **)out = dlsym(library, name)) != NULL;
}

/*
 * The standard search asks the servers of debuginfod, if DEBUGINFOD_URLS is set. A report must not
 * wait for a server. The search by build id only looks for files.
 */
static const char *search_function(void)
{
    const char *servers = getenv("DEBUGINFOD_URLS");
    bool has_servers = servers != NULL && *servers != '\0';
    return has_servers ? "dwfl_build_id_find_debuginfo" : "dwfl_standard_find_debuginfo";
}

static bool load_functions(void *library)
{
    return load(library, "dwfl_begin", &dw.begin) &&
           load(library, "dwfl_report_begin", &dw.report_begin) &&
           load(library, "dwfl_linux_proc_report", &dw.report_process) &&
           load(library, "dwfl_report_end", &dw.report_end) &&
           load(library, "dwfl_addrmodule", &dw.module_of) &&
           load(library, "dwfl_module_addrname", &dw.name_of) &&
           load(library, "dwfl_module_getsrc", &dw.line_of) &&
           load(library, "dwfl_lineinfo", &dw.line_info) && load(library, "dwfl_end", &dw.end) &&
           load(library, "dwfl_linux_proc_find_elf", &dw.find_elf) &&
           load(library, search_function(), &dw.find_debuginfo);
}

/* libdw opens files without O_CLOEXEC. */
static int close_on_exec(int fd)
{
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static int find_elf(Dwfl_Module *module, void **data, const char *name, uint64_t base, char **path,
                    void **elf)
{
    return close_on_exec(dw.find_elf(module, data, name, base, path, elf));
}

static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, uint64_t base,
                          const char *path, const char *link, unsigned crc, char **debug_path)
{
    return close_on_exec(dw.find_debuginfo(module, data, name, base, path, link, crc, debug_path));
}

/* Read the list of modules of this process. */
static void report_modules(uint64_t loads)
{
    dw.report_begin(dw.dwfl);
    dw.report_process(dw.dwfl, getpid());
    dw.report_end(dw.dwfl, NULL, NULL);
    dw.loads = loads;
}

static void open_library(void)
{
    const char *name = getenv("WEFT_LIBDW");
    dw.is_tried = true;
    if (name == NULL)
        name = "libdw.so.1";
    void *library = *name != '\0' ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    dw.is_loaded = library != NULL && load_functions(library);
}

static bool open_modules(uint64_t loads)
{
    static char *default_path; /* NULL: the default path for debug files */
    static const Dwfl_Callbacks callbacks = {find_elf, find_debuginfo, NULL, &default_path};
    if (!dw.is_tried)
        open_library();
    if (!dw.is_loaded)
        return false;
    bool is_new = dw.dwfl == NULL;
    if (is_new)
        dw.dwfl = dw.begin(&callbacks);
    if (dw.dwfl != NULL && (is_new || dw.loads != loads))
        report_modules(loads);
    return dw.dwfl != NULL;
}

/* libdw ends the process if memory is exhausted. So does glibc, for thread-local data of libelf. */
static bool has_memory(void)
{
    void *room =
        mmap(NULL, LOOKUP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return false;
    munmap(room, LOOKUP_BYTES);
    return true;
}

bool weft__dwfl_find(uintptr_t address, uint64_t loads, weft__symbol_name *out)
{
    bool is_open = has_memory() && open_modules(loads);
    Dwfl_Module *module = is_open ? dw.module_of(dw.dwfl, address) : NULL;
    if (module == NULL)
        return false;
    *out = (weft__symbol_name){.function = dw.name_of(module, address)};
    Dwfl_Line *line = dw.line_of(module, address);
    int number = 0;
    if (line != NULL)
        out->file = dw.line_info(line, NULL, &number, NULL, NULL, NULL);
    if (out->file != NULL && number > 0)
        out->line = (unsigned)number;
    return out->function != NULL || out->file != NULL;
}

void weft__dwfl_after_fork(void)
{
    dw.dwfl = NULL; /* leaked: another thread may have been in a function of the library */
}

void weft__dwfl_close(void)
{
    if (dw.dwfl != NULL)
        dw.end(dw.dwfl);
    dw.dwfl = NULL;
}
