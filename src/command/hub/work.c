/*
 * weft hub work: run a program for each item of a queue. The program reads the item from its
 * standard input. Its exit status 0 means that the item is handled.
 */
#include "command/command.h"
#include "command/hub/hub.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/process.h>
#include <weft/signal.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

typedef struct work_state {
    hub_run *run;
    unsigned handled;
    weft_fiber worker; /* the fiber in weft_hub_work */
} work_state;

/* Run the command. Returns 0 if its exit status is 0. */
static int item_run(const hub_run *run, const weft_hub_msg *item)
{
    char queue[128], id[256], number[64], deliveries[64];
    snprintf(queue, sizeof queue, "WEFT_HUB_QUEUE=%s", item->to);
    snprintf(id, sizeof id, "WEFT_HUB_ID=%s", item->id);
    snprintf(number, sizeof number, "WEFT_HUB_NUMBER=%" PRIu64, item->number);
    snprintf(deliveries, sizeof deliveries, "WEFT_HUB_DELIVERIES=%u", item->deliveries);
    weft_process_options options = {.set = (char *[]){queue, id, number, deliveries, NULL}};
    int status = weft_run(run->args + 1, item->data, item->bytes, &options, NULL);
    if (status < 0)
        return status;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int item_print(const weft_hub_msg *item)
{
    fwrite(item->data, 1, item->bytes, stdout);
    putchar('\n');
    return fflush(stdout) == 0 ? 0 : -errno;
}

static weft_value handle_item(weft_hub_msg *item, void *arg)
{
    work_state *w = arg;
    const hub_settings *s = w->run->settings;
    if (s->items_max > 0 && w->handled >= s->items_max)
        return -ECANCELED; /* another worker may handle it */
    int rc = w->run->args_count > 1 ? item_run(w->run, item) : item_print(item);
    if (rc < 0)
        return rc;
    if (++w->handled == s->items_max)
        weft_cancel(w->worker);
    return 0;
}

static weft_value work_until_cancelled(void *arg)
{
    work_state *w = arg;
    return weft_hub_work(w->run->hub, w->run->args[0], handle_item, w, w->run->settings->at_once);
}

static weft_value cancel_worker(void *arg)
{
    weft_cancel(((work_state *)arg)->worker);
    return 0;
}

int weft__hub_command_work(hub_run *run)
{
    work_state w = {.run = run};
    int rc = weft_on_signal(SIGINT, cancel_worker, &w);
    if (rc == 0)
        rc = weft_on_signal(SIGTERM, cancel_worker, &w);
    if (rc == 0) {
        w.worker = weft_spin(work_until_cancelled, &w);
        rc = w.worker != 0 ? (int)weft_await(w.worker) : weft_error()->code;
    }
    weft_on_signal(SIGINT, NULL, NULL);
    weft_on_signal(SIGTERM, NULL, NULL);
    return rc == -ECANCELED ? EXIT_SUCCESS : weft__hub_command_fail(run, rc);
}
