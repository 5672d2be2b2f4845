/*
 * Fibers that exchange messages, timeouts, and the error of a child. docs/from.md shows the program
 * beside one for Polyphony.
 */
#include <weft.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

typedef struct message {
    weft_fiber from;
    char text[16];
} message;

static weft_value shout(void *arg)
{
    (void)arg;
    for (;;) {
        weft_value value = weft_receive();
        if (weft_is_error(value))
            return value;
        message *m = (message *)value;
        for (char *at = m->text; *at != '\0'; at++)
            *at = (char)toupper((unsigned char)*at);
        weft_tell(m->from, value);
    }
}

static weft_value crash(void *arg)
{
    return weft_fail(-EIO, "%s", (const char *)arg);
}

int main(void)
{
    weft_fiber shouter = weft_spin(shout, NULL);
    message m = {weft_self(), "hello"};
    weft_tell(shouter, (weft_value)&m);
    weft_value reply = weft_receive();
    if (!weft_is_error(reply))
        puts(((message *)reply)->text);

    reply = 0;
    WEFT_MOVE_ON_AFTER(0.1) {
        reply = weft_receive();
    }
    puts(weft_is_error(reply) ? "no message" : "a message");

    int rc;
    WEFT_CANCEL_AFTER(0.1, rc) {
        weft_sleep(60.0);
    }
    puts(rc == -ETIMEDOUT ? "timeout" : "no timeout");

    if (weft_is_error(weft_await(weft_spin(crash, "out of paper"))))
        printf("error: %s\n", weft_error()->message);
}
