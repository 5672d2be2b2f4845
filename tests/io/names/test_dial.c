/* Tests of weft_listen, weft_dial and weft_resolve with textual addresses. */
#include "io/names/dial.h"
#include "support/suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

/* Return the port of a socket of any family. */
static int port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static const char *host_port(const char *host, int port)
{
    return format("%s:%d", host, port);
}

/* Return a new descriptor. Fail the test on an error. */
static int checked(int fd)
{
    ck_assert_msg(fd >= 0, "%s", weft_error() != NULL ? weft_error()->message : "?");
    return fd;
}

#define listen_checked(net, addr) checked(weft_listen(net, addr))
#define dial_checked(net, addr) checked(weft_dial(net, addr))

/* Return a port without a listener. The kernel does not reuse a free port immediately. */
static int free_port(void)
{
    int fd = listen_checked("tcp", "127.0.0.1:0"), port = port_of(fd);
    ck_assert_int_eq(weft_close(fd), 0);
    return port;
}

static bool has_ipv6(void)
{
    int fd = weft_listen("tcp6", "[::1]:0");
    if (fd < 0)
        return false;
    weft_close(fd);
    return true;
}

static int option_of(int fd, int level, int option)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    ck_assert_int_eq(getsockopt(fd, level, option, &value, &bytes), 0);
    return value;
}

static int files; /* open at the start of the test */

static void count_files(void)
{
    files = count_descriptors();
}

static void begin_test(void)
{
    (void)has_ipv6(); /* the backend opens its descriptors */
    count_files();
}

/*
 * Assert that no child, no pending operation, no new descriptor and no pending cancellation
 * remains.
 */
