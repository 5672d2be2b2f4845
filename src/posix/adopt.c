/*
 * Adoption: set the import slots of a module to hooks, and back. One lock protects all state.
 *
 * In the code of this folder, a hooked name would call the hook in libweft-preload. So this folder
 * calls hooked functions only by REAL().
 */
#include "posix/adopt.h"

#include "posix/elf.h"
#include "posix/hook.h"
#include "posix/lock/waiters.h"
#include "posix/module.h"
#include "posix/wait.h"

#include <weft/error.h>
#include <weft/posix.h>

#include <stdlib.h>
#include <string.h>

/* A hooked import slot. */
typedef struct slot {
    void **at;
    void *original; /* the value before the adoption */
} slot;

/* An adopted module. */
typedef struct adopted {
    struct adopted *next;
    uintptr_t base; /* the address of the module; identifies the module while it is loaded */
    char *name;     /* its file name; "" for the program */
    slot *slots;
    size_t count;
} adopted;

static pthread_mutex_t adopted_lock = PTHREAD_MUTEX_INITIALIZER;
static adopted *adopted_first;
static _Atomic(uint64_t) slots_total;

static void adopt_lock(void)
{
    static bool is_prepared;
    REAL(pthread_mutex_lock)(&adopted_lock);
    if (!is_prepared)
        weft__hooks_prepare();
    is_prepared = true;
}

static void adopt_unlock(void)
{
    REAL(pthread_mutex_unlock)(&adopted_lock);
}

uint64_t weft__adopt_slots(void)
{
    return atomic_load(&slots_total);
}

/*
 * One module.
 */

static bool is_hooked(weft__hook_group group, const weft_adopt_options *o)
{
    return group == WEFT__HOOKS_LOCK ? !o->has_no_locks : group != WEFT__HOOKS_FILE || o->has_files;
}

/* The context of slot_adopt. */
typedef struct adoption {
    const weft__elf_module *module;
    const weft_adopt_options *options;
    adopted *entry;
    int error;
} adoption;

static int entry_add_slot(adopted *entry, void **at, void *original)
{
    if ((entry->count & (entry->count + 1)) == 0) {
        slot *more = realloc(entry->slots, 2 * (entry->count + 1) * sizeof *more);
        if (more == NULL)
            return -ENOMEM;
        entry->slots = more;
    }
    entry->slots[entry->count++] = (slot){at, original};
    return 0;
}

/* Set one slot to its hook. On failure, set error and leave the slot unchanged. */
static void slot_adopt(void *context, const char *symbol, void **at)
{
    adoption *a = context;
    const weft__hook *h = a->error == 0 ? weft__hook_find(symbol) : NULL;
    if (h == NULL || !is_hooked(h->group, a->options) || *at == (void *)(uintptr_t)h->fn ||
        !weft__hook_replaces(h, a->module, *at))
        return;
    void *original = *at;
    a->error = entry_add_slot(a->entry, at, original);
    if (a->error < 0)
        return;
    if (*h->real == NULL) /* a function of another library than libc */
        *h->real = original;
    a->error = weft__elf_slot_set(a->module, at, (void *)(uintptr_t)h->fn);
    a->entry->count -= a->error < 0;
}

static void entry_free(adopted *entry)
{
    free(entry->slots);
    free(entry->name);
    free(entry);
}

static adopted **entry_find(uintptr_t base)
{
    adopted **at = &adopted_first;
    while (*at != NULL && (*at)->base != base)
        at = &(*at)->next;
    return at;
}

/* The context of slot_restore. */
typedef struct restoration {
    const weft__elf_module *module;
    const adopted *entry;
} restoration;

static void slot_restore(void *context, const char *symbol, void **at)
{
    const restoration *r = context;
    const weft__hook *h = weft__hook_find(symbol);
    if (h == NULL || *at != (void *)(uintptr_t)h->fn)
        return;
    for (size_t i = 0; i < r->entry->count; i++)
        if (r->entry->slots[i].at == at)
            (void)weft__elf_slot_set(r->module, at, r->entry->slots[i].original);
}

/* Forget a module. Return the number of its slots. */
static size_t entry_drop(adopted **at)
{
    adopted *entry = *at;
    size_t count = entry->count;
    *at = entry->next;
    entry_free(entry);
    atomic_fetch_sub(&slots_total, count);
    return count;
}

/*
 * Restore the slots of a module, and forget the module. Return the number of its slots. Visit only
 * slots of the loaded module: it may be another one at the same address, or the same one again.
 */
static size_t module_disown(const weft__elf_module *m, adopted **at)
{
    weft__elf_each_slot(m, slot_restore, &(restoration){m, *at});
    return entry_drop(at);
}

static int is_module_of_entry(const weft__elf_module *m, void *context)
{
    const adopted *entry = context;
    return m->base == entry->base && strcmp(weft__elf_file_name(m), entry->name) == 0;
}

/* Forget modules that have been unloaded. */
static void entries_prune(void)
{
    for (adopted **at = &adopted_first; *at != NULL;) {
        if (weft__elf_each_module(is_module_of_entry, *at))
            at = &(*at)->next;
        else
            entry_drop(at);
    }
}

