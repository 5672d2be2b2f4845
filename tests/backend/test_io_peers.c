/* Other people's programs on the other end of a connection: nc, socat, curl; and ss looks on. */
#include "net_support.h"

#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>

extern char **environ;

#define MUCH ((size_t)1 << 20)

/* A program that runs, and the other ends of its standard descriptors. */
typedef struct peer {
    pid_t pid;
    int in;
    int out;
    int error;
} peer;

/* False, and a message, if there is no such program. */
static bool peer_open(peer *p, const char *const *argv)
{
    int in[2], out[2], error[2];
    posix_spawn_file_actions_t actions;
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(error, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error[1], STDERR_FILENO);
    int rc = posix_spawnp(&p->pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    close(error[1]);
    p->in = in[1];
    p->out = out[0];
    p->error = error[0];
    if (rc == 0)
        return true;
    ck_assert_int_eq(rc, ENOENT);
    printf("skipped: there is no program %s here\n", argv[0]);
    close(p->in);
    close(p->out);
    close(p->error);
    return false;
}

#define PEER(p, ...) peer_open((p), (const char *const[]){__VA_ARGS__, NULL})

/* A descriptor tells of its end; Valgrind has no such. */
static int wait_for_end(pid_t pid)
{
    int status, pidfd = pidfd_open(pid, 0);
    if (pidfd >= 0) {
        ck_assert_int_gt(weft_wait_fd(pidfd, POLLIN), 0);
        ck_assert_int_eq(weft_close(pidfd), 0);
        ck_assert_int_eq(waitpid(pid, &status, WNOHANG), pid);
        return status;
    }
    ck_assert_int_eq(errno, ENOSYS);
    while (waitpid(pid, &status, WNOHANG) == 0)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    return status;
}

/* Wait for its end; returns its status. */
static int peer_close(peer *p)
{
    if (p->in >= 0)
        ck_assert_int_eq(weft_close(p->in), 0);
    int status = wait_for_end(p->pid);
    ck_assert_int_eq(weft_close(p->out), 0);
    ck_assert_int_eq(weft_close(p->error), 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Its input ends. */
static void peer_finish_input(peer *p)
{
    ck_assert_int_eq(weft_close(p->in), 0);
    p->in = -1;
}

static weft_value feed_much(void *arg)
{
    peer *p = arg;
    unsigned char *data = malloc(MUCH);
    fill_from(data, MUCH, 0);
    ck_assert_int_eq(weft_write_all(p->in, data, MUCH), MUCH);
    free(data);
    peer_finish_input(p);
    return 0;
}

/* So many bytes of the stream come out of fd, and then its end. */
static void assert_stream(int fd, size_t bytes)
{
    unsigned char data[4096];
    size_t got = 0;
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0) {
        assert_bytes_at(data, (size_t)n, got);
        got += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(got, bytes);
}

/* The port that a program says, after these words, that it listens on. */
static int port_said(const peer *p, const char *words)
{
    char text[512];
    for (size_t used = 0; used < sizeof text - 1;) {
        ssize_t n = weft_read(p->error, text + used, sizeof text - 1 - used);
        ck_assert_int_gt(n, 0);
        used += (size_t)n;
        text[used] = '\0';
        const char *at = strstr(text, words);
        if (at != NULL && strchr(at, '\n') != NULL)
            return atoi(at + strlen(words));
    }
    ck_abort_msg("it said: %s", text);
}

/* A server of ours. */
typedef struct server {
    int listener;
    place at;
    char port[8];
    weft_fn *serve;
    unsigned served;
    weft_fiber acceptor;
} server;

static weft_value accept_all(void *arg)
{
    server *s = arg;
    int fd;
    while ((fd = weft_accept(s->listener, NULL, NULL)) >= 0) {
        s->served++;
        weft_spin_with(s->serve, as_arg(fd), &(weft_spin_options){.parent = weft_main()});
    }
    return fd;
}

static void server_open(server *s, weft_fn *serve, bool is_tcp)
{
    *s = (server){.serve = serve};
    s->listener = is_tcp ? listen_tcp(&s->at, 16) : listen_unix(&s->at, 16);
    if (is_tcp)
        snprintf(s->port, sizeof s->port, "%d", ntohs(s->at.u.in.sin_port));
    s->acceptor = weft_spin(accept_all, s);
}

static void server_close(server *s)
{
    weft_cancel(s->acceptor);
    ck_assert_int_eq(weft_await(s->acceptor), -ECANCELED);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(s->listener), 0);
    assert_nothing_pending();
}

/* Connections of that port that we were told the end of and have not closed. */
static int count_close_wait(const char *port)
{
    char filter[32], text[4096];
    peer p;
    snprintf(filter, sizeof filter, "( sport = :%s )", port);
    if (!PEER(&p, "ss", "-Htn", "state", "close-wait", filter))
        return -1;
    ssize_t n = weft_read_full(p.out, text, sizeof text - 1);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_int_eq(peer_close(&p), 0);
    return (int)count_in(text, "\n");
}

static void assert_all_closed(const server *s)
{
    ck_assert_int_le(count_close_wait(s->port), 0);
}

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char data[4096];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        ck_assert_int_eq(weft_write_all(fd, data, (size_t)n), n);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

/* Everything that goes into the program comes back out of it, by way of our echo. */
static void assert_echoed(peer *p, server *s)
{
    weft_fiber feeder = weft_spin(feed_much, p);
    assert_stream(p->out, MUCH);
    ck_assert_int_eq(weft_await(feeder), 0);
    ck_assert_int_eq(peer_close(p), 0);
    ck_assert_uint_eq(s->served, 1);
}

START_TEST(nc_gets_back_what_it_sends)
{
    server s;
    peer p;
    server_open(&s, echo, true);
    if (PEER(&p, "nc", "-nN", "127.0.0.1", s.port))
        assert_echoed(&p, &s);
    server_close(&s);
    assert_all_closed(&s);
}
END_TEST

START_TEST(socat_gets_back_what_it_sends_over_tcp)
{
    server s;
    peer p;
    char address[32];
    server_open(&s, echo, true);
    snprintf(address, sizeof address, "TCP4:127.0.0.1:%s", s.port);
    if (PEER(&p, "socat", "-t", "10", "-", address))
        assert_echoed(&p, &s);
    server_close(&s);
    assert_all_closed(&s);
}
END_TEST

START_TEST(socat_gets_back_what_it_sends_over_a_unix_socket)
{
    server s;
    peer p;
    char address[64];
    server_open(&s, echo, false);
    int length = (int)(s.at.bytes - offsetof(struct sockaddr_un, sun_path) - 1);
    snprintf(address, sizeof address, "ABSTRACT-CONNECT:%.*s", length, s.at.u.un.sun_path + 1);
    if (PEER(&p, "socat", "-t", "10", "-", address))
        assert_echoed(&p, &s);
    server_close(&s);
}
END_TEST

static int connect_to_port(int port)
{
    place to = tcp_place();
    to.u.in.sin_port = htons((uint16_t)port);
    int fd = socket_for(&to);
    ck_assert_int_eq(weft_connect(fd, &to.u.any, to.bytes), 0);
    return fd;
}

static weft_value send_much(void *arg)
{
    int fd = (int)(intptr_t)arg;
    unsigned char *data = malloc(MUCH);
    fill_from(data, MUCH, 0);
    ck_assert_int_eq(weft_write_all(fd, data, MUCH), MUCH);
    free(data);
    return 0;
}

static weft_value take_much(void *arg)
{
    assert_stream((int)(intptr_t)arg, MUCH);
    return 0;
}

START_TEST(nc_listens_and_we_talk_in_both_directions)
{
    peer p;
    if (!PEER(&p, "nc", "-lnvN", "127.0.0.1", "0"))
        return;
    int fd = connect_to_port(port_said(&p, "Listening on 127.0.0.1 "));
    weft_fiber feeder = weft_spin(feed_much, &p);
    weft_fiber sender = weft_spin(send_much, as_arg(fd));
    weft_fiber taker = weft_spin(take_much, as_arg(p.out));
    assert_stream(fd, MUCH);
    ck_assert_int_eq(weft_await(feeder), 0);
    ck_assert_int_eq(weft_await(sender), 0);
    ck_assert_int_eq(weft_shutdown(fd, SHUT_WR),
                     0); /* nc would go at once, with its input unread */
    ck_assert_int_eq(weft_await(taker), 0);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(peer_close(&p), 0);
}
END_TEST

static weft_value send_to_end(void *arg)
{
    send_much(arg);
    return weft_shutdown((int)(intptr_t)arg, SHUT_WR);
}

START_TEST(socat_echoes_and_we_get_back_what_we_send)
{
    peer p;
    if (!PEER(&p, "socat", "-d", "-d", "-t", "10", "TCP4-LISTEN:0,bind=127.0.0.1", "EXEC:cat"))
        return;
    int fd = connect_to_port(port_said(&p, "listening on AF=2 127.0.0.1:"));
    weft_fiber sender = weft_spin(send_to_end, as_arg(fd));
    assert_stream(fd, MUCH);
    ck_assert_int_eq(weft_await(sender), 0);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(peer_close(&p), 0);
}
END_TEST

START_TEST(socat_gets_an_answer_to_each_datagram)
{
    place at = tcp_place(), from;
    char address[32], data[64];
    peer p;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, &at.u.any, at.bytes), 0);
    ck_assert_int_eq(getsockname(fd, &at.u.any, &at.bytes), 0);
    snprintf(address, sizeof address, "UDP4:127.0.0.1:%d", ntohs(at.u.in.sin_port));
    if (!PEER(&p, "socat", "-", address))
        return;
    for (char i = 'a'; i <= 'z'; i++) {
        const char asked[2] = {i, '?'}, told[2] = {i, '!'};
        from.bytes = sizeof from.u;
        ck_assert_int_eq(weft_write(p.in, asked, 2), 2);
        ck_assert_int_eq(weft_recvfrom(fd, data, sizeof data, 0, &from.u.any, &from.bytes), 2);
        ck_assert_mem_eq(data, asked, 2);
        ck_assert_int_eq(from.u.in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        ck_assert_int_eq(weft_sendto(fd, told, 2, 0, &from.u.any, from.bytes), 2);
        ck_assert_int_eq(weft_read_full(p.out, data, 2), 2);
        ck_assert_mem_eq(data, told, 2);
    }
    ck_assert_int_eq(weft_close(fd), 0);
    kill(p.pid, SIGTERM); /* nothing tells it that a datagram was the last one */
    ck_assert_int_ne(peer_close(&p), 0);
}
END_TEST

/* The head of a request, up to its empty line, and what came of the body with it. */
typedef struct head {
    char text[4096];
    size_t used;
    size_t body_begin;
} head;

static bool read_head(int fd, head *h)
{
    h->used = 0;
    for (;;) {
        ssize_t n = weft_read(fd, h->text + h->used, sizeof h->text - 1 - h->used);
        if (n <= 0)
            return false;
        h->used += (size_t)n;
        h->text[h->used] = '\0';
        const char *end = strstr(h->text, "\r\n\r\n");
        if (end != NULL) {
            h->body_begin = (size_t)(end + 4 - h->text);
            return true;
        }
    }
}

static void answer(int fd, const unsigned char *body, size_t bytes)
{
    char first[128];
    int n = snprintf(first, sizeof first, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n", bytes);
    ck_assert_int_eq(weft_write_all(fd, first, (size_t)n), n);
    ck_assert_int_eq(weft_write_all(fd, body, bytes), (ssize_t)bytes);
}

/* GET /BYTES: so many bytes of the stream. */
static void give(int fd, const head *h)
{
    size_t bytes = strtoul(h->text + strlen("GET /"), NULL, 10);
    unsigned char *body = malloc(bytes);
    fill_from(body, bytes, 0);
    answer(fd, body, bytes);
    free(body);
}

/* PUT: the body must be that of the stream; says how long it was. */
static void keep(int fd, const head *h)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const char *length = strstr(h->text, "Content-Length: ");
    ck_assert_ptr_nonnull(length);
    size_t bytes = strtoul(length + strlen("Content-Length: "), NULL, 10);
    unsigned char *body = malloc(bytes);
    size_t got = h->used - h->body_begin;
    memcpy(body, h->text + h->body_begin, got);
    if (strstr(h->text, "Expect: 100-continue") != NULL)
        ck_assert_int_eq(weft_write_all(fd, go_on, strlen(go_on)), (ssize_t)strlen(go_on));
    ck_assert_int_eq(weft_read_full(fd, body + got, bytes - got), (ssize_t)(bytes - got));
    assert_bytes_at(body, bytes, 0);
    int n = snprintf((char *)body, bytes, "%zu bytes", bytes);
    answer(fd, body, (size_t)n);
    free(body);
}

static weft_value serve_http(void *arg)
{
    int fd = (int)(intptr_t)arg;
    head h;
    ck_assert(read_head(fd, &h));
    if (strncmp(h.text, "PUT ", 4) == 0)
        keep(fd, &h);
    else
        give(fd, &h);
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

START_TEST(curls_get_what_they_ask_for_side_by_side)
{
    static const size_t sizes[] = {0, 1, 1000, 65536, 100000, MUCH, MUCH, 3 * MUCH};
    server s;
    peer p[COUNT_OF(sizes)];
    char url[64];
    server_open(&s, serve_http, true);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        snprintf(url, sizeof url, "http://127.0.0.1:%s/%zu", s.port, sizes[i]);
        if (!PEER(&p[i], "curl", "-q", "-sS", "--noproxy", "*", url))
            return;
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_stream(p[i].out, sizes[i]);
        ck_assert_int_eq(peer_close(&p[i]), 0);
    }
    ck_assert_uint_eq(s.served, COUNT_OF(sizes));
    server_close(&s);
    assert_all_closed(&s);
}
END_TEST

/* A file with that much of the stream, which is gone when it is closed; its name. */
static const char *make_file(char *name, size_t bytes)
{
    unsigned char *data = malloc(bytes);
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    fill_from(data, bytes, 0);
    ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
    free(data);
    close(fd);
    return name;
}

START_TEST(curl_uploads_a_file)
{
    server s;
    peer p;
    char url[64], name[] = "/tmp/weft-test-XXXXXX", told[64] = "";
    server_open(&s, serve_http, true);
    snprintf(url, sizeof url, "http://127.0.0.1:%s/", s.port);
    make_file(name, 3 * MUCH);
    bool is_there = PEER(&p, "curl", "-q", "-sS", "--noproxy", "*", "-T", name, url);
    if (is_there)
        ck_assert_int_gt(weft_read_full(p.out, told, sizeof told - 1), 0);
    unlink(name);
    if (!is_there)
        return;
    ck_assert_str_eq(told, "3145728 bytes");
    ck_assert_int_eq(peer_close(&p), 0);
    server_close(&s);
    assert_all_closed(&s);
}
END_TEST

static weft_value keep_open(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char byte;
    ck_assert_int_eq(weft_read(fd, &byte, 1), 0);
    ck_assert_int_eq(weft_suspend(), 1); /* has seen the end, and has not closed */
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

/* That the other tests find none, says something only if one would be seen. */
START_TEST(ss_sees_a_connection_that_was_not_closed)
{
    server s;
    peer p;
    weft_fiber children[4];
    server_open(&s, keep_open, true);
    if (!PEER(&p, "nc", "-nN", "127.0.0.1", s.port))
        return;
    peer_finish_input(&p);
    do
        ck_assert_int_eq(weft_sleep(0.001), 0);
    while (weft_children(weft_self(), children, 4) < 2);
    int count;
    while ((count = count_close_wait(s.port)) == 0) /* until it has come through the kernel */
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert(count == 1 || count == -1);
    while (weft_schedule(children[1], 1) == -EBUSY)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(peer_close(&p), 0);
    server_close(&s);
    assert_all_closed(&s);
}
END_TEST

static const TTest *const *const tests[] = {
    &nc_gets_back_what_it_sends,
    &socat_gets_back_what_it_sends_over_tcp,
    &socat_gets_back_what_it_sends_over_a_unix_socket,
    &nc_listens_and_we_talk_in_both_directions,
    &socat_echoes_and_we_get_back_what_we_send,
    &socat_gets_an_answer_to_each_datagram,
    &curls_get_what_they_ask_for_side_by_side,
    &curl_uploads_a_file,
    &ss_sees_a_connection_that_was_not_closed,
};

int main(void)
{
    return run_suite("peers", tests, COUNT_OF(tests));
}
