/*
 * A transfer is a call: it returns when someone transfers back, with the value that was passed. The
 * first value, which no call is there to return, is found by weft_first_value.
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
    weft_transfer(ping, (weft_value)pong); /* returns when neither can go on */
}
