/* Choose the backend of a cord: by name, or the best backend that opens. */
#include "backend/backend.h"

#include "arch/sanitizers.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All backends, in order of preference. sim is last, because sim is used only by name. */
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

/* Warn only once, because every thread opens a backend. */
static void warn_unknown(const char *name)
{
    static atomic_flag is_warned = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&is_warned))
        return;
    char names[128];
    size_t used = 0;
    for (size_t i = 0; i < TYPES_COUNT; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 types[i]->name);
    weft__log(LOG_WARNING, "WEFT_BACKEND=%s is not built in (built in: %s)", name, names);
}

static const weft__backend_type *type_find(const char *name)
{
    for (size_t i = 0; i < TYPES_COUNT; i++)
        if (strcmp(name, types[i]->name) == 0)
            return types[i];
    return NULL;
}

/* Warn once per process, because every thread opens a backend. */
static void warn_not_opened(const char *name, int error, const weft__backend_type *instead)
{
    static atomic_flag is_warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_warned))
        weft__log(LOG_WARNING, "the backend %s cannot be opened: %s; using %s", name,
                  strerror(-error), instead != NULL ? instead->name : "none");
}

/* Return the reason in static memory of the thread. The next call overwrites the text. */
static const char *failure_reason(const weft__backend_type *failed, int error)
{
    static _Thread_local char text[160];
    snprintf(text, sizeof text, "%s cannot be opened (%s)", failed->name, strerror(-error));
    return text;
}

#ifdef WEFT_HAS_URING
/*
 * Return whether the process runs under Valgrind. Valgrind cannot track data that the kernel writes
 * into a ring. Valgrind reports every completion as uninitialised memory, and a busy ring becomes
 * extremely slow. If weft was built without Valgrind's header, only LD_PRELOAD shows that Valgrind
 * runs.
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

/* Return whether a backend is used only if WEFT_BACKEND or the program names it. */
static bool is_skipped(const weft__backend_type *type)
{
#ifdef WEFT_HAS_URING
    return type == &weft__backend_uring && is_on_valgrind();
#else
    (void)type;
    return false;
#endif
}

/* Open the first backend of types that works. Do not try sim. */
static int open_best(weft__backend **out, const char **why)
{
    int first_rc = 0;
    for (size_t i = 0; i < TYPES_COUNT && types[i] != &weft__backend_sim; i++) {
        if (is_skipped(types[i])) {
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
                *why = failure_reason(types[i], rc);
        }
    }
    return first_rc;
}

const char *weft__backend_known(const char *name)
{
    const weft__backend_type *type = type_find(name);
    return type != NULL ? type->name : NULL;
}

static int open_named(weft__backend **out, const char *name, bool is_inherited, const char **why)
{
    bool is_requested = name != NULL;
    if (!is_requested)
        name = getenv("WEFT_BACKEND");
    if (name == NULL || *name == '\0') {
        *why = "it is the best backend that is built in";
        return open_best(out, why);
    }
    const weft__backend_type *named = type_find(name);
    if (named == NULL) {
        warn_unknown(name);
        *why = "WEFT_BACKEND does not name a built-in backend, so the best backend is used";
        return open_best(out, why);
    }
    *why = is_requested ? "the program requests it" : "WEFT_BACKEND names it";
    int rc = named->open(out);
    if (rc == 0 || named == &weft__backend_sim)
        return rc;
    *why = failure_reason(named, rc);
    int best_rc = open_best(out, NULL);
    if (!is_inherited)
        warn_not_opened(name, rc, best_rc == 0 ? (*out)->type : NULL);
    return best_rc;
}

int weft__backend_open(weft__backend **out, const char *name, bool is_inherited, const char **why)
{
    int rc = open_named(out, name, is_inherited, why);
    if (rc == 0)
        (*out)->thread = gettid();
    return rc;
}
