/*
 * NATS servers that a test starts, kills, stops and continues: single servers, and clusters of
 * three. The servers listen on free ports of 127.0.0.1. Their files are in the folder of
 * tests/hub/servers, which removes them. The kernel kills the servers when the test ends.
 */
#ifndef TESTS_HUB_NATS_SERVER_H
#define TESTS_HUB_NATS_SERVER_H

#include "hub/hub_support.h"

#include <weft/web.h>

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define NATS_CLUSTER_SERVERS 3
/* From the start of servers until all of them are ready. A cluster elects leaders first. */
#define NATS_START_S_MAX 60
#define NATS_POLL_S 0.02
/* A stopped server does not answer. */
#define NATS_MONITOR_S_MAX 2

/* A reserved port. A server can listen on it, and restart. No other process gets the port. */
typedef struct nats_port {
    int fd, number;
} nats_port;

typedef struct nats_server {
    pid_t pid; /* 0: not running */
    nats_port client, monitor, route;
    char name[8];
    char folder[80];
    char url[64];
} nats_server;

typedef struct nats_cluster {
    nats_server servers[NATS_CLUSTER_SERVERS];
    char where[NATS_CLUSTER_SERVERS * 64]; /* the URLs of all servers */
} nats_cluster;

/* Skip the program if tests/hub/servers does not run it. */
__attribute__((constructor)) static void require_hub_folder(void)
{
    if (getenv("WEFT_HUB_FOLDER") != NULL)
        return;
    puts("skipped: run tests/hub/servers PROGRAM");
    exit(77);
}

/*
 * A bound socket with SO_REUSEADDR that does not listen reserves its port. The kernel allows a
 * listener with SO_REUSEADDR on the same port, and selects the port for no other socket.
 */
static inline nats_port nats_port_reserve(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, bytes), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    return (nats_port){fd, ntohs(a.sin_port)};
}

static inline void nats_port_release(nats_port *port)
{
    if (port->fd > 0)
        close(port->fd);
    *port = (nats_port){0};
}

/* Return the path of a file of a server. */
static inline const char *nats_file(const nats_server *s, const char *name)
{
    return format("%s/%s", s->folder, name);
}

/* The end of the log, for messages. */
static inline const char *nats_log_end(const nats_server *s)
{
    static char text[1500];
    text[0] = '\0';
    int fd = open(nats_file(s, "log"), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        off_t end = lseek(fd, 0, SEEK_END);
        lseek(fd, end < (off_t)sizeof text ? 0 : end - (off_t)sizeof text + 1, SEEK_SET);
        read_all(fd, text, sizeof text);
        close(fd);
    }
    return text;
}

