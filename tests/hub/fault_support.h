/* Faults of the broker in the process of a test. */
#ifndef TESTS_HUB_FAULT_SUPPORT_H
#define TESTS_HUB_FAULT_SUPPORT_H

#include "hub/hub_support.h"

static weft_hub_broker *broker;

/* Skip the program if the tests use a server of another process. */
__attribute__((constructor)) static void require_broker(void)
{
    if (!is_on_server())
        return;
    puts("skipped: only the broker of the process has faults");
    exit(77);
}

/* The number of switches after which an operation without a fault has ended, and more. */
#define SWITCHES_MAX 60

/* A hub connects again after 50 ms. Only on sim, this takes no time. */
static inline int switches_step(void)
{
    return is_sim() ? 1 : SWITCHES_MAX / 12;
}

static inline void ignore_log(int level, const char *message, void *arg)
{
}

/* Wait until a hub is connected, and close it. */
static inline void close_connected(weft_hub *hub)
{
    ck_assert_done(weft_hub_set(hub, "connected", "", 0, NULL));
    close_hub(hub);
}

/* Open a hub with a name, for faults of this hub. */
static inline weft_hub *open_named(const char *name)
{
    return open_hub_at("mem:", &(weft_hub_options){.name = name});
}

static inline void open_broker(void)
{
    weft_set_log(ignore_log, NULL); /* hubs report each broken connection */
    broker = weft_hub_broker_get("");
    ck_assert_ptr_nonnull(broker);
}

static inline void close_broker(void)
{
    weft_hub_broker_release(broker);
}

/* A fiber that waits for a number of switches, and then cuts the connections of a hub. */
typedef struct cutter {
    const char *hub_name; /* NULL: of all hubs */
    int switches;
} cutter;

static inline weft_value cut_later(void *arg)
{
    const cutter *c = arg;
    for (int i = 0; i < c->switches; i++)
        weft_snooze();
    ck_assert_int_ge(weft_hub_broker_cut(broker, c->hub_name), 0);
    return 0;
}

/* Execute a statement while another fiber cuts the connection after a number of switches. */
#define with_cut(name, count, statement)                             \
    do {                                                             \
        cutter own_cutter = {name, count};                           \
        weft_fiber own_saboteur = weft_spin(cut_later, &own_cutter); \
        statement;                                                   \
        ck_assert_done(weft_await(own_saboteur));                    \
    } while (0)

#endif
