/*
 * The n-th call fails, as in test_fault.c, for waits on pipes and sockets, connections, loops and
 * names: who is told of an error has taken no byte and no connection, and the next call has them.
 */
#include "fault_net.h"

/* P60, P61, P62 */
START_TEST(a_wait_on_a_pipe_that_failed_has_taken_nothing)
{
    strike_some_calls(waiting_on_pipes, 1);
}
END_TEST

START_TEST(a_wait_on_a_socket_that_failed_has_taken_nothing)
{
    strike_some_calls(waiting_on_sockets, 1);
}
END_TEST

START_TEST(what_is_written_into_a_full_pipe_arrives)
{
    strike_some_calls(writing_into_full, 2);
}
END_TEST

START_TEST(a_connection_is_made_or_both_sides_can_go_on)
{
    strike_some_calls(connecting, 1);
}
END_TEST

START_TEST(an_accept_loop_sits_a_shortage_out)
{
    strike_some_calls(accepting_in_a_loop, 1);
}
END_TEST

START_TEST(a_receive_loop_loses_no_byte)
{
    strike_some_calls(receiving_in_a_loop, 1);
}
END_TEST

START_TEST(names_are_resolved_or_it_is_said_why_not)
{
    strike_some_calls(naming, 1);
}
END_TEST

#ifdef WEFT_HAS_CARES
START_TEST(a_name_server_is_asked_or_it_is_said_why_not)
{
    dns_start(&fault_server, fault_table, COUNT_OF(fault_table));
    strike_some_calls(naming_by_server, 1);
    dns_stop(&fault_server);
}
END_TEST
#endif

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_wait_on_a_pipe_that_failed_has_taken_nothing,
        &a_wait_on_a_socket_that_failed_has_taken_nothing,
        &what_is_written_into_a_full_pipe_arrives,
        &a_connection_is_made_or_both_sides_can_go_on,
        &an_accept_loop_sits_a_shortage_out,
        &a_receive_loop_loses_no_byte,
        &names_are_resolved_or_it_is_said_why_not,
#ifdef WEFT_HAS_CARES
        &a_name_server_is_asked_or_it_is_said_why_not,
#endif
    };
    return run_suite("fault_net", tests, COUNT_OF(tests));
}
