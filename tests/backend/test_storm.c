/* Storms over pipes and socket pairs, on every backend. See storm.h. */
#include "backend/storm.h"

/* Set the smallest buffer, so that writers wait too. */
static void make_narrow(const int fd[2], bool is_socket)
{
    int small = 1;
    if (is_sim())
        return;
    if (is_socket)
        ck_assert_int_eq(setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    else
        ck_assert_int_ge(fcntl(fd[1], F_SETPIPE_SZ, 4096), 4096);
}

/* Non-blocking descriptors must give the same results as blocking ones. */
static void make_nonblocking(const int fd[2])
{
    if (is_sim())
        return;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK), 0);
}

static void open_narrow(int fd[2], bool is_socket)
{
    ck_assert_int_eq(is_socket ? weft_socketpair(fd) : weft_pipe(fd), 0);
    make_narrow(fd, is_socket);
}

static void storm_over(bool is_socket)
{
    flow flows[4] = {0};
    warm_up();
    size_t descriptors = count_descriptors();
    for (unsigned i = 0; i < COUNT_OF(flows); i++) {
        flows[i].is_writer_fast = i % 2 == 0;
        open_narrow(flows[i].fd, is_socket);
        flows[i].calls = calls_for(is_socket);
        if (i >= 2)
            make_nonblocking(flows[i].fd);
    }
    storm_flows(flows, COUNT_OF(flows));
    ck_assert_uint_eq(count_descriptors(), descriptors);
}

/* P61, P63, T96 */
START_TEST(no_byte_of_a_pipe_is_lost_or_duplicated_when_calls_are_interrupted)
{
    storm_over(false);
}
END_TEST

/* P61, P63, T96 */
START_TEST(no_byte_of_a_socket_is_lost_or_duplicated_when_calls_are_interrupted)
{
    storm_over(true);
}
END_TEST

/* T97 */
START_TEST(every_record_reaches_one_of_several_readers_when_calls_are_interrupted)
{
    static records all;
    warm_up();
    size_t descriptors = count_descriptors();
    open_narrow(all.fd, false);
    all.calls = calls_for(false);
    storm_records(&all);
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

static const TTest *const *const tests[] = {
    &no_byte_of_a_pipe_is_lost_or_duplicated_when_calls_are_interrupted,
    &no_byte_of_a_socket_is_lost_or_duplicated_when_calls_are_interrupted,
    &every_record_reaches_one_of_several_readers_when_calls_are_interrupted,
};

int main(void)
{
    return run_suite("storm", tests, COUNT_OF(tests));
}
