/* Fibers that expose names, and what they do with their messages. */
#ifndef TESTS_HUB_CLIENT_EXPOSE_SUPPORT_H
#define TESTS_HUB_CLIENT_EXPOSE_SUPPORT_H

#include "hub/client/client.h"
#include "hub/client/expose.h"
#include "hub/hub_support.h"

/* Expose a shared name. */
static inline int expose(weft_hub *hub, const char *name, weft_fiber fiber)
{
    return weft_hub_expose(hub, name, fiber, NULL);
}

static inline void withdraw(weft_hub *hub, const char *name)
{
    ck_assert_done(weft_hub_withdraw(hub, name));
}

/* Receive a message. NULL: the receiver is cancelled. */
static inline weft_hub_msg *receive_msg(void)
{
    weft_value value = weft_receive();
    return weft_is_error(value) ? NULL : (weft_hub_msg *)value;
}

/* Reply to each call with its data. */
static inline weft_value echo_all(void *arg)
{
    weft_hub_msg *msg;
    while ((msg = receive_msg()) != NULL) {
        if (msg->is_call)
            weft_hub_reply(msg, msg->data, msg->bytes);
        weft_hub_free(msg);
    }
    return 0;
}

static inline weft_fiber spin_daemon(weft_fn *fn, void *arg)
{
    return weft_spin_with(fn, arg, &(weft_spin_options){.is_daemon = true});
}

/* Spin a fiber that exposes a name. */
static inline weft_fiber spin_exposed(weft_hub *hub, const char *name, weft_fn *fn, void *arg)
{
    weft_fiber f = spin_daemon(fn, arg);
    ck_assert_done(expose(hub, name, f));
    return f;
}

/* Call a name with a text. Assert the text of the reply. */
static inline void assert_call(weft_hub *hub, const char *to, const char *text,
                               const char *expected)
{
    weft_hub_msg *reply = NULL;
    ck_assert_done(weft_hub_call(hub, to, text, strlen(text), &reply));
    ck_assert_str_eq(reply->data, expected);
    weft_hub_free(reply);
}

/* A call in a fiber of its own. Returns the result of weft_hub_call. */
typedef struct caller {
    weft_hub *hub;
    const char *to;
} caller;

static inline weft_value run_caller(void *arg)
{
    caller *c = arg;
    int rc = weft_hub_call(c->hub, c->to, "x", 1, NULL);
    weft_error_clear();
    return rc == -ECANCELED ? rc : -rc; /* not an error of the fiber */
}

/* The result of a fiber of run_caller. */
static inline int caller_result(weft_fiber f)
{
    weft_value value = weft_await(f);
    return (int)(value > 0 ? -value : value);
}

#endif
