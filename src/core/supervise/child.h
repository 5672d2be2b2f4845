/*
 * A supervisor and its supervised children. supervise.c decides what happens when a child ends.
 * child.c tracks, starts and stops children.
 */
#ifndef WEFT_CORE_SUPERVISE_CHILD_H
#define WEFT_CORE_SUPERVISE_CHILD_H

#include "core/sched/sched.h"
#include "core/supervise/restart_intensity.h"

#include <weft/supervise.h>

typedef struct weft__supervisor weft__supervisor;

typedef enum weft__sup_child_state {
    WEFT__SUP_CHILD_RUNNING,
    WEFT__SUP_CHILD_STOPPING, /* cancelled; the supervisor waits for the end of the child */
    WEFT__SUP_CHILD_HALTED,   /* ended; the supervisor restarts or forgets the child */
    WEFT__SUP_CHILD_ENDED,    /* ended by itself; in to_handle, to_stop or self_ended */
    WEFT__SUP_CHILD_DELAYED,  /* waits for its timer; halted siblings restart with the child */
    WEFT__SUP_CHILD_DUE,      /* like DELAYED, but the timer has fired; in to_handle */
    WEFT__SUP_CHILD_DORMANT,  /* ended; restarts only with a sibling */
    WEFT__SUP_CHILD_REMOVED,  /* no longer a child; in removed */
} weft__sup_child_state;

/* The supervisor's record of a child. */
typedef struct weft__sup_child {
    weft__list order_link; /* in children of the supervisor, in the order of the first start */
    weft__list work_link;  /* in to_handle, to_stop, self_ended or removed; empty: in none */
    weft__supervisor *supervisor;
    weft__fiber *fiber; /* NULL: removed */
    weft__sup_child_state state;
    weft_restart_when restart; /* WEFT_DEFAULT: not in the list of weft_supervise */
    double grace_s;            /* report the child if it has not stopped after this time */
    double delay_s;            /* the delay of the last restart; 0: no restart, or no delay */
    int64_t started_ns;        /* the time of the last restart */
    weft__timer timer;         /* armed while the state is DELAYED */
} weft__sup_child;

struct weft__supervisor {
    weft__reaper reaper;
    weft__exit_hook exit_hook; /* cleans up if the process ends in weft_supervise */
    weft__cord *cord;
    weft__fiber *fiber;             /* the caller of weft_supervise */
    weft_supervise_options options; /* with defaults filled in */
    weft__list children;            /* all records, in the order of the first start */
    weft__list to_handle;           /* ended or due children, the earliest first */
    weft__list to_stop;             /* running children that restart with a sibling */
    weft__list self_ended;          /* children of to_stop that have ended by themselves */
    weft__list removed;             /* records to free */
    size_t active;                  /* children that run or will restart */
    weft__error *error;             /* the reason for the final stop; NULL: none */
    weft__sup_child *stopping;      /* the child in state STOPPING; NULL: none */
    /* Armed while a child is in state STOPPING. When the timer fires, the child is reported. */
    weft__timer grace;
    bool is_final_stop; /* the final stop has begun; new children never run */
    bool has_work;      /* the wait ended because there is work */
    /* Start halted children, because weft_restart has restarted a child. */
    bool has_to_start;
    bool lacks_memory;  /* memory for the record of a child was exhausted */
    uint32_t untracked; /* living children without a record */
    weft__restart_intensity restarts;
};

/*
 * Supervise new children of the fiber. If with_existing is true, supervise existing children too.
 */
void weft__sup_children_begin(weft__supervisor *s, bool with_existing);

/*
 * Stop supervising, and free the memory of the supervisor. The supervisor must have no children,
 * unless the process ends.
 */
void weft__sup_children_end(weft__supervisor *s);

/* Set the state of a child, and update the number of active children. */
void weft__sup_child_set_state(weft__sup_child *ch, weft__sup_child_state state);

/*
 * Wait for work. Return false if a cancellation or an interrupt has ended the wait. *cause then
 * receives the error.
 */
bool weft__sup_children_wait(weft__supervisor *s, int *cause);

/*
 * Restart a child that has ended. On failure, record the error for weft_error().
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__sup_child_start(weft__sup_child *ch);

/* Delay the restart of a child that has ended. */
void weft__sup_child_delay(weft__sup_child *ch, double seconds);

/* Cancel the delay of a child, and set its state to HALTED. */
void weft__sup_child_undelay(weft__sup_child *ch);

/*
 * Cancel a running child, and wait for its end. The wait cannot be interrupted. After a successful
 * call, the state of the child is HALTED or REMOVED.
 *
 * Returns 0, or:
 * -EDEADLK if the child never ends
 */
int weft__sup_child_stop(weft__sup_child *ch);

/*
 * Cancel the children without a record, and wait for their end. Return false if there is no such
 * child, or if a child never ends.
 */
bool weft__sup_end_untracked(weft__supervisor *s);

/* Stop supervising a child, and free ch. If the child has ended, free its fiber record too. */
void weft__sup_child_forget(weft__sup_child *ch);

/* Free the records in removed. The caller must not use pointers to these records any more. */
void weft__sup_children_free_removed(weft__supervisor *s);

static inline weft__sup_child *weft__sup_child_of_order(weft__list *node)
{
    return CONTAINER_OF(node, weft__sup_child, order_link);
}

static inline weft__sup_child *weft__sup_child_of_work(weft__list *node)
{
    return CONTAINER_OF(node, weft__sup_child, work_link);
}

/* Remove and return the first child of a work list. Return NULL if the list is empty. */
static inline weft__sup_child *weft__sup_child_pop(weft__list *work)
{
    weft__list *node = weft__list_pop(work);
    return node != NULL ? weft__sup_child_of_work(node) : NULL;
}

#endif
