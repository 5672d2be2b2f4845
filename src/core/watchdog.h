/* What the watchdog notes of a cord; see weft_watchdog and watchdog.c. */
#ifndef WEFT_CORE_WATCHDOG_H
#define WEFT_CORE_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* How far a cord has come; equal twice: it has not switched, nor waited, in between. */
typedef struct weft__progress {
    uint64_t switches;
    int64_t polled_ns;
    uint32_t turn_left;
} weft__progress;

/* All-zero: not to be watched. */
typedef struct weft__watched {
    pthread_t thread;
    _Atomic pid_t process; /* the thread's; 0: there is none yet */
    atomic_bool is_asked;  /* the signal is on its way to the thread, which sets it back */

    /* Only the watchdog's thread touches these. */
    weft__progress at; /* when it was last looked at */
    int64_t since_ns;  /* it has been there at least since then */
    uint32_t looks;    /* so many have found it there since */
    bool is_reported;
} weft__watched;

/* The calling thread runs this cord: it is to be watched. */
static inline void weft__watched_open(weft__watched *w)
{
    pid_t process = getpid();
    if (atomic_load(&w->process) == process)
        return;
    w->thread = pthread_self();
    atomic_store(&w->process, process);
}

#endif
