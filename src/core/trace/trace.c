/*
 * Traces of the process: start, stop, the rings of all cords, WEFT_TRACE. event.c records the
 * events, and export.c writes the file. See trace.h.
 */
#include "core/trace/trace.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/fiber/error.h"
#include "core/trace/export.h"
#include "core/trace/probes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_DEFAULT ((size_t)1 << 16)
#define EVENTS_MAX ((size_t)1 << 26)
/* The time for other cords to stop, in ns. */
#define STOP_NS (WEFT__NS_PER_S / 2)
/* Memory for the rings of ended cords. The oldest rings beyond this size are dropped. */
#define ENDED_BYTES_MAX ((size_t)64 << 20)

/* The trace of the process. Except is_on, the fields are protected by lock. */
static struct {
    atomic_bool is_on;
    char path[PATH_MAX];
    size_t events_max;
    weft__list rings;   /* of weft__trace_ring, in the order of their creation */
    size_t ended_bytes; /* memory of rings of ended cords */
    weft__trace_totals totals;
} trace;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stopped = PTHREAD_COND_INITIALIZER; /* a ring is done */

static weft__trace_ring *ring_of(weft__list *link)
{
    return CONTAINER_OF(link, weft__trace_ring, link);
}

/*
 * The state of a cord. Only its thread calls these functions.
 */

/* Set or clear the bits of all records, including free records. */
static void mark_records(weft__cord *c, bool is_traced)
{
    pthread_mutex_lock(&c->id_reserve.lock); /* other threads may add records */
    c->are_records_traced = is_traced;
    for (uint32_t i = 0; i < c->chunks_count; i++) {
        weft__fiber *chunk = c->chunks[i];
        if (chunk->sibling.next == NULL)
            continue; /* a dormant chunk, see core/sched/trim.c */
        for (uint32_t j = 0; j < WEFT__CHUNK_FIBERS; j++) {
            chunk[j].is_traced = chunk[j].is_wake_traced = is_traced;
            if (!is_traced)
                weft__trace_forget_waiter(&chunk[j]);
        }
    }
    pthread_mutex_unlock(&c->id_reserve.lock);
}

/*
 * Change the length of ticks after c->trace has changed. During a tick, tick_left is 0, and the end
 * of the tick sets the length.
 */
static void set_ticks(weft__cord *c)
{
    if (c->tick_left > 0) {
        weft__tick_set(c, c->trace != NULL ? c->tick_left : c->traced_left);
        if (c->trace != NULL)
            c->tick_span = c->tick_left = 1;
    }
    weft__cord_update_slow_switch(c);
}

/* Return the trace of a cord, and create it if necessary. Return NULL if memory is exhausted. */
static weft__trace *trace_of(weft__cord *c)
{
    if (c->trace != NULL)
        return c->trace;
    weft__trace *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    if (weft__backend_is_virtual(c->backend))
        t->clock = WEFT__TRACE_VIRTUAL;
    else
        t->clock = weft__cpu_ticks_are_steady() ? WEFT__TRACE_TICKS : WEFT__TRACE_NS;
    c->trace = t;
    set_ticks(c);
    mark_records(c, true);
    return t;
}

void weft__trace_update(weft__cord *c)
{
    bool has_probes = weft__probes_are_wanted();
    if (has_probes && trace_of(c) == NULL)
        return; /* memory is exhausted; the next tick tries again */
    weft__trace *t = c->trace;
    if (t == NULL)
        return;
    t->has_probes = has_probes;
    if (has_probes || t->ring != NULL || t->hook != NULL || t->is_in_hook)
        return;
    mark_records(c, false);
    c->trace = NULL;
    set_ticks(c);
    free(t);
}

/* Record the names of the living fibers. Without memory, the names are missing. */
static void ring_save_names(const weft__cord *c, weft__trace_ring *ring)
{
    uint32_t records = c->chunks_count * WEFT__CHUNK_FIBERS;
    ring->names = malloc(((size_t)weft__cord_fibers(c) + 1) * sizeof *ring->names);
    for (uint32_t slot = 0; ring->names != NULL && slot < records; slot++) {
        const weft__fiber *f = weft__record_at(c, slot);
        if (f->id == 0 || f->phase == WEFT__ENDED || f->name[0] == '\0' ||
            ring->names_count > weft__cord_fibers(c))
            continue;
        weft__trace_name *name = &ring->names[ring->names_count++];
        name->fiber = f->id;
        memcpy(name->name, f->name, sizeof name->name);
    }
}

