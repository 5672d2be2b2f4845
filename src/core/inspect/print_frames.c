/*
 * Frames as text. A waiting fiber has several frames inside of weft, which do not help the reader.
 * The printer begins with the public function that the program called. If that function has no
 * frame because of a tail call, the printer begins with the frame of the program.
 */
#include "core/inspect/print.h"

#include "core/inspect/symbol.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* At most this many leading frames are omitted. */
#define HIDDEN_MAX 24

/* Return the part of a path after the last slash. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Print a code address without memory. */
static void print_module(weft__report *r, const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) != 0 && info.dli_fname != NULL)
        weft__report_print(r, "%s(+0x%zx)", info.dli_fname,
                           (size_t)((const char *)address - (const char *)info.dli_fbase));
    else
        weft__report_print(r, "%p", address);
}

/* Print the name of a code address, for example "main at main.c:12". */
static void print_symbol(weft__report *r, const void *address)
{
    weft_symbol s;
    int rc = weft_symbol_find(address, &s);
    if (rc == -ENOMEM)
        print_module(r, address);
    else if (s.function[0] != '\0' && s.file[0] != '\0')
        weft__report_print(r, "%s at %s:%u", s.function, s.file, s.line);
    else if (s.function[0] != '\0')
        weft__report_print(r, "%s in %s(+0x%zx)", s.function, base_name(s.module),
                           (size_t)s.offset);
    else if (s.module[0] != '\0')
        weft__report_print(r, "%s(+0x%zx)", s.module, (size_t)s.offset);
    else
        weft__report_print(r, "%p", address);
}

void weft__print_address(weft__report *r, const void *address, bool is_return)
{
    print_symbol(r, (const char *)address - is_return);
}

/* Return whether a source file belongs to weft. Only static functions need this check. */
static bool is_own_file(const char *file)
{
    return strstr(file, "/src/core/") != NULL || strstr(file, "/src/sync/") != NULL ||
           strstr(file, "/src/io/") != NULL || strstr(file, "/src/arch/") != NULL ||
           strstr(file, "/src/backend/") != NULL;
}

typedef enum frame_kind {
    FRAME_PROGRAM,  /* not a function of weft */
    FRAME_PUBLIC,   /* a public function of weft */
    FRAME_INTERNAL, /* another function of weft */
} frame_kind;

/* own is the module with the functions of weft. */
static frame_kind kind_of(const void *address, const char *own)
{
    weft_symbol s;
    (void)weft_symbol_find((const char *)address - 1, &s);
    if (strcmp(s.module, own) != 0)
        return FRAME_PROGRAM;
    if (strncmp(s.function, "weft_", 5) == 0)
        return s.function[5] == '_' ? FRAME_INTERNAL : FRAME_PUBLIC;
    return is_own_file(s.file) ? FRAME_INTERNAL : FRAME_PROGRAM;
}

/* Return the module with the functions of weft. */
static const char *own_module(void)
{
    weft_symbol own;
    (void)weft_symbol_find((const void *)weft__frames_hidden, &own);
    return own.module;
}

unsigned weft__frames_hidden(void *const *frames, unsigned count)
{
    const char *own = own_module();
    unsigned hidden = count; /* without a frame of the program or a public function, all frames */
    for (unsigned i = 0; i < count && i < HIDDEN_MAX; i++) {
        frame_kind kind = kind_of(frames[i], own);
        if (kind == FRAME_PROGRAM)
            return hidden + 1 == i ? hidden : i;
        if (kind == FRAME_PUBLIC)
            hidden = i;
    }
    return hidden;
}

void weft__print_frames(weft__report *r, void *const *frames, unsigned count)
{
    unsigned hidden = weft__frames_hidden(frames, count);
    const char *own = own_module();
    while (count > hidden + 1 && kind_of(frames[count - 1], own) == FRAME_INTERNAL)
        count--; /* the first frames of a fiber */
    for (unsigned i = hidden; i < count; i++) {
        weft__report_print(r, "    #%u ", i - hidden);
        weft__print_address(r, frames[i], true);
        weft__report_print(r, "\n");
    }
}
