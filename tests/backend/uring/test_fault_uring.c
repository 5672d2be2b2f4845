/*
 * Tests of io_uring that is forbidden, absent or incomplete, at each step of creating a ring. The
 * best available backend is used without a message, and all scenarios pass.
 */
#include "backend/uring/round_trip.h"
#include "support/suite.h"

typedef struct refusal {
    const char *what;
    int setup;
    unsigned setup_flags, features;
    bool has_no_probe, has_no_ring_fd, has_no_buffers;
    const char *backend; /* the expected backend */
    const char *why;     /* expected in weft_backend_why */
} refusal;

#define BEST "it is the best backend that is built in"

static const refusal refusals[] = {
    {"nothing", .backend = "io_uring", .why = BEST},
    {"sysctl or seccomp", .setup = -EPERM, .backend = "epoll", .why = "not permitted"},
    {"an old kernel", .setup = -ENOSYS, .backend = "epoll", .why = "not implemented"},
    {"locked memory", .setup = -ENOMEM, .backend = "epoll", .why = "memory"},
    {"descriptors", .setup = -EMFILE, .backend = "epoll", .why = "open files"},
    {"all flags", .setup = -EINVAL, .backend = "epoll", .why = "Invalid"},
    {"before 6.1", .setup_flags = IORING_SETUP_DEFER_TASKRUN, .backend = "io_uring", .why = BEST},
    {"before 5.19", .setup_flags = IORING_SETUP_SUBMIT_ALL, .backend = "io_uring", .why = BEST},
    {"EXT_ARG", .features = IORING_FEAT_EXT_ARG, .backend = "epoll", .why = "not supported"},
    {"NODROP", .features = IORING_FEAT_NODROP, .backend = "epoll", .why = "not supported"},
    {"RW_CUR_POS", .features = IORING_FEAT_RW_CUR_POS, .backend = "epoll", .why = "not supported"},
    {"the probe", .has_no_probe = true, .backend = "epoll", .why = "Invalid"},
    {"the ring's number", .has_no_ring_fd = true, .backend = "io_uring", .why = BEST},
    {"a ring of buffers", .has_no_buffers = true, .backend = "io_uring", .why = BEST},
};

static const refusal *current_refusal;

static int run_with_refusal(void)
{
    unsetenv("WEFT_BACKEND");
    ring_limits.setup = current_refusal->setup;
    ring_limits.setup_flags = current_refusal->setup_flags;
    ring_limits.features = current_refusal->features;
    ring_limits.has_no_probe = current_refusal->has_no_probe;
    ring_limits.has_no_ring_fd = current_refusal->has_no_ring_fd;
    ring_limits.has_no_buffers = current_refusal->has_no_buffers;
    return run_all_scenarios();
}

/* T98 */
TEST_LOOP(whatever_part_of_io_uring_is_refused_the_fallback_is_silent, COUNT_OF(refusals))
{
    const size_t i = (size_t)_i;
    current_refusal = &refusals[i];
    assert_scenarios_pass(run_with_refusal, current_refusal->what, current_refusal->backend);
    ck_assert_msg(strstr(own_verdict->text, current_refusal->why) != NULL,
                  "%s: weft_backend_why is %s", current_refusal->what, own_verdict->text);
}

/* If WEFT_BACKEND names io_uring, the fallback is reported. */
static int run_by_name(void)
{
    setenv("WEFT_BACKEND", "io_uring", true);
    ring_limits.setup = -EPERM;
    return run_all_scenarios();
}

TEST(the_fallback_from_a_named_io_uring_prints_one_line_on_stderr)
{
    share_verdict();
    assert_exited(run_apart(run_by_name), 0,
                  "weft: the backend io_uring cannot be opened: Operation not permitted; "
                  "using epoll\n");
    ck_assert_str_eq(own_verdict->backend, "epoll");
    ck_assert_ptr_nonnull(strstr(own_verdict->text, "io_uring"));
}

/* Fail each call of a read in turn. A failed read must return the error and consume no data. */
static int fail_each_read(void)
{
    setenv("WEFT_BACKEND", "io_uring", true);
    int fd[2], failed = 0;
    REQUIRE(weft_socketpair(fd) == 0);
    char byte = 0;
    for (fault.first = 1; fault.first < 20; fault.first++) {
        REQUIRE(write(fd[1], "a", 1) == 1);
        atomic_store(&fault.calls, 0);
        atomic_store(&fault.is_on, true);
        ssize_t n = weft_recv(fd[0], &byte, 1, 0);
        atomic_store(&fault.is_on, false);
        failed += n == -ENOMEM;
        REQUIRE(n == 1 || (n == -ENOMEM && weft_recv(fd[0], &byte, 1, 0) == 1));
    }
    REQUIRE(failed > 0);
    return 0;
}

TEST(a_failed_operation_consumes_no_data)
{
    share_verdict();
    ck_assert_quiet(run_apart(fail_each_read), 0);
}