/* Adopt one module. Returns the number of its hooked calls, or -errno. */
static int module_adopt(const weft__elf_module *m, const weft_adopt_options *o)
{
    adopted **at = entry_find(m->base);
    if (*at != NULL)
        module_disown(m, at);
    adopted *entry = calloc(1, sizeof *entry);
    char *name = strdup(weft__elf_file_name(m));
    if (entry == NULL || name == NULL) {
        free(entry);
        free(name);
        return -ENOMEM;
    }
    *entry = (adopted){.next = adopted_first, .base = m->base, .name = name};
    adoption a = {m, o, entry, 0};
    weft__elf_each_slot(m, slot_adopt, &a);
    adopted_first = entry;
    atomic_fetch_add(&slots_total, entry->count);
    if (a.error < 0) {
        module_disown(m, &adopted_first);
        return weft_fail(a.error, "weft_adopt: cannot change the import slots of '%s': %s",
                         weft__elf_file_name(m), strerror(-a.error));
    }
    return (int)entry->count;
}

/*
 * A module and the libraries that it needs.
 */

/* A set of loaded modules. */
typedef struct module_set {
    weft__elf_module *modules;
    size_t count;
} module_set;

static int set_add(const weft__elf_module *m, void *context)
{
    module_set *set = context;
    if ((set->count & (set->count + 1)) == 0) {
        weft__elf_module *more = realloc(set->modules, 2 * (set->count + 1) * sizeof *more);
        if (more == NULL)
            return -ENOMEM;
        set->modules = more;
    }
    set->modules[set->count++] = *m;
    return 0;
}

static weft__elf_module *set_find(module_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (weft__elf_is_called(&set->modules[i], name))
            return &set->modules[i];
    return NULL;
}

static bool is_adoptable(const weft__elf_module *m, const weft_adopt_options *o)
{
    return !weft__module_is_excluded(m) && (o->is_forced || !weft__module_makes_system_calls(m));
}

/* The context of a search for all modules that a module needs. */
typedef struct closure {
    module_set *loaded;
    const weft_adopt_options *options;
    size_t count;
    size_t *queue;   /* indexes of modules */
    bool *is_member; /* by index */
} closure;

static void closure_add(closure *c, size_t index)
{
    if (c->is_member[index])
        return;
    c->is_member[index] = true;
    c->queue[c->count++] = index;
}

static void closure_add_needed(void *context, const char *name)
{
    closure *c = context;
    const weft__elf_module *m = set_find(c->loaded, name);
    if (m != NULL && is_adoptable(m, c->options))
        closure_add(c, (size_t)(m - c->loaded->modules));
}

/*
 * Adopt the module and the libraries that it needs. Returns the number of hooked calls, or -errno.
 */
static int closure_adopt(closure *c, const weft__elf_module *m)
{
    int total = 0;
    closure_add(c, (size_t)(m - c->loaded->modules));
    for (size_t i = 0; i < c->count; i++) {
        const weft__elf_module *member = &c->loaded->modules[c->queue[i]];
        if (!c->options->is_alone)
            weft__elf_each_needed(member, closure_add_needed, c);
        int n = module_adopt(member, c->options);
        if (n < 0)
            return n;
        total += n;
    }
    return total;
}

static int check_adoptable(const weft__elf_module *m, const weft_adopt_options *o)
{
    if (weft__module_is_excluded(m))
        return weft_fail(-ENOTSUP,
                         "weft_adopt: '%s' is or contains weft, a part of libc or an allocator",
                         weft__elf_file_name(m));
    if (!o->is_forced && weft__module_makes_system_calls(m))
        return weft_fail(-ENOTSUP, "weft_adopt: '%s' calls syscall(2), which hooks cannot reach",
                         weft__elf_file_name(m));
    return 0;
}

static int adopt_named(module_set *loaded, const char *name, const weft_adopt_options *o)
{
    const weft__elf_module *m = set_find(loaded, name);
    if (m == NULL)
        return weft_fail(-ENOENT, "weft_adopt: no module '%s' is loaded", name);
    int rc = check_adoptable(m, o);
    if (rc < 0)
        return rc;
    closure c = {loaded, o, 0, calloc(loaded->count, sizeof *c.queue),
                 calloc(loaded->count, sizeof *c.is_member)};
    rc = c.queue != NULL && c.is_member != NULL ? closure_adopt(&c, m) : -ENOMEM;
    free(c.queue);
    free(c.is_member);
    return rc;
}

static int adopt_each(module_set *loaded, const weft_adopt_options *o)
{
    int total = 0;
    for (size_t i = 0; i < loaded->count; i++) {
        const weft__elf_module *m = &loaded->modules[i];
        if (!is_adoptable(m, o))
            continue;
        int n = module_adopt(m, o);
        if (n < 0)
            return n;
        total += n;
    }
    return total;
}

static int is_adopted_with(const weft__elf_module *m, void *address)
{
    return weft__elf_contains(m, address) && *entry_find(m->base) != NULL;
}

