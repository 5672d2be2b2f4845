/* The table of brokers, their references, and the timer fiber. See broker.h. */
#include "hub/broker/broker.h"
#include "hub/broker/connect.h"

#include "hub/broker/conn.h"
#include "hub/broker/faults.h"
#include "hub/broker/jetstream/jetstream.h"
#include "hub/text/random.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>
#include <weft/time.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

/* All brokers of the process that can be found by their names. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static weft__list table = {&table, &table};

int weft__broker_check(const weft_hub_broker *b, const char *function)
{
    if (b == NULL)
        return weft_fail(-EINVAL, "%s: broker is NULL", function);
    if (b->cord != weft_cord_self())
        return weft_fail(-EXDEV, "%s: the broker belongs to another thread", function);
    return 0;
}

int64_t weft__broker_now_ns(const weft_hub_broker *b)
{
    return b->clock_base_ns + (int64_t)(weft_now() * (double)NS_PER_S);
}

uint64_t weft__broker_random(weft_hub_broker *b)
{
    return weft__random_next(&b->random_state);
}

void weft__broker_wake_at(weft_hub_broker *b, int64_t time_ns)
{
    if (time_ns >= b->timer_ns)
        return;
    b->timer_ns = time_ns;
    weft_event_set(&b->wake);
}

static void broker_free(weft_hub_broker *b)
{
    weft__jetstream_free(b);
    weft__faults_free(b);
    weft__subjects_free(&b->subjects);
    free(b);
}

/* Unlink a broker from the table, so that a new broker can have its name. Needs the lock. */
static void table_remove(weft_hub_broker *b)
{
    weft__list_remove(&b->in_table);
}

/* Run all timers that are due. Return the time of the next. */
static int64_t timers_run(weft_hub_broker *b)
{
    int64_t now_ns = weft__broker_now_ns(b);
    int64_t next_ns = weft__jetstream_run_timers(b, now_ns);
    WEFT__LIST_FOR(node, &b->conns) {
        int64_t ping_ns =
            weft__broker_conn_ping(CONTAINER_OF(node, weft__broker_conn, node), now_ns);
        next_ns = ping_ns < next_ns ? ping_ns : next_ns;
    }
    return next_ns;
}

/* Wait until timer_ns, or until the event is set. Returns 0, or an error if the thread ends. */
static int timer_wait(weft_hub_broker *b)
{
    if (b->is_paused || b->timer_ns == WEFT__BROKER_NEVER)
        return weft_event_wait(&b->wake);
    int64_t left_ns = b->timer_ns - weft__broker_now_ns(b);
    if (left_ns <= 0)
        return weft_snooze();
    int rc = 0, timeout;
    WEFT_CANCEL_AFTER((double)left_ns / (double)NS_PER_S, timeout) {
        rc = weft_event_wait(&b->wake);
    }
    return timeout == -ETIMEDOUT ? 0 : rc;
}

static bool broker_has_users(weft_hub_broker *b)
{
    pthread_mutex_lock(&table_lock);
    bool has_users = b->users > 0;
    pthread_mutex_unlock(&table_lock);
    return has_users;
}

/* End a broker: the timer fiber has ended, or never ran. */
static void broker_end(void *arg)
{
    weft_hub_broker *b = arg;
    pthread_mutex_lock(&table_lock);
    table_remove(b);
    b->is_running = false;
    bool is_last = b->users == 0;
    pthread_mutex_unlock(&table_lock);
    if (is_last)
        broker_free(b);
}

/* The timer fiber. It ends when the broker has no user, or with the thread. */
static weft_value broker_run(void *arg)
{
    weft_hub_broker *b = arg;
    do {
        if (b->is_paused)
            continue;
        b->timer_ns = INT64_MIN; /* the timers need not wake this fiber while they run */
        b->timer_ns = timers_run(b);
    } while (broker_has_users(b) && timer_wait(b) == 0);
    broker_end(b);
    return 0;
}

/* On sim, the seed of the run decides. Elsewhere brokers differ, as servers do. */
static uint64_t broker_seed(const weft_hub_broker *b)
{
    uint64_t seed = 0;
    const char *text = getenv("WEFT_SEED");
    if (b->is_sim)
        seed = text != NULL ? strtoull(text, NULL, 0) : 0;
    else if (getrandom(&seed, sizeof seed, 0) < 0)
        seed = (uint64_t)b->clock_base_ns;
    return seed ^ weft__hash_bytes(b->name, strlen(b->name));
}

static int64_t clock_base(const weft_hub_broker *b)
{
    struct timespec now;
    if (b->is_sim || clock_gettime(CLOCK_REALTIME, &now) < 0)
        return 0;
    return now.tv_sec * NS_PER_S + now.tv_nsec - (int64_t)(weft_now() * (double)NS_PER_S);
}

