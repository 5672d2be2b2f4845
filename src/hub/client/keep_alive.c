/* The keep-alive fiber: send a PING to a silent server, and drop a server that does not reply. */
#include "hub/client/hub.h"

#include <weft/time.h>

#define KEEP_ALIVE_S 2.0
#define PINGS_UNANSWERED_MAX 2

/* Requests in flight when the server announces its end have this time for their replies. */
#define MOVE_S 5.0

typedef struct keep_alive {
    uint64_t serial, inputs; /* of the connection, at the last check */
    unsigned unanswered;
    double lame_since; /* 0: the server is not in lame-duck mode */
} keep_alive;

static void keep_alive_check_lame(weft_hub *hub, keep_alive *k)
{
    if (!hub->info.is_lame)
        k->lame_since = 0;
    else if (k->lame_since == 0)
        k->lame_since = weft_now();
    else if (weft_now() - k->lame_since >= MOVE_S)
        weft__root_break(hub, -ESHUTDOWN);
}

static void keep_alive_ping(weft_hub *hub, keep_alive *k)
{
    if (k->unanswered++ >= PINGS_UNANSWERED_MAX)
        weft__root_break(hub, -ETIMEDOUT);
    else if (weft__writer_append(hub, "PING\r\n") == 0)
        hub->pings++;
}

static void keep_alive_check(weft_hub *hub, keep_alive *k)
{
    bool is_active = k->serial != hub->session.serial || k->inputs != hub->inputs;
    k->serial = hub->session.serial;
    k->inputs = hub->inputs;
    if (is_active)
        k->unanswered = 0;
    else if (hub->is_connected)
        keep_alive_ping(hub, k);
    keep_alive_check_lame(hub, k);
}

weft_value weft__keep_alive_run(void *arg)
{
    keep_alive k = {0};
    int rc;
    while ((rc = weft_sleep(KEEP_ALIVE_S)) == 0)
        keep_alive_check(arg, &k);
    return rc;
}
