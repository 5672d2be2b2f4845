/* The state of a cord for the watchdog (weft_watchdog, watchdog.c). */
#ifndef WEFT_CORE_DEBUG_WATCHDOG_H
#define WEFT_CORE_DEBUG_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/*
 * The progress of a cord. If two values are equal, the cord has neither switched nor polled between
 * them.
 */
typedef struct weft__progress {
    uint64_t switches;
    int64_t polled_ns;
    uint32_t tick_left;
} weft__progress;

/* All-zero: the watchdog ignores the cord. */
typedef struct weft__watchdog_state {
    pthread_t thread;              /* the thread of the cord; set before process */
    pid_t thread_id;               /* as in gettid(2); set before process */
    _Atomic pid_t process;         /* the id of the process with this thread; 0: no thread yet */
    atomic_bool is_signal_pending; /* set by the watchdog, cleared by the signal handler */

    /* Only the thread of the watchdog uses these fields. */
    weft__progress progress; /* at the last check */
    int64_t since_ns;        /* time of the first check with this progress */
    uint32_t checks;         /* further checks that found this progress */
    bool is_reported;        /* the stall was reported */
} weft__watchdog_state;

/* Enable the watchdog for the cord of the calling thread. */
static inline void weft__watchdog_attach(weft__watchdog_state *w)
{
    pid_t process = getpid();
    if (atomic_load(&w->process) == process)
        return;
    w->thread = pthread_self();
    w->thread_id = gettid();
    atomic_store(&w->process, process);
}

/*
 * If WEFT_WATCHDOG is a number of seconds, turn the watchdog on. Only the first call in a process
 * has an effect.
 */
void weft__watchdog_install(void);

#endif
