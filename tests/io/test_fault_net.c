/*
 * Fault tests of waits on pipes and sockets, connections, loops and names: the n-th allocation or
 * system call fails, for each n. A call that returns an error has consumed no byte and no
 * connection, and the next call gets them.
 */
#include "support/fault_net.h"
#include "support/suite.h"

/* P60, P61, P62 */
FAULT_TEST(a_failed_wait_on_a_pipe_consumes_nothing, wait_on_pipes, 1)
FAULT_TEST(a_failed_wait_on_a_socket_consumes_nothing, wait_on_sockets, 1)
FAULT_TEST(bytes_written_to_a_full_pipe_arrive, write_into_full, 2)
FAULT_TEST(a_connect_succeeds_or_both_sides_can_continue, connect_twice, 1)
FAULT_TEST(an_accept_loop_survives_a_resource_shortage, run_accept_loop, 1)
FAULT_TEST(a_receive_loop_loses_no_byte, run_recv_loop, 1)
FAULT_TEST(a_name_is_resolved_or_an_error_is_returned, dial_and_resolve, 1)

#ifdef WEFT_HAS_CARES
TEST(a_name_server_query_succeeds_or_returns_an_error)
{
    dns_start(&fault_server, fault_table, COUNT_OF(fault_table));
    fail_some_calls(resolve_by_server, 1);
    dns_stop(&fault_server);
}
#endif
