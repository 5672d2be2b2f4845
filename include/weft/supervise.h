/*
 * Supervisors, which restart children that fail, as in Erlang.
 *
 * A supervisor is a fiber in weft_supervise. A supervisor can be a child of another supervisor. A
 * restart does not change the id of a child. Therefore other fibers can store the id. weft_children
 * lists the ids of living children. Between two runs, a child has ended. weft_tell then fails.
 * weft_await returns the value of the last run, any number of times.
 */
#ifndef WEFT_SUPERVISE_H
#define WEFT_SUPERVISE_H

#include <weft/base.h>

WEFT_BEGIN

/* The children that restart when one child must restart. */
typedef enum weft_strategy {
    WEFT_ONE_FOR_ONE,  /* only that child */
    WEFT_ONE_FOR_ALL,  /* all children; the other children are stopped first */
    WEFT_REST_FOR_ONE, /* that child, and the children that were started after it */
} weft_strategy;

/* When a child restarts. A child that weft_stop or weft_cancel ends has not failed. */
typedef enum weft_restart_when {
    WEFT_DEFAULT,  /* in the list: WEFT_ALWAYS; others: never, and an error ends weft_supervise */
    WEFT_ALWAYS,   /* whenever it ends, with or without an error */
    WEFT_ON_ERROR, /* when it fails, or when its siblings restart, even if it ended without error */
    WEFT_NEVER,    /* not even with its siblings; only on_exit gets its error */
} weft_restart_when;

/* A child in the list of weft_supervise. */
typedef struct weft_child {
    const char *name; /* copied, cut to 31 bytes; NULL: none */
    weft_fn *fn;
    void *arg;
    weft_restart_when restart;
    size_t stack_bytes; /* 0: the default */
    double grace_s;     /* report the child if it has not ended after this time; 0: 5 s */
} weft_child;

/* Options of a supervisor. All-zero is the default. */
typedef struct weft_supervise_options {
    weft_strategy strategy;
    unsigned restarts_max;    /* per window; more is a failure; 0: 10; UINT_MAX: no limit */
    double restarts_window_s; /* the window; 0: 10 s; INFINITY: unlimited */
    /*
     * The delay before the first restart of a child. The delay doubles with each further restart.
     * After a run that lasts for the whole window, the next delay is backoff_s again. 0: no delay.
     */
    double backoff_s;
    double backoff_max_s;      /* the longest delay; 0: 60 s */
    weft_restart_when restart; /* of children that are not in the list */
    /*
     * The supervisor calls on_exit for every child that ends by itself, before the supervisor
     * reacts. If the child failed, weft_error() returns the message. on_exit may call weft_restart
     * for the child. The supervisor then does not react. on_exit may also create children. The
     * supervisor supervises these children too. NULL: none.
     */
    void (*on_exit)(weft_fiber child, weft_value value, void *arg);
    void *on_exit_arg;
} weft_supervise_options;

/**
 * Start the children of a list in order, and supervise all children.
 *
 * If n is 0, the call supervises the existing children of the caller instead. In both cases, the
 * call also supervises children that are spun by or attached to the caller later. The call returns
 * 0 when no child is running and no child will restart. If options is NULL, the defaults apply.
 *
 * When the number of restarts exceeds restarts_max, the call stops the other children and returns
 * the last error. weft_error() returns the message of this error. A cancellation, an interrupt or a
 * raised error in the caller stops all children. The call then returns the error of the caller. If
 * the caller is already cancelled, the call starts no child. If a child cannot be started, the call
 * stops the started children.
 *
 * The call stops children one after the other, in the reverse order of their start. During the
 * stop, the call still calls on_exit for children that end by themselves. weft_restart then fails
 * with -ESRCH for such a child.
 *
 * Returns 0, one of the errors above, or:
 * -EAGAIN if the thread has reached its limit of 2^22 fibers
 * -EINVAL if a child has no function
 * -EINVAL if a time is negative or NaN
 * -EINVAL if an option is not valid
 * -EINVAL if children is NULL and n is not 0
 * -EINVAL if the caller is already in weft_supervise
 * -ELOOP if restarts_max is exceeded and the last child ended without an error
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_supervise(const weft_child *children, size_t n,
                                    const weft_supervise_options *options) WEFT_MUST_CHECK;

WEFT_END

#endif
