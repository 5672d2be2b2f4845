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
     * or let it go (or collect it, if it has taken itself out: keeper is NULL then); false: the
     * keeper is done with it.
     */
    bool (*ended)(weft__keeper *k, struct weft__fiber *f, weft_value value);
    /*
     * The living fiber has been given to another parent: it is no concern of the keeper's any more.
     */
    void (*left)(weft__keeper *k, struct weft__fiber *f);
    /*
     * The fiber is a child of one whose children this keeper keeps: a new one, or one of its own
     * that had ended and runs again. NULL: it keeps no such.
     */
    void (*joined)(weft__keeper *k, struct weft__fiber *f);
    /*
     * The keeper is ending the fiber itself and will run it again or let it go: who wants to
     * restart it waits for that. NULL: it never does.
     */
    bool (*holds)(const weft__keeper *k, const struct weft__fiber *f);
} weft__keeper_type;

struct weft__keeper {
    const weft__keeper_type *type;
    bool is_ending; /* its fibers are told to end, and none of them is to run again */
};

#endif
