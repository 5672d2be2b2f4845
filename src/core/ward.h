/*
 * A supervisor and its wards: the children that it starts, stops and starts again. What becomes of
 * one that ends is decided in supervise.c; how it is done is in ward.c.
 */
#ifndef WEFT_CORE_WARD_H
#define WEFT_CORE_WARD_H

#include "core/intensity.h"
#include "core/sched.h"

#include <weft/supervise.h>

typedef struct weft__supervisor weft__supervisor;

typedef enum weft__ward_state {
    WEFT__WARD_RUNS,
    WEFT__WARD_STOPS,  /* its supervisor has told it to end, and waits for that */
    WEFT__WARD_HALTED, /* ended for its supervisor, who starts it again or lets it go */
    WEFT__WARD_ENDED,  /* by itself; to be handled */
    WEFT__WARD_WAITS,  /* its timer is armed; then it starts, and those halted with it */
    WEFT__WARD_DUE,    /* the same, and the time has come; to be handled */
    WEFT__WARD_RESTS,  /* ended, and runs again only if a sibling takes it along */
    WEFT__WARD_GONE,   /* no child any more; freed when nobody looks at it */
} weft__ward_state;

/* A child, as its supervisor sees it. */
typedef struct weft__ward {
    weft__list in_order; /* among all, in the order of their start */
    weft__list in_work;  /* in one of the supervisor's lists of what to do, or in none */
    weft__supervisor *supervisor;
    weft__fiber *fiber; /* NULL: gone */
    weft__ward_state state;
    weft_restart_when restart; /* of a child of the list never WEFT_DEFAULT */
    double grace_s;
    double delay_s;     /* before its last restart; 0: there was none, or no wait */
    int64_t started_ns; /* its last run */
    weft__timer timer;  /* armed while it waits to be started */
} weft__ward;

struct weft__supervisor {
    weft__keeper keeper;
    weft__claim claim; /* so that nothing is left if the process ends meanwhile */
    weft__cord *cord;
    weft__fiber *fiber;
    weft_supervise_options options; /* without zeroes that stand for a default */
    weft__list wards;
    weft__list to_handle; /* ended or due, the first first */
    weft__list concerned; /* to be stopped for a sibling's sake */
    weft__list absorbed;  /* of those: they had ended by themselves */
    weft__list gone;
    size_t active;      /* wards that run or will run again */
    weft__error *words; /* of why all is over; NULL: none, or it is not */
    weft__ward *stops;  /* the one that is being stopped; NULL: none */
    weft__timer grace;  /* of its stop */
    bool is_over;       /* all are being stopped; who is made now never runs */
    bool is_called;     /* woken because there is something to do */
    bool has_to_start;  /* all that are halted: what they waited for has been started by hand */
    bool lacks_memory;  /* there was none for a child that joined: it is kept, but no ward */
    uint32_t strays;    /* such children that live */
    weft__intensity restarts;
};

/* Children of the fiber are wards from now on, new ones and, if so wanted, those that it has. */
void weft__wards_begin(weft__supervisor *s, bool with_present);

/* No child is a ward any more. All are gone already, unless the process ends. */
void weft__wards_end(weft__supervisor *s);

void weft__ward_set_state(weft__ward *w, weft__ward_state state);

/*
 * Wait until there is something to do. False: the supervisor has been called away instead, and
 * *struck is why.
 */
bool weft__wards_wait(weft__supervisor *s, int *struck);

/* Start one again that has ended. 0, or -ENOMEM with words. */
int weft__ward_start(weft__ward *w);

/* Let one that has ended wait so long for its start; forget about that. */
void weft__ward_delay(weft__ward *w, double seconds);
void weft__ward_undelay(weft__ward *w);

/*
 * Tell one that runs to end and wait until it has; that cannot be cut short. It is halted then, or
 * gone. -EDEADLK: it will never end.
 */
int weft__ward_stop(weft__ward *w);

/*
 * End the children that could not become wards, and wait for that. False: there is none, or it will
 * never end.
 */
bool weft__wards_end_strays(weft__supervisor *s);

/* It is no ward any more; its record is given back if it has ended. Frees w. */
void weft__ward_forget(weft__ward *w);

/* Free those that are gone. The caller holds no pointer to any. */
void weft__wards_free_gone(weft__supervisor *s);

static inline weft__ward *weft__ward_in_order(weft__list *node)
{
    return CONTAINER_OF(node, weft__ward, in_order);
}

static inline weft__ward *weft__ward_in_work(weft__list *node)
{
    return CONTAINER_OF(node, weft__ward, in_work);
}

/* The first of a list of what to do, taken out; NULL: it is empty. */
static inline weft__ward *weft__ward_pop(weft__list *work)
{
    weft__list *node = weft__list_pop(work);
    return node != NULL ? weft__ward_in_work(node) : NULL;
}

#endif
