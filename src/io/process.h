/*
 * Processes inside. process_wait.c waits for children, process_spawn.c starts them, process.c keeps
 * and ends one that was started here, process_run.c is what is made of all that.
 */
#ifndef WEFT_IO_PROCESS_H
#define WEFT_IO_PROCESS_H

#include <weft/process.h>

#include <sys/wait.h>

/* Who is waited for, as waitid(2) says it. */
typedef struct weft__child {
    idtype_t type;
    id_t id;
    int events;     /* WEXITED, WSTOPPED, WCONTINUED */
    int pidfd;      /* becomes readable when it ends; -1: nothing tells */
    double pause_s; /* between the last two looks; 0: there was one only */
} weft__child;

/* A descriptor for a child; -1: there is none to be had. It is closed with weft_close. */
int weft__pidfd_open(pid_t pid);

/* Take a status if it is there: the pid; 0 if none is, -ECHILD. */
pid_t weft__child_look(const weft__child *child, int *status);

/*
 * Wait until it is worth looking again. *is_struck: it returns what the caller was struck by, else
 * it means nothing.
 */
int weft__child_await(weft__child *child, bool *is_struck);

typedef enum weft__process_state {
    WEFT__PROCESS_RUNS, /* or its status has not been taken */
    WEFT__PROCESS_OVER,
    WEFT__PROCESS_LOST, /* somebody else has taken its status */
} weft__process_state;

/* What is private in a weft_process that has a pid. */
typedef struct weft__process {
    int pidfd;      /* -1: none */
    int status;     /* once it is over */
    double grace_s; /* when it is ended unasked */
    uint8_t state;  /* weft__process_state */
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
