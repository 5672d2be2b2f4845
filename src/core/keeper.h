/*
 * A keeper is told of the end of certain fibers in place of their parent: a group, a supervisor.
 */
#ifndef WEFT_CORE_KEEPER_H
#define WEFT_CORE_KEEPER_H

#include <weft/base.h>

struct weft__fiber;
typedef struct weft__keeper weft__keeper;

typedef struct weft__keeper_type {
    /*
     * The fiber has ended. True: its record is kept, and so is the keeper, which may run it again
     * or collect it; false: the keeper is done with it.
     */
    bool (*ended)(weft__keeper *k, struct weft__fiber *f, weft_value value);
    /*
     * The living fiber has been given to another parent: it is no concern of the keeper's any more.
     */
    void (*left)(weft__keeper *k, struct weft__fiber *f);
    /* The fiber is a new child of one whose children this keeper keeps. NULL: it keeps no such. */
    void (*joined)(weft__keeper *k, struct weft__fiber *f);
} weft__keeper_type;

struct weft__keeper {
    const weft__keeper_type *type;
};

#endif
