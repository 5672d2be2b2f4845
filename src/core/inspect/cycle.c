/* Cycles of fibers that wait for each other, for the deadlock report. See print.h. */
#include "core/inspect/group.h"
#include "core/inspect/print.h"

#include <stdlib.h>

/* Return the fiber that must end the wait of f, or NULL. */
static const weft_snapshot_fiber *awaited(const weft__groups *g, const weft_snapshot_fiber *f)
{
    return f->info.state == WEFT_WAITING ? weft__groups_fiber(g, f->info.waits_for_fiber) : NULL;
}

static void print_cycle(weft__report *r, const weft__groups *g, const weft_snapshot_fiber *first)
{
    const weft_snapshot_fiber *f = first;
    size_t count = 0;
    do {
        count++;
        f = awaited(g, f);
    } while (f != first);
    weft__report_print(r, "cycle of %zu fibers:\n", count);
    do {
        weft__report_print(r, "  #%llu '%s' waits for ", (unsigned long long)f->info.id,
                           f->info.name);
        weft__print_wait(r, g, f);
        weft__report_print(r, "\n");
        f = awaited(g, f);
    } while (f != first);
}

/*
 * Each fiber waits for at most one fiber. Walk from each fiber that was not visited. If the walk
 * meets a fiber of the same walk, that fiber is in a cycle.
 */
void weft__print_cycles(weft__report *r, const weft_snapshot *s)
{
    weft__groups g;
    weft__groups_open(&g, s);
    size_t *walk_of = calloc(s->fibers_count + 1, sizeof *walk_of); /* 0: not visited */
    for (size_t i = 0; walk_of != NULL && i < s->fibers_count; i++) {
        const weft_snapshot_fiber *f = &s->fibers[i];
        while (f != NULL && walk_of[f - s->fibers] == 0) {
            walk_of[f - s->fibers] = i + 1;
            f = awaited(&g, f);
        }
        if (f != NULL && walk_of[f - s->fibers] == i + 1 && awaited(&g, f) != NULL)
            print_cycle(r, &g, f);
    }
    free(walk_of);
    weft__groups_close(&g);
}
