/* Serving on several cords at once: one port for all, and one error for all. */
#include "cord_support.h"

#include <arpa/inet.h>
#include <sched.h>

static weft_value fail_or_wait(void *arg)
{
    atomic_int *started = arg;
    if (atomic_fetch_add(started, 1) == 1)
        return weft_fail(-EIO, "the second one");
    return weft_sleep(INFINITY);
}

START_TEST(the_first_error_stops_all_and_comes_back)
{
    atomic_int started = 0;
    ck_assert_int_eq(weft_serve_cords(4, fail_or_wait, &started), -EIO);
    ck_assert_words(-EIO, "the second one");
}
END_TEST

static weft_value note_start(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 5;
}

START_TEST(it_returns_when_all_have)
{
    atomic_int started = 0;
    ck_assert_int_eq(weft_serve_cords(3, note_start, &started), 0);
    ck_assert_int_eq(started, 3);
}
END_TEST

START_TEST(zero_means_as_many_as_there_are_cpus)
{
    atomic_int started = 0;
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    ck_assert_int_eq(weft_serve_cords(0, note_start, &started), 0);
    ck_assert_int_eq(started, CPU_COUNT(&set));
    ck_assert_int_eq(weft_serve_cords(1, NULL, NULL), -EINVAL);
}
END_TEST

/* A server that says which cord it is. */
static struct {
    char address[32];
    weft_fiber boss;
} site;

static weft_value answer(void *arg)
{
    int fd = (int)(intptr_t)arg;
    weft_cord self = weft_cord_self();
    weft_write_all(fd, &self, sizeof self);
    return weft_close(fd);
}

static int on_conn(int fd, void *context)
{
    (void)context;
    return weft_go(answer, as_arg(fd));
}

static weft_value serve_site(void *arg)
{
    (void)arg;
    int fd = weft_listen("tcp", site.address);
    if (fd < 0)
        return fd;
    WEFT_DEFER(weft_close, fd);
    weft_tell(site.boss, (weft_value)weft_cord_self());
    return weft_accept_loop(fd, on_conn, NULL);
}

static weft_value run_site(void *arg)
{
    return weft_serve_cords((unsigned)(uintptr_t)arg, serve_site, NULL);
}

/* A port that was free a moment ago. */
static void choose_port(void)
{
    int fd = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(fd, 0);
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    snprintf(site.address, sizeof site.address, "127.0.0.1:%d", ntohs(at.sin_port));
    weft_close(fd);
}

static weft_cord ask(void)
{
    int fd = weft_dial("tcp", site.address);
    ck_assert_int_ge(fd, 0);
    weft_cord who = 0;
    ck_assert_int_eq(weft_read_full(fd, &who, sizeof who), sizeof who);
    weft_close(fd);
    return who;
}

START_TEST(the_cords_share_a_port_and_the_kernel_spreads_the_connections)
{
    choose_port();
    site.boss = weft_self();
    weft_fiber server = weft_spin(run_site, as_arg(3));
    weft_cord cords[3];
    for (int i = 0; i < 3; i++)
        cords[i] = (weft_cord)weft_receive();
    int asked[3] = {0};
    /* By chance, with equal odds: that one of three is never met in 300 times is no chance. */
    for (int n = 0; n < 300; n++) {
        weft_cord who = ask();
        for (int i = 0; i < 3; i++)
            asked[i] += who == cords[i];
    }
    ck_assert_int_eq(asked[0] + asked[1] + asked[2], 300);
    for (int i = 0; i < 3; i++)
        ck_assert_int_gt(asked[i], 0);
    weft_cancel(server);
    ck_assert_int_eq(weft_await(server), -ECANCELED);
    ck_assert_int_eq(weft_dial("tcp", site.address), -ECONNREFUSED);
}
END_TEST

static const TTest *const *const tests[] = {
    &the_first_error_stops_all_and_comes_back,
    &it_returns_when_all_have,
    &zero_means_as_many_as_there_are_cpus,
    &the_cords_share_a_port_and_the_kernel_spreads_the_connections,
};

int main(void)
{
    return run_suite("serve", tests, COUNT_OF(tests));
}