static inline void nats_server_exec(const nats_server *s, pid_t parent)
{
    int log = open(nats_file(s, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        execlp("nats-server", "nats-server", "-c", nats_file(s, "configuration"), (char *)NULL);
    _exit(127);
}

/* Start the process of a server that does not run. The server is not ready yet. */
static inline void nats_server_launch(nats_server *s)
{
    pid_t parent = getpid();
    ck_assert_int_eq(s->pid, 0);
    s->pid = fork();
    ck_assert_int_ge(s->pid, 0);
    if (s->pid == 0)
        nats_server_exec(s, parent);
}

/* Fetch a page of the monitoring port. The caller frees the result. NULL: no page. */
static inline char *nats_monitor(const nats_server *s, const char *path)
{
    const char *url = format("http://127.0.0.1:%d%s", s->monitor.number, path);
    char *body = NULL, *copy = NULL;
    WEFT_MOVE_ON_AFTER(NATS_MONITOR_S_MAX) {
        weft_fetch *fetch;
        if (weft_fetch_get(NULL, url, &fetch) < 0)
            return NULL;
        if (weft_fetch_read_all(fetch, &body) >= 0 && weft_fetch_status(fetch) == 200)
            copy = strdup(body);
        weft_fetch_close(fetch);
    }
    return copy;
}

/* True if a server runs, and knows the leader and the state of all its streams. */
static inline bool nats_server_is_ready(const nats_server *s)
{
    char *body = nats_monitor(s, "/healthz");
    bool is_ready = body != NULL && strstr(body, "\"ok\"") != NULL;
    free(body);
    return is_ready;
}

/* Wait until a server is ready. */
static inline void nats_server_await(const nats_server *s)
{
    double end = weft_now() + NATS_START_S_MAX;
    while (!nats_server_is_ready(s)) {
        bool has_ended = waitpid(s->pid, NULL, WNOHANG) != 0;
        ck_assert_msg(!has_ended && weft_now() < end, "%s is not ready:\n%s", s->name,
                      nats_log_end(s));
        weft_sleep(NATS_POLL_S);
    }
}

/* Write the configuration. more is additional text. */
static inline void nats_server_configure(const nats_server *s, const char *more)
{
    FILE *f = fopen(nats_file(s, "configuration"), "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "server_name: %s\n", s->name);
    fprintf(f, "listen: \"127.0.0.1:%d\"\n", s->client.number);
    fprintf(f, "http: \"127.0.0.1:%d\"\n", s->monitor.number);
    fprintf(f, "jetstream { store_dir: \"%s/store\" }\n", s->folder);
    fprintf(f, "lame_duck_grace_period: \"1s\"\nlame_duck_duration: \"30s\"\n");
    fprintf(f, "%s\n", more);
    ck_assert_int_eq(fclose(f), 0);
}

/* Reserve the ports and the folder of a server. */
static inline void nats_server_prepare(nats_server *s, const char *name)
{
    *s = (nats_server){.client = nats_port_reserve(), .monitor = nats_port_reserve()};
    s->route = nats_port_reserve();
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->folder, sizeof s->folder, "%s/XXXXXX", getenv("WEFT_HUB_FOLDER"));
    ck_assert_ptr_nonnull(mkdtemp(s->folder));
    snprintf(s->url, sizeof s->url, "nats://127.0.0.1:%d", s->client.number);
}

/* Start a single server with JetStream. more is additional configuration. */
static inline void nats_server_start(nats_server *s, const char *more)
{
    nats_server_prepare(s, "n1");
    nats_server_configure(s, more);
    nats_server_launch(s);
    nats_server_await(s);
}

static inline void nats_server_signal(const nats_server *s, int number)
{
    ck_assert_int_gt(s->pid, 0);
    ck_assert_int_eq(kill(s->pid, number), 0);
}

/* Kill a server. Return when the process is gone. */
static inline void nats_server_kill(nats_server *s)
{
    nats_server_signal(s, SIGKILL);
    ck_assert_int_eq(waitpid(s->pid, NULL, 0), s->pid);
    s->pid = 0;
}

/* Stop all threads of a server. Its connections remain open. */
static inline void nats_server_stop(const nats_server *s)
{
    int status;
    nats_server_signal(s, SIGSTOP);
    ck_assert_int_eq(waitpid(s->pid, &status, WUNTRACED), s->pid);
    ck_assert(WIFSTOPPED(status));
}

static inline void nats_server_continue(const nats_server *s)
{
    nats_server_signal(s, SIGCONT);
}

/* Lame-duck mode: the server asks clients to leave, and ends. Like nats-server --signal ldm=PID. */
static inline void nats_server_retire(const nats_server *s)
{
    nats_server_signal(s, SIGUSR2);
}

/* Start a killed server again, with its files and ports. */
static inline void nats_server_restart(nats_server *s)
{
    nats_server_launch(s);
    nats_server_await(s);
}

/* Kill a server, and release its ports. */
static inline void nats_server_end(nats_server *s)
{
    if (s->pid != 0)
        nats_server_kill(s);
    nats_port_release(&s->client);
    nats_port_release(&s->monitor);
    nats_port_release(&s->route);
}

static inline void nats_cluster_configure(const nats_cluster *c, const nats_server *s,
                                          const char *more)
{
    char routes[NATS_CLUSTER_SERVERS * 40] = "";
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        strcat(routes, format("\"nats://127.0.0.1:%d\", ", c->servers[i].route.number));
    nats_server_configure(
        s, format("%s\ncluster { name: weft, listen: \"127.0.0.1:%d\", routes: [%s] }", more,
                  s->route.number, routes));
}

/* Start a cluster, and wait until it has elected its leader. more is additional configuration. */
static inline void nats_cluster_start(nats_cluster *c, const char *more)
{
    c->where[0] = '\0';
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++) {
        nats_server_prepare(&c->servers[i], format("n%d", i + 1));
        strcat(c->where, format("%s%s", i > 0 ? "," : "", c->servers[i].url));
    }
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++) {
        nats_cluster_configure(c, &c->servers[i], more);
        nats_server_launch(&c->servers[i]);
    }
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        nats_server_await(&c->servers[i]);
}

