/* Which backend a cord gets. */
#include "backend/backend.h"

#include <stdlib.h>
#include <string.h>

/* The first is the default. */
static const weft__backend_type *const types[] = {
    &weft__backend_epoll,
    &weft__backend_sim,
};

const weft__backend_type *weft__backend_choose(const char **why)
{
    const char *name = getenv("WEFT_BACKEND");
    if (name == NULL || *name == '\0') {
        *why = "epoll is the best one built in";
        return types[0];
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i]->name) == 0) {
            *why = "WEFT_BACKEND names it";
            return types[i];
        }
    }
    *why = "WEFT_BACKEND names none that is built in; epoll is the default";
    return types[0];
}
