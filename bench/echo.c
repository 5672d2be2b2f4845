/*
 * An echo server over weft against hand-written loops, on io_uring and on epoll: 64-byte messages
 * to and fro over TCP, the server on one processor and the client on another. Round trips a second,
 * processor time of the server for each, and how busy it was: a server that is not nearly always
 * busy is faster than the client, and then only its processor time tells.
 *
 * All servers are there all the time, each a process with its connections, and take turns in short
 * rounds.
 *
 * usage: echo [--quick] [--json] [--only CASE] [NUMBER]
 * NUMBER: trips a round. --quick: for less time. With --only the server is this process, and the
 * client another one.
 */
#include "echo.h"
#include "rounds.h"

#include <weft.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS BENCH_ROUNDS
/* Where others are at work, too, it is over after so long. */
#define ROUNDS_MIN 5
#define SECONDS_MAX 75
#define SECONDS_MAX_QUICK 12
#define TRIPS 4000
#define LISTEN_BACKLOG 4096
#define NO_BASE (-1)

typedef struct server {
    const char *name;
    void (*serve)(int listener);
    const char *backend; /* of weft; NULL: without it */
    int base;            /* what it is compared to, an index; NO_BASE: nothing */
} server;

/* What something is compared to stands before it. */
static const server servers[] = {
    {"epoll by hand", echo_epoll, NULL, NO_BASE},
    {"weft on epoll", echo_weft, "epoll", 0},
    {"weft on epoll, in a loop", echo_weft_loop, "epoll", 0},
#ifdef ECHO_HAS_URING
    {"io_uring by hand", echo_uring, NULL, NO_BASE},
    {"weft on io_uring", echo_weft, "io_uring", 3},
    {"weft on io_uring, in a loop", echo_weft_loop, "io_uring", 3},
#endif
};
#define SERVERS ((int)(sizeof servers / sizeof servers[0]))

static const int connection_counts[] = {64, 1000};
#define COUNTS ((int)(sizeof connection_counts / sizeof connection_counts[0]))

/* A server with so many connections, measured. */
typedef struct contest {
    const server *server;
    const struct contest *base; /* with as many connections; NULL: none */
    char what[64];
    int connections;
    int listener;
    pid_t pid; /* 0: its backend is not to be had here */
    echo_client *client;
    double trips_per_s[ROUNDS], server_ns[ROUNDS], busy[ROUNDS];
} contest;

#define CONTESTS (COUNTS * SERVERS)
static contest contests[CONTESTS];
static int rounds = ROUNDS;
static int seconds_max = SECONDS_MAX;
static int server_cpu, client_cpu;

static void pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    echo_require(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

/* The first and the last processor that we may use. */
static void choose_cpus(void)
{
    cpu_set_t all;
    echo_require(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    server_cpu = -1;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all))
            continue;
        server_cpu = server_cpu < 0 ? i : server_cpu;
        client_cpu = i;
    }
    if (server_cpu == client_cpu)
        fprintf(stderr, "echo: one processor for server and client: the figures mean little\n");
}

/* A process has a client for every server, with up to 1,000 connections each. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int listen_here(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    echo_require(fd >= 0, "socket");
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ECHO_CONGESTION, sizeof ECHO_CONGESTION - 1);
    echo_require(bind(fd, (void *)&address, sizeof address) == 0, "bind");
    echo_require(listen(fd, LISTEN_BACKLOG) == 0, "listen");
    return fd;
}

/* Another backend would take its place without a word. */
static bool has_backend(const server *s)
{
    return s->backend == NULL || strcmp(weft_backend_name(), s->backend) == 0;
}

static void serve(const server *s, int listener)
{
    pin(server_cpu);
    s->serve(listener);
}

/* The server as a process of its own; it says on a pipe that it is there. */
static void contest_open(contest *c)
{
    int ready[2];
    char byte;
    c->listener = listen_here();
    echo_require(pipe(ready) == 0, "pipe");
    pid_t pid = fork();
    echo_require(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (c->server->backend != NULL)
            setenv("WEFT_BACKEND", c->server->backend, true);
        if (!has_backend(c->server))
            exit(0);
        echo_require(write(ready[1], "", 1) == 1, "write");
        serve(c->server, c->listener);
        exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) == 1)
        c->pid = pid;
    else
        waitpid(pid, NULL, 0);
    close(ready[0]);
}

static void contest_close(contest *c)
{
    int status;
    if (c->pid == 0)
        return;
    echo_client_close(c->client);
    shutdown(c->listener, SHUT_RD);
    echo_require(waitpid(c->pid, &status, 0) == c->pid && status == 0, "a server failed");
}

static void contest_connect(contest *c)
{
    if (c->pid != 0)
        c->client = echo_client_open(c->listener, c->pid, c->connections);
    else
        fprintf(stderr, "echo: %s: not here\n", c->what);
}

