/* weft_serve_cords: one TCP port and one error for all cords. */
#include "support/cord_support.h"
#include "support/suite.h"

#include <arpa/inet.h>
#include <sched.h>

static weft_value fail_or_wait(void *arg)
{
    atomic_int *started = arg;
    if (atomic_fetch_add(started, 1) == 1)
        return weft_fail(-EIO, "the second cord");
    return weft_sleep(INFINITY);
}

TEST(the_first_error_stops_all_cords_and_is_returned)
{
    atomic_int started = 0;
    ck_assert_int_eq(weft_serve_cords(4, fail_or_wait, &started), -EIO);
    ck_assert_error(-EIO, "the second cord");
}

FIBER_DO(count_start, atomic_fetch_add((atomic_int *)arg, 1), 5)

TEST(weft_serve_cords_returns_when_all_functions_have_returned_and_0_means_one_per_cpu)
{
    atomic_int started = 0;
    ck_assert_int_eq(weft_serve_cords(3, count_start, &started), 0);
    ck_assert_int_eq(started, 3);
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    ck_assert_int_eq(weft_serve_cords(0, count_start, &started), 0);
    ck_assert_int_eq(started, 3 + CPU_COUNT(&set));
    ck_assert_int_eq(weft_serve_cords(1, NULL, NULL), -EINVAL);
}

/* A server that sends the id of its cord. */
static struct {
    char address[32];
    weft_fiber starter;
} site;

static weft_value send_cord_id(void *arg)
{
    int fd = (int)(intptr_t)arg;
    weft_cord self = weft_cord_self();
    weft_write_all(fd, &self, sizeof self);
    return weft_close(fd);
}

static int on_conn(int fd, void *context)
{
    return weft_go(send_cord_id, as_arg(fd));
}

static weft_value serve_site(void *arg)
{
    int fd = weft_listen("tcp", site.address);
    if (fd < 0)
        return fd;
    WEFT_DEFER(weft_close, fd);
    weft_tell(site.starter, (weft_value)weft_cord_self());
    return weft_accept_loop(fd, on_conn, NULL);
}

FIBER(run_site, weft_serve_cords((unsigned)(uintptr_t)arg, serve_site, NULL))

/* Choose a port that was free just now. */
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

static weft_cord query_cord(void)
{
    int fd = weft_dial("tcp", site.address);
    ck_assert_int_ge(fd, 0);
    weft_cord cord = 0;
    ck_assert_int_eq(weft_read_full(fd, &cord, sizeof cord), sizeof cord);
    weft_close(fd);
    return cord;
}

TEST(the_cords_share_a_port_and_the_kernel_spreads_the_connections)
{
    choose_port();
    site.starter = weft_self();
    weft_fiber server = weft_spin(run_site, as_arg(3));
    weft_cord cords[3];
    for (int i = 0; i < 3; i++)
        cords[i] = (weft_cord)weft_receive();
    int answered[3] = {0};
    /* A fair choice omits one of three cords in 300 tries practically never. */
    for (int n = 0; n < 300; n++) {
        weft_cord cord = query_cord();
        for (int i = 0; i < 3; i++)
            answered[i] += cord == cords[i];
    }
    ck_assert_int_eq(answered[0] + answered[1] + answered[2], 300);
    for (int i = 0; i < 3; i++)
        ck_assert_int_gt(answered[i], 0);
    ck_assert_int_eq(cancel_and_await(server), -ECANCELED);
    ck_assert_int_eq(weft_dial("tcp", site.address), -ECONNREFUSED);
}
