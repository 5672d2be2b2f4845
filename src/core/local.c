/* What a fiber can have of its own: values by key, memory, things to do at its end. */
#include "core/cord.h"
#include "core/modes.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

struct weft__defer {
    struct weft__defer *before; /* the one to run after this */
    void (*fn)(void *);
    void *arg;
};

/* A block of fiber memory; the caller's bytes follow. */
struct weft__region {
    struct weft__region *before;
    alignas(max_align_t) char bytes[];
};

static void (*destructors[WEFT__KEYS_MAX])(void *);
static atomic_uint keys_made;

static weft__extras *extras_of(weft__fiber *f)
{
    if (f->life->extras == NULL)
        f->life->extras = calloc(1, sizeof *f->life->extras);
    return f->life->extras;
}

weft__extras *weft__extras_here(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? extras_of(c->current) : NULL;
}

weft_key weft_key_new(void (*destructor)(void *))
{
    unsigned made = atomic_load(&keys_made);
    do {
        if (made == WEFT__KEYS_MAX)
            return 0;
    } while (!atomic_compare_exchange_weak(&keys_made, &made, made + 1));
    destructors[made] = destructor;
    return made + 1;
}

static bool is_key(weft_key key)
{
    return key >= 1 && key <= atomic_load(&keys_made);
}

void *weft_local_get(weft_key key)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL || c->current->life->extras == NULL || !is_key(key))
        return NULL;
    return c->current->life->extras->locals[key - 1];
}

int weft_local_set(weft_key key, void *value)
{
    if (!is_key(key))
        return -EINVAL;
    weft__extras *x = weft__extras_here();
    if (x == NULL)
        return weft__no_cord();
    x->locals[key - 1] = value;
    return 0;
}

void *weft__cord_local(const weft__cord *c, weft_key key)
{
    return c->main->life->extras != NULL ? c->main->life->extras->locals[key - 1] : NULL;
}

int weft__cord_local_set(weft__cord *c, weft_key key, void *value)
{
    weft__extras *x = extras_of(c->main);
    if (x == NULL)
        return -ENOMEM;
    x->locals[key - 1] = value;
    return 0;
}

void *weft_alloc(size_t bytes)
{
    weft__extras *x = weft__extras_here();
    if (x == NULL || bytes > SIZE_MAX - sizeof(struct weft__region))
        return NULL;
    struct weft__region *r = malloc(sizeof *r + bytes);
    if (r == NULL)
        return NULL;
    r->before = x->region;
    x->region = r;
    return r->bytes;
}

int weft_defer(void (*fn)(void *), void *arg)
{
    if (fn == NULL)
        return -EINVAL;
    weft__extras *x = weft__extras_here();
    struct weft__defer *d = x != NULL ? malloc(sizeof *d) : NULL;
    if (d == NULL)
        return weft__no_cord();
    *d = (struct weft__defer){x->defers, fn, arg};
    x->defers = d;
    return 0;
}

void weft__defers_run(weft__fiber *f)
{
    while (f->life->extras != NULL && f->life->extras->defers != NULL) {
        struct weft__defer d = *f->life->extras->defers;
        free(f->life->extras->defers);
        f->life->extras->defers = d.before;
        d.fn(d.arg);
    }
}

/* A destructor may set values again: go round a few times, as threads do. */
static void destroy_locals(weft__extras *x)
{
    unsigned made = atomic_load(&keys_made);
    bool found = true;
    for (int round = 0; round < 4 && found; round++) {
        found = false;
        for (unsigned i = 0; i < made; i++) {
            void *value = x->locals[i];
            x->locals[i] = NULL;
            if (value == NULL || destructors[i] == NULL)
                continue;
            found = true;
            destructors[i](value);
        }
    }
}

void weft__extras_free(weft__fiber *f)
{
    weft__extras *x = f->life->extras;
    if (x == NULL)
        return;
    destroy_locals(x);
    weft__defers_run(f); /* those that a destructor left */
    weft__modes_drop(weft__cord_self, f);
    while (x->region != NULL) {
        struct weft__region *before = x->region->before;
        free(x->region);
        x->region = before;
    }
    f->life->extras = NULL;
    free(x);
}

/* x travels in a register whatever its type, an int in its lower half: the call is sound where */
/* the types do not match to the letter, and clang's sanitizer need not ask. */
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void weft__deferred_run(weft__deferred *d)
{
    ((void (*)(intptr_t))d->fn)(d->x);
}