static void contest_run(contest *c, int round, size_t trips)
{
    if (c->pid == 0)
        return;
    echo_score score = echo_client_run(c->client, trips);
    c->trips_per_s[round] = score.trips_per_s;
    c->server_ns[round] = score.server_ns;
    c->busy[round] = score.trips_per_s * score.server_ns * 1e-7;
}

static double median_ratio(const double *values, const double *base)
{
    double ratios[ROUNDS], sorted[ROUNDS];
    for (int i = 0; i < rounds; i++)
        ratios[i] = values[i] / base[i];
    bench_sort(ratios, rounds, sorted);
    return sorted[rounds / 2];
}

static void contest_print(const contest *c)
{
    if (c->pid == 0)
        return;
    double trips_ratio = 0, ns_ratio = 0;
    if (c->base != NULL) {
        trips_ratio = median_ratio(c->trips_per_s, c->base->trips_per_s);
        ns_ratio = median_ratio(c->server_ns, c->base->server_ns);
    }
    bench_print(&(bench_result){c->what, "/s", rounds, c->trips_per_s, trips_ratio});
    bench_print(&(bench_result){c->what, "ns", rounds, c->server_ns, ns_ratio});
    bench_print(&(bench_result){c->what, "% busy", rounds, c->busy, 0});
}

/* After one to warm up. */
static void run_rounds(size_t trips)
{
    time_t end = time(NULL) + seconds_max;
    for (int round = -1; round < rounds; round++) {
        for (int i = 0; i < CONTESTS; i++)
            contest_run(&contests[i], round < 0 ? 0 : round, trips);
        if (round >= ROUNDS_MIN && time(NULL) >= end)
            rounds = round + 1;
    }
}

/* All processes are there before the first connection: they are not to inherit it. */
static void run_all(size_t trips)
{
    for (int i = 0; i < CONTESTS; i++)
        contest_open(&contests[i]);
    pin(client_cpu);
    for (int i = 0; i < CONTESTS; i++)
        contest_connect(&contests[i]);
    run_rounds(trips);
    for (int i = 0; i < CONTESTS; i++)
        contest_print(&contests[i]);
    for (int i = 0; i < CONTESTS; i++)
        contest_close(&contests[i]);
}

static void name_contests(void)
{
    for (int i = 0; i < CONTESTS; i++) {
        contest *c = &contests[i];
        c->server = &servers[i % SERVERS];
        c->connections = connection_counts[i / SERVERS];
        snprintf(c->what, sizeof c->what, "%s, %d", c->server->name, c->connections);
        if (c->server->base != NO_BASE)
            c->base = &contests[i / SERVERS * SERVERS + c->server->base];
    }
}

/* In a process that is not traced with the server's: hence the new program. */
static void start_client(char *program, const contest *c, size_t trips)
{
    char listener[16], server_pid[16], connections[16], number[24];
    snprintf(listener, sizeof listener, "%d", c->listener);
    snprintf(server_pid, sizeof server_pid, "%d", (int)getpid());
    snprintf(connections, sizeof connections, "%d", c->connections);
    snprintf(number, sizeof number, "%zu", trips);
    if (fork() > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(client_cpu);
    char *args[] = {program, "--client", listener, server_pid, connections, number, NULL};
    execvp(program, args);
    echo_require(false, "the client cannot be started");
}

static void be_client(char **args)
{
    int listener = atoi(args[0]);
    echo_client *c = echo_client_open(listener, atoi(args[1]), atoi(args[2]));
    echo_score score = echo_client_run(c, strtoul(args[3], NULL, 10));
    echo_client_close(c);
    shutdown(listener, SHUT_RD);
    bench_print_one("trips", "/s", score.trips_per_s);
    bench_print_one("the server, a trip", "ns", score.server_ns);
}

static contest *find_contest(const char *what)
{
    for (int i = 0; i < CONTESTS; i++)
        if (strcmp(contests[i].what, what) == 0)
            return &contests[i];
    return NULL;
}

static void run_only(char *program, size_t trips)
{
    contest *c = find_contest(bench_only);
    echo_require(c != NULL, "no such case");
    if (c->server->backend != NULL)
        setenv("WEFT_BACKEND", c->server->backend, true);
    echo_require(has_backend(c->server), "that backend is not to be had here");
    c->listener = listen_here();
    start_client(program, c, trips);
    serve(c->server, c->listener);
    wait(NULL);
}

int main(int argc, char **argv)
{
    char *program = argv[0];
    raise_descriptors();
    if (argc == 6 && strcmp(argv[1], "--client") == 0) {
        bench_name = "echo";
        be_client(argv + 2);
        return 0;
    }
    choose_cpus();
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        seconds_max = SECONDS_MAX_QUICK;
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    size_t trips = bench_start(argc, argv, TRIPS);
    name_contests();
    if (bench_only != NULL)
        run_only(program, trips);
    else
        run_all(trips);
    return 0;
}
