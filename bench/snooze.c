/*
 * Going once around the run queue: nanoseconds a weft_snooze, with 2, 1,000 and 100,000 fibers
 * ready.
 *
 * The lower limit is a ring of as many bare contexts, each switching to its neighbour without
 * any queue, with its stack fetched two steps ahead. More fibers cost more in both: their stacks
 * leave the caches.
 *
 * NUMBER: snoozes a round.
 */
#include "bare.h"
#include "rounds.h"

#include <weft.h>

/* Fibers that wait until it is their turn, and then snooze until it is over. */
typedef struct crew {
    size_t size; /* with the main fiber */
    weft_fiber *fibers;
    bool is_on;
} crew;

static weft_value work(void *arg)
{
    const volatile crew *mine = arg;
    weft_value rc = 0;
    while (rc == 0 && (rc = weft_suspend()) == 0)
        while (mine->is_on && rc == 0)
            rc = weft_snooze();
    return rc;
}

static void crew_spin(crew *c)
{
    c->fibers = calloc(c->size, sizeof *c->fibers);
    bench_require(c->fibers != NULL, "no memory");
    for (size_t i = 1; i < c->size; i++) {
        c->fibers[i] = weft_spin(work, c);
        bench_require(c->fibers[i] != 0, "weft_spin");
    }
    weft_snooze();
}

static double crew_snooze(void *arg, size_t snoozes)
{
    crew *c = arg;
    if (c->fibers == NULL)
        crew_spin(c);
    size_t laps = snoozes / c->size + 1;
    c->is_on = true;
    for (size_t i = 1; i < c->size; i++)
        bench_require(weft_schedule(c->fibers[i], 0) == 0, "weft_schedule");
    weft_snooze();
    double began = bench_now_ns();
    for (size_t i = 0; i < laps; i++)
        weft_snooze();
    double took = bench_now_ns() - began;
    c->is_on = false;
    weft_snooze();
    return took / ((double)laps * (double)c->size);
}

typedef struct node {
    bare_context context;
    struct node *next;
} node;

static node *running;

static void step(intptr_t nothing)
{
    (void)nothing;
    for (;;) {
        node *self = running;
        running = self->next;
        bare_prefetch(&running->next->context);
        bare_switch(&self->context, &running->context);
    }
}

/* A ring of contexts that never ran; the first one is the caller's own. */
static node *ring_make(size_t size)
{
    char *stacks = bench_map(size * BARE_STACK_BYTES);
    node *nodes = calloc(size, sizeof *nodes);
    bench_require(nodes != NULL, "no memory");
    for (size_t i = 0; i < size; i++) {
        size_t colour = i % 16 * 64; /* equal offsets would share the same few sets of the cache */
        bare_make(&nodes[i].context, stacks + i * BARE_STACK_BYTES, BARE_STACK_BYTES - colour,
                  step);
        nodes[i].next = &nodes[(i + 1) % size];
    }
    return nodes;
}

typedef struct ring {
    size_t size;
    node *nodes;
} ring;

static double ring_turn(void *arg, size_t switches)
{
    ring *r = arg;
    if (r->nodes == NULL)
        r->nodes = ring_make(r->size);
    size_t laps = switches / r->size + 1;
    double began = 0;
    for (size_t i = 0; i <= laps; i++) {
        if (i == 1) /* the first lap warms */
            began = bench_now_ns();
        running = r->nodes->next;
        bare_switch(&r->nodes->context, &running->context);
    }
    return (bench_now_ns() - began) / ((double)laps * (double)r->size);
}

int main(int argc, char **argv)
{
    size_t snoozes = bench_start(argc, argv, 50000);
    static crew pair = {.size = 2}, thousand = {.size = 1000}, many = {.size = 100000};
    static ring pair_ring = {.size = 2}, thousand_ring = {.size = 1000},
                many_ring = {.size = 100000};
    const bench_case cases[] = {
        {"bare switch", bare_ping_pong, NULL},
        {"weft_snooze, 2 ready", crew_snooze, &pair},
        {"bare ring of 2", ring_turn, &pair_ring},
        {"weft_snooze, 1,000 ready", crew_snooze, &thousand},
        {"bare ring of 1,000", ring_turn, &thousand_ring},
        {"weft_snooze, 100,000 ready", crew_snooze, &many},
        {"bare ring of 100,000", ring_turn, &many_ring},
    };
    BENCH_RUN(cases, snoozes);
    return 0;
}
