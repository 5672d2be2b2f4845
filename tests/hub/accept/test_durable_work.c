/*
 * Acceptance test 2: with a worker and the leader of the queue killed, each acknowledged item is
 * handled. The cluster has three servers, and the queue three replicas.
 */
#include "hub/accept/durable_support.h"

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

TEST_WITHIN(300, without_faults_each_item_is_handled_once)
{
    unsigned items = test_size(10000, ITEMS_MAX);
    work_board *b = new_work_board(cluster.where);
    pid_t workers[WORKERS];
    start_workers(b, workers);
    weft_hub *hub = open_queue(cluster.where);
    putting p;
    start_putting(&p, hub, 0, items);
    finish_putting(&p);
    await_all_handled(b, items);
    print_run("no faults", &p, b, items);
    ck_assert_uint_eq(count_handled_twice(b, items), 0);
    ck_assert_uint_eq(p.duplicates, 0);
    kill_process(workers[0]);
    kill_process(workers[1]);
    close_hub(hub);
}

TEST_WITHIN(300, no_acknowledged_item_is_lost_when_a_worker_and_the_leader_are_killed)
{
    unsigned items = test_size(20000, ITEMS_MAX);
    work_board *b = new_work_board(cluster.where);
    pid_t workers[WORKERS];
    start_workers(b, workers);
    weft_hub *hub = open_queue(cluster.where);
    putting p;
    start_putting(&p, hub, 0, items);
    await_acked(&p, 0.3);
    kill_process(workers[0]);
    await_acked(&p, 0.5);
    nats_server_kill(nats_cluster_leader(&cluster, QUEUE_STREAM));
    finish_putting(&p);
    await_all_handled(b, items);
    print_run("worker and leader killed", &p, b, items);
    kill_process(workers[1]);
    close_hub(hub);
}

TEST_WITHIN(200, no_acknowledged_item_is_lost_when_all_servers_are_killed)
{
    unsigned items = test_size(5000, 50000);
    work_board *b = new_work_board(cluster.where);
    weft_hub *hub = open_queue(cluster.where);
    putting p;
    start_putting(&p, hub, 0, items);
    finish_putting(&p);
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        nats_server_kill(&cluster.servers[i]);
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        nats_server_launch(&cluster.servers[i]);
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        nats_server_await(&cluster.servers[i]);
    pid_t workers[WORKERS];
    start_workers(b, workers);
    await_all_handled(b, items);
    print_run("all servers killed", &p, b, items);
    kill_process(workers[0]);
    kill_process(workers[1]);
    close_hub(hub);
}

TEST_WITHIN(60, a_put_with_an_id_that_was_put_before_returns_1)
{
    weft_hub *hub = open_queue(cluster.where);
    ck_assert_int_eq(weft_hub_put(hub, QUEUE, "one", "1", 1), 0);
    ck_assert_int_eq(weft_hub_put(hub, QUEUE, "one", "1", 1), 1);
    nats_server_kill(nats_cluster_leader(&cluster, QUEUE_STREAM));
    ck_assert_int_eq(weft_hub_put(hub, QUEUE, "one", "1", 1), 1); /* by the next leader */
    ck_assert_int_eq(weft_hub_put(hub, QUEUE, "two", "2", 1), 0);
    close_hub(hub);
}