/* Let the cord of the calling thread record into a ring. The caller must hold the lock. */
static int ring_attach(weft__cord *c, weft__trace_ring *ring)
{
    weft__trace *t = trace_of(c);
    if (t == NULL || t->ring != NULL)
        return t == NULL ? -ENOMEM : -EBUSY;
    ring->clock = t->clock;
    ring->thread_id = gettid();
    ring->main = c->main->id;
    memcpy(ring->name, c->main->name, sizeof ring->name);
    ring->is_attached = true;
    weft__trace_ring_ref(ring);
    t->ring = ring;
    return 0;
}

/* Stop to record into the ring of the cord of the calling thread. */
static void ring_detach(weft__cord *c, bool has_cord_ended)
{
    weft__trace_ring *ring = c->trace != NULL ? c->trace->ring : NULL;
    if (ring == NULL)
        return;
    c->trace->ring = NULL;
    pthread_mutex_lock(&lock);
    ring->end_time = weft__trace_time(c);
    ring_save_names(c, ring);
    ring->is_done = true;
    if (has_cord_ended && atomic_load(&trace.is_on)) {
        trace.ended_bytes += ring->bytes = weft__trace_ring_shrink(ring);
        for (weft__list *at = trace.rings.next; trace.ended_bytes > ENDED_BYTES_MAX;) {
            weft__trace_ring *oldest = ring_of(at);
            at = at->next;
            if (oldest->bytes == 0)
                continue;
            trace.ended_bytes -= oldest->bytes;
            trace.totals.cords_dropped++;
            weft__list_remove(&oldest->link);
            weft__trace_ring_unref(oldest);
        }
    }
    pthread_cond_broadcast(&stopped);
    pthread_mutex_unlock(&lock);
    weft__trace_ring_unref(ring);
}

/* Attach a cord that has started to run, or that gets the message of weft_trace_start. */
static void cord_attach(weft__cord *c, weft__trace_ring *ring)
{
    pthread_mutex_lock(&lock);
    int rc = atomic_load(&trace.is_on) ? ring_attach(c, ring) : -ENODATA;
    if (rc < 0) {
        ring->is_done = true;
        trace.totals.cords_missed += rc == -ENOMEM;
        pthread_cond_broadcast(&stopped);
    }
    pthread_mutex_unlock(&lock);
    if (rc == 0) {
        c->trace->has_left = true; /* current is in a tick, or idle, or has not run yet */
        weft__trace_waits(c);
    }
}

/* Nothing more is written to a ring. */
static void ring_set_done(weft__trace_ring *ring)
{
    pthread_mutex_lock(&lock);
    ring->is_done = true;
    pthread_cond_broadcast(&stopped);
    pthread_mutex_unlock(&lock);
}

static void deliver_start(weft__cord *c, weft__remote_msg *msg)
{
    weft__trace_ring *ring = CONTAINER_OF(msg, weft__trace_ring, start_msg);
    if (c != NULL)
        cord_attach(c, ring);
    else
        ring_set_done(ring);
    weft__trace_ring_unref(ring);
}

static void deliver_stop(weft__cord *c, weft__remote_msg *msg)
{
    weft__trace_ring *ring = CONTAINER_OF(msg, weft__trace_ring, stop_msg);
    if (c != NULL && c->trace != NULL && c->trace->ring == ring) {
        ring_detach(c, false);
        weft__trace_update(c);
    } else {
        ring_set_done(ring); /* the cord has ended, or never recorded into the ring */
    }
    weft__trace_ring_unref(ring);
}

/* Add a new ring to the trace. The caller must hold the lock. */
static weft__trace_ring *ring_add(void)
{
    weft__trace_ring *ring = weft__trace_ring_new(trace.events_max);
    if (ring != NULL)
        weft__list_insert(&trace.rings, &ring->link);
    return ring;
}

void weft__trace_cord_begin(weft__cord *c)
{
    weft__trace_update(c);
    bool is_attached = c->trace != NULL && c->trace->ring != NULL;
    if (LIKELY(!atomic_load(&trace.is_on)) || is_attached)
        return;
    pthread_mutex_lock(&lock);
    bool is_on = atomic_load(&trace.is_on);
    weft__trace_ring *ring = is_on ? ring_add() : NULL;
    trace.totals.cords_missed += is_on && ring == NULL;
    if (ring != NULL)
        weft__trace_ring_ref(ring); /* weft_trace_stop may remove the ring */
    pthread_mutex_unlock(&lock);
    if (ring == NULL)
        return;
    cord_attach(c, ring);
    if (c->trace != NULL)
        weft__trace_run(c, c->current, c->current);
    weft__trace_ring_unref(ring);
}