static void assert_nothing_left(void)
{
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
    while (count_descriptors() != files) /* a worker may still run an abandoned lookup */
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

FIXTURE(begin_test, assert_nothing_left)

/* Assert that data flows in both directions. */
static void assert_connected(int a, int b)
{
    char got[4];
    ck_assert_int_eq(weft_write(a, "ping", 4), 4);
    ck_assert_int_eq(weft_read_full(b, got, 4), 4);
    ck_assert_mem_eq(got, "ping", 4);
    ck_assert_int_eq(weft_write(b, "pong", 4), 4);
    ck_assert_int_eq(weft_read_full(a, got, 4), 4);
    ck_assert_mem_eq(got, "pong", 4);
}

/* Accept a connection, exchange data, and close both ends. */
static void accept_and_close(int listener, int client)
{
    ck_assert_int_ge(client, 0);
    int server = weft_accept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    assert_connected(client, server);
    close_fd_pair((int[]){client, server});
}

static void assert_accepts(int listener, const char *net, const char *addr)
{
    accept_and_close(listener, dial_checked(net, addr));
}

TEST(a_dialled_socket_has_tcp_nodelay_and_close_on_exec)
{
    int listener = listen_checked("tcp", "127.0.0.1:0");
    int client = dial_checked("tcp", host_port("127.0.0.1", port_of(listener)));
    ck_assert_int_ne(option_of(client, IPPROTO_TCP, TCP_NODELAY), 0);
    ck_assert(fcntl(client, F_GETFD) & FD_CLOEXEC);
    ck_assert(fcntl(listener, F_GETFD) & FD_CLOEXEC);
    ck_assert_int_ne(option_of(listener, SOL_SOCKET, SO_REUSEADDR), 0);
    accept_and_close(listener, client);
    weft_close(listener);
}

TEST(a_listener_accepts_the_families_of_its_network)
{
    static const struct {
        const char *net;
        bool takes_4, takes_6;
    } rows[] = {{"tcp", true, true}, {"tcp4", true, false}, {"tcp6", false, true}};
    for (size_t i = 0; i < (has_ipv6() ? 3u : 1u); i++) {
        int listener = listen_checked(rows[i].net, ":0"), port = port_of(listener);
        const char *v4 = host_port("127.0.0.1", port), *v6 = host_port("[::1]", port);
        if (rows[i].takes_4)
            assert_accepts(listener, "tcp", v4);
        else
            ck_assert_int_eq(weft_dial("tcp", v4), -ECONNREFUSED);
        if (has_ipv6() && rows[i].takes_6)
            assert_accepts(listener, "tcp", v6);
        else if (has_ipv6())
            ck_assert_int_eq(weft_dial("tcp", v6), -ECONNREFUSED);
        if (i == 0)
            assert_accepts(listener, "tcp", host_port("", port));
        weft_close(listener);
    }
}

TEST(a_port_in_use_is_refused_with_a_message)
{
    int listener = listen_checked("tcp", "127.0.0.1:0");
    const char *addr = host_port("127.0.0.1", port_of(listener));
    ck_assert_int_eq(weft_listen("tcp", addr), -EADDRINUSE);
    ck_assert_error(-EADDRINUSE, format("cannot listen at %s: %s", addr, strerror(EADDRINUSE)));
    int udp = listen_checked("udp", addr); /* UDP has a separate port space */
    ck_assert_int_eq(weft_listen("udp", addr), -EADDRINUSE);
    weft_close(udp);
    weft_close(listener);
}

TEST(a_refused_dial_has_a_message)
{
    const char *addr = host_port("127.0.0.1", free_port());
    ck_assert_int_eq(weft_dial("tcp", addr), -ECONNREFUSED);
    const char *message = format("cannot connect to %s: Connection refused", addr);
    ck_assert_error(-ECONNREFUSED, message);
}

TEST(an_invalid_address_is_refused_with_a_message)
{
    static const char *const cases[][2] = {
        {"tcp", "127.0.0.1"},  {"tcp", "::1:80"}, {"tcp", "127.0.0.1:70000"},
        {"tcp7", ":80"},       {"unix", ""},      {"unix", "@"},
        {"udp", "127.0.0.1:"}, {NULL, ":80"},     {"tcp", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_fails(weft_dial(cases[i][0], cases[i][1]), -EINVAL);
        ck_assert_int_eq(weft_listen(cases[i][0], cases[i][1]), -EINVAL);
    }
}

/* T95 */
TEST(a_numeric_address_of_the_other_family_is_not_found)
{
    ck_assert_fails(weft_dial("tcp6", "127.0.0.1:1"), -ENOENT);
    ck_assert_int_eq(weft_dial("tcp4", "[::1]:1"), -ENOENT);
    ck_assert_int_eq(weft_listen("tcp4", "[::1]:0"), -ENOENT);
    ck_assert_int_eq(weft_listen("tcp", ":no-such-service"), -ENOENT);
}

/* One of the addresses of the name has a listener. */
TEST(a_name_is_dialled_at_the_address_that_has_a_listener)
{
    int listener = listen_checked("tcp4", "127.0.0.1:0");
    assert_accepts(listener, "tcp", host_port("localhost", port_of(listener)));
    assert_accepts(listener, "tcp4", host_port("localhost", port_of(listener)));
    weft_close(listener);
    listener = listen_checked("tcp", "localhost:0");
    assert_accepts(listener, "tcp", host_port("localhost", port_of(listener)));
    weft_close(listener);
}

/* Address lists as a resolver returns them. */

typedef struct host {
    struct addrinfo list[4];
    struct sockaddr_storage address[4];
    size_t count;
} host;

/* Add a loopback address. */
static void add_address(host *h, int family, int port)
{
    size_t i = h->count++;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&h->address[i];
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&h->address[i];
    v6->sin6_port = htons((uint16_t)port); /* at the same offset for IPv4 */
    h->address[i].ss_family = (sa_family_t)family;
    if (family == AF_INET)
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        v6->sin6_addr = in6addr_loopback;
    h->list[i] = (struct addrinfo){.ai_family = family,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addr = (struct sockaddr *)&h->address[i],
                                   .ai_addrlen = family == AF_INET ? sizeof *v4 : sizeof *v6};
    if (i > 0)
        h->list[i - 1].ai_next = &h->list[i];
}

/* A listener that does not answer. Its backlog is full, so the kernel drops new connections. */
static int silent_fd[2], silent_port;

static void open_silent_listener(void)
{
    silent_fd[0] = listen_checked("tcp", "127.0.0.1:0");
    silent_port = port_of(silent_fd[0]);
    ck_assert_int_eq(listen(silent_fd[0], 0), 0);
    silent_fd[1] = dial_checked("tcp", host_port("127.0.0.1", silent_port));
    count_files();
}

static void close_silent_listener(void)
{
    close_fd_pair(silent_fd);
    files -= 2;
}

TEST(the_next_address_is_dialled_immediately_when_one_fails)
{
    int listener = listen_checked("tcp", "127.0.0.1:0"), refusing = free_port();
    host h = {.count = 0};
    add_address(&h, AF_INET, refusing);
    add_address(&h, AF_INET, refusing);
    add_address(&h, AF_INET, port_of(listener));
    accept_and_close(listener, weft__dial_any(h.list));
    ck_assert_ptr_null(weft_error());
    weft_close(listener);
}

TEST_LOOP(when_all_addresses_fail_the_dial_returns_the_last_error, 2)
{
    host h = {.count = 0};
    add_address(&h, AF_INET, free_port());
    add_address(&h, AF_INET, free_port());
    h.address[_i].ss_family = AF_UNIX; /* -EAFNOSUPPORT */
    ck_assert_int_eq(weft__dial_any(h.list), _i == 1 ? -EAFNOSUPPORT : -ECONNREFUSED);
}

TEST(the_next_address_is_dialled_in_parallel_with_one_that_does_not_answer)
{
    open_silent_listener();
    int listener = listen_checked("tcp", "127.0.0.1:0");
    host h = {.count = 0};
    add_address(&h, AF_INET, silent_port);
    add_address(&h, AF_INET, port_of(listener));
    double begin = weft_now();
    int client = weft__dial_any(h.list);
    ck_assert_slept(begin, WEFT__DIAL_DELAY_S);
    accept_and_close(listener, client);
    weft_close(listener);
    close_silent_listener();
}

/* RFC 8305, section 4 */
TEST(address_families_are_dialled_alternately)
{
    if (!has_ipv6())
        return;
    int v4 = listen_checked("tcp", "127.0.0.1:0"), v6 = listen_checked("tcp", "[::1]:0");
    host h = {.count = 0};
    add_address(&h, AF_INET, free_port());
    add_address(&h, AF_INET, port_of(v4));
    add_address(&h, AF_INET6, port_of(v6));
    int client = weft__dial_any(h.list);
    ck_assert_int_ge(client, 0);
    ck_assert_int_eq(option_of(client, SOL_SOCKET, SO_DOMAIN), AF_INET6);
    weft_close(client);
    close_fd_pair((int[]){v4, v6});
}

TEST(a_dial_that_times_out_leaks_nothing)
{
    open_silent_listener();
    host h = {.count = 0};
    for (int i = 0; i < 3; i++)
        add_address(&h, AF_INET, silent_port);
    /* No attempt has started, one is in progress, two are in progress. */
    static const double limits[] = {0, 0.005, WEFT__DIAL_DELAY_S + 0.005};
    for (size_t i = 0; i < 2 * COUNT_OF(limits); i++) {
        int rc = 1;
        WEFT_CANCEL_AFTER(limits[i / 2], rc) {
            int fd = i % 2 ? weft_dial("tcp", host_port("127.0.0.1", silent_port))
                           : weft__dial_any(h.list);
            ck_assert_int_eq(fd, -ECANCELED);
        }
        ck_assert_int_eq(rc, -ETIMEDOUT);
        assert_nothing_left();
    }
    ck_assert_ptr_null(weft_error());
    close_silent_listener();
}

FIBER(dial_host, weft__dial_any(((host *)arg)->list))

TEST(a_dial_ends_when_its_fiber_is_cancelled_or_interrupted)
{
    static const int errors[] = {-ECANCELED, -EINTR, -EPROTO};
    open_silent_listener();
    host h = {.count = 0};
    add_address(&h, AF_INET, silent_port);
    add_address(&h, AF_INET, silent_port);
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        weft_fiber f = spin_waiting(dial_host, &h);
        ck_assert_int_eq(weft_children(f, NULL, 0), 1);
        ck_assert_int_eq(count_descriptors(), files + 1);
        int rc = i == 0   ? weft_cancel(f)
                 : i == 1 ? weft_interrupt(f, errors[i])
                          : weft_raise(f, errors[i], "enough");
        ck_assert_int_eq(rc, 0);
        ck_assert_int_eq(weft_await(f), errors[i]);
        assert_nothing_left();
    }
    ck_assert_error(-EPROTO, "enough");
    close_silent_listener();
}

TEST(datagrams_reach_the_dialled_address)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < (has_ipv6() ? 3u : 2u); i++) {
        int server =
            listen_checked(i == 2 ? "udp6" : "udp4", host_port(i == 1 ? "127.0.0.1" : hosts[i], 0));
        const char *net = i == 2 ? "udp" : "udp4";
        int client = dial_checked(net, host_port(hosts[i], port_of(server)));
        char data[8];
        ck_assert_int_eq(weft_write(client, "question", 8), 8);
        struct sockaddr_storage from;
        socklen_t bytes = sizeof from;
        ck_assert_int_eq(weft_recvfrom(server, data, 8, 0, (struct sockaddr *)&from, &bytes), 8);
        ck_assert_mem_eq(data, "question", 8);
        ck_assert_int_eq(weft_sendto(server, "answer", 6, 0, (struct sockaddr *)&from, bytes), 6);
        ck_assert_int_eq(weft_read(client, data, 8), 6);
        ck_assert_mem_eq(data, "answer", 6);
        close_fd_pair((int[]){server, client});
    }
}