static inline nats_server *nats_cluster_find(nats_cluster *c, const char *name)
{
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        if (strcmp(c->servers[i].name, name) == 0)
            return &c->servers[i];
    return NULL;
}

/* Parse the leader of a stream in the reply of a server. Return false if the stream has none. */
static inline bool nats_parse_leader(const char *body, const char *stream, char name[8])
{
    const char *streams = strstr(body, "\"stream_detail\"");
    const char *at = streams != NULL ? strstr(streams, format("\"name\": \"%s\"", stream)) : NULL;
    const char *leader = at != NULL ? strstr(at, "\"leader\": \"") : NULL;
    return leader != NULL && sscanf(leader, "\"leader\": \"%7[^\"]", name) == 1;
}

/* Return the running leader of a stream, or NULL if there is none at the moment. */
static inline nats_server *nats_cluster_try_leader(nats_cluster *c, const char *stream)
{
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++) {
        char name[8] = "";
        char *body =
            c->servers[i].pid != 0 ? nats_monitor(&c->servers[i], "/jsz?streams=true") : NULL;
        bool has_leader = body != NULL && nats_parse_leader(body, stream, name);
        free(body);
        nats_server *leader = has_leader ? nats_cluster_find(c, name) : NULL;
        if (leader != NULL && leader->pid != 0)
            return leader;
    }
    return NULL;
}

/* Return the leader of a stream, and wait for its election. */
static inline nats_server *nats_cluster_leader(nats_cluster *c, const char *stream)
{
    double end = weft_now() + NATS_START_S_MAX;
    nats_server *leader;
    while ((leader = nats_cluster_try_leader(c, stream)) == NULL) {
        ck_assert_msg(weft_now() < end, "%s has no leader", stream);
        weft_sleep(NATS_POLL_S);
    }
    return leader;
}

/* Return the number of the last message of a stream in the store of one server. 0: unknown. */
static inline unsigned long nats_last_number(const nats_server *s, const char *stream)
{
    char *body = s->pid != 0 ? nats_monitor(s, "/jsz?streams=true") : NULL;
    const char *at = body != NULL ? strstr(body, format("\"name\": \"%s\"", stream)) : NULL;
    const char *last = at != NULL ? strstr(at, "\"last_seq\": ") : NULL;
    unsigned long number = last != NULL ? strtoul(last + strlen("\"last_seq\": "), NULL, 10) : 0;
    free(body);
    return number;
}

/*
 * True if the stores of the servers differ in the last message of a stream that no client writes
 * to. A server that was stopped can stay so forever (nats-server 2.9.10 logs "Resetting stream
 * cluster state"). If such a server leads the consumer, it does not deliver the messages.
 */
static inline bool nats_cluster_has_diverged(const nats_cluster *c, const char *stream)
{
    unsigned long numbers[NATS_CLUSTER_SERVERS];
    bool has_diverged = false;
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++) {
        numbers[i] = nats_last_number(&c->servers[i], stream);
        has_diverged = has_diverged || numbers[i] != numbers[0];
    }
    return has_diverged;
}

static inline void nats_cluster_end(nats_cluster *c)
{
    for (int i = 0; i < NATS_CLUSTER_SERVERS; i++)
        nats_server_end(&c->servers[i]);
}

#endif
