/*
 * Supervision: children that are started again when they fail, as Erlang's users know it.
 *
 * A supervisor is the fiber that calls weft_supervise; it can itself be a child of another. Its
 * children keep their ids (weft_children lists them) through every restart, so others may go on
 * telling them things. Between two runs a child is dead: weft_await returns the value of its last
 * run, again and again, and weft_tell fails.
 */
#ifndef WEFT_SUPERVISE_H
#define WEFT_SUPERVISE_H

#include <weft/base.h>

WEFT_BEGIN

/* Whom the end of one child that is to be started again concerns. */
typedef enum weft_strategy {
    WEFT_ONE_FOR_ONE,  /* itself */
    WEFT_ONE_FOR_ALL,  /* all: the others are stopped too, and all are started again */
    WEFT_REST_FOR_ONE, /* itself and those that were started after it */
} weft_strategy;

/* When a child is started again. An end that was asked for (weft_stop, weft_cancel) is no error. */
typedef enum weft_restart_when {
    WEFT_DEFAULT,  /* a child of the list: always; one that was spun: never, its error ends all */
    WEFT_ALWAYS,   /* whenever it ends, also well */
    WEFT_ON_ERROR, /* when it ends with an error; with its siblings, even if it had ended well */
    WEFT_NEVER,    /* not even with its siblings; its error concerns nobody but on_exit */
} weft_restart_when;

/* A child of the list. */
typedef struct weft_child {
    const char *name; /* copied, cut to 31 bytes; NULL: none */
    weft_fn *fn;
    void *arg;
    weft_restart_when restart;
    size_t stack_bytes; /* 0: the default */
    double grace_s;     /* after so long it is said that it would not stop; 0: 5 s */
} weft_child;

/* All-zero is the default. */
typedef struct weft_supervise_options {
    weft_strategy strategy;
    unsigned restarts_max;    /* in the window; one more and it gives up. 0: ten; UINT_MAX: any */
    double restarts_window_s; /* 0: ten seconds; INFINITY: ever */
    /*
     * Wait so long before a restart, twice as long before the next one of the same child, and so on
     * until a run has lasted as long as the window; 0: do not wait.
     */
    double backoff_s;
    double backoff_max_s;      /* but no longer than this; 0: a minute */
    weft_restart_when restart; /* of children that are not in the list */
    /*
     * Called in the supervisor for every child that ends by itself, before anything is done about
     * it; weft_error() has the words of its error. It may weft_restart the child, which settles the
     * matter, or spin others, which are covered too. NULL: none.
     */
    void (*on_exit)(weft_fiber child, weft_value value, void *arg);
    void *on_exit_arg;
} weft_supervise_options;

/**
 * Start the children, in their order, and supervise them until none is left that runs or will run
 * again. Without a list (NULL, 0) it supervises the children that the caller has already; in both
 * cases also those that it gets meanwhile (spun with it as parent, or attached to it).
 *
 * Returns 0 when no child is left. When restarts_max is exceeded, the other children are stopped
 * and the last error is returned, with its words; -ELOOP if the last end was no error. Cancelled,
 * interrupted, or when an error is raised in the caller, it stops all children and returns that.
 * Children are always stopped in the reverse order of their start, each one only when the one after
 * it has ended; on_exit is told of those that end by themselves meanwhile, and nobody can be
 * restarted then (-ESRCH). A caller that is cancelled already starts nobody.
 *
 * -EINVAL for a child without function, for options that make no sense, and in a fiber that
 * supervises already; -ENOMEM, -EAGAIN if a child cannot be made: those that were started are
 * stopped again.
 */
WEFT_SWITCHPOINT int weft_supervise(const weft_child *children, size_t n,
                                    const weft_supervise_options *options) WEFT_MUST_CHECK;

WEFT_END

#endif
