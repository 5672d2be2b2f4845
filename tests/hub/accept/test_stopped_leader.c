/*
 * Acceptance test 3: the leader of a queue is stopped for 9 s, several times in a row. No item is
 * lost, and the workers continue by themselves.
 */
#include "hub/accept/durable_support.h"

#define STOP_S 9

static nats_cluster cluster;
static putting p;

/* Put items, and stop the leader in the middle. Return when all items are handled. */
static void run_round(weft_hub *hub, work_board *b, unsigned begin, unsigned end)
{
    start_putting(&p, hub, begin, end);
    await_acked(&p, 0.5);
    nats_server *leader = nats_cluster_leader(&cluster, QUEUE_STREAM);
    nats_server_stop(leader);
    weft_sleep(STOP_S);
    nats_server_continue(leader);
    finish_putting(&p);
    await_all_handled(b, end);
}

TEST_WITHIN(450, no_acknowledged_item_is_lost_when_the_leader_is_stopped_for_9_s)
{
    unsigned rounds = test_size(2, 5), items = test_size(5000, 20000);
    nats_cluster_start(&cluster, "");
    work_board *b = new_work_board(cluster.where);
    pid_t workers[WORKERS];
    start_workers(b, workers);
    weft_hub *hub = open_queue(cluster.where);
    for (unsigned i = 0; i < rounds; i++) {
        run_round(hub, b, i * items, (i + 1) * items);
        print_run(format("leader stopped, round %u, sums", i + 1), &p, b, (i + 1) * items);
    }
    kill_process(workers[0]);
    kill_process(workers[1]);
    close_hub(hub);
    nats_cluster_end(&cluster);
}
