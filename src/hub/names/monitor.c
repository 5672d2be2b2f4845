/*
 * Monitors: tell fibers that the owner of a name is gone.
 *
 * All monitors of names that one hub owns share a daemon. The daemon sends requests to that hub: no
 * responders means that the process has ended, or has lost its connection. A process that hangs
 * keeps its connection. Therefore the daemon also reads the entries of the names. The servers do
 * not report that an entry has expired.
 */
#include "hub/names/names.h"

#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PING_PERIOD_S 0.1
#define PING_TIMEOUT_S 0.2

/* Pings in a row without responders. */
#define PING_MISSES_MAX 2

/* After this hub has connected again, the other hub may still be connecting. */
#define PING_GRACE_S 2.0

/* The entries are read once in this time. A reader without a reply does not delay the pings. */
#define READ_PERIOD_S 1.0
#define READ_TIMEOUT_S 0.4

#define DAEMON_GRACE_S 5.0

/* A hub that owns monitored names. */
typedef struct weft__owner {
    weft__list node; /* in weft__names.owners */
    weft__names *names;
    weft_fiber daemon;
    weft__list monitors;
    unsigned misses;
    uint64_t connection; /* of this hub, at the last ping */
    double grace_s;      /* misses do not count before this time */
    double read_s;       /* the time of the next reading of entries */
    uint64_t reading;    /* incremented with each reading */
    weft__hub_watcher watcher;
    char id[WEFT__NODE_ID_BYTES];
} weft__owner;

/* A name and a fiber that wants to know. */
typedef struct weft__monitor {
    weft__list node; /* in weft__owner.monitors */
    weft_fiber fiber;
    weft_value value;
    uint64_t token;
    uint64_t reading; /* the last one that included this name */
    bool is_gone;     /* the message is due */
    char name[WEFT__NAME_BYTES_MAX + 1];
} weft__monitor;

static void monitor_free(weft__monitor *m)
{
    weft__list_remove(&m->node);
    free(m);
}

static void owner_drop(void *arg)
{
    weft__owner *o = arg;
    while (!weft__list_is_empty(&o->monitors))
        monitor_free(CONTAINER_OF(o->monitors.next, weft__monitor, node));
    weft__list_remove(&o->node);
    weft__hub_unwatch(&o->watcher);
    weft__names_release(o->names);
    free(o);
}

static void owner_on_close(weft__hub_watcher *watcher)
{
    const weft__owner *o = CONTAINER_OF(watcher, weft__owner, watcher);
    weft_terminate(o->daemon, DAEMON_GRACE_S);
}

/* Send the messages that are due. A full mailbox delays only its own message. */
static void owner_tell(weft__owner *o)
{
    for (weft__list *node = o->monitors.next, *next; node != &o->monitors; node = next) {
        next = node->next;
        weft__monitor *m = CONTAINER_OF(node, weft__monitor, node);
        bool is_over = weft_state_of(m->fiber) == WEFT_DEAD;
        if (!is_over && m->is_gone) {
            int rc = weft_try_tell(m->fiber, m->value);
            is_over = rc == 0 || rc == -ESRCH;
        }
        if (is_over)
            monitor_free(m);
    }
}

static void owner_is_gone(weft__owner *o)
{
    WEFT__LIST_FOR(node, &o->monitors)
        CONTAINER_OF(node, weft__monitor, node)->is_gone = true;
}

/* A hub without a connection cannot tell whether the other one has a connection. */
static void owner_ping(weft__owner *o)
{
    weft_hub *hub = o->names->hub;
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "weft.node.%s", o->id);
    weft__publication p = {.subject = weft__slice_of(subject)};
    weft__reply reply;
    int rc = weft__hub_request(hub, &p, PING_TIMEOUT_S, &reply);
    if (o->connection != weft__hub_connection(hub)) {
        o->connection = weft__hub_connection(hub);
        o->grace_s = weft_now() + PING_GRACE_S;
        o->misses = 0;
    }
    if (rc == 0) {
        weft__reply_free(&reply);
        o->misses = 0;
    } else if (rc == -EHOSTUNREACH && weft_now() >= o->grace_s) {
        o->misses++;
    }
    if (o->misses >= PING_MISSES_MAX)
        owner_is_gone(o);
}

/* Return a monitor that the current reading has not included, or NULL. */
static const weft__monitor *owner_next_unread(const weft__owner *o)
{
    WEFT__LIST_FOR(node, &o->monitors) {
        const weft__monitor *m = CONTAINER_OF(node, weft__monitor, node);
        if (m->reading != o->reading && !m->is_gone)
            return m;
    }
    return NULL;
}

/* Compare the monitors of a name with its entry. ownership NULL: there is none. */
static void owner_compare(weft__owner *o, const char *name, const weft__ownership *ownership)
{
    WEFT__LIST_FOR(node, &o->monitors) {
        weft__monitor *m = CONTAINER_OF(node, weft__monitor, node);
        if (m->reading == o->reading || strcmp(m->name, name) != 0)
            continue;
        m->reading = o->reading;
        m->is_gone |= ownership == NULL || ownership->token > m->token;
    }
}

