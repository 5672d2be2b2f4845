/* Counters of cords. See stats.h. */
#include "core/debug/stats.h"

#include "backend/syscall/count.h"
#include "base/histogram.h"
#include "base/result.h"
#include "core/cord/registry.h"
#include "core/sched/sched.h"

/* The counts of ended cords, protected by the lock of the registry. */
static weft_counters ended;

/* Access a field of published counters. On 64-bit machines, each type of a field is lock-free. */
#define STORE(field, value)                                  \
    do {                                                     \
        __typeof__(field) stored = (value);                  \
        __atomic_store(&(field), &stored, __ATOMIC_RELAXED); \
    } while (0)
#define LOAD(field)                                         \
    __extension__({                                         \
        __typeof__(0 + field) loaded;                       \
        __atomic_load(&(field), &loaded, __ATOMIC_RELAXED); \
        loaded;                                             \
    })

void weft__stats_publish_idle(weft__cord *c)
{
    STORE(c->stats.counters.idle_s, (double)c->top.idle_ns / 1e9);
    STORE(c->stats.counters.idle_share, weft__top_share(c, NULL));
}

COLD void weft__stats_publish(weft__cord *c)
{
    weft_counters *to = &c->stats.counters;
    STORE(to->switches, c->switches + c->tick_span - c->tick_left);
    STORE(to->polls, c->polls);
    STORE(to->polls_blocking, c->polls_blocking);
    STORE(to->ops, c->ops);
    STORE(to->messages, c->messages);
    STORE(to->wakes, c->wakes);
    STORE(to->runnable_max, c->runqueue.count_max);
    STORE(to->ops_pending, c->backend->pending);
    STORE(to->runnable, weft__runqueue_count(&c->runqueue));
    STORE(to->fibers, weft__cord_fibers(c));
    STORE(to->fibers_unawaited, c->ended_count + c->unawaited.count);
    STORE(to->stacks, c->stacks.mapped);
    STORE(to->stacks_cached, c->stacks.cached + c->warm_count);
    STORE(to->stacks_unguarded, c->stacks.unguarded);
    STORE(to->timers, c->wheel.count);
    STORE(to->syscalls, weft__syscalls_made);
    STORE(to->fibers_spun, c->spun);
    STORE(to->cords, 1);
    STORE(to->stack_bytes, c->stacks.mapped_bytes);
    STORE(to->messages_pending, atomic_load_explicit(&c->remote_pending, memory_order_relaxed));
    STORE(to->watches, c->watches);
    STORE(to->stalls, c->latency.stalls);
    STORE(to->stall_ns, c->latency.stall_ns);
    if (c->is_accounting)
        weft__stats_publish_idle(c);
    c->stats.due_ns = c->now_ns + WEFT__STATS_NS;
}

void weft__stats_add_latency(weft__cord *c, uint64_t ns)
{
    weft_histogram *h = &c->stats.counters.wake_latency;
    uint64_t *bucket = &h->buckets[weft__histogram_bucket(ns)];
    STORE(*bucket, *bucket + 1);
    STORE(h->sum_ns, h->sum_ns + ns);
}

/* Add the fields that never decrease. */
static void add_counts(weft_counters *sum, const weft_counters *from)
{
    sum->switches += LOAD(from->switches);
    sum->polls += LOAD(from->polls);
    sum->polls_blocking += LOAD(from->polls_blocking);
    sum->ops += LOAD(from->ops);
    sum->messages += LOAD(from->messages);
    sum->wakes += LOAD(from->wakes);
    sum->syscalls += LOAD(from->syscalls);
    sum->fibers_spun += LOAD(from->fibers_spun);
    sum->stalls += LOAD(from->stalls);
    sum->stall_ns += LOAD(from->stall_ns);
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
        sum->wake_latency.buckets[i] += LOAD(from->wake_latency.buckets[i]);
    sum->wake_latency.sum_ns += LOAD(from->wake_latency.sum_ns);
    size_t runnable_max = LOAD(from->runnable_max);
    if (runnable_max > sum->runnable_max)
        sum->runnable_max = runnable_max;
}

