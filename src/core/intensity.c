/* Intensity: counting what happens in a window that slides with the time. */
#include "core/intensity.h"

#include "core/timer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define ROOM_MIN 16

static int64_t *nth(const weft__intensity *i, size_t n)
{
    return &i->times[(i->head + n) & (i->room - 1)];
}

static int reserve(weft__intensity *i)
{
    if (i->count < i->room)
        return 0;
    size_t room = i->room != 0 ? 2 * i->room : ROOM_MIN;
    int64_t *times = malloc(room * sizeof *times);
    if (times == NULL)
        return -ENOMEM;
    for (size_t n = 0; n < i->count; n++)
        times[n] = *nth(i, n);
    free(i->times);
    i->times = times;
    i->room = room;
    i->head = 0;
    return 0;
}

static void move_window(weft__intensity *i, int64_t now_ns)
{
    while (i->count > 0 && now_ns - *nth(i, 0) >= i->window_ns) {
        i->head++;
        i->count--;
    }
}

int weft__intensity_note(weft__intensity *i, int64_t now_ns)
{
    if (i->max == UINT_MAX)
        return 0;
    bool is_timed = i->window_ns != WEFT__NEVER;
    if (is_timed)
        move_window(i, now_ns);
    if (i->count == i->max)
        return -ELOOP;
    int rc = is_timed ? reserve(i) : 0;
    if (rc < 0)
        return rc;
    if (is_timed)
        *nth(i, i->count) = now_ns;
    i->count++;
    return 0;
}

void weft__intensity_free(weft__intensity *i)
{
    free(i->times);
    i->times = NULL;
    i->room = i->head = i->count = 0;
}
