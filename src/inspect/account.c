/*
 * The accounting of CPU time, while viewers are connected. weft_account applies to the calling
 * thread, so a fiber in each cord calls it.
 */
#include "inspect/inspect.h"

#include <stdlib.h>

static weft_value account_on(void *arg)
{
    (void)arg;
    weft_account(true);
    return 0;
}

static weft_value account_off(void *arg)
{
    (void)arg;
    weft_account(false);
    return 0;
}

/* Call a function in a cord, without waiting for its end. */
static void run_in_cord(weft_cord cord, weft_fn *fn)
{
    if (cord == weft_cord_self())
        fn(NULL);
    else /* fails if the cord has ended, or has too many messages */
        weft_cord_spin_with(cord, fn, NULL,
                            &(weft_spin_options){.name = "inspector", .is_daemon = true});
}

/* Remember a cord. Returns false if it is known, or memory is exhausted. Needs the lock. */
static bool account_remember(weft_inspector *i, weft_cord cord)
{
    for (size_t c = 0; c < i->accounted_count; c++)
        if (i->accounted[c] == cord)
            return false;
    weft_cord *larger = realloc(i->accounted, (i->accounted_count + 1) * sizeof *larger);
    if (larger == NULL)
        return false;
    i->accounted = larger;
    i->accounted[i->accounted_count++] = cord;
    return true;
}

void weft__account_start(weft_inspector *i, const weft_snapshot *snapshot)
{
    for (size_t c = 0; c < snapshot->cords_count; c++) {
        const weft_snapshot_cord *cord = &snapshot->cords[c];
        if (!cord->has_replied || cord->counters.idle_s > 0) /* the program measures by itself */
            continue;
        pthread_mutex_lock(&i->lock);
        bool is_new = account_remember(i, cord->id);
        pthread_mutex_unlock(&i->lock);
        if (is_new)
            run_in_cord(cord->id, account_on);
    }
}

void weft__account_stop(weft_inspector *i)
{
    pthread_mutex_lock(&i->lock);
    weft_cord *cords = i->accounted;
    size_t count = i->accounted_count;
    i->accounted = NULL;
    i->accounted_count = 0;
    pthread_mutex_unlock(&i->lock);
    for (size_t c = 0; c < count; c++)
        run_in_cord(cords[c], account_off);
    free(cords);
}