/* Return a socket path that is unique to this process. Remove an old file. */
static const char *socket_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weft-test-%d.sock", (int)getpid());
    unlink(path);
    return path;
}

TEST(unix_sockets_listen_at_paths_and_at_abstract_names)
{
    const char *const addrs[] = {socket_path(), format("@weft-test-%d", (int)getpid())};
    for (size_t i = 0; i < COUNT_OF(addrs); i++) {
        int listener = listen_checked("unix", addrs[i]);
        assert_accepts(listener, "unix", addrs[i]);
        ck_assert_fails(weft_listen("unix", addrs[i]), -EADDRINUSE);
        weft_close(listener);
        ck_assert_fails(weft_dial("unix", addrs[i]), -ECONNREFUSED);
    }
    unlink(addrs[0]);
    ck_assert_int_eq(weft_dial("unix", addrs[0]), -ENOENT);
}

TEST(an_unused_socket_file_is_replaced_and_other_files_are_not)
{
    const char *path = socket_path();
    weft_close(listen_checked("unix", path));
    int listener = listen_checked("unix", path); /* replaces the file of the first listener */
    assert_accepts(listener, "unix", path);
    weft_close(listener);
    int bound = listen_checked("unixgram", path);
    /* bound to a socket of another type */
    ck_assert_int_eq(weft_listen("unix", path), -EADDRINUSE);
    ck_assert_int_eq(weft_listen("unixgram", path), -EADDRINUSE);
    int client = dial_checked("unixgram", path);
    char data[8];
    ck_assert_int_eq(weft_write(client, "datagram", 8), 8);
    ck_assert_int_eq(weft_read(bound, data, 8), 8);
    weft_close(client);
    weft_close(bound);
    weft_close(listen_checked("unixgram", path));
    unlink(path);

    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(file, "precious", 8), 8);
    close(file);
    ck_assert_int_eq(weft_listen("unix", path), -EADDRINUSE);
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 8);
    unlink(path);
    const char *target = format("%s.target", path);
    unlink(target);
    weft_close(listen_checked("unix", target));
    ck_assert_int_eq(symlink(target, path), 0); /* not a socket itself */
    ck_assert_int_eq(weft_listen("unix", path), -EADDRINUSE);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(unlink(target), 0);
}

