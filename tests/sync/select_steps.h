/* Steps that select. The argument is a selection, and the result names the clause and its value. */
#ifndef TESTS_SYNC_SELECT_STEPS_H
#define TESTS_SYNC_SELECT_STEPS_H

#include "sync/steps.h"

typedef struct selection {
    weft_clause c[12];
    size_t n;
    int next_result; /* of the call after the select of pick_and_sleep */
} selection;

#define CLAUSES(...)                                                                 \
    (weft_value) & (selection)                                                       \
    {                                                                                \
        {__VA_ARGS__}, sizeof((weft_clause[]){__VA_ARGS__}) / sizeof(weft_clause), 0 \
    }

/* The result of a select that chose clause i with this value. */
#define CHOSE(i, value) (10000 * ((i) + 1) + (value))

static inline weft_value pick_by(int (*select_fn)(weft_clause *, size_t), selection *s)
{
    int chosen = select_fn(s->c, s->n);
    return chosen < 0 ? chosen : CHOSE(chosen, s->c[chosen].value);
}

STEP(pick, pick_by(weft_select, (selection *)arg))
STEP(try_pick, pick_by(weft_try_select, (selection *)arg))

static inline weft_value pick_and_sleep(weft_value arg)
{
    weft_value result = pick(arg);
    ((selection *)arg)->next_result = weft_sleep(0);
    return result;
}

#endif
