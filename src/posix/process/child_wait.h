/* Waits for changes of child processes. */
#ifndef WEFT_POSIX_PROCESS_CHILD_WAIT_H
#define WEFT_POSIX_PROCESS_CHILD_WAIT_H

#include <stdbool.h>
#include <sys/wait.h>

/* The children that a call waits for, as in waitid(2). */
typedef struct weft__child_wait {
    idtype_t type;
    id_t id;
    int events;         /* WEXITED, WSTOPPED, WCONTINUED and flags */
    bool has_had_pidfd; /* the next wait needs a thread */
} weft__child_wait;

/* Return the children that waitpid(2) would wait for. */
weft__child_wait weft__child_wait_of(pid_t pid, int options);

/*
 * Wait until a child may have changed its state. The call takes no status. The hooks must be on.
 * Returns 0, or the error of the wait.
 */
int weft__child_wait_run(weft__child_wait *c);

/*
 * Wait for the end of one child, and take its status. Signal handlers do not end the call. Returns
 * pid, or -1 and sets errno. If the wait is cancelled, a worker thread takes the status later, and
 * discards it.
 */
pid_t weft__child_wait_end(pid_t pid, int *status);

#endif
