/*
 * A name with one owner. When the owner ends, a process that monitors the name takes it over. The
 * token grows with each owner, so that a store can reject the writes of an owner that was replaced.
 * The two hubs stand for two processes.
 * usage: owner [URL]
 */
#include <weft.h>
#include <weft/hub.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define OWNER_GONE 1 /* the message of weft_hub_monitor */

typedef struct ledger {
    weft_hub *hub;
    const char *where;
    uint64_t *highest; /* the highest token that the store has seen */
} ledger;

/* A store that rejects tokens of earlier owners. */
static int store(const ledger *l, uint64_t token)
{
    if (token < *l->highest)
        return -ESTALE;
    *l->highest = token;
    return 0;
}

/* Own the name, or wait until its owner is gone. */
static int become_owner(const ledger *l, uint64_t *token)
{
    for (;;) {
        int rc = weft_hub_expose(l->hub, "ledger", weft_self(), token);
        if (rc != -EEXIST)
            return rc;
        rc = weft_hub_monitor(l->hub, "ledger", OWNER_GONE);
        if (rc == -ESRCH)
            continue; /* the owner has ended since */
        weft_value got = rc < 0 ? rc : weft_receive();
        if (weft_is_error(got))
            return (int)got;
    }
}

static weft_value run_ledger(void *arg)
{
    const ledger *l = arg;
    uint64_t token;
    int rc = become_owner(l, &token);
    if (rc < 0)
        return rc;
    printf("%s owns the ledger\n", l->where);
    rc = store(l, token);
    printf("%s writes: %s\n", l->where, rc == 0 ? "accepted" : "rejected");
    return weft_suspend(); /* serve; here: until it is stopped */
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    uint64_t highest = 0;
    ledger a = {weft_hub_open(url, NULL), "process a", &highest};
    ledger b = {weft_hub_open(url, NULL), "process b", &highest};
    if (a.hub == NULL || b.hub == NULL) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    weft_fiber first = weft_spin(run_ledger, &a);
    weft_sleep(0.2);
    weft_fiber second = weft_spin(run_ledger, &b);
    weft_sleep(0.2);
    uint64_t old_token = highest;
    printf("process a ends\n");
    weft_terminate(first, 1.0);
    weft_hub_close(a.hub);
    while (highest == old_token && weft_sleep(0.05) == 0)
        continue;
    printf("a late write of process a: %s\n",
           store(&a, old_token) == -ESTALE ? "rejected" : "accepted");
    weft_terminate(second, 1.0);
    weft_hub_close(b.hub);
    return 0;
}
