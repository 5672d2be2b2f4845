/* Which backend a cord gets. */
#include "backend/backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first is the default. */
static const weft__backend_type *const types[] = {
    &weft__backend_epoll,
    &weft__backend_sim,
};

/* Once: every thread asks. */
static void say_unknown(const char *name)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_said))
        dprintf(STDERR_FILENO,
                "weft: WEFT_BACKEND=%s is not built in (epoll, sim are): epoll taken\n", name);
}

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
    say_unknown(name);
    *why = "WEFT_BACKEND names none that is built in; epoll is the default";
    return types[0];
}
