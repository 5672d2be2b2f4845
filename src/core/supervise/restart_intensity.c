/* Restart intensity. See restart_intensity.h. */
#include "core/supervise/restart_intensity.h"

#include "core/sched/timer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define CAPACITY_MIN 16

static int64_t *time_at(const weft__restart_intensity *i, size_t n)
{
    return &i->times[(i->head + n) & (i->capacity - 1)];
}

/* Make space for one more entry in times. Return 0 or -ENOMEM. */
static int times_reserve(weft__restart_intensity *i)
{
    if (i->count < i->capacity)
        return 0;
    size_t capacity = i->capacity != 0 ? 2 * i->capacity : CAPACITY_MIN;
    int64_t *times = malloc(capacity * sizeof *times);
    if (times == NULL)
        return -ENOMEM;
    for (size_t n = 0; n < i->count; n++)
        times[n] = *time_at(i, n);
    free(i->times);
    i->times = times;
    i->capacity = capacity;
    i->head = 0;
    return 0;
}

/* Remove the times that are not in the window any more. */
static void window_move(weft__restart_intensity *i, int64_t now_ns)
{
    while (i->count > 0 && now_ns - *time_at(i, 0) >= i->window_ns) {
        i->head++;
        i->count--;
    }
}

int weft__restart_intensity_note(weft__restart_intensity *i, int64_t now_ns)
{
    if (i->max == UINT_MAX)
        return 0;
    bool is_timed = i->window_ns != WEFT__NEVER;
    if (is_timed)
        window_move(i, now_ns);
    if (i->count == i->max)
        return -ELOOP;
    int rc = is_timed ? times_reserve(i) : 0;
    if (rc < 0)
        return rc;
    if (is_timed)
        *time_at(i, i->count) = now_ns;
    i->count++;
    return 0;
}

void weft__restart_intensity_free(weft__restart_intensity *i)
{
    free(i->times);
    i->times = NULL;
    i->capacity = i->head = i->count = 0;
}
