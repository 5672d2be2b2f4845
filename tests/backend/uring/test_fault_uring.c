/*
 * io_uring is forbidden, absent, or lacks something, at each step of making a ring: the best that
 * is left is used without a word, and everything works.
 */
#include "round_trip.h"

typedef struct refusal {
    const char *what;
    int setup;
    unsigned setup_flags, features;
    bool has_no_probe, has_no_ring_fd, has_no_buffers;
    const char *backend; /* that runs then */
    const char *why;     /* in weft_backend_why */
} refusal;

#define BEST "it is the best one built in"

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

static const refusal *now;

static int go_round_refused(void)
{
    unsetenv("WEFT_BACKEND");
    refused.setup = now->setup;
    refused.setup_flags = now->setup_flags;
    refused.features = now->features;
    refused.has_no_probe = now->has_no_probe;
    refused.has_no_ring_fd = now->has_no_ring_fd;
    refused.has_no_buffers = now->has_no_buffers;
    return go_round();
}

/* T98 */
START_TEST(whatever_of_io_uring_is_refused_the_rest_is_used_without_a_word)
{
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        now = &refusals[i];
        assert_round(go_round_refused, now->what, now->backend);
        ck_assert_msg(strstr(told->text, now->why) != NULL, "%s: because %s", now->what,
                      told->text);
    }
}
END_TEST

/* If the environment names it, the fallback is reported. */
static int go_round_by_name(void)
{
    setenv("WEFT_BACKEND", "io_uring", true);
    refused.setup = -EPERM;
    return go_round();
}

START_TEST(io_uring_that_is_named_and_refused_is_replaced_with_one_line_on_stderr)
{
    share_verdict();
    assert_ended(run_apart(go_round_by_name), 0,
                 "weft: WEFT_BACKEND=io_uring cannot be opened: Operation not permitted; "
                 "using epoll\n");
    ck_assert_str_eq(told->backend, "epoll");
    ck_assert_ptr_nonnull(strstr(told->text, "io_uring"));
}
END_TEST

/* Of the calls of a read some are operations: those that fail are told, and took nothing. */
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

START_TEST(an_operation_that_fails_has_taken_nothing)
{
    share_verdict();
    ck_assert_quiet(run_apart(fail_each_read), 0);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &whatever_of_io_uring_is_refused_the_rest_is_used_without_a_word,
        &io_uring_that_is_named_and_refused_is_replaced_with_one_line_on_stderr,
        &an_operation_that_fails_has_taken_nothing,
    };
    return run_suite("fault_uring", tests, COUNT_OF(tests));
}