/*
 * Names.
 */

/* Count the entries of /proc/self/task. A sanitizer may have its own threads. */
static size_t count_tasks(void)
{
    size_t n = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    while (readdir(tasks) != NULL)
        n++;
    closedir(tasks);
    return n;
}

/* T94 */
TEST(numeric_addresses_are_resolved_without_hints_and_without_a_worker)
{
    struct addrinfo *found = NULL;
    weft_snooze();
    size_t before = count_tasks();
    ck_assert_int_eq(weft_resolve("127.0.0.1", "80", NULL, &found), 0);
    ck_assert_int_eq(found->ai_family, AF_INET);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)found->ai_addr;
    ck_assert_uint_eq(ntohl(v4->sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_uint_eq(ntohs(v4->sin_port), 80);
    weft_resolve_free(found);
    const struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_DGRAM};
    ck_assert_int_eq(weft_resolve("::1", NULL, &hints, &found), 0);
    ck_assert_int_eq(found->ai_family, AF_INET6);
    ck_assert_int_eq(found->ai_socktype, SOCK_DGRAM);
    ck_assert_ptr_null(found->ai_next);
    weft_resolve_free(found);
    weft_resolve_free(NULL);
    ck_assert_uint_eq(count_tasks(), before);
}

/* T94 */
TEST(a_name_needs_no_hints_and_a_service_no_name)
{
    struct addrinfo *found = NULL;
    ck_assert_int_eq(weft_resolve("localhost", NULL, NULL, &found), 0);
    ck_assert_ptr_nonnull(found);
    weft_resolve_free(found);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    ck_assert_int_eq(weft_resolve(NULL, "80", &hints, &found), 0);
    ck_assert_ptr_nonnull(found);
    weft_resolve_free(found);
}

