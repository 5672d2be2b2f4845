/*
 * Many contexts that yield in turn. `snooze` has no queue. The contexts form a ring, and each yield
 * prefetches the stack after the next one. `snooze-linked` does the minimum of a scheduler. A yield
 * appends the caller to a linked list and takes the next context from its head.
 */
#include "bare.h"
#include "works.h"

#include <stdbool.h>

typedef struct node {
    bare_context context;
    struct node *next;
} node;

static node *running;
static node *first, **last = &first;

static inline void yield_in_ring(void)
{
    node *self = running;
    running = self->next;
    bare_prefetch(&running->next->context);
    if (running != self)
        bare_switch(&self->context, &running->context);
}

static inline void queue_put(node *one)
{
    one->next = NULL;
    *last = one;
    last = &one->next;
}

static inline void yield_in_queue(void)
{
    node *self = running;
    if (first == NULL)
        return;
    queue_put(self);
    running = first;
    first = running->next;
    bare_switch(&self->context, &running->context);
}

static void stay_in_ring(intptr_t nothing)
{
    (void)nothing;
    for (;;)
        yield_in_ring();
}

static void stay_in_queue(intptr_t nothing)
{
    (void)nothing;
    for (;;)
        yield_in_queue();
}

/* Create nodes. The first node is the context of the caller. */
static node *make_nodes(size_t count, bare_entry *entry)
{
    bench_require(count > 0);
    char *stacks = bare_map_stacks(count);
    node *nodes = calloc(count, sizeof *nodes);
    bench_require(nodes != NULL);
    for (size_t i = 0; i < count; i++) {
        size_t colour = i % 16 * 64; /* equal offsets would map to the same few cache sets */
        bare_make(&nodes[i].context, stacks + i * BARE_STACK_BYTES, BARE_STACK_BYTES - colour,
                  entry);
    }
    running = nodes;
    return nodes;
}

static double ring_pass(size_t count, size_t n)
{
    size_t laps = n / count + 1;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < laps; i++)
        yield_in_ring();
    return (bench_cpu_ns() - began) / ((double)laps * (double)count);
}

void work_snooze(size_t count, size_t n)
{
    node *nodes = make_nodes(count, stay_in_ring);
    for (size_t i = 0; i < count; i++)
        nodes[i].next = &nodes[(i + 1) % count];
    bench_measure(ring_pass, count, n);
}

static double queue_pass(size_t count, size_t n)
{
    size_t laps = n / count + 1;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < laps; i++)
        yield_in_queue();
    return (bench_cpu_ns() - began) / ((double)laps * (double)count);
}

void work_snooze_linked(size_t count, size_t n)
{
    node *nodes = make_nodes(count, stay_in_queue);
    for (size_t i = 1; i < count; i++)
        queue_put(&nodes[i]);
    bench_measure(queue_pass, count, n);
}
