/*
 * Call a service by its name. Several processes expose the name, and each call goes to one of them.
 * Each hub stands for a process. The program needs no server: "mem:" is a broker in this process.
 * usage: call [URL]
 */
#include <weft.h>
#include <weft/hub.h>

#include <errno.h>
#include <stdio.h>

#define SERVICES 3
#define CALLS 6

/* A service: reply to each message in the mailbox. */
static weft_value greet(void *arg)
{
    weft_hub *hub = arg;
    int rc = weft_hub_expose(hub, "greeter", weft_self(), NULL);
    while (rc == 0) {
        weft_value got = weft_receive();
        if (weft_is_error(got))
            return got;
        weft_hub_msg *msg = (weft_hub_msg *)got;
        char text[64];
        int bytes = snprintf(text, sizeof text, "Hello, %s!", (const char *)msg->data);
        rc = weft_hub_reply(msg, text, (size_t)bytes);
        weft_hub_free(msg);
    }
    return rc;
}

/* A client: an answer or an error. The deadline is a scope, as for any other call. */
static int greet_all(weft_hub *hub)
{
    for (int i = 0; i < CALLS; i++) {
        weft_hub_msg *reply = NULL;
        int rc = 0, late = 0;
        WEFT_CANCEL_AFTER(5.0, late)
            rc = weft_hub_call(hub, "greeter", "Ada", 3, &reply);
        if (rc < 0)
            return late < 0 ? late : rc;
        printf("%s\n", (const char *)reply->data);
        weft_hub_free(reply);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    weft_hub *hub = weft_hub_open(url, NULL), *hubs[SERVICES];
    if (hub == NULL) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    int rc = weft_hub_call(hub, "greeter", "Ada", 3, NULL);
    printf("without a service: %s\n", rc == -EHOSTUNREACH ? "nobody is there" : "unexpected");
    weft_fiber services[SERVICES];
    for (int i = 0; i < SERVICES; i++) {
        hubs[i] = weft_hub_open(url, NULL);
        services[i] = weft_spin(greet, hubs[i]);
    }
    weft_sleep(0.1); /* the services expose the name */
    rc = greet_all(hub);
    for (int i = 0; i < SERVICES; i++) {
        weft_terminate(services[i], 1.0);
        weft_hub_close(hubs[i]);
    }
    weft_hub_close(hub);
    return rc < 0;
}