/* T94 */
TEST(a_failed_lookup_gives_an_error_with_a_message_and_does_not_change_the_list)
{
    struct addrinfo other, *found = &other;
    int rc = weft_resolve("no-such-host.invalid", "80", NULL, &found);
    ck_assert_msg(rc == -ENOENT || rc == -EAGAIN || rc == -EIO, "the result is %d", rc);
    ck_assert_any_error(rc);
    ck_assert_ptr_nonnull(strstr(weft_error()->message, "no-such-host.invalid: "));
    rc = weft_dial("tcp", "no-such-host.invalid:80");
    ck_assert_msg(rc == -ENOENT || rc == -EAGAIN || rc == -EIO, "the result is %d", rc);
    ck_assert_ptr_nonnull(strstr(weft_error()->message, "no-such-host.invalid: "));
    ck_assert_int_eq(weft_resolve("127.0.0.1", "no-such-service", NULL, &found), -ENOENT);
    ck_assert_fails(weft_resolve(NULL, NULL, NULL, &found), -ENOENT);
    const struct addrinfo family = {.ai_family = 4711}, flags = {.ai_flags = 1 << 30};
    ck_assert_int_eq(weft_resolve("127.0.0.1", NULL, &family, &found), -EINVAL);
    ck_assert_int_eq(weft_resolve("127.0.0.1", NULL, &flags, &found), -EINVAL);
    ck_assert_fails(weft_resolve("127.0.0.1", NULL, NULL, NULL), -EINVAL);
    ck_assert_ptr_eq(found, &other);
}

/* T94 */
TEST(a_lookup_with_an_expired_deadline_does_not_start)
{
    struct addrinfo *found = NULL;
    weft_snooze();
    size_t before = count_tasks();
    for (int i = 0; i < 5; i++) {
        int rc = 1;
        WEFT_CANCEL_AFTER(0, rc) {
            ck_assert_int_eq(weft_resolve("localhost", "80", NULL, &found), -ECANCELED);
            ck_assert_int_eq(weft_resolve("127.0.0.1", "80", NULL, &found), -ECANCELED);
        }
        ck_assert_int_eq(rc, -ETIMEDOUT);
    }
    ck_assert_ptr_null(found);
    ck_assert_uint_eq(count_tasks(), before);
}

static weft_value resolve_name(void *arg)
{
    struct addrinfo *found = NULL;
    int rc = weft_resolve(arg, "80", NULL, &found);
    weft_resolve_free(found);
    return rc;
}

/* T94, T93 */
TEST(a_lookup_can_be_interrupted_at_any_time_and_its_late_result_is_freed)
{
    static char local[] = "localhost", none[] = "no-such-host.invalid";
    for (int i = 0; i < 200; i++) {
        weft_fiber f = weft_spin(resolve_name, i % 2 ? local : none);
        for (int ticks = i % 8; ticks > 0; ticks--)
            weft_snooze();
        bool is_interrupted = i % 3 == 0 && weft_interrupt(f, -EINTR) == 0;
        if (!is_interrupted)
            weft_cancel(f);
        weft_value value = weft_await(f);
        bool is_finished = value == (i % 2 ? 0 : -ENOENT) || value == -EAGAIN || value == -EIO;
        ck_assert(value == (is_interrupted ? -EINTR : -ECANCELED) || is_finished);
    }
    ck_assert_int_eq(weft_await(weft_spin(resolve_name, local)), 0);
}
