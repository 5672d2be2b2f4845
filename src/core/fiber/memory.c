/* Fiber memory: blocks that weft_alloc allocates, and that weft frees when the fiber ends. */
#include "core/cord/cord.h"

#include <stdalign.h>
#include <stdlib.h>

/* The header of a block. The caller's bytes follow. */
struct weft__region {
    struct weft__region *before; /* the previously allocated block; NULL: none */
    alignas(max_align_t) char bytes[];
};

void *weft_alloc(size_t bytes)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return NULL; /* weft__cord_here has recorded an error */
    weft__extras *x = weft__extras_of(c->current);
    bool is_possible = x != NULL && bytes <= SIZE_MAX - sizeof(struct weft__region);
    struct weft__region *r = is_possible ? malloc(sizeof *r + bytes) : NULL;
    if (r == NULL) {
        weft_fail(-ENOMEM, "weft_alloc: memory is exhausted, bytes is %zu", bytes);
        return NULL;
    }
    r->before = x->region;
    x->region = r;
    return r->bytes;
}

void weft__regions_free(weft__extras *x)
{
    while (x->region != NULL) {
        struct weft__region *before = x->region->before;
        free(x->region);
        x->region = before;
    }
}
