/* Processes of the chat while the server of their hub ends and starts again. */
#include "chat/conversation.h"
#include "hub/nats_server.h"

static nats_server server;

static void open_nats_server(void)
{
    nats_server_start(&server, "");
    snprintf(cluster_of_test.where, sizeof cluster_of_test.where, "%s", server.url);
    start_processes(3);
}

static void close_server(void)
{
    close_cluster();
    nats_server_end(&server);
}

FIXTURE(open_nats_server, close_server)

static void reopen_nats_server(int owner)
{
    nats_server_kill(&server);
    nats_server_restart(&server);
}

TEST_WITHIN(90, a_restart_of_the_server_loses_and_repeats_no_message)
{
    converse(reopen_nats_server);
}

/* No process can renew its leases. */
static void stop_server_for_a_lease(int owner)
{
    nats_server_stop(&server);
    weft_sleep(LEASE_S + 1);
    nats_server_continue(&server);
}

TEST_WITHIN(90, a_server_that_hangs_for_longer_than_a_lease_loses_and_repeats_no_message)
{
    converse(stop_server_for_a_lease);
}