/* Add the current values. */
static void add_gauges(weft_counters *sum, const weft_counters *from)
{
    sum->ops_pending += LOAD(from->ops_pending);
    sum->runnable += LOAD(from->runnable);
    sum->fibers += LOAD(from->fibers);
    sum->fibers_unawaited += LOAD(from->fibers_unawaited);
    sum->stacks += LOAD(from->stacks);
    sum->stacks_cached += LOAD(from->stacks_cached);
    sum->stacks_unguarded += LOAD(from->stacks_unguarded);
    sum->timers += LOAD(from->timers);
    sum->idle_s += LOAD(from->idle_s);
    sum->idle_share += LOAD(from->idle_share);
    sum->cords += LOAD(from->cords);
    sum->stack_bytes += LOAD(from->stack_bytes);
    sum->messages_pending += LOAD(from->messages_pending);
    sum->watches += LOAD(from->watches);
}

static void add_cord(weft__cord *c, void *sum)
{
    add_counts(sum, &c->stats.counters);
    add_gauges(sum, &c->stats.counters);
}

void weft__stats_read(weft__cord *c, weft_counters *out)
{
    *out = (weft_counters){0};
    add_cord(c, out);
}

void weft__stats_add_ended(weft__cord *c)
{
    if (c->backend == NULL)
        return; /* no thread has run the cord */
    weft__stats_publish(c);
    add_counts(&ended, &c->stats.counters);
}

void weft__stats_reset_ended(void)
{
    ended = (weft_counters){0};
}

/* Publish the current counters of the calling thread, if the thread is a cord. */
static int publish_own(void)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (c == NULL)
        return 0;
    weft__cord_update_time(c);
    int64_t due_ns = c->stats.due_ns;
    weft__stats_publish(c);
    c->stats.due_ns = due_ns; /* frequent readings must not suppress the samples of latency */
    return 0;
}

int weft__stats(weft_counters *out, size_t size)
{
    weft__cord *c = weft__cord_here();
    int rc = c != NULL ? publish_own() : weft__no_cord();
    if (rc < 0)
        return rc;
    weft_counters sum = {0};
    add_cord(c, &sum);
    weft__result_copy(out, size, &sum, sizeof sum);
    return 0;
}

int weft__stats_of(weft_cord cord, weft_counters *out, size_t size)
{
    int rc = publish_own();
    if (rc < 0)
        return rc;
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = cord != 0 ? weft__registry_acquire(index) : NULL;
    if (c == NULL)
        return -ESRCH;
    weft_counters sum = {0};
    bool is_same = c->main->id == cord; /* the slot may belong to a later cord */
    if (is_same)
        add_cord(c, &sum);
    weft__registry_release(index);
    if (!is_same)
        return -ESRCH;
    weft__result_copy(out, size, &sum, sizeof sum);
    return 0;
}

int weft__stats_total(weft_counters *out, size_t size)
{
    int rc = publish_own();
    if (rc < 0)
        return rc;
    /* One critical section, so that a cord that ends is counted exactly once. */
    weft__registry_lock();
    weft_counters sum = ended;
    weft__registry_each_locked(add_cord, &sum);
    weft__registry_unlock();
    sum.syscalls += weft__syscalls_of_workers();
    weft__result_copy(out, size, &sum, sizeof sum);
    return 0;
}

/* The result of weft_cords. */
typedef struct cord_list {
    weft_cord *cords;
    size_t n;
    int end; /* the highest index plus 1 */
} cord_list;

static void list_cord(weft__cord *c, void *context)
{
    cord_list *list = context;
    if (c->index < list->n)
        list->cords[c->index] = c->main->id;
    if ((int)c->index >= list->end)
        list->end = (int)c->index + 1;
}

int weft_cords(weft_cord *cords, size_t n)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    cord_list list = {.cords = cords, .n = n};
    for (size_t i = 0; i < n; i++)
        cords[i] = 0;
    weft__registry_each(list_cord, &list);
    return list.end;
}
