/* Keys in a cluster: compare and set of writers that are connected to different servers. */
#include "hub/nats_server.h"

#define INCREMENTS 40
#define FIBERS_PER_HUB 4

static weft_value increment_in_cluster(void *arg)
{
    for (int done = 0; done < INCREMENTS;) {
        weft_hub_msg *msg;
        uint64_t revision;
        ck_assert_done(weft_hub_get(arg, "count", &msg, &revision));
        const char *text = format("%d", atoi(msg->data) + 1);
        weft_hub_free(msg);
        int rc = weft_hub_set(arg, "count", text, strlen(text), &revision);
        ck_assert(rc == 0 || rc == -ESTALE);
        done += rc == 0;
    }
    return 0;
}

/*
 * nats-server 2.9.10 with replicas compares a sequence only when a write is proposed: without ids,
 * two writers at the same time both succeed, and an increment is lost.
 */
TEST(of_two_writers_with_one_revision_only_one_succeeds_in_a_cluster)
{
    nats_cluster cluster;
    weft_hub *hubs[NATS_CLUSTER_SERVERS];
    weft_fiber f[NATS_CLUSTER_SERVERS * FIBERS_PER_HUB];
    nats_cluster_start(&cluster, "");
    for (size_t i = 0; i < COUNT_OF(hubs); i++)
        hubs[i] = open_hub_at(cluster.servers[i].url, NULL);
    ck_assert_done(weft_hub_set(hubs[0], "count", "0", 1, NULL));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(increment_in_cluster, hubs[i % COUNT_OF(hubs)]);
    ck_assert_done(weft_await_all(f, COUNT_OF(f), NULL));
    weft_hub_msg *msg;
    ck_assert_done(weft_hub_get(hubs[1], "count", &msg, NULL));
    ck_assert_int_eq(atoi(msg->data), (int)COUNT_OF(f) * INCREMENTS);
    weft_hub_free(msg);
    for (size_t i = 0; i < COUNT_OF(hubs); i++)
        close_hub(hubs[i]);
    nats_cluster_end(&cluster);
}

/* A cluster starts and elects leaders in seconds. */
__attribute__((constructor)) static void set_timeouts(void)
{
    for (suite_entry *e = own_suite.first; e != NULL; e = e->next)
        e->timeout_s = 180;
}
