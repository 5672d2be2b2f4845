/* Functions that run when a fiber ends (weft_defer), or at the end of a block. */
#include "core/cord/cord.h"

#include <stdlib.h>

/* A function that was registered with weft_defer. */
struct weft__defer {
    struct weft__defer *before; /* registered earlier, runs later; NULL: none */
    void (*fn)(void *);
    void *arg;
};

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
    while (f->live->extras != NULL && f->live->extras->defers != NULL) {
        struct weft__defer d = *f->live->extras->defers;
        free(f->live->extras->defers);
        f->live->extras->defers = d.before;
        d.fn(d.arg);
    }
}

/*
 * The type of d->fn may differ from the type in this call. The call still works, because x is
 * passed in a register, and an int argument is the lower half of the register. The attribute
 * disables clang's check of the type.
 */
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void weft__deferred_run(weft__deferred *d)
{
    ((void (*)(intptr_t))d->fn)(d->x);
}
