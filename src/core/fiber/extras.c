/* The extras of a fiber: allocation on first use, and cleanup. Few fibers have extras. */
#include "core/cord/cord.h"
#include "core/fiber/fpu_env.h"

#include <stdlib.h>

weft__extras *weft__extras_of(weft__fiber *f)
{
    if (f->live->extras == NULL)
        f->live->extras = calloc(1, sizeof *f->live->extras);
    return f->live->extras;
}

weft__extras *weft__extras_here(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? weft__extras_of(c->current) : NULL;
}

void weft__extras_free(weft__fiber *f)
{
    weft__extras *x = f->live->extras;
    if (x == NULL)
        return;
    weft__locals_destroy(x);
    weft__defers_run(f); /* a destructor may have called weft_defer */
    weft__fpu_env_drop(weft__cord_self, f);
    weft__regions_free(x);
    f->live->extras = NULL;
    free(x);
}
