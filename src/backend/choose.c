/* Which backend a cord gets. */
#include "backend/backend.h"

#include "arch/annotate.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The best first; sim, the last, is only taken by name. */
static const weft__backend_type *const types[] = {
#ifdef WEFT_HAS_URING
    &weft__backend_uring,
#endif
    &weft__backend_epoll,
#ifdef WEFT_HAS_EV
    &weft__backend_ev,    &weft__backend_ev_epoll, &weft__backend_ev_poll, &weft__backend_ev_select,
#endif
    &weft__backend_sim,
};
#define TYPES_COUNT (sizeof types / sizeof *types)

/* Once: every thread asks. */
static void say_unknown(const char *name)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&is_said))
        return;
    char names[128];
    size_t used = 0;
    for (size_t i = 0; i < TYPES_COUNT; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 types[i]->name);
    dprintf(STDERR_FILENO, "weft: WEFT_BACKEND=%s is not built in (%s are)\n", name, names);
}

static const weft__backend_type *find(const char *name)
{
    for (size_t i = 0; i < TYPES_COUNT; i++)
        if (strcmp(name, types[i]->name) == 0)
            return types[i];
    return NULL;
}

/* Once: every thread opens a backend. */
static void say_refused(const char *name, int error, const weft__backend_type *instead)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_said))
        dprintf(STDERR_FILENO, "weft: WEFT_BACKEND=%s cannot be opened: %s; using %s\n", name,
                strerror(-error), instead != NULL ? instead->name : "none");
}

/* For the calling thread, which is the one that asks why. */
static const char *why_refused(const weft__backend_type *refused, int error)
{
    static _Thread_local char text[160];
    snprintf(text, sizeof text, "%s cannot be opened here (%s)", refused->name, strerror(-error));
    return text;
}

#ifdef WEFT_HAS_URING
/*
 * Valgrind does not see what the kernel writes into a ring: it takes completions for uninitialised
 * memory, reports each use, and slows a busy ring to a standstill. A library that was built without
 * Valgrind's header recognises it by what it preloads.
 */
static bool is_on_valgrind(void)
{
#if !defined(WEFT__ASAN) && !defined(WEFT__TSAN)
    if (weft__on_valgrind)
        return true;
#endif
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "vgpreload_") != NULL;
}
#endif

/* Is it only used if it is named? */
static bool is_passed_over(const weft__backend_type *type)
{
#ifdef WEFT_HAS_URING
    return type == &weft__backend_uring && is_on_valgrind();
#else
    (void)type;
    return false;
#endif
}

/* The first of all that works, except the simulation. */
static int open_best(weft__backend **out, const char **why)
{
    int first_rc = 0;
    for (size_t i = 0; i < TYPES_COUNT && types[i] != &weft__backend_sim; i++) {
        if (is_passed_over(types[i])) {
            if (why != NULL)
                *why = "io_uring is not used under Valgrind unless WEFT_BACKEND names it";
            continue;
        }
        int rc = types[i]->open(out);
        if (rc == 0)
            return 0;
        if (first_rc == 0) {
            first_rc = rc;
            if (why != NULL)
                *why = why_refused(types[i], rc);
        }
    }
    return first_rc;
}

const char *weft__backend_known(const char *name)
{
    const weft__backend_type *type = find(name);
    return type != NULL ? type->name : NULL;
}

static int open_named(weft__backend **out, const char *name, const char **why)
{
    bool is_asked_for = name != NULL;
    if (!is_asked_for)
        name = getenv("WEFT_BACKEND");
    if (name == NULL || *name == '\0') {
        *why = "it is the best one built in";
        return open_best(out, why);
    }
    const weft__backend_type *named = find(name);
    if (named == NULL) {
        say_unknown(name);
        *why = "WEFT_BACKEND names none that is built in; this is the best one";
        return open_best(out, why);
    }
    *why = is_asked_for ? "it was asked for" : "WEFT_BACKEND names it";
    int rc = named->open(out);
    if (rc == 0 || named == &weft__backend_sim)
        return rc;
    *why = why_refused(named, rc);
    int best_rc = open_best(out, NULL);
    if (!is_asked_for)
        say_refused(name, rc, best_rc == 0 ? (*out)->type : NULL);
    return best_rc;
}

int weft__backend_open(weft__backend **out, const char *name, const char **why)
{
    int rc = open_named(out, name, why);
    if (rc == 0)
        (*out)->thread = gettid();
    return rc;
}