void weft__trace_cord_end(weft__cord *c)
{
    if (c->trace == NULL)
        return;
    ring_detach(c, true);
    c->trace->hook = NULL;
    mark_records(c, false);
    free(c->trace);
    c->trace = NULL;
}

int weft_trace_set_hook(weft_trace_hook *fn, void *arg)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (fn != NULL && trace_of(c) == NULL)
        return -ENOMEM;
    if (c->trace == NULL)
        return 0;
    c->trace->hook = fn;
    c->trace->hook_arg = arg;
    weft__trace_update(c);
    return 0;
}

/*
 * Start and stop.
 */

/* Copy the path to trace.path, as an absolute path. Replace %p by the process id. */
static int set_path(const char *path)
{
    char *out = trace.path;
    size_t bytes = 0, bytes_max = sizeof trace.path;
    if (path[0] != '/') {
        if (getcwd(out, bytes_max - 1) == NULL)
            return errno == ERANGE ? -ENAMETOOLONG : -errno;
        bytes = strlen(out);
        out[bytes++] = '/';
    }
    for (; *path != '\0' && bytes < bytes_max; path++) {
        bool is_pid = path[0] == '%' && path[1] == 'p';
        if (is_pid) {
            bytes += (size_t)snprintf(out + bytes, bytes_max - bytes, "%d", (int)getpid());
            path++;
        } else {
            out[bytes++] = *path;
        }
    }
    if (bytes >= bytes_max)
        return -ENAMETOOLONG;
    out[bytes] = '\0';
    return 0;
}

