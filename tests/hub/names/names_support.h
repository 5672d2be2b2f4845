/* Fibers that own names, for tests. */
#ifndef TESTS_HUB_NAMES_NAMES_SUPPORT_H
#define TESTS_HUB_NAMES_NAMES_SUPPORT_H

#include "hub/hub_support.h"

/* The time in which a server without faults does what a test waits for. */
#define PATIENCE_S 15

/* Answer each call with the name of this fiber. Return an error that is raised, as a value. */
static inline weft_value serve_name(void *arg)
{
    for (;;) {
        weft_value message = weft_receive();
        if (weft_is_error(message)) {
            weft_error_clear();
            return -message;
        }
        weft_hub_msg *msg = (weft_hub_msg *)message;
        if (msg->is_call)
            ck_assert_done(weft_hub_reply(msg, arg, strlen(arg)));
        weft_hub_free(msg);
    }
}

/* Spin a fiber that answers with a text. */
static inline weft_fiber spin_server(const char *text)
{
    return weft_spin(serve_name, (void *)(uintptr_t)text);
}

/* Assert that a call of a name is answered with a text. */
static inline void assert_answer(weft_hub *hub, const char *name, const char *text)
{
    weft_hub_msg *reply;
    ck_assert_done(weft_hub_call(hub, name, "?", 1, &reply));
    ck_assert_str_eq(reply->data, text);
    weft_hub_free(reply);
}

/* Own a name, and try again while it has another owner. Return the token. */
static inline uint64_t own_when_free(weft_hub *hub, const char *name, weft_fiber fiber)
{
    uint64_t token = 0;
    int rc = 0, timeout = 0;
    WEFT_CANCEL_AFTER(60, timeout) {
        while ((rc = weft_hub_expose(hub, name, fiber, &token)) == -EEXIST && weft_sleep(0.1) == 0)
            continue;
    }
    ck_assert_done(rc);
    return token;
}

/* Receive the next message of the caller. */
static inline weft_value receive_soon(double seconds)
{
    weft_value message = -ECANCELED;
    WEFT_MOVE_ON_AFTER(seconds) {
        message = weft_receive();
    }
    return message;
}

#endif
