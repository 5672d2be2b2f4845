/* Groups of equal fibers in a snapshot. See group.h. */
#include "core/inspect/group.h"

#include "core/inspect/print.h"

#include <stdlib.h>
#include <string.h>

/* The visible part of frames that several fibers share. */
typedef struct visible_frames {
    void *const *frames; /* NULL: a free slot */
    unsigned hidden;
    uint64_t hash;
} visible_frames;

/* The memory in which groups are found. All tables have `slots` elements, a power of two. */
typedef struct grouping {
    weft__groups *groups;
    size_t slots;
    visible_frames *visible; /* by the address of the frames */
    uint32_t *firsts;        /* by the properties: 1 + the first fiber of a group; 0: free */
    uint32_t *last;          /* of the first fiber of a group: the last fiber */
} grouping;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Return a power of two that is larger than twice the count. */
static size_t slots_for(size_t count)
{
    size_t slots = 16;
    while (slots <= 2 * count)
        slots *= 2;
    return slots;
}

/* Return the visible part of the frames of a fiber that has frames. */
static const visible_frames *visible_of(grouping *gr, const weft_snapshot_fiber *f)
{
    size_t slot = mix(0, (uintptr_t)f->frames) & (gr->slots - 1);
    while (gr->visible[slot].frames != NULL && gr->visible[slot].frames != f->frames)
        slot = (slot + 1) & (gr->slots - 1);
    visible_frames *v = &gr->visible[slot];
    if (v->frames == NULL) {
        *v = (visible_frames){f->frames, weft__frames_hidden(f->frames, f->frames_count), 1};
        for (unsigned i = v->hidden; i < f->frames_count; i++)
            v->hash = mix(v->hash, (uintptr_t)f->frames[i]);
    }
    return v;
}

static bool has_same_frames(grouping *gr, const weft_snapshot_fiber *a,
                            const weft_snapshot_fiber *b)
{
    if (a->frames == b->frames)
        return true;
    if (a->frames == NULL || b->frames == NULL)
        return false;
    unsigned hidden_a = visible_of(gr, a)->hidden, hidden_b = visible_of(gr, b)->hidden;
    size_t count = a->frames_count - hidden_a;
    return count == b->frames_count - hidden_b &&
           memcmp(a->frames + hidden_a, b->frames + hidden_b, count * sizeof *a->frames) == 0;
}

static uint64_t properties_hash(grouping *gr, const weft_snapshot_fiber *f)
{
    uint64_t hash = mix(f->info.parent, (uintptr_t)f->info.fn);
    hash = mix(hash, (uintptr_t)f->info.waits_for ^ (uint64_t)f->info.state);
    return f->frames != NULL ? mix(hash, visible_of(gr, f)->hash) : hash;
}

static bool has_same_properties(grouping *gr, const weft_snapshot_fiber *a,
                                const weft_snapshot_fiber *b)
{
    return a->cord == b->cord && a->info.parent == b->info.parent && a->info.fn == b->info.fn &&
           a->info.state == b->info.state && a->info.is_parked == b->info.is_parked &&
           strcmp(a->info.waits_for, b->info.waits_for) == 0 && has_same_frames(gr, a, b);
}

/* Fibers with children are not grouped, because their children follow them. */
static bool has_children(const weft_snapshot *s, size_t index)
{
    return index + 1 < s->fibers_count && s->fibers[index + 1].depth > s->fibers[index].depth &&
           s->fibers[index + 1].cord == s->fibers[index].cord;
}

static void group_add(grouping *gr, size_t index)
{
    weft__groups *g = gr->groups;
    const weft_snapshot_fiber *fibers = g->snapshot->fibers, *f = &fibers[index];
    size_t slot = properties_hash(gr, f) & (gr->slots - 1);
    for (; gr->firsts[slot] != 0; slot = (slot + 1) & (gr->slots - 1)) {
        uint32_t first = gr->firsts[slot] - 1;
        if (!has_same_properties(gr, &fibers[first], f))
            continue;
        g->next[gr->last[first]] = (uint32_t)index;
        gr->last[first] = (uint32_t)index;
        g->is_further[index] = true;
        return;
    }
    gr->firsts[slot] = (uint32_t)index + 1;
    gr->last[index] = (uint32_t)index;
}

static void find_groups(grouping *gr)
{
    weft__groups *g = gr->groups;
    for (size_t i = 0; i < g->snapshot->fibers_count; i++) {
        g->next[i] = WEFT__GROUP_END;
        if (!has_children(g->snapshot, i))
            group_add(gr, i);
    }
}

static size_t id_slot(const weft__groups *g, weft_fiber id)
{
    size_t slot = mix(0, id) & (g->by_id_slots - 1);
    while (g->by_id[slot] != 0 && g->snapshot->fibers[g->by_id[slot] - 1].info.id != id)
        slot = (slot + 1) & (g->by_id_slots - 1);
    return slot;
}

static void index_ids(weft__groups *g)
{
    g->by_id_slots = slots_for(g->snapshot->fibers_count);
    g->by_id = calloc(g->by_id_slots, sizeof *g->by_id);
    for (size_t i = 0; g->by_id != NULL && i < g->snapshot->fibers_count; i++)
        g->by_id[id_slot(g, g->snapshot->fibers[i].info.id)] = (uint32_t)i + 1;
}

void weft__groups_open(weft__groups *g, const weft_snapshot *s)
{
    size_t count = s->fibers_count, slots = slots_for(count);
    *g = (weft__groups){.snapshot = s};
    index_ids(g);
    grouping gr = {.groups = g,
                   .slots = slots,
                   .visible = calloc(slots, sizeof *gr.visible),
                   .firsts = calloc(slots, sizeof *gr.firsts),
                   .last = calloc(count + 1, sizeof *gr.last)};
    g->next = malloc((count + 1) * sizeof *g->next);
    g->is_further = calloc(count + 1, sizeof *g->is_further);
    if (gr.visible != NULL && gr.firsts != NULL && gr.last != NULL && g->next != NULL &&
        g->is_further != NULL) {
        find_groups(&gr);
    } else {
        free(g->next);
        free(g->is_further);
        g->next = NULL;
        g->is_further = NULL;
    }
    free(gr.visible);
    free(gr.firsts);
    free(gr.last);
}

void weft__groups_close(weft__groups *g)
{
    free(g->next);
    free(g->is_further);
    free(g->by_id);
}

bool weft__groups_is_first(const weft__groups *g, size_t index)
{
    return g->is_further == NULL || !g->is_further[index];
}

const weft_snapshot_fiber *weft__groups_fiber(const weft__groups *g, weft_fiber id)
{
    if (g->by_id == NULL || id == 0)
        return NULL;
    uint32_t at = g->by_id[id_slot(g, id)];
    return at != 0 ? &g->snapshot->fibers[at - 1] : NULL;
}
