/* Poll child processes with waitid(2). */
#ifndef WEFT_BASE_CHILD_PROCESS_H
#define WEFT_BASE_CHILD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/wait.h>

/*
 * Seconds between two polls. The first pause is about the run time of a short program. Each further
 * pause is twice as long, up to the maximum. With 1000 waiting fibers, polling at the maximum pause
 * uses 5 % of a processor.
 */
#define WEFT__CHILD_PAUSE_S_FIRST 0.001
#define WEFT__CHILD_PAUSE_S_MAX 0.02

/* The children to wait for, as arguments of waitid(2). */
typedef struct weft__child_process {
    idtype_t type;
    id_t id;
    int events;     /* WEXITED, WSTOPPED, WCONTINUED */
    int pidfd;      /* readable once the child has ended; -1: none, poll instead */
    double pause_s; /* the last pause between two polls; 0: none yet */
} weft__child_process;

/* Convert the arguments of waitpid(2). pid must not be INT_MIN. */
weft__child_process weft__child_process_of(pid_t pid, int options);

/*
 * Take the status of a child without waiting. status may be NULL. Returns the pid, 0 if no status
 * is available, or the error that waitid(2) returned.
 */
pid_t weft__child_process_poll(const weft__child_process *child, int *status);

/* Return whether weft__child_process_poll would return 0. Take no status. */
bool weft__child_process_is_running(const weft__child_process *child);

/* Return the next pause between two polls, in seconds. */
double weft__child_process_pause(weft__child_process *child);

#endif