static bool is_in_adopted_module(const void *address)
{
    return weft__elf_each_module(is_adopted_with, (void *)(uintptr_t)address) != 0;
}

/* A call of weft_adopt or weft_adopt_all. */
typedef struct adopt_call {
    const char *name; /* NULL: all modules */
    const weft_adopt_options *options;
    int result;
} adopt_call;

static void adopt_run(void *context)
{
    adopt_call *call = context;
    module_set loaded = {NULL, 0};
    entries_prune();
    int rc = weft__elf_each_module(set_add, &loaded);
    if (rc == 0)
        rc = call->name != NULL ? adopt_named(&loaded, call->name, call->options)
                                : adopt_each(&loaded, call->options);
    if (rc >= 0)
        weft__signals_wrap(is_in_adopted_module);
    free(loaded.modules);
    call->result = rc;
}

/* Adopt the named module, or all modules if name is NULL. */
static int adopt(const char *name, const weft_adopt_options *options)
{
    static const weft_adopt_options defaults;
    adopt_call call = {name, options != NULL ? options : &defaults, 0};
    weft__posix_states_add();
    adopt_lock();
    weft__elf_hold_modules(adopt_run, &call);
    adopt_unlock();
    return call.result;
}

int weft_adopt(const char *name, const weft_adopt_options *options)
{
    if (name == NULL)
        return weft_fail(-EINVAL, "weft_adopt: name is NULL");
    return adopt(name, options);
}

int weft_adopt_all(const weft_adopt_options *options)
{
    return adopt(NULL, options);
}

static int disown_if_called(const weft__elf_module *m, void *context)
{
    if (!weft__elf_is_called(m, context))
        return 0;
    adopted **at = entry_find(m->base);
    return *at != NULL ? 1 + (int)module_disown(m, at) : 0;
}

int weft_disown(const char *name)
{
    if (name == NULL)
        return weft_fail(-EINVAL, "weft_disown: name is NULL");
    if (weft__hook_waits_now() + weft__waiters_now() > 0)
        return weft_fail(-EBUSY, "weft_disown: a fiber waits in a hooked call");
    adopt_lock();
    entries_prune();
    int rc = weft__elf_each_module(disown_if_called, (void *)(uintptr_t)name);
    adopt_unlock();
    if (rc == 0)
        return weft_fail(-ENOENT, "weft_disown: no module '%s' is adopted", name);
    return rc - 1;
}

/*
 * The report.
 */

/* The context of count_if_hooked. */
typedef struct hooked_count {
    const weft__elf_module *module;
    size_t slots;
} hooked_count;

/*
 * A slot that the loader has not resolved yet points into its own module. The loader will find the
 * function of libweft-preload.
 */
static void count_if_hooked(void *context, const char *symbol, void **at)
{
    hooked_count *count = context;
    const weft__hook *h = weft__hook_find(symbol);
    bool is_unresolved = weft__elf_contains(count->module, *at);
    count->slots +=
        h != NULL && (*at == (void *)(uintptr_t)h->fn || (is_unresolved && weft__real_is_preload));
}

typedef struct each_adoptable {
    void (*fn)(void *context, const weft__elf_module *m, weft__adopt_info info);
    void *context;
} each_adoptable;

static int visit_adoptable(const weft__elf_module *m, void *context)
{
    const each_adoptable *each = context;
    if (weft__module_is_excluded(m))
        return 0;
    weft__adopt_info info = {.is_adopted = *entry_find(m->base) != NULL};
    hooked_count count = {m, 0};
    weft__elf_each_slot(m, count_if_hooked, &count);
    info.slots = count.slots;
    info.is_adopted |= info.slots > 0;
    info.is_refused = !info.is_adopted && weft__module_makes_system_calls(m);
    each->fn(each->context, m, info);
    return 0;
}

void weft__adopt_each(void (*fn)(void *context, const weft__elf_module *m, weft__adopt_info info),
                      void *context)
{
    adopt_lock();
    entries_prune();
    weft__elf_each_module(visit_adoptable, &(each_adoptable){fn, context});
    adopt_unlock();
}

/*
 * libweft-preload.
 */

/*
 * The context is the module of the slot. A slot that the loader has not resolved yet points into
 * its own module.
 */
static void slot_spare(void *context, const char *symbol, void **at)
{
    const weft__elf_module *m = context;
    const weft__hook *h = weft__hook_find(symbol);
    bool is_hook = h != NULL && (*at == (void *)(uintptr_t)h->fn || weft__elf_contains(m, *at));
    if (is_hook && *h->real != NULL)
        (void)weft__elf_slot_set(m, at, *h->real);
}

static int spare_if_excluded(const weft__elf_module *m, void *context)
{
    (void)context;
    if (weft__module_is_excluded(m))
        weft__elf_each_slot(m, slot_spare, (void *)(uintptr_t)m);
    return 0;
}

void weft__adopt_spare_weft(void)
{
    weft__real_resolve();
    adopt_lock();
    weft__elf_each_module(spare_if_excluded, NULL);
    adopt_unlock();
}