/*
 * Read the entries of all names. The list can change during a read: a monitor is found again by its
 * name. A monitor that starts during a read counts as read, because the entry may be older.
 */
static void owner_read(weft__owner *o)
{
    weft_hub *hub = o->names->hub;
    const weft__monitor *m;
    o->read_s = weft_now() + READ_PERIOD_S;
    o->reading++;
    while ((m = owner_next_unread(o)) != NULL) {
        char name[WEFT__NAME_BYTES_MAX + 1];
        snprintf(name, sizeof name, "%s", m->name);
        weft__ownership ownership = {.token = 0};
        int rc = -ECANCELED;
        WEFT_MOVE_ON_AFTER(READ_TIMEOUT_S) {
            rc = weft__ownership_read(hub, name, &ownership);
        }
        if (rc < 0 && rc != -ENOENT)
            return;
        owner_compare(o, name, rc == 0 ? &ownership : NULL);
    }
}

static weft_value owner_run(void *arg)
{
    weft__owner *o = arg;
    int rc = 0;
    while (rc == 0 && !weft__list_is_empty(&o->monitors)) {
        if (weft__hub_is_connected(o->names->hub)) {
            owner_ping(o);
            if (weft_now() >= o->read_s)
                owner_read(o);
        }
        owner_tell(o);
        rc = weft_is_cancelled() ? -ECANCELED : weft_sleep(PING_PERIOD_S);
    }
    owner_drop(o);
    return 0;
}

static weft__owner *owner_find(const weft__names *n, const char *id)
{
    WEFT__LIST_FOR(node, &n->owners) {
        weft__owner *o = CONTAINER_OF(node, weft__owner, node);
        if (strcmp(o->id, id) == 0)
            return o;
    }
    return NULL;
}

static weft__owner *owner_new(weft__names *n, const char *id)
{
    weft__owner *o = malloc(sizeof *o);
    if (o == NULL)
        return NULL;
    *o = (weft__owner){.names = n, .connection = weft__hub_connection(n->hub)};
    o->read_s = weft_now() + READ_PERIOD_S;
    o->watcher.on_close = owner_on_close;
    snprintf(o->id, sizeof o->id, "%s", id);
    o->daemon = weft__names_spin(owner_run, o, owner_drop, "hub monitor");
    if (o->daemon == 0) {
        free(o);
        return NULL;
    }
    weft__list_init(&o->monitors);
    weft__list_insert(&n->owners, &o->node);
    weft__names_hold(n);
    weft__hub_watch(n->hub, &o->watcher);
    return o;
}

static int monitor_start(weft__names *n, const weft__monitor *monitor, const char *id)
{
    weft__owner *o = owner_find(n, id);
    weft__monitor *m = malloc(sizeof *m);
    if (m == NULL || (o == NULL && (o = owner_new(n, id)) == NULL)) {
        free(m);
        return -ENOMEM;
    }
    *m = *monitor;
    m->reading = o->reading;
    weft__list_insert(&o->monitors, &m->node);
    return 0;
}

int weft_hub_monitor(weft_hub *hub, const char *name, weft_value value)
{
    int rc = weft__js_check_name(hub, "weft_hub_monitor", name);
    if (rc < 0)
        return rc;
    if (weft_is_error(value))
        return weft_fail(-EINVAL, "weft_hub_monitor: the value is an error code");
    weft__monitor monitor = {.fiber = weft_self(), .value = value};
    snprintf(monitor.name, sizeof monitor.name, "%s", name);
    weft__ownership ownership;
    weft__hub_hold(hub);
    rc = weft__ownership_read(hub, name, &ownership);
    weft__names *n = rc == 0 ? weft__names_get(hub) : NULL;
    if (rc == 0 && n == NULL)
        rc = -ENOMEM;
    if (rc == 0) {
        monitor.token = ownership.token;
        rc = monitor_start(n, &monitor, ownership.node);
    }
    weft__hub_release(hub);
    if (rc == -ENOENT)
        return weft_fail(-ESRCH, "weft_hub_monitor: the name %.100s has no owner", name);
    return rc;
}

/* Free the monitors of a name and a fiber. Return whether there were any. */
static bool owner_forget(weft__owner *o, const char *name, weft_fiber fiber)
{
    bool is_found = false;
    for (weft__list *node = o->monitors.next, *next; node != &o->monitors; node = next) {
        next = node->next;
        weft__monitor *m = CONTAINER_OF(node, weft__monitor, node);
        if (m->fiber != fiber || strcmp(m->name, name) != 0)
            continue;
        monitor_free(m);
        is_found = true;
    }
    return is_found;
}

int weft_hub_unmonitor(weft_hub *hub, const char *name)
{
    int rc = weft__js_check_name(hub, "weft_hub_unmonitor", name);
    if (rc < 0)
        return rc;
    const weft__names *n = *weft__hub_part_at(hub, WEFT__HUB_NAMES);
    bool is_found = false;
    if (n != NULL) {
        WEFT__LIST_FOR(node, &n->owners)
            is_found |= owner_forget(CONTAINER_OF(node, weft__owner, node), name, weft_self());
    }
    return is_found
               ? 0
               : weft_fail(-ENOENT, "weft_hub_unmonitor: the caller does not monitor %.100s", name);
}
