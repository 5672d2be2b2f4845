/*
 * Hubs for tests. A test uses a broker in its process. If tests/hub/servers runs the test, the test
 * uses an account of the server instead. Each process of Check gets a new account, and finds an
 * empty server.
 */
#ifndef TESTS_HUB_HUB_SUPPORT_H
#define TESTS_HUB_HUB_SUPPORT_H

#include "support/suite.h"

#include <weft/hub.h>
#include <weft/hub_broker.h>

#include <sys/file.h>

/* ACCOUNTS_MAX of tests/hub/servers. */
#define HUB_ACCOUNTS_MAX 2000

/* True if tests use a server of another process. */
static inline bool is_on_server(void)
{
    return getenv("WEFT_HUB_URL") != NULL;
}

/* Return the number of an account that no process has used. */
static inline int take_account(void)
{
    char text[16] = "";
    int fd = open(format("%s/count", getenv("WEFT_HUB_FOLDER")), O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    int number = atoi(text);
    int bytes = snprintf(text, sizeof text, "%d", number + 1);
    ck_assert_int_eq(pwrite(fd, text, (size_t)bytes, 0), bytes);
    close(fd);
    ck_assert_msg(number < HUB_ACCOUNTS_MAX, "all accounts of tests/hub/servers are in use");
    return number;
}

/* Return the URL that the test opens hubs with. */
static inline const char *hub_where(void)
{
    static char where[128];
    if (!is_on_server())
        return "mem:";
    if (where[0] == '\0') {
        int number = take_account();
        const char *address = strstr(getenv("WEFT_HUB_URL"), "//") + 2;
        snprintf(where, sizeof where, "nats://t%d:t@%s", number, address);
    }
    return where;
}

/* Open a hub. options may be NULL. */
static inline weft_hub *open_hub_at(const char *where, const weft_hub_options *options)
{
    weft_hub *hub = weft_hub_open(where, options);
    ck_assert_msg(hub != NULL, "%s: %s", where, hub == NULL ? weft_error()->message : "");
    return hub;
}

static inline weft_hub *open_hub(void)
{
    return open_hub_at(hub_where(), NULL);
}

static inline void close_hub(weft_hub *hub)
{
    ck_assert_int_eq(weft_hub_close(hub), 0);
}

static inline weft_hub_counters hub_stats(const weft_hub *hub)
{
    weft_hub_counters counters;
    ck_assert_int_eq(weft_hub_stats(hub, &counters), 0);
    return counters;
}

/* Assert success. A failure prints the message of the last error. */
#define ck_assert_done(rc)                                                          \
    do {                                                                            \
        int ck_rc = (int)(rc);                                                      \
        ck_assert_msg(ck_rc >= 0, "%s is %d: %s", #rc, ck_rc,                       \
                      weft_error() != NULL ? weft_error()->message : "no message"); \
    } while (0)

#endif
