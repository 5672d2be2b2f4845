/* Ten thousand connections over TCP, held and served by one thread. */
#include "net_support.h"

#include <signal.h>

#define CROWD 10000
#define CROWD_SLOW 1000 /* where a fiber costs many times as much */
/* Connections that the client makes before it sees the server take them: a backlog holds more. */
#define BATCH 500

typedef struct request {
    uint32_t number;
    uint32_t key;
} request;

static uint32_t answer_to(const request *r)
{
    return r->number * 2654435761u ^ r->key;
}

/* The other process: plain blocking calls. Its exit status says how far it came. */
typedef struct client {
    place server;
    int orders; /* a byte each: go on */
    int reports;
    size_t count;
    int fd[CROWD];
} client;

static client guests;

static void take(int fd, void *data, size_t bytes)
{
    if (recv(fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
        _exit(3);
}

static void connect_all(client *c)
{
    char hello;
    for (size_t i = 0, greeted = 0; i < c->count; i++) {
        c->fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd[i] < 0 || connect(c->fd[i], &c->server.u.any, c->server.bytes) < 0)
            _exit(2);
        for (; greeted <= i && (i % BATCH == 0 || i + 1 == c->count); greeted++)
            take(c->fd[greeted], &hello, 1);
    }
}

/* All ask before any answer is read. */
static void ask_all(client *c, uint32_t key)
{
    uint32_t answer;
    for (size_t i = 0; i < c->count; i++) {
        request r = {(uint32_t)i, key};
        if (send(c->fd[i], &r, sizeof r, MSG_NOSIGNAL) != sizeof r)
            _exit(4);
    }
    for (size_t i = c->count; i-- > 0;) {
        request r = {(uint32_t)i, key};
        take(c->fd[i], &answer, sizeof answer);
        if (answer != answer_to(&r))
            _exit(5);
    }
}

static void be_client(client *c)
{
    char order;
    connect_all(c);
    for (uint32_t key = 0; write(c->reports, "", 1) == 1 && read(c->orders, &order, 1) == 1; key++)
        ask_all(c, key);
    _exit(0);
}

/* Both ends of two pipes, one end each in a new process. To be called before the first of weft. */
static pid_t start_client(client *c, int *orders, int *reports)
{
    int to[2], from[2];
    ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        c->orders = to[0];
        c->reports = from[1];
        be_client(c);
    }
    close(to[0]);
    close(from[1]);
    *orders = to[1];
    *reports = from[0];
    return pid;
}

static size_t here; /* connections that are open now */
static size_t answered;

static weft_value serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    request r;
    ssize_t n = weft_write(fd, "", 1);
    here++;
    while ((n = weft_read_full(fd, &r, sizeof r)) == sizeof r) {
        uint32_t answer = answer_to(&r);
        n = weft_write_all(fd, &answer, sizeof answer);
        if (n < 0)
            break;
        answered++;
    }
    here--;
    weft_close(fd);
    return n;
}

static weft_value accept_all(void *arg)
{
    int fd;
    while ((fd = weft_accept(*(int *)arg, NULL, NULL)) >= 0)
        if (weft_go(serve, as_arg(fd)) < 0)
            return 1;
    return fd;
}

static size_t crowd_size(void)
{
    size_t wanted = is_sanitized() || RUNNING_ON_VALGRIND ? CROWD_SLOW : CROWD;
    size_t room = raise_descriptor_limit(wanted + 100) - 100;
    if (room < wanted)
        printf("no more than %zu descriptors may be open here\n", room + 100);
    return room < wanted ? room : wanted;
}

/* The number: all at once, each served, none lost. */
START_TEST(ten_thousand_connections_are_held_at_once_and_each_is_served)
{
    int orders, reports, status;
    char report;
    int listener = listen_tcp(&guests.server, 4096);
    guests.count = crowd_size();
    pid_t pid = start_client(&guests, &orders, &reports);
    weft_fiber acceptor = weft_spin(accept_all, &listener);
    for (size_t round = 0; round < 3; round++) {
        ck_assert_int_eq(weft_read(reports, &report, 1), 1);
        ck_assert_uint_eq(answered, round * guests.count);
        ck_assert_uint_eq(here, guests.count);
        ck_assert_uint_ge(ops_pending(), guests.count + 1); /* and nobody is busy */
        if (round < 2)
            ck_assert_int_eq(weft_write(orders, "", 1), 1);
    }
    ck_assert_int_eq(weft_close(orders), 0);
    while (here > 0) /* as they see the client go */
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(weft_cancel(acceptor), 0);
    weft_await(acceptor);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(reports), 0);
    ck_assert_int_eq(weft_close(listener), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    assert_nothing_pending();
}
END_TEST

static const TTest *const *const tests[] = {
    &ten_thousand_connections_are_held_at_once_and_each_is_served,
};

int main(void)
{
    return run_suite("crowd", tests, COUNT_OF(tests));
}
