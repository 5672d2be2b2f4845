/*
 * The internals of processes. wait.c waits for children. spawn.c starts processes. process.c sends
 * signals to a started process and ends it. run.c runs programs to their end.
 */
#ifndef WEFT_IO_PROCESS_PROCESS_H
#define WEFT_IO_PROCESS_PROCESS_H

#include "base/child_process.h"

#include <weft/process.h>

/*
 * Open a pidfd for a child. Returns -1 on failure. The caller must close the pidfd with weft_close.
 */
int weft__pidfd_open(pid_t pid);

/*
 * Wait until the child should be polled again. If the caller was interrupted, the call sets
 * *is_interrupted and returns the error. Otherwise the result has no meaning.
 */
int weft__child_process_await(weft__child_process *child, bool *is_interrupted);

typedef enum weft__process_state {
    WEFT__PROCESS_RUNNING, /* running, or not polled since its end */
    WEFT__PROCESS_EXITED,
    WEFT__PROCESS_LOST, /* other code has taken its status */
} weft__process_state;

/* The private part of a weft_process. Valid while pid is not 0. */
typedef struct weft__process {
    int pidfd;      /* -1: none */
    int status;     /* wait status; valid in state EXITED */
    double grace_s; /* of weft_process_close and of cancelled waits */
    uint8_t state;  /* a weft__process_state */
    uint8_t on_cancel;
    bool has_group;
} weft__process;

_Static_assert(sizeof(weft__process) <= sizeof((weft_process){0}.weft__private),
               "weft_process is too small");

static inline weft__process *weft__process_of(weft_process *p)
{
    return (weft__process *)(void *)p->weft__private;
}

#endif
