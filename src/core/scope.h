/* What is behind a weft_scope. */
#ifndef WEFT_CORE_SCOPE_H
#define WEFT_CORE_SCOPE_H

#include "core/fiber.h"

#include <weft/scope.h>

struct weft__scope {
    weft__scope *outer; /* NULL: the outermost */
    weft__fiber *fiber; /* whose it is; NULL: not open */
    weft__timer timer;  /* not armed: no deadline, or it has struck */
    bool is_cancelled;  /* by its deadline or by hand */
    bool has_struck;    /* by its deadline */
    bool is_shield;     /* keeps out what comes from outside */
    bool is_over;       /* for a shield: not any more */
};

_Static_assert(sizeof(weft__scope) <= sizeof(weft_scope), "weft_scope is too small");
_Static_assert(_Alignof(weft__scope) <= _Alignof(weft_scope), "weft_scope is aligned too little");

/* The fiber ends with scopes open, and maybe groups: close them. Their memory may be gone. */
void weft__scopes_drop(weft__cord *c, weft__fiber *f);

#endif
