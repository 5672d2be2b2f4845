/* The same function in several cords at once, as one call. */
#include <weft/cord.h>
#include <weft/group.h>

#include "core/tenure.h"

#include <sched.h>
#include <stdio.h>

/* CPUs that this process may use. */
static unsigned count_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

/*
 * An error of one cord is the error of the fiber that joins it; and cancelled, it cancels its cord.
 */
static weft_value join_one(void *arg)
{
    weft_value value = weft_cord_join((weft_cord)(uintptr_t)arg);
    return weft_is_error(value) ? value : 0;
}

/* 0 or -errno. */
static int start_one(weft_group *group, unsigned number, weft_fn *fn, void *arg)
{
    char name[16];
    snprintf(name, sizeof name, "serve-%u", number);
    weft_cord cord = weft__cord_start(fn, arg, &(weft_cord_options){.name = name}, true);
    if (cord == 0)
        return weft_error()->code;
    if (weft_group_spin(group, join_one, (void *)(uintptr_t)cord) != 0)
        return 0;
    int rc = weft_error()->code;
    weft_cord_cancel(cord);
    weft_cord_join(cord);
    return rc;
}

int weft_serve_cords(unsigned n, weft_fn *fn, void *arg)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "a cord that serves needs a function");
    if (n == 0)
        n = count_cpus();
    weft_group group;
    int rc = weft_group_open(&group);
    if (rc < 0)
        return rc;
    for (unsigned i = 1; i <= n && rc == 0; i++)
        rc = start_one(&group, i, fn, arg);
    if (rc < 0)
        weft_group_cancel(&group);
    int first = weft_group_close(&group);
    return rc < 0 ? rc : first;
}
