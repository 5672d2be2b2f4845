/*
 * Workloads of two contexts that use bare switches only. `spin` creates a context on an existing
 * stack, runs it, and continues when it ends. The context has no id, parent, value or queue.
 * `rendezvous` stores the message in a variable and switches to the waiting context. `buffered` has
 * a ring of messages, and switches when the ring is full or empty.
 */
#include "bare.h"
#include "works.h"

static bare_context here, there;

static void end_at_once(intptr_t nothing)
{
    (void)nothing;
    bare_switch(&there, &here);
}

static char *stack;

static double spin_pass(size_t count, size_t n)
{
    (void)count;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        bare_make(&there, stack, BARE_STACK_BYTES, end_at_once);
        bare_switch(&here, &there);
    }
    return (bench_cpu_ns() - began) / (double)n;
}

void work_spin(size_t count, size_t n)
{
    stack = bare_map_stacks(1);
    bench_measure(spin_pass, count, n);
}

static intptr_t message, reply;

static void answer(intptr_t nothing)
{
    (void)nothing;
    for (;;) {
        reply = message;
        bare_switch(&there, &here);
    }
}

static double rendezvous_pass(size_t count, size_t n)
{
    (void)count;
    intptr_t sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        message = 1;
        bare_switch(&here, &there);
        sum += reply;
    }
    double took = bench_cpu_ns() - began;
    bench_require(sum == (intptr_t)n);
    return took / (double)n;
}

void work_rendezvous(size_t count, size_t n)
{
    bare_make(&there, bare_map_stacks(1), BARE_STACK_BYTES, answer);
    bench_measure(rendezvous_pass, count, n);
}

#define ROOM 128

static struct {
    size_t put, taken;
    intptr_t values[ROOM];
    intptr_t sum;
} buffer;

static inline void buffer_put(intptr_t value)
{
    while (buffer.put - buffer.taken == ROOM)
        bare_switch(&here, &there);
    buffer.values[buffer.put++ % ROOM] = value;
}

static inline intptr_t buffer_take(void)
{
    while (buffer.put == buffer.taken)
        bare_switch(&there, &here);
    return buffer.values[buffer.taken++ % ROOM];
}

static void drain(intptr_t nothing)
{
    (void)nothing;
    for (;;)
        buffer.sum += buffer_take();
}

static double buffered_pass(size_t count, size_t n)
{
    bench_require(count == ROOM);
    buffer.sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        buffer_put(1);
    bare_switch(&here, &there);
    double took = bench_cpu_ns() - began;
    bench_require(buffer.sum == (intptr_t)n);
    return took / (double)n;
}

void work_buffered(size_t count, size_t n)
{
    bare_make(&there, bare_map_stacks(1), BARE_STACK_BYTES, drain);
    bench_measure(buffered_pass, count, n);
}
