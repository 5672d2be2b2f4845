/* A process that may not use io_uring, as in most containers: weft does without, and says so. */
#include "net_support.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP_IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))

/* From now on the system calls of io_uring fail with that error. False: so does the filter. */
static bool forbid_io_uring(int error)
{
    struct sock_filter filter[] = {
        LOAD(arch),
        JUMP_IF(THIS_ARCH, 0, 4),
        LOAD(nr),
        JUMP_IF(__NR_io_uring_setup, 3, 0),
        JUMP_IF(__NR_io_uring_enter, 2, 0),
        JUMP_IF(__NR_io_uring_register, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | (unsigned)error),
    };
    struct sock_fprog program = {COUNT_OF(filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return false;
    return syscall(__NR_io_uring_setup, 1, NULL) < 0 && errno == error;
}

static weft_value echo(void *arg)
{
    int listener = *(int *)arg, fd = weft_accept(listener, NULL, NULL);
    char data[64];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0 && weft_write_all(fd, data, (size_t)n) == n)
        continue;
    weft_close(fd);
    return n;
}

static bool does_echo(void)
{
    place p;
    char data[5];
    int listener = listen_tcp(&p, 4), fd = socket_for(&p);
    weft_fiber server = weft_spin(echo, &listener);
    bool is_good = weft_connect(fd, &p.u.any, p.bytes) == 0 &&
                   weft_write_all(fd, "hello", 5) == 5 && weft_read_full(fd, data, 5) == 5 &&
                   memcmp(data, "hello", 5) == 0;
    is_good = is_good && weft_close(fd) == 0 && weft_await(server) == 0;
    return is_good && weft_close(listener) == 0;
}

/* Words of why that must be there; NULL: none. */
static int run_forbidden(int error, const char *wanted)
{
    if (!forbid_io_uring(error))
        return 77;
    if (strcmp(weft_backend_name(), "epoll") != 0)
        return 2;
    if (wanted != NULL && (strstr(weft_backend_why(), wanted) == NULL ||
                           strstr(weft_backend_why(), strerror(error)) == NULL)) {
        fprintf(stderr, "%s\n", weft_backend_why());
        return 3;
    }
    return does_echo() ? 0 : 4;
}

/* Where io_uring is not built in, nobody has asked for it. */
#ifdef WEFT_HAS_URING
#define REFUSED "io_uring"
#else
#define REFUSED NULL
#endif

static int refuse_by_default(void)
{
    unsetenv("WEFT_BACKEND");
    return run_forbidden(EPERM, REFUSED);
}

static int lack_by_default(void)
{
    unsetenv("WEFT_BACKEND");
    return run_forbidden(ENOSYS, REFUSED);
}

#ifdef WEFT_HAS_URING
static int refuse_by_name(void)
{
    setenv("WEFT_BACKEND", "io_uring", 1);
    return run_forbidden(EPERM, REFUSED);
}

static int lack_by_name(void)
{
    setenv("WEFT_BACKEND", "io_uring", 1);
    return run_forbidden(ENOSYS, REFUSED);
}
#endif

/* It falls back without a word; 77: there is no seccomp to be had. */
static void assert_falls_back(int (*program)(void))
{
    const outcome *o = run_apart(program);
    if (o->status == 77)
        printf("skipped: a process may not install a seccomp filter here\n");
    else
        ck_assert_quiet(o, 0);
}

START_TEST(where_io_uring_is_refused_epoll_is_taken_without_a_word)
{
    assert_falls_back(refuse_by_default);
}
END_TEST

START_TEST(where_io_uring_is_unknown_epoll_is_taken_without_a_word)
{
    assert_falls_back(lack_by_default);
}
END_TEST

#ifdef WEFT_HAS_URING
START_TEST(where_io_uring_is_refused_epoll_is_taken_also_if_io_uring_was_asked_for)
{
    assert_falls_back(refuse_by_name);
}
END_TEST

START_TEST(where_io_uring_is_unknown_epoll_is_taken_also_if_io_uring_was_asked_for)
{
    assert_falls_back(lack_by_name);
}
END_TEST
#endif

static const TTest *const *const tests[] = {
    &where_io_uring_is_refused_epoll_is_taken_without_a_word,
    &where_io_uring_is_unknown_epoll_is_taken_without_a_word,
#ifdef WEFT_HAS_URING
    &where_io_uring_is_refused_epoll_is_taken_also_if_io_uring_was_asked_for,
    &where_io_uring_is_unknown_epoll_is_taken_also_if_io_uring_was_asked_for,
#endif
};

int main(void)
{
    return run_suite("forbidden", tests, COUNT_OF(tests));
}
