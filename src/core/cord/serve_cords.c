/* weft_serve_cords: run one function in several cords, and wait for the cords. */
#include <weft/cord.h>
#include <weft/error.h>
#include <weft/group.h>
#include <weft/scope.h>
#include <weft/time.h>

#include "base/cpu.h"
#include "core/cord/handle.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Seconds between two attempts to join a cord while memory is exhausted. */
#define RETRY_S 0.001

/*
 * Join one cord. A member of the group runs this function. The member fails with the error of the
 * cord. If the member is cancelled, its join cancels the cord.
 */
static weft_value cord_join_one(void *arg)
{
    weft_value value = weft_cord_join((weft_cord)(uintptr_t)arg);
    return weft_is_error(value) ? value : 0;
}

/* Start a cord and a fiber that joins the cord. *cord is 0 if the cord was not started. */
static int cord_start_one(weft_group *group, unsigned number, weft_fn *fn, void *arg,
                          weft_cord *cord)
{
    char name[32];
    snprintf(name, sizeof name, "serve-%u", number);
    *cord = weft__cord_start(fn, arg, &(weft_cord_options){.name = name}, true);
    weft_fiber joiner =
        *cord != 0 ? weft_group_spin(group, cord_join_one, (void *)(uintptr_t)*cord) : 0;
    const weft_error_info *error = weft_error();
    if (joiner != 0)
        return weft_set_name(joiner, name);
    return error != NULL ? error->code : -ENOMEM; /* memory for the error was exhausted */
}

/*
 * Cancel and join the remaining cords. A cord remains if its joining fiber was cancelled before the
 * fiber ran. The last error of the caller does not change.
 */
static void cords_cancel_and_join(const weft_cord *cords, unsigned n)
{
    weft__fiber *self = weft__cord_self->current;
    weft__error *error = weft__error_ref(self->error);
    for (unsigned i = 0; i < n; i++)
        weft_cord_cancel(cords[i]);
    WEFT_SHIELD(INFINITY)
        for (unsigned i = 0; i < n; i++)
            /* A join needs no memory after the cord has ended. */
            while (weft_cord_join(cords[i]) == -ENOMEM)
                weft_sleep(RETRY_S);
    weft__error_set(self, error);
}

int weft_serve_cords(unsigned n, weft_fn *fn, void *arg)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "weft_serve_cords: fn is NULL");
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
        rc = cord_start_one(&group, i + 1, fn, arg, &cords[i]);
    if (rc < 0)
        weft_group_cancel(&group);
    int group_rc = weft_group_close(&group);
    cords_cancel_and_join(cords, n);
    return rc < 0 ? rc : group_rc;
}
