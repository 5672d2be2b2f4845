/* The stack advisor. See stack_advice.h. */
#include "core/inspect/stack_advice.h"

#include "core/inspect/print.h"
#include "core/inspect/symbol.h"

#include <stdlib.h>
#include <string.h>

/* Spawn sites. */
typedef struct site_table {
    weft_stack_use *sites; /* NULL: none */
    size_t count, capacity;
} site_table;

/* Ended fibers, while the advisor is on. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static site_table ended;

void weft__stack_advice_after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

bool weft__stack_advice_is_on(void)
{
    const char *text = getenv("WEFT_STACK_ADVICE");
    return text != NULL && *text != '\0' && strcmp(text, "0") != 0;
}

/* Return the site in a table, or add it. Return NULL if memory is exhausted. */
static weft_stack_use *site_find(site_table *t, const void *spun_at, weft_fn *fn)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->sites[i].spun_at == spun_at && t->sites[i].fn == fn)
            return &t->sites[i];
    if (t->count == t->capacity) {
        size_t capacity = t->capacity * 2 + 8;
        weft_stack_use *sites = realloc(t->sites, capacity * sizeof *sites);
        if (sites == NULL)
            return NULL;
        t->sites = sites;
        t->capacity = capacity;
    }
    t->sites[t->count] = (weft_stack_use){.spun_at = spun_at, .fn = fn};
    return &t->sites[t->count++];
}

static bool site_add(site_table *t, const weft_stack_use *use)
{
    weft_stack_use *site = site_find(t, use->spun_at, use->fn);
    if (site == NULL)
        return false;
    site->fibers += use->fibers;
    if (use->used_max > site->used_max)
        site->used_max = use->used_max;
    if (use->stack_bytes > site->stack_bytes)
        site->stack_bytes = use->stack_bytes;
    return true;
}

void weft__stack_advice_add(const weft__fiber *f)
{
    if (f->stack.low == NULL || f->live == NULL)
        return;
    weft_stack_use use = {.spun_at = f->live->spun_at,
                          .fn = f->fn,
                          .fibers = 1,
                          .stack_bytes = weft__stack_slot_bytes(&f->stack),
                          .used_max = weft__stack_used(&f->stack)};
    weft__stack_trim_below(&f->stack, __builtin_frame_address(0));
    pthread_mutex_lock(&lock);
    (void)site_add(&ended, &use); /* if memory is exhausted, the fiber is not counted */
    pthread_mutex_unlock(&lock);
}

/*
 * Return a size for a site. The size has space for half as much again, and for a signal handler.
 * Sizes are powers of two.
 */
static size_t suggest_bytes(size_t used)
{
    size_t needed = used + used / 2 + 4096, bytes = WEFT__STACK_BYTES_MIN;
    while (bytes < needed && bytes < WEFT__STACK_BYTES_MAX)
        bytes *= 2;
    return bytes;
}

/* Sites that waste most memory are first. */
static int compare_sites(const void *a, const void *b)
{
    const weft_stack_use *x = a, *y = b;
    size_t waste_x = (x->stack_bytes - x->used_max) * x->fibers;
    size_t waste_y = (y->stack_bytes - y->used_max) * y->fibers;
    return (waste_x < waste_y) - (waste_x > waste_y);
}

/* Return the size of the class of a stack. The usable size is smaller by a colour. */
static size_t class_bytes(size_t usable)
{
    size_t bytes = WEFT__STACK_BYTES_MIN;
    while (bytes < usable)
        bytes *= 2;
    return bytes;
}

static bool collect_living(site_table *t, const weft_snapshot *s)
{
    for (size_t i = 0; s != NULL && i < s->fibers_count; i++) {
        const weft_info *info = &s->fibers[i].info;
        weft_stack_use use = {.spun_at = info->spun_at,
                              .fn = info->fn,
                              .fibers = 1,
                              .stack_bytes = class_bytes(info->stack_bytes),
                              .used_max = info->stack_used};
        if (info->stack_bytes > 0 && !site_add(t, &use))
            return false;
    }
    return true;
}

static bool collect_ended(site_table *t)
{
    bool is_done = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ended.count && is_done; i++)
        is_done = site_add(t, &ended.sites[i]);
    pthread_mutex_unlock(&lock);
    return is_done;
}

static int collect_sites(site_table *t, const weft_snapshot *s)
{
    *t = (site_table){.sites = NULL};
    if (!collect_living(t, s) || !collect_ended(t)) {
        free(t->sites);
        return -ENOMEM;
    }
    for (size_t i = 0; i < t->count; i++)
        t->sites[i].suggested_bytes = suggest_bytes(t->sites[i].used_max);
    if (t->count > 0)
        qsort(t->sites, t->count, sizeof *t->sites, compare_sites);
    return 0;
}

int weft_stack_advice(const weft_snapshot *snapshot, weft_stack_use *out, size_t n)
{
    site_table t;
    int rc = collect_sites(&t, snapshot);
    if (rc < 0)
        return rc;
    size_t stored = t.count < n ? t.count : n;
    if (stored > 0)
        memcpy(out, t.sites, stored * sizeof *out);
    free(t.sites);
    return (int)t.count;
}

void weft__stack_advice_print(weft__report *r, const weft_snapshot *s)
{
    site_table t;
    if (collect_sites(&t, s) < 0)
        return;
    for (size_t i = 0; i < t.count; i++) {
        const weft_stack_use *u = &t.sites[i];
        weft__report_print(r, "stack of %zu fibers: %zu of %zu KiB used; %zu KiB suffice; ",
                           u->fibers, u->used_max >> 10, u->stack_bytes >> 10,
                           u->suggested_bytes >> 10);
        weft__print_origin(r, (const void *)u->fn, u->spun_at);
    }
    free(t.sites);
    weft__symbols_close();
}

void weft__stack_advice_at_exit(void)
{
    if (!weft__stack_advice_is_on())
        return;
    weft__report r;
    weft__report_begin(&r, LOG_NOTICE, "deepest use of the stacks of ended fibers:");
    weft__stack_advice_print(&r, NULL);
    weft__report_end(&r);
}
