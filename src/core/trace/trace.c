/*
 * Traces of the process: start, stop, the rings of all cords, WEFT_TRACE. event.c records the
 * events, and export.c writes the file. See trace.h.
 *
 * A stop waits for the cords without the lock, so that another thread may start the next trace
 * meanwhile. When the wait is over, the stop closes its rings, and only the thread that writes the
 * file reads them. A cord that is late finds its ring closed, and only releases it.
 */
#include "core/trace/trace.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/fiber/error.h"
#include "core/trace/export.h"

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
 * The rings of cords. Only the thread of a cord attaches and detaches its ring.
 */

/* Let the cord of the calling thread record into a ring. The caller must hold the lock. */
static int ring_attach(weft__cord *c, weft__trace_ring *ring)
{
    weft__trace *t = weft__trace_of(c);
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

/* Free the oldest rings of ended cords beyond ENDED_BYTES_MAX. The caller must hold the lock. */
static void drop_ended_rings(void)
{
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

/* Note the end of a ring that is not closed. The caller must hold the lock. */
static void ring_finish(weft__cord *c, weft__trace_ring *ring, bool has_cord_ended)
{
    ring->end_time = weft__trace_time(c);
    weft__trace_save_names(c, ring);
    ring->is_done = true;
    pthread_cond_broadcast(&stopped);
    if (has_cord_ended && !ring->is_stopping) {
        trace.ended_bytes += ring->bytes = weft__trace_ring_shrink(ring);
        drop_ended_rings();
    }
}

/* Release the ring of the cord of the calling thread. The caller must hold the lock. */
static void ring_leave(weft__cord *c, bool has_cord_ended)
{
    weft__trace_ring *ring = c->trace != NULL ? c->trace->ring : NULL;
    if (ring == NULL)
        return;
    c->trace->ring = NULL;
    if (!ring->is_closed)
        ring_finish(c, ring, has_cord_ended);
    weft__trace_ring_unref(ring);
}

static void ring_detach(weft__cord *c, bool has_cord_ended)
{
    pthread_mutex_lock(&lock);
    ring_leave(c, has_cord_ended);
    pthread_mutex_unlock(&lock);
}

/* Nothing more is written to a ring. The caller must hold the lock. */
static void ring_set_done(weft__trace_ring *ring)
{
    if (ring->is_closed)
        return;
    ring->is_done = true;
    pthread_cond_broadcast(&stopped);
}

/* Attach a cord that has started to run, or that gets the message of weft_trace_start. */
static void cord_attach(weft__cord *c, weft__trace_ring *ring)
{
    pthread_mutex_lock(&lock);
    int rc = ring->is_stopping ? -ENODATA : ring_attach(c, ring);
    if (rc < 0) {
        ring_set_done(ring);
        trace.totals.cords_missed += rc == -ENOMEM;
    }
    pthread_mutex_unlock(&lock);
    if (rc == 0) {
        c->trace->has_left = true; /* current is in a tick, or idle, or has not run yet */
        weft__trace_waits(c);
    }
}

static void deliver_start(weft__cord *c, weft__remote_msg *msg)
{
    weft__trace_ring *ring = CONTAINER_OF(msg, weft__trace_ring, start_msg);
    if (c != NULL) {
        cord_attach(c, ring);
    } else {
        pthread_mutex_lock(&lock);
        ring_set_done(ring);
        pthread_mutex_unlock(&lock);
    }
    weft__trace_ring_unref(ring);
}

static void deliver_stop(weft__cord *c, weft__remote_msg *msg)
{
    weft__trace_ring *ring = CONTAINER_OF(msg, weft__trace_ring, stop_msg);
    bool is_ours = c != NULL && c->trace != NULL && c->trace->ring == ring;
    pthread_mutex_lock(&lock);
    if (is_ours)
        ring_leave(c, false);
    else
        ring_set_done(ring); /* the cord has ended, or has left the ring */
    pthread_mutex_unlock(&lock);
    if (is_ours)
        weft__trace_update(c);
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
    weft__trace_free(c);
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
    rc = c != NULL && (own == NULL || weft__trace_of(c) == NULL) ? -ENOMEM : rings_make();
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
    if (own != NULL) {
        ring_leave(c, false); /* another thread may be stopping the trace before */
        ring_attach(c, own);  /* after the messages, which are not part of the trace */
    }
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
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&lock);
    int rc = trace_begin(path, events_max);
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel_state, NULL);
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

/* Take the rings from the trace, and stop their cords. The caller must hold the lock. */
static void rings_take(weft__list *rings)
{
    weft__list_init(rings);
    while (!weft__list_is_empty(&trace.rings)) {
        weft__trace_ring *ring = ring_of(weft__list_pop(&trace.rings));
        weft__list_insert(rings, &ring->link);
        ring->is_stopping = true;
        if (!ring->is_attached)
            ring->is_done = true; /* the cord has not received start_msg yet */
        else if (!ring->is_done)
            ring_post(ring, &ring->stop_msg, deliver_stop);
    }
}

/* Wait for the cords to leave the rings, and close the rings. The caller must hold the lock. */
static void rings_close(weft__list *rings)
{
    struct timespec until; /* on the real-time clock, because musl has no pthread_cond_clockwait */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += STOP_NS;
    until.tv_sec += until.tv_nsec / WEFT__NS_PER_S;
    until.tv_nsec %= WEFT__NS_PER_S;
    while (!are_rings_done(rings) && pthread_cond_timedwait(&stopped, &lock, &until) == 0)
        continue;
    WEFT__LIST_FOR(link, rings) {
        ring_of(link)->is_closed = true;
    }
}

/* Stop the trace. *path is memory from malloc. The caller must hold the lock. */
static int trace_end(weft__list *rings, weft__trace_totals *totals, char **path)
{
    if (!atomic_exchange(&trace.is_on, false))
        return -ENODATA;
    /* During the wait, another thread may start the next trace. */
    *path = strdup(trace.path);
    *totals = trace.totals;
    rings_take(rings);
    rings_close(rings);
    weft__trace_times_read(&totals->end);
    return 0;
}

static int trace_stop(weft__cord *c)
{
    weft__list rings;
    weft__trace_totals totals;
    char *path = NULL;
    pthread_mutex_lock(&lock);
    if (c != NULL)
        ring_leave(c, false);
    int rc = trace_end(&rings, &totals, &path);
    pthread_mutex_unlock(&lock);
    if (c != NULL)
        weft__trace_update(c);
    if (rc < 0)
        return rc;
    rc = path != NULL ? weft__trace_export(path, &rings, &totals) : -ENOMEM;
    free(path);
    rings_drop(&rings);
    return rc;
}

int weft_trace_stop(void)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int rc = trace_stop(weft__cord_self);
    pthread_setcancelstate(cancel_state, NULL);
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
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    stopped = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    bool was_on = atomic_exchange(&trace.is_on, false);
    weft__list_init(&trace.rings);
    if (c->trace != NULL)
        c->trace->ring = NULL;
    const char *path = getenv("WEFT_TRACE");
    if (was_on && path != NULL && strstr(path, "%p") != NULL)
        start_from_environment();
    weft__trace_update(c);
}
