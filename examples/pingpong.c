/*
 * Two fibers transfer control to each other. weft_transfer returns when another fiber transfers
 * back, with the passed value. weft_first_value returns the value of the first transfer.
 */
#include <weft.h>

#include <stdio.h>

static weft_fiber ping, pong;

static weft_value run_ping(void *arg)
{
    weft_fiber peer = (weft_fiber)weft_first_value();
    for (int i = 0; i < *(int *)arg; i++) {
        weft_value message = weft_transfer(peer, (weft_value) "ping");
        if (weft_is_error(message))
            return message;
        puts((const char *)message);
    }
    return 0;
}

static weft_value run_pong(void *arg)
{
    (void)arg;
    weft_value message = weft_first_value();
    while (!weft_is_error(message)) {
        puts((const char *)message);
        message = weft_transfer(ping, (weft_value) "pong");
    }
    return message; /* cancelled: main has ended */
}

int main(void)
{
    int times = 3;
    ping = weft_new(run_ping, &times);
    pong = weft_new(run_pong, NULL);
    weft_transfer(ping, (weft_value)pong); /* returns when both fibers wait or have ended */
}