/* Create the file, so that weft_trace_start reports an error. */
static int create_file(void)
{
    int fd = open(trace.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

static void rings_drop(weft__list *rings)
{
    while (!weft__list_is_empty(rings)) {
        weft__trace_ring *ring = ring_of(rings->next);
        weft__list_remove(&ring->link);
        weft__trace_ring_unref(ring);
    }
}

/* Create a ring for each cord of another thread. The caller must hold the lock. */
static int rings_make(void)
{
    for (uint32_t i = 0; i < 1u << WEFT__CORDS_BITS; i++) {
        const weft__cord *c = weft__registry_acquire(i);
        weft_fiber main = c != NULL && c != weft__cord_self ? c->main->id : 0;
        if (c != NULL)
            weft__registry_release(i);
        weft__trace_ring *ring = main != 0 ? ring_add() : NULL;
        if (main != 0 && ring == NULL)
            return -ENOMEM;
        if (ring != NULL)
            ring->main = main;
    }
    return 0;
}

/* Send a message to the cord of a ring. The message holds the ring. */
static void ring_post(weft__trace_ring *ring, weft__remote_msg *msg,
                      void (*deliver)(weft__cord *c, weft__remote_msg *msg))
{
    *msg = (weft__remote_msg){NULL, deliver, ring->main, 0, 0};
    weft__trace_ring_ref(ring);
    if (weft__cord_post(msg) < 0) {
        ring->is_done = true; /* the cord has ended */
        weft__trace_ring_unref(ring);
    }
}

/* Start the trace. The caller must hold the lock. */
static int trace_begin(const char *path, size_t events_max)
{
    if (atomic_load(&trace.is_on))
        return -EBUSY;
    int rc = set_path(path);
    if (rc == 0)
        rc = create_file();
    if (rc < 0)
        return rc;
    weft__list_init(&trace.rings);
    trace.events_max = events_max != 0 ? events_max : EVENTS_DEFAULT;
    trace.ended_bytes = 0;
    trace.totals = (weft__trace_totals){0};
    weft__cord *c = weft__cord_self;
    weft__trace_ring *own = c != NULL ? ring_add() : NULL;
    rc = c != NULL && (own == NULL || trace_of(c) == NULL) ? -ENOMEM : rings_make();
    if (rc < 0) {
        rings_drop(&trace.rings);
        return rc;
    }
    weft__trace_times_read(&trace.totals.begin);
    atomic_store(&trace.is_on, true);
    WEFT__LIST_FOR(link, &trace.rings) {
        weft__trace_ring *ring = ring_of(link);
        if (ring != own)
            ring_post(ring, &ring->start_msg, deliver_start);
    }
    if (own != NULL)
        ring_attach(c, own); /* after the messages, which are not part of the trace */
    return 0;
}

int weft_trace_start_with(const char *path, const weft_trace_options *options)
{
    size_t events_max = options != NULL ? options->events_max : 0;
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (path == NULL || path[0] == '\0' || events_max > EVENTS_MAX)
        return -EINVAL;
    pthread_mutex_lock(&lock);
    int rc = trace_begin(path, events_max);
    pthread_mutex_unlock(&lock);
    if (c == NULL)
        return rc;
    if (rc == 0) {
        weft__trace_waits(c);
        weft__trace_run(c, c->current, c->current);
    } else {
        weft__trace_update(c); /* frees c->trace, if it was created in vain */
    }
    return rc;
}

static bool are_rings_done(weft__list *rings)
{
    WEFT__LIST_FOR(link, rings) {
        if (!ring_of(link)->is_done)
            return false;
    }
    return true;
}

/* Stop all cords. The caller must hold the lock. */
static void rings_stop(weft__list *rings)
{
    WEFT__LIST_FOR(link, rings) {
        weft__trace_ring *ring = ring_of(link);
        if (!ring->is_done)
            ring_post(ring, &ring->stop_msg, deliver_stop);
    }
    struct timespec until; /* on the real-time clock, because musl has no pthread_cond_clockwait */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += STOP_NS;
    until.tv_sec += until.tv_nsec / WEFT__NS_PER_S;
    until.tv_nsec %= WEFT__NS_PER_S;
    while (!are_rings_done(rings) && pthread_cond_timedwait(&stopped, &lock, &until) == 0)
        continue;
}

int weft_trace_stop(void)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (c != NULL)
        ring_detach(c, false);
    pthread_mutex_lock(&lock);
    if (!atomic_exchange(&trace.is_on, false)) {
        pthread_mutex_unlock(&lock);
        return -ENODATA;
    }
    weft__list rings;
    weft__list_init(&rings);
    while (!weft__list_is_empty(&trace.rings))
        weft__list_insert(&rings, weft__list_pop(&trace.rings));
    rings_stop(&rings);
    weft__trace_times_read(&trace.totals.end);
    weft__trace_totals totals = trace.totals;
    char *path = strdup(trace.path); /* another thread may start the next trace */
    pthread_mutex_unlock(&lock);
    if (c != NULL)
        weft__trace_update(c);
    int rc = path != NULL ? weft__trace_export(path, &rings, &totals) : -ENOMEM;
    free(path);
    rings_drop(&rings);
    return rc;
}

bool weft_trace_is_on(void)
{
    return atomic_load(&trace.is_on);
}

/*
 * The process.
 */

static void start_from_environment(void)
{
    const char *path = getenv("WEFT_TRACE");
    if (path == NULL || path[0] == '\0')
        return;
    int rc = weft_trace_start(path);
    if (rc < 0)
        weft__log(LOG_ERR, "WEFT_TRACE: cannot trace to %s: %s", path, weft__error_text(rc));
}

void weft__trace_process_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_from_environment);
}

void weft__trace_process_end(void)
{
    if (!atomic_load(&trace.is_on))
        return;
    int rc = weft_trace_stop();
    if (rc < 0 && rc != -ENODATA)
        weft__log(LOG_ERR, "the trace was not written to %s: %s", trace.path, weft__error_text(rc));
}

/* The rings of the parent process, in a child of weft_fork. Only LeakSanitizer reads the list. */
__attribute__((used)) static weft__list rings_of_parent;

void weft__trace_in_child(weft__cord *c)
{
    /*
     * Another thread of the parent may have held the lock, so the list may be inconsistent. Do not
     * free the rings.
     */
    rings_of_parent = trace.rings;
    pthread_mutex_init(&lock, NULL);
    bool was_on = atomic_exchange(&trace.is_on, false);
    weft__list_init(&trace.rings);
    if (c->trace != NULL)
        c->trace->ring = NULL;
    const char *path = getenv("WEFT_TRACE");
    if (was_on && path != NULL && strstr(path, "%p") != NULL)
        start_from_environment();
    weft__trace_update(c);
}
