/* The tracks of a trace. See tracks.h. */
#include "core/trace/tracks.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 256

/* Return the place of a fiber in the table, or the empty place for it. */
static uint32_t *place_of(const weft__tracks *t, weft_fiber fiber)
{
    uint64_t hash = fiber * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = (size_t)(hash >> 32);; i++) {
        uint32_t *place = &t->table[i & (t->room - 1)];
        if (*place == 0 || t->list[*place - 1].fiber == fiber)
            return place;
    }
}

/* Double the room. Return false if memory is exhausted. */
COLD static bool tracks_grow(weft__tracks *t)
{
    size_t room = t->room != 0 ? t->room * 2 : ROOM_MIN;
    weft__track *list = realloc(t->list, room / 2 * sizeof *list);
    if (list == NULL)
        return false;
    t->list = list;
    uint32_t *table = calloc(room, sizeof *table);
    if (table == NULL)
        return false;
    free(t->table);
    t->table = table;
    t->room = room;
    for (size_t i = 0; i < t->count; i++)
        *place_of(t, list[i].fiber) = (uint32_t)i + 1;
    return true;
}

weft__track *weft__tracks_get(weft__tracks *t, weft_fiber fiber)
{
    uint32_t *place = t->room != 0 ? place_of(t, fiber) : NULL;
    if (place != NULL && *place != 0)
        return &t->list[*place - 1];
    if (t->count >= t->room / 2) {
        if (!tracks_grow(t))
            return NULL;
        place = place_of(t, fiber);
    }
    weft__track *track = &t->list[t->count++];
    *track = (weft__track){.fiber = fiber, .fd = -1};
    *place = (uint32_t)t->count;
    return track;
}

void weft__tracks_set_name(weft__tracks *t, weft_fiber fiber, const char *name)
{
    uint32_t *place = t->room != 0 ? place_of(t, fiber) : NULL;
    if (place != NULL && *place != 0)
        memcpy(t->list[*place - 1].name, name, WEFT__NAME_BYTES);
}

void weft__tracks_free(weft__tracks *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->list[i].spans);
    free(t->list);
    free(t->table);
}

int weft__track_push_span(weft__track *t, int64_t ns, size_t record)
{
    if (t->spans_count == t->spans_room) {
        size_t room = t->spans_room != 0 ? t->spans_room * 2 : 4;
        weft__span *spans = realloc(t->spans, room * sizeof *spans);
        if (spans == NULL)
            return -ENOMEM;
        t->spans = spans;
        t->spans_room = room;
    }
    t->spans[t->spans_count++] = (weft__span){ns, record};
    return 0;
}
