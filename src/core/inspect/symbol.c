/*
 * The names of code addresses (weft_symbol_find). Results are remembered, because dumps ask for the
 * same addresses again.
 */
#include "core/inspect/symbol.h"

#include "base/thread.h"
#include "core/cord/cord.h"

#include <weft/snapshot.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

/* The name of an address. */
typedef struct known_symbol {
    struct known_symbol *next; /* with the same hash; NULL: the last */
    uintptr_t address;
    uint64_t loads; /* weft__module.loads of the lookup; a later value: look up again */
    weft_symbol symbol;
} known_symbol;

/* A string that is never freed. */
typedef struct known_text {
    struct known_text *next; /* with the same hash; NULL: the last */
    char text[];
} known_text;

/* Protects all variables of this file. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_busy;        /* a thread has the lock, and may use libdw */
static weft__module module; /* of the address in the current lookup; too large for a stack */
static known_symbol *known_symbols[BUCKETS];
static known_text *known_texts[BUCKETS];

/* The demangler of the C++ runtime. NULL: the program has no C++ runtime. */
extern char *__cxa_demangle(const char *name, char *buffer, size_t *bytes, int *status)
    __attribute__((weak));

void weft__symbols_after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (is_busy)
        weft__dwfl_after_fork();
    is_busy = false;
}

/* Return a copy of a text, or NULL if memory is exhausted. */
static const char *text_keep(const char *text)
{
    size_t bytes = strlen(text) + 1;
    uint32_t hash = 5381;
    for (const char *p = text; *p != '\0'; p++)
        hash = hash * 33 ^ (unsigned char)*p;
    known_text **bucket = &known_texts[hash % BUCKETS];
    for (const known_text *t = *bucket; t != NULL; t = t->next)
        if (strcmp(t->text, text) == 0)
            return t->text;
    known_text *t = malloc(sizeof *t + bytes);
    if (t == NULL)
        return NULL;
    memcpy(t->text, text, bytes);
    t->next = *bucket;
    *bucket = t;
    return t->text;
}

/* Return a copy of a function name, in the notation of the program's language. */
static const char *function_keep(const char *name)
{
    char *readable = NULL;
    int status = -1;
    if (strncmp(name, "_Z", 2) == 0 && __cxa_demangle != NULL)
        readable = __cxa_demangle(name, NULL, NULL, &status);
    const char *kept = text_keep(status == 0 && readable != NULL ? readable : name);
    free(readable);
    return kept;
}

/* Remove "NAME/../" from a path, in place. */
static void path_shorten(char *path)
{
    for (char *up = strstr(path, "/../"); up != NULL; up = strstr(up, "/../")) {
        char *before = up;
        while (before > path && before[-1] != '/')
            before--;
        bool is_name = before > path && strncmp(before, "../", 3) != 0 && before != up;
        if (!is_name) {
            up += 3;
            continue;
        }
        memmove(before, up + 4, strlen(up + 4) + 1);
        up = before - 1;
    }
}

static const char *file_keep(const char *file)
{
    char path[4096];
    size_t bytes = strlen(file);
    if (bytes >= sizeof path)
        return text_keep(file);
    memcpy(path, file, bytes + 1);
    path_shorten(path);
    return text_keep(path);
}

/* Look up the name of an address in a module. Returns 0, or -ENOMEM. */
static int symbol_look_up(const weft__module *in, uintptr_t address, weft_symbol *out)
{
    weft__symbol_name name = {NULL, NULL, 0};
    char buffer[512];
    bool is_known = weft__dwfl_find(address, in->loads, &name);
    if ((!is_known || name.function == NULL) && weft__elf_find(in, address, buffer, sizeof buffer))
        name.function = buffer;
    *out = (weft_symbol){
        .function = name.function != NULL ? function_keep(name.function) : "",
        .file = name.file != NULL ? file_keep(name.file) : "",
        .line = name.line,
        .module = text_keep(in->path),
        .offset = address - in->base,
    };
    return out->function != NULL && out->file != NULL && out->module != NULL ? 0 : -ENOMEM;
}

static known_symbol **symbol_bucket(uintptr_t address)
{
    return &known_symbols[(uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

_Static_assert(BUCKETS == 1 << (64 - 54), "symbol_bucket uses the upper bits of a hash");

/* A lookup. */
typedef struct lookup {
    uintptr_t address;
    weft_symbol found;
    int rc;
} lookup;

/* Look up a name that is not known yet. */
static void *lookup_run(void *arg)
{
    lookup *l = arg;
    l->rc = symbol_look_up(&module, l->address, &l->found);
    return arg;
}

/*
 * libdw needs more stack than a fiber has. So a cord looks up names in a thread. If no thread can
 * be created, only the module is known.
 */
static void lookup_start(lookup *l)
{
    pthread_t thread;
    if (weft__cord_self == NULL) {
        lookup_run(l);
    } else if (weft__thread_create(&thread, 0, lookup_run, l) == 0) {
        pthread_join(thread, NULL);
    } else {
        l->found.module = text_keep(module.path);
        l->found.offset = l->address - module.base;
        l->rc = l->found.module != NULL ? 0 : -ENOMEM;
    }
}

static int symbol_find(uintptr_t address, weft_symbol *out)
{
    if (!weft__module_find(address, &module))
        return -ENOENT;
    known_symbol **bucket = symbol_bucket(address), *known = *bucket;
    while (known != NULL && known->address != address)
        known = known->next;
    if (known != NULL && known->loads == module.loads) {
        *out = known->symbol;
        return 0;
    }
    lookup l = {address, *out, 0};
    lookup_start(&l);
    if (l.rc < 0)
        return l.rc;
    if (known == NULL) {
        known = malloc(sizeof *known);
        if (known == NULL)
            return -ENOMEM;
        *known = (known_symbol){.next = *bucket, .address = address};
        *bucket = known;
    }
    /* libdw may have loaded libraries during the lookup. */
    known->loads = weft__module_find(address, &module) ? module.loads : 0;
    *out = known->symbol = l.found;
    return 0;
}

static const weft_symbol no_symbol = {.function = "", .file = "", .module = ""};

int weft_symbol_find(const void *address, weft_symbol *out)
{
    int cancel_state;
    weft_symbol found = no_symbol;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&lock);
    is_busy = true;
    int rc = symbol_find((uintptr_t)address, &found);
    is_busy = false;
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel_state, NULL);
    *out = rc == 0 ? found : no_symbol;
    return rc;
}

void weft__symbols_close(void)
{
    pthread_mutex_lock(&lock);
    weft__dwfl_close();
    pthread_mutex_unlock(&lock);
}
