/*
 * Supervise a child that runs in another process. The supervisor starts the child again, in any
 * process that offers its kind, when the child fails or its process ends.
 * The three hubs stand for three processes.
 * usage: run [URL]
 */
#include <weft.h>
#include <weft/hub.h>

#include <errno.h>
#include <stdio.h>

typedef struct machine {
    weft_hub *hub;
    weft_fiber fiber;
    unsigned runs;
} machine;

/* The child fails in its first run, and ends in its second run. */
static weft_value resize(weft_hub_msg *job, void *arg)
{
    static unsigned runs;
    ((machine *)arg)->runs++;
    printf("run %u: resize %s\n", ++runs, (const char *)job->data);
    return runs < 2 ? weft_fail(-EIO, "the disk is full") : 0;
}

static weft_value offer(void *arg)
{
    machine *m = arg;
    return weft_hub_offer(m->hub, "resize", resize, m, 4);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    machine machines[2] = {0};
    for (int i = 0; i < 2; i++) {
        machines[i].hub = weft_hub_open(url, NULL);
        machines[i].fiber = weft_spin(offer, &machines[i]);
    }
    weft_hub *hub = weft_hub_open(url, NULL);
    if (hub == NULL || machines[0].hub == NULL || machines[1].hub == NULL) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    weft_sleep(0.2); /* the machines offer their kind */
    weft_hub_child job = {.hub = hub, .kind = "resize", .data = "cat.png", .bytes = 7};
    weft_child child = {
        .name = "resize", .fn = weft_hub_run, .arg = &job, .restart = WEFT_ON_ERROR};
    int rc = weft_supervise(&child, 1, NULL);
    printf("weft_supervise returns %d after %u runs\n", rc, machines[0].runs + machines[1].runs);
    for (int i = 0; i < 2; i++) {
        weft_terminate(machines[i].fiber, 1.0);
        weft_hub_close(machines[i].hub);
    }
    weft_hub_close(hub);
    return rc < 0;
}
