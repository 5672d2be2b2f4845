/*
 * Faults of a cluster of three: the server of a client is stopped or retires, and a client is left
 * with a minority of the servers.
 */
#include "hub/accept/accept_support.h"
#include "hub/nats_server.h"

#define LEASE_S 15.0
#define NAME "room"
/* Time for a hub to notice a silent server, and to move to another. */
#define MOVE_S_MAX 30

static nats_cluster cluster;

static void start_cluster(void)
{
    nats_cluster_start(&cluster, "");
}

static void end_cluster(void)
{
    nats_cluster_end(&cluster);
}

FIXTURE(start_cluster, end_cluster)

static const weft_hub_options lease_options = {.lease_s = LEASE_S};

/* The state of a fiber that owns a name. */
static struct {
    weft_value raised; /* the error that ended the ownership; 0: none */
    int replies;
} owner;

static weft_value echo_until_raised(void *arg)
{
    weft_value message;
    while (!weft_is_error(message = weft_receive())) {
        weft_hub_msg *call = (weft_hub_msg *)message;
        if (weft_hub_reply(call, call->data, call->bytes) == 0)
            owner.replies++;
        weft_hub_free(call);
    }
    owner.raised = message;
    return 0;
}

/* A hub that is connected to the first server, and owns the name. */
static weft_hub *open_owner(weft_fiber *fiber)
{
    uint64_t token;
    weft_hub *hub = open_hub_at(cluster.servers[0].url, &lease_options);
    *fiber = weft_spin(echo_until_raised, NULL);
    ck_assert_done(weft_hub_expose(hub, NAME, *fiber, &token));
    return hub;
}

TEST_WITHIN(120, a_hub_whose_server_is_stopped_moves_to_another_and_keeps_its_names)
{
    weft_fiber fiber;
    weft_hub *mine = open_owner(&fiber),
             *other = open_hub_at(cluster.servers[1].url, &lease_options);
    ck_await(MOVE_S_MAX, weft_hub_call(other, NAME, "before", 6, NULL) == 0);
    nats_server_stop(&cluster.servers[0]);
    ck_await(MOVE_S_MAX, hub_stats(mine).reconnects > 0);
    int rc = -1;
    double end = weft_now() + MOVE_S_MAX;
    while (rc != 0 && weft_now() < end) {
        WEFT_MOVE_ON_AFTER(5) {
            rc = weft_hub_call(other, NAME, "after", 5, NULL);
        }
        weft_sleep(POLL_S);
    }
    ck_assert_int_eq(rc, 0);
    uint64_t revision = 0; /* with two of three servers */
    ck_assert_done(weft_hub_set(mine, "key", "value", 5, &revision));
    nats_server_continue(&cluster.servers[0]);
    ck_assert_int_eq(owner.raised, 0);
    cancel_and_await(fiber);
    close_hub(mine);
    close_hub(other);
}

/*
 * The promise is lease_s at the latest. The bound of the test is twice as long, for machines that
 * are overloaded.
 */
TEST_WITHIN(150, an_owner_without_a_majority_loses_its_name_after_the_lease)
{
    weft_fiber fiber;
    weft_hub *hub = open_owner(&fiber);
    double begin = weft_now();
    nats_server_stop(&cluster.servers[1]);
    nats_server_stop(&cluster.servers[2]);
    ck_await(2 * LEASE_S, owner.raised != 0);
    print_figures("| owner in a minority, lease_s %g | -ESTALE after %.2f s |\n", LEASE_S,
                  weft_now() - begin);
    ck_assert_int_eq(owner.raised, -ESTALE);
    ck_assert_int_eq(weft_await(fiber), 0);
    nats_server_continue(&cluster.servers[1]);
    nats_server_continue(&cluster.servers[2]);
    uint64_t token = 0;
    ck_await(60, weft_hub_expose(hub, NAME, weft_self(), &token) == 0);
    close_hub(hub);
}

/* A server in lame-duck mode announces its end, and closes connections later. */
TEST_WITHIN(120, a_hub_leaves_a_server_in_lame_duck_mode)
{
    weft_fiber fiber;
    weft_hub *mine = open_owner(&fiber),
             *other = open_hub_at(cluster.servers[1].url, &lease_options);
    ck_await(MOVE_S_MAX, weft_hub_call(other, NAME, "before", 6, NULL) == 0);
    nats_server_retire(&cluster.servers[0]);
    int status;
    ck_assert_int_eq(weft_waitpid(cluster.servers[0].pid, &status, 0), cluster.servers[0].pid);
    cluster.servers[0].pid = 0;
    ck_await(MOVE_S_MAX, weft_hub_call(other, NAME, "after", 5, NULL) == 0);
    ck_assert_uint_ge(hub_stats(mine).reconnects, 1);
    ck_assert_int_eq(owner.raised, 0);
    cancel_and_await(fiber);
    close_hub(mine);
    close_hub(other);
}
