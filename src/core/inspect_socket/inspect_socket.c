/*
 * Open and close the inspection socket, and run its thread.
 *
 * The thread is an internal thread: deadlock detection does not count it, and it runs until the
 * process ends. weft_inspect_socket_close only takes the listener away from the thread, so that a
 * cord never waits for the thread, which may wait for the cord.
 */
#include "core/inspect_socket/inspect_socket.h"

#include "backend/workers/foreign.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/thread.h"
#include "core/cord/registry.h"
#include "core/debug/diag.h"
#include "core/inspect_socket/listener.h"
#include "core/inspect_socket/profile.h"
#include "core/inspect_socket/request.h"
#include "core/inspect_socket/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The thread finds symbols, for which libdw needs more stack than other internal threads. */
#define SOCKET_STACK_BYTES ((size_t)1 << 20)
/* The longest wait for a profile when the process exits, in ns. */
#define FLUSH_WAIT_NS ((int64_t)2 * WEFT__NS_PER_S)

/* The socket of the process. Code that accesses a field must hold the lock. */
static struct {
    pthread_mutex_t lock;
    weft__listener listener;
    int wake_fd;       /* an eventfd that wakes the thread; valid if has_thread */
    unsigned sessions; /* incremented when the listener changes */
    bool has_thread;
    bool is_prepared; /* the handlers for fork and exit are installed */
} inspect = {.lock = PTHREAD_MUTEX_INITIALIZER, .listener.fd = -1};

/* The end of the process, while a profile runs. */
static struct {
    atomic_bool is_requested;
    sem_t is_flushed; /* valid if is_requested */
} inspect_exit;

static void count_cord(weft__cord *c, void *count)
{
    (void)c;
    ++*(unsigned *)count;
}

/* Return true if only internal threads are left. The thread must then end, as the watchdog does. */
static bool is_process_over(void)
{
    unsigned cords = 0;
    weft__registry_each(count_cord, &cords);
    return cords == 0 && !weft__foreign_threads_exist(0);
}

/*
 * Copy the listener for one round. close(2) of another thread must not affect a later file with
 * the same number, so the thread polls a duplicate.
 */
static int listener_of_round(int *own, unsigned *session)
{
    uint64_t count;
    pthread_mutex_lock(&inspect.lock);
    bool has_changed = *session != inspect.sessions;
    if (has_changed) {
        if (*own >= 0)
            close(*own);
        *own = inspect.listener.fd >= 0 ? fcntl(inspect.listener.fd, F_DUPFD_CLOEXEC, 0) : -1;
        *session = inspect.sessions;
        if (read(inspect.wake_fd, &count, sizeof count) < 0)
            count = 0; /* no wake-up was pending */
    }
    pthread_mutex_unlock(&inspect.lock);
    if (has_changed)
        weft__server_drop_clients();
    return *own;
}

static void *inspect_thread(void *arg)
{
    int own = -1;
    unsigned session = 0;
    pthread_setname_np(pthread_self(), "weft-inspect");
    while (!is_process_over()) {
        if (atomic_load(&inspect_exit.is_requested)) {
            weft__server_flush();
            sem_post(&inspect_exit.is_flushed);
            break;
        }
        int listener = listener_of_round(&own, &session);
        weft__server_run_once(listener, inspect.wake_fd);
    }
    weft_inspect_socket_close();
    return arg;
}

/* Note that the listener has changed, and wake the thread. The caller must hold the lock. */
static void inspect_notify(void)
{
    uint64_t one = 1;
    inspect.sessions++;
    if (inspect.has_thread && write(inspect.wake_fd, &one, sizeof one) < 0)
        return; /* the counter is not 0, so the thread wakes up anyway */
}

/* Let the thread send the result of a profile. The thread then ends. */
static void flush_profile(void)
{
    struct timespec until = weft__clock_spec(weft__clock_ns() + FLUSH_WAIT_NS);
    sem_init(&inspect_exit.is_flushed, 0, 0);
    atomic_store(&inspect_exit.is_requested, true);
    inspect_notify();
    while (sem_clockwait(&inspect_exit.is_flushed, CLOCK_MONOTONIC, &until) < 0 && errno == EINTR)
        continue;
}

/* Send the result of a profile, and remove the file of the socket, when the process exits. */
static void inspect_at_exit(void)
{
    if (weft__is_copy)
        return;
    pthread_mutex_lock(&inspect.lock);
    bool has_profile = inspect.has_thread && weft__profile_is_running();
    if (has_profile)
        flush_profile();
    pthread_mutex_unlock(&inspect.lock);
    weft_inspect_socket_close();
}

/* Give up the socket in a child of fork(2), which has no thread for it. */
static void inspect_after_fork(void)
{
    inspect.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    weft__listener_close(&inspect.listener, false);
    if (inspect.has_thread)
        close(inspect.wake_fd);
    inspect.has_thread = false;
    inspect.sessions++;
    weft__server_after_fork();
    weft__request_after_fork();
}

/* Install the handlers for fork and exit, and start the thread. The caller must hold the lock. */
static int inspect_prepare(void)
{
    if (!inspect.is_prepared) {
        if (pthread_atfork(NULL, NULL, inspect_after_fork) != 0 || atexit(inspect_at_exit) != 0)
            return -ENOMEM;
        inspect.is_prepared = true;
    }
    if (inspect.has_thread)
        return 0;
    inspect.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (inspect.wake_fd < 0)
        return -errno;
    int rc = weft__internal_thread_start_with(inspect_thread, SOCKET_STACK_BYTES);
    inspect.has_thread = rc == 0;
    if (rc < 0)
        close(inspect.wake_fd);
    return rc;
}

static int inspect_open(const char *path)
{
    char expanded[WEFT__SOCKET_PATH_BYTES];
    int rc = weft__socket_path_expand(path, getpid(), expanded);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&inspect.lock);
    if (inspect.listener.fd >= 0)
        rc = -EALREADY;
    if (rc == 0)
        rc = weft__listener_open(&inspect.listener, expanded);
    if (rc == 0 && (rc = inspect_prepare()) < 0)
        weft__listener_close(&inspect.listener, true);
    if (rc == 0)
        inspect_notify();
    pthread_mutex_unlock(&inspect.lock);
    return rc;
}

int weft_inspect_socket_open(const char *path)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    int rc = path != NULL ? inspect_open(path) : -EINVAL;
    if (rc < 0)
        return weft_fail(rc, "weft_inspect_socket_open: %s: %s", path != NULL ? path : "NULL",
                         strerror(-rc));
    return 0;
}

void weft_inspect_socket_close(void)
{
    pthread_mutex_lock(&inspect.lock);
    if (inspect.listener.fd >= 0) {
        weft__listener_close(&inspect.listener, true);
        inspect_notify();
    }
    pthread_mutex_unlock(&inspect.lock);
}

void weft__inspect_socket_install(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    const char *path = getenv("WEFT_INSPECT");
    if (path == NULL || *path == '\0' || atomic_flag_test_and_set(&is_done))
        return;
    int rc = inspect_open(path);
    if (rc < 0)
        weft__diag(LOG_WARNING, "WEFT_INSPECT is ignored: '%s': %s", path, strerror(-rc));
}
