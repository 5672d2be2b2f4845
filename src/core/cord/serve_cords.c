/* The same function in several cords at once, as one call. */
#include <weft/cord.h>
#include <weft/error.h>
#include <weft/group.h>
#include <weft/scope.h>
#include <weft/time.h>

#include "base/cpu.h"
#include "core/tenure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* How long a wait that there is no memory for is put off. */
#define RETRY_S 0.001

/* An error of one cord is the error of the fiber that joins it; cancelled, it cancels its cord. */
static weft_value join_one(void *arg)
{
    weft_value value = weft_cord_join((weft_cord)(uintptr_t)arg);
    return weft_is_error(value) ? value : 0;
}

/* 0 or -errno. *cord is 0 if it was not started. */
static int start_one(weft_group *group, unsigned number, weft_fn *fn, void *arg, weft_cord *cord)
{
    char name[32];
    snprintf(name, sizeof name, "serve-%u", number);
    *cord = weft__cord_start(fn, arg, &(weft_cord_options){.name = name}, true);
    weft_fiber joiner = *cord != 0 ? weft_group_spin(group, join_one, (void *)(uintptr_t)*cord) : 0;
    const weft_error_info *why = weft_error();
    if (joiner != 0)
        return weft_name(joiner, name);
    return why != NULL ? why->code : -ENOMEM; /* there was no memory for words */
}

/* Those whose fiber was cancelled before it had begun to join. The words of the error stay. */
static void end_others(const weft_cord *cords, unsigned n)
{
    weft__fiber *self = weft__cord_self->current;
    weft__error *words = weft__error_ref(self->error);
    for (unsigned i = 0; i < n; i++)
        weft_cord_cancel(cords[i]);
    WEFT_SHIELD(INFINITY)
        for (unsigned i = 0; i < n; i++)
            while (weft_cord_join(cords[i]) == -ENOMEM) /* once it has ended, it takes none */
                weft_sleep(RETRY_S);
    weft__error_set(self, words);
}

int weft_serve_cords(unsigned n, weft_fn *fn, void *arg)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "a cord that serves needs a function");
    if (n == 0)
        n = weft__cpu_count();
    weft_cord *cords = calloc(n, sizeof *cords);
    if (cords == NULL)
        return -ENOMEM;
    WEFT_DEFER(free, cords);
    weft_group group;
    int rc = weft_group_open(&group);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = start_one(&group, i + 1, fn, arg, &cords[i]);
    if (rc < 0)
        weft_group_cancel(&group);
    int first = weft_group_close(&group);
    end_others(cords, n);
    return rc < 0 ? rc : first;
}
