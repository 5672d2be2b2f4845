/*
 * Samples: snapshots that viewers share. A viewer that finds the last sample too old takes the next
 * one. The lock is never held in a switch.
 */
#include "inspect/inspect.h"

#include <weft/time.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_S 0.25 /* for cords to reply; a stalled cord delays the sample by this time */
#define RETRY_S 0.02   /* between two looks at the first sample of another viewer */
#define SLACK_S 0.02   /* a sample that is due in this time is taken now */
/* The CPU time to copy a fiber: the first estimate, and the bounds of later estimates. */
#define COPY_FIRST_S 1e-6
#define COPY_MIN_S 0.05e-6
#define COPY_MAX_S 2e-6
#define COPY_GROWTH 1.5                /* at most, from one sample to the next */
#define COPY_FIBERS_MIN ((size_t)1000) /* of the own cord, for an estimate */

static double seconds_of(struct timespec t)
{
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double monotonic_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return seconds_of(t);
}

/*
 * Return the CPU time of a thread of the process, or of the process if thread_id is 0.
 *
 * The kernel encodes the CPU clock of a thread in an id: the complement of the thread id, shifted
 * by 3, with the bits 4 (a thread) and 2 (the scheduler's clock). See clock_getcpuclockid(3).
 */
static double cpu_time_of(int thread_id)
{
    struct timespec t;
    clockid_t clock =
        thread_id == 0 ? CLOCK_PROCESS_CPUTIME_ID : (clockid_t)((~(unsigned)thread_id << 3) | 6);
    return clock_gettime(clock, &t) == 0 ? seconds_of(t) : 0;
}

double weft__cpu_time_self(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return seconds_of(t);
}

int weft__viewer_enter(weft_inspector *i)
{
    pthread_mutex_lock(&i->lock);
    bool has_room = i->viewers < i->options.viewers_max;
    i->viewers += has_room;
    pthread_mutex_unlock(&i->lock);
    return has_room ? 0 : -EBUSY;
}

static void sample_free(weft__sample *s)
{
    if (s == NULL)
        return;
    weft__index_close(&s->index);
    weft_snapshot_free(s->snapshot);
    free(s->cords);
    free(s);
}

/* Drop one use of a sample. Returns the sample if it has no other user. Needs the lock. */
static weft__sample *sample_unuse(weft__sample *s)
{
    return s != NULL && --s->users == 0 ? s : NULL;
}

void weft__sample_release(weft_inspector *i, weft__sample *s)
{
    pthread_mutex_lock(&i->lock);
    weft__sample *unused = sample_unuse(s);
    pthread_mutex_unlock(&i->lock);
    sample_free(unused);
}

void weft__viewer_leave(weft_inspector *i)
{
    weft__sample *unused = NULL;
    pthread_mutex_lock(&i->lock);
    bool is_last = --i->viewers == 0;
    if (is_last) {
        unused = sample_unuse(i->latest);
        i->latest = NULL;
        i->next_s = 0;
    }
    pthread_mutex_unlock(&i->lock);
    sample_free(unused);
    if (is_last)
        weft__account_stop(i);
}

/* Return a share of a core in hundredths of a percent. */
static uint32_t share_of(double cpu_s, double elapsed_s)
{
    double share = elapsed_s > 0 ? 10000 * cpu_s / elapsed_s : 0;
    return share > 0 ? (uint32_t)(share + 0.5) : 0;
}

static const weft__cord_cpu *cord_cpu_find(const weft__sample *s, int thread_id)
{
    for (size_t c = 0; s != NULL && c < s->snapshot->cords_count; c++)
        if (s->cords[c].thread_id == thread_id)
            return &s->cords[c];
    return NULL;
}

/* Fill in the CPU times of cords, and their shares since the sample before. */
static void sample_measure_cords(weft__sample *s, const weft__sample *before, double elapsed_s)
{
    for (size_t c = 0; c < s->snapshot->cords_count; c++) {
        const weft_snapshot_cord *cord = &s->snapshot->cords[c];
        weft__cord_cpu *now = &s->cords[c];
        const weft__cord_cpu *then = cord_cpu_find(before, cord->thread_id);
        *now = (weft__cord_cpu){.thread_id = cord->thread_id,
                                .cpu_s = cord->thread_id > 0 ? cpu_time_of(cord->thread_id) : 0,
                                .switches = cord->counters.switches};
        if (then == NULL || elapsed_s <= 0)
            continue;
        now->share = share_of(now->cpu_s - then->cpu_s, elapsed_s);
        if (now->switches > then->switches)
            now->switches_per_s = (uint64_t)((double)(now->switches - then->switches) / elapsed_s);
    }
}

/* Fill in the point of the timeline. */
static void sample_measure(weft__sample *s, const weft__sample *before)
{
    const weft_snapshot *snapshot = s->snapshot;
    double elapsed_s = before != NULL ? snapshot->taken_s - before->snapshot->taken_s : 0;
    weft_stats_total(&s->total);
    int sites = weft_stack_advice(snapshot, s->advice, WEFT__ADVICE_MAX);
    s->advice_count = sites < 0 ? 0 : sites < WEFT__ADVICE_MAX ? (size_t)sites : WEFT__ADVICE_MAX;
    s->process_cpu_s = cpu_time_of(0);
    sample_measure_cords(s, before, elapsed_s);
    weft__point *p = &s->point;
    p->at_s = snapshot->taken_s;
    p->fibers = s->total.fibers + snapshot->cords_count;
    p->runnable = s->total.runnable;
    if (elapsed_s > 0) {
        uint64_t switches = s->total.switches - before->total.switches;
        p->switches_per_s = (uint64_t)((double)switches / elapsed_s + 0.5);
        p->cpu = share_of(s->process_cpu_s - before->process_cpu_s, elapsed_s);
    }
    for (size_t c = 0; c < snapshot->cords_count; c++) {
        p->stalled += !snapshot->cords[c].has_replied;
        if (c < WEFT__POINT_CORDS_MAX) {
            p->cords[c].thread_id = s->cords[c].thread_id;
            p->cords[c].cpu = s->cords[c].share;
            p->cords_count = c + 1;
        }
    }
}