static weft_hub_broker *broker_new(const char *name)
{
    weft_hub_broker *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    snprintf(b->name, sizeof b->name, "%s", name);
    b->users = 1;
    b->cord = weft_cord_self();
    b->is_sim = strcmp(weft_backend_name(), "sim") == 0;
    b->clock_base_ns = clock_base(b);
    b->random_state = broker_seed(b);
    snprintf(b->id, sizeof b->id, "WEFT%016llX", (unsigned long long)weft__broker_random(b));
    weft__list_init(&b->in_table);
    weft__list_init(&b->conns);
    weft__list_init(&b->streams);
    weft__list_init(&b->isolated);
    weft__subjects_init(&b->subjects);
    return b;
}

/* Create a broker with one user, and add it to the table. Needs the lock. */
static weft_hub_broker *table_create(const char *name)
{
    weft_hub_broker *b = broker_new(name);
    if (b == NULL) {
        weft_fail(-ENOMEM, "weft_hub_broker_get: no memory");
        return NULL;
    }
    const weft_spin_options options = {
        .name = "broker timer", .parent = weft_main(), .is_daemon = true, .drop = broker_end};
    if (weft_go_with(broker_run, b, &options) < 0) {
        broker_free(b);
        return NULL;
    }
    b->is_running = true;
    weft__list_insert(&table, &b->in_table);
    return b;
}

static weft_hub_broker *table_find(const char *name)
{
    WEFT__LIST_FOR(node, &table) {
        weft_hub_broker *b = CONTAINER_OF(node, weft_hub_broker, in_table);
        if (strcmp(b->name, name) == 0)
            return b;
    }
    return NULL;
}

weft_hub_broker *weft_hub_broker_get(const char *name)
{
    if (name == NULL || strlen(name) > WEFT__BROKER_NAME_BYTES_MAX) {
        weft_fail(-EINVAL, "weft_hub_broker_get: name is NULL or longer than %d bytes",
                  WEFT__BROKER_NAME_BYTES_MAX);
        return NULL;
    }
    if (weft_cord_self() == 0) /* the thread cannot have fibers */
        return NULL;
    pthread_mutex_lock(&table_lock);
    weft_hub_broker *b = table_find(name);
    if (b != NULL)
        b->users++;
    else
        b = table_create(name);
    pthread_mutex_unlock(&table_lock);
    return b;
}

void weft__broker_hold(weft_hub_broker *b)
{
    pthread_mutex_lock(&table_lock);
    b->users++;
    pthread_mutex_unlock(&table_lock);
}

void weft_hub_broker_release(weft_hub_broker *broker)
{
    if (broker == NULL)
        return;
    pthread_mutex_lock(&table_lock);
    bool is_last = --broker->users == 0;
    bool is_running = broker->is_running;
    if (is_last)
        table_remove(broker);
    /* The timer fiber frees the broker. Inside of the lock, because it may be about to end. */
    if (is_last && is_running)
        weft_event_set(&broker->wake);
    pthread_mutex_unlock(&table_lock);
    if (is_last && !is_running)
        broker_free(broker);
}

/* Make a broker whose thread has ended unreachable by its name. */
static void table_retire(weft_hub_broker *b)
{
    pthread_mutex_lock(&table_lock);
    table_remove(b);
    pthread_mutex_unlock(&table_lock);
}

/* Spin the fiber of a connection in the thread of the broker. Returns 0 or an error. */
static int conn_spin(weft__broker_conn *conn)
{
    weft_hub_broker *b = conn->broker;
    weft_spin_options options = {
        .name = "broker connection", .is_daemon = true, .drop = weft__broker_conn_drop};
    if (b->cord != weft_cord_self())
        return weft_cord_spin_with(b->cord, weft__broker_conn_run, conn, &options) != 0
                   ? 0
                   : weft_error()->code;
    options.parent = weft_main();
    return weft_go_with(weft__broker_conn_run, conn, &options);
}

/*
 * Connect to a broker that the caller holds for the connection. Returns a descriptor or an error.
 */
static int broker_join(weft_hub_broker *b)
{
    bool is_remote = b->cord != weft_cord_self();
    if (is_remote && (b->is_sim || strcmp(weft_backend_name(), "sim") == 0))
        return weft_fail(-EOPNOTSUPP,
                         "a thread with the backend sim cannot use a broker of another");
    int fd[2];
    int rc = weft_socketpair(fd);
    if (rc < 0)
        return rc;
    weft__broker_conn *conn = weft__broker_conn_new(b, fd[0]);
    if (conn == NULL)
        rc = -ENOMEM;
    else if (is_remote && (rc = weft_fd_release(fd[0])) < 0)
        free(conn);
    else if ((rc = conn_spin(conn)) < 0)
        free(conn);
    if (rc == 0)
        return fd[1];
    weft_close(fd[0]);
    weft_close(fd[1]);
    return rc;
}

int weft__broker_connect(const char *name)
{
    for (;;) {
        weft_hub_broker *b = weft_hub_broker_get(name);
        if (b == NULL)
            return weft_error()->code;
        int fd = broker_join(b);
        if (fd >= 0)
            return fd;
        bool is_gone = fd == -ESRCH && b->cord != weft_cord_self();
        if (is_gone)
            table_retire(b);
        weft_hub_broker_release(b);
        if (!is_gone)
            return fd;
    }
}
