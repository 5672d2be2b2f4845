/*
 * Measure CPU time while a client needs it. See accounting.h.
 *
 * weft_account applies to the calling thread. Therefore each cord gets a message, and changes the
 * setting itself. If the program has switched weft_account on, the cord leaves it on.
 */
#include "core/inspect_socket/accounting.h"

#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/sched/sched.h"

#include <stdlib.h>
#include <string.h>

#define CORDS_MAX (1u << WEFT__CORDS_BITS)

/* By index: the id of the cord that got the last request. */
static weft_fiber requested[CORDS_MAX];
/* By index: the id of the cord that measures on request. Each cord writes its own element. */
static _Atomic(weft_fiber) measuring[CORDS_MAX];

/* An idle cord delivers messages, too. Its idle time is not the time of a fiber. */
static void measuring_end(weft__cord *c)
{
    weft__account_idle(c);
    weft_account(false);
}

static void accounting_deliver(weft__cord *c, weft__remote_msg *msg)
{
    bool on = msg->value != 0;
    free(msg);
    if (c == NULL)
        return;
    if (on && !c->is_accounting) {
        atomic_store(&measuring[c->index], c->main->id);
        weft_account(true);
    } else if (!on && atomic_exchange(&measuring[c->index], 0) == c->main->id) {
        measuring_end(c);
    }
}

/* Send a request to a cord. The caller must have acquired the cord. */
static bool accounting_send(weft__cord *c, bool on)
{
    weft__remote_msg *msg = malloc(sizeof *msg);
    if (msg == NULL)
        return false;
    *msg = (weft__remote_msg){.deliver = accounting_deliver, .fiber = c->main->id, .value = on};
    weft__inbox_push(c, msg);
    return true;
}

static void cord_start(weft__cord *c, void *arg)
{
    (void)arg;
    if (requested[c->index] != c->main->id && accounting_send(c, true))
        requested[c->index] = c->main->id;
}

static void cord_stop(weft__cord *c, void *arg)
{
    (void)arg;
    if (requested[c->index] == c->main->id)
        accounting_send(c, false);
    requested[c->index] = 0;
}

void weft__accounting_start(void)
{
    weft__registry_each(cord_start, NULL);
}

void weft__accounting_stop(void)
{
    weft__registry_each(cord_stop, NULL);
}

void weft__accounting_after_fork(void)
{
    weft__cord *c = weft__cord_self;
    bool is_measuring = c != NULL && atomic_load(&measuring[c->index]) == c->main->id;
    memset(requested, 0, sizeof requested);
    for (uint32_t i = 0; i < CORDS_MAX; i++)
        atomic_store(&measuring[i], 0);
    if (is_measuring)
        measuring_end(c);
}