static double clamp(double value, double min, double max)
{
    return value < min ? min : value > max ? max : value;
}

/*
 * Estimate the CPU time to copy a fiber. Each cord copies its own fibers, and other fibers of this
 * cord may run meanwhile. The estimate therefore grows slowly, and has an upper bound.
 */
static double estimate_copy(const weft_snapshot *snapshot, double cpu_s, double before_s)
{
    double estimate_s = before_s > 0 ? before_s : COPY_FIRST_S;
    for (size_t c = 0; c < snapshot->cords_count; c++) {
        const weft_snapshot_cord *cord = &snapshot->cords[c];
        if (cord->id == weft_cord_self() && cord->fibers_count >= COPY_FIBERS_MIN)
            estimate_s = fmin(cpu_s / (double)cord->fibers_count, COPY_GROWTH * estimate_s);
    }
    return clamp(estimate_s, COPY_MIN_S, COPY_MAX_S);
}

/* Take a snapshot and build its index. before is the sample before it, or NULL. */
static int sample_take(weft_inspector *i, const weft__sample *before, weft__sample **out)
{
    weft__sample *s = calloc(1, sizeof *s);
    double begin_s = weft__cpu_time_self();
    int rc = s == NULL ? -ENOMEM
                       : weft_snapshot_take(&(weft_snapshot_options){.timeout_s = TIMEOUT_S},
                                            &s->snapshot);
    double taken_s = weft__cpu_time_self();
    if (rc == 0) {
        s->cords = calloc(s->snapshot->cords_count + 1, sizeof *s->cords);
        rc = s->cords == NULL ? -ENOMEM : weft__index_open(&s->index, s->snapshot);
    }
    if (rc < 0) {
        sample_free(s);
        return rc;
    }
    s->inspector = i;
    sample_measure(s, before);
    s->copy_s = estimate_copy(s->snapshot, taken_s - begin_s, before != NULL ? before->copy_s : 0);
    double cost_s = weft__cpu_time_self() - taken_s + s->copy_s * (double)s->snapshot->fibers_count;
    s->interval_s =
        clamp(cost_s / i->options.cpu_share_max, i->options.period_s, WEFT__PERIOD_MAX_S);
    *out = s;
    return 0;
}

/* Make a sample the latest one. Needs the lock. Returns the sample before it, if it is unused. */
static weft__sample *sample_publish(weft_inspector *i, weft__sample *s)
{
    weft__sample *before = i->latest;
    s->users = 1;
    s->number = ++i->samples;
    i->latest = s;
    i->next_s = monotonic_seconds() + s->interval_s;
    if (before != NULL) /* the first sample has no rates */
        i->points[i->points_count++ % WEFT__POINTS_MAX] = s->point;
    return sample_unuse(before);
}

/* Take the next sample, and use it. The caller has set is_sampling. */
static int sample_next(weft_inspector *i, weft__sample **out)
{
    pthread_mutex_lock(&i->lock);
    weft__sample *before = i->latest, *next = NULL, *unused = NULL;
    if (before != NULL)
        before->users++;
    pthread_mutex_unlock(&i->lock);
    int rc = sample_take(i, before, &next);
    if (rc == 0 && !i->options.has_no_accounting)
        weft__account_start(i, next->snapshot);
    pthread_mutex_lock(&i->lock);
    i->is_sampling = false;
    weft__sample *unused_before = sample_unuse(before);
    if (rc == 0) {
        unused = sample_publish(i, next);
        next->users++;
        *out = next;
    }
    pthread_mutex_unlock(&i->lock);
    sample_free(unused_before);
    sample_free(unused);
    return rc;
}

int weft__sample_get(weft_inspector *i, weft__sample **out)
{
    for (;;) {
        pthread_mutex_lock(&i->lock);
        bool is_due = i->latest == NULL || monotonic_seconds() >= i->next_s - SLACK_S;
        bool must_take = is_due && !i->is_sampling;
        bool is_ready = i->latest != NULL && !must_take;
        if (is_ready) {
            *out = i->latest;
            i->latest->users++;
        }
        i->is_sampling = i->is_sampling || must_take;
        pthread_mutex_unlock(&i->lock);
        if (is_ready)
            return 0;
        if (must_take)
            return sample_next(i, out);
        int rc = weft_sleep(RETRY_S);
        if (rc < 0)
            return rc;
    }
}

size_t weft__points_copy(weft_inspector *i, uint64_t *since, weft__point *out)
{
    size_t count = 0;
    pthread_mutex_lock(&i->lock);
    uint64_t first = i->points_count > WEFT__POINTS_MAX ? i->points_count - WEFT__POINTS_MAX : 0;
    for (uint64_t p = *since > first ? *since : first; p < i->points_count; p++)
        out[count++] = i->points[p % WEFT__POINTS_MAX];
    *since = i->points_count;
    pthread_mutex_unlock(&i->lock);
    return count;
}
