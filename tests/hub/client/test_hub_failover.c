/* Servers that are killed, stopped or retired: the hub connects again, or moves. */
#include "hub/client/expose_support.h"
#include "hub/nats_server.h"

/* Wait until the hub is connected for the nth time. */
static void await_connection(weft_hub *hub, uint64_t connection)
{
    while (weft__hub_connection(hub) < connection)
        weft_sleep(0.01);
}

/* Call until the caller is cancelled. Count the results. */
typedef struct load {
    weft_hub *hub;
    bool is_over;
    unsigned answered, reset, others;
    int other;
} load;

static weft_value call_on(void *arg)
{
    load *l = arg;
    while (!l->is_over) {
        weft_hub_msg *reply = NULL;
        int rc = weft_hub_call(l->hub, "echo", "x", 1, &reply);
        l->answered += rc == 0;
        l->reset += rc == -ECONNRESET;
        if (rc != 0 && rc != -ECONNRESET) {
            l->others++;
            l->other = rc;
        }
        weft_hub_free(reply);
        weft_error_clear();
    }
    return 0;
}

#define CALLERS 64

static void begin_load(load *l, weft_hub *hub, weft_fiber f[CALLERS])
{
    *l = (load){.hub = hub};
    for (int i = 0; i < CALLERS; i++)
        f[i] = weft_spin(call_on, l);
}

static void await_answers(const load *l, unsigned more)
{
    unsigned wanted = l->answered + more;
    while (l->answered < wanted)
        weft_sleep(0.001);
}

static void end_load(load *l, weft_fiber f[CALLERS])
{
    l->is_over = true;
    ck_assert_int_eq(weft_await_all(f, CALLERS, NULL), 0);
    ck_assert_uint_eq(hub_stats(l->hub).in_flight, 0);
}

TEST(a_restarted_server_gets_the_subscriptions_again)
{
    nats_server s;
    load l;
    weft_fiber f[CALLERS];
    nats_server_start(&s, "");
    weft_hub *hub = open_hub_at(s.url, NULL);
    spin_exposed(hub, "echo", echo_all, NULL);
    begin_load(&l, hub, f);
    await_answers(&l, 1000);
    nats_server_kill(&s);
    nats_server_restart(&s);
    await_connection(hub, 2);
    await_answers(&l, 1000);
    end_load(&l, f);
    ck_assert_uint_gt(l.reset, 0);
    ck_assert_msg(l.others == 0, "%u other results, the last is %d", l.others, l.other);
    ck_assert_uint_eq(hub_stats(hub).reconnects, 1);
    close_hub(hub);
    nats_server_end(&s);
}

TEST(a_hub_finds_the_other_servers_of_a_cluster)
{
    nats_cluster c;
    nats_cluster_start(&c, "");
    weft_hub *hub = open_hub_at(c.servers[0].url, NULL); /* knows one URL only */
    spin_exposed(hub, "echo", echo_all, NULL);
    ck_assert_uint_eq(weft__hub_replicas(hub), 3);
    nats_server_kill(&c.servers[0]);
    await_connection(hub, 2);
    assert_call(hub, "echo", "x", "x");
    close_hub(hub);
    nats_cluster_end(&c);
}

/*
 * The other servers do not know that the stopped one has lost its clients. They still send it a
 * part of the messages for names that were exposed through it. A new name is not affected.
 */
TEST(a_server_that_is_stopped_is_left)
{
    nats_cluster c;
    nats_cluster_start(&c, "");
    weft_hub *hub = open_hub_at(c.where, NULL);
    nats_server_stop(&c.servers[0]);
    await_connection(hub, 2);
    spin_exposed(hub, "echo", echo_all, NULL);
    assert_call(hub, "echo", "x", "x");
    close_hub(hub);
    nats_server_continue(&c.servers[0]);
    nats_cluster_end(&c);
}

TEST(a_retired_server_loses_no_call)
{
    nats_cluster c;
    load l;
    weft_fiber f[CALLERS];
    nats_cluster_start(&c, "");
    weft_hub *hub = open_hub_at(c.where, NULL), *other = open_hub_at(c.servers[1].url, NULL);
    spin_exposed(other, "echo", echo_all, NULL);
    while (weft_hub_call(hub, "echo", "x", 1, NULL) == -EHOSTUNREACH)
        weft_sleep(0.01); /* the servers of the cluster tell each other later */
    begin_load(&l, hub, f);
    await_answers(&l, 1000);
    nats_server_retire(&c.servers[0]);
    await_connection(hub, 2);
    await_answers(&l, 1000);
    end_load(&l, f);
    ck_assert_msg(l.reset == 0 && l.others == 0, "%u calls were cut, %u failed with %d", l.reset,
                  l.others, l.other);
    ck_assert_uint_eq(hub_stats(hub).lost, 0);
    close_hub(hub);
    close_hub(other);
    nats_cluster_end(&c);
}

TEST(closing_a_hub_without_a_server_takes_no_time)
{
    nats_server s;
    nats_server_start(&s, "");
    weft_hub *hub = open_hub_at(s.url, NULL);
    nats_server_kill(&s);
    while (weft__hub_is_connected(hub))
        weft_sleep(0.001);
    ck_assert_done(weft_hub_tell(hub, "a", "x", 1));
    ck_assert_fails(weft_hub_close(hub), -ENOTCONN);
    nats_server_end(&s);
}
