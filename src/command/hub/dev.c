/*
 * weft hub dev: a server for development on a loopback port. It is nats-server with JetStream and a
 * temporary folder if nats-server is installed, and otherwise the broker of weft.
 */
#include "command/command.h"
#include "command/hub/hub.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/hub_broker.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/process.h>
#include <weft/select.h>
#include <weft/signal.h>
#include <weft/sync.h>
#include <weft/time.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_S_MAX 10.0
#define LOOK_S 0.02 /* between two attempts to connect */
#define END_S 5.0
#define BROKER_NAME "dev"

typedef struct dev_server {
    hub_run *run;
    char url[64];
    unsigned port;
    /* nats-server */
    weft_process process; /* pid 0: the broker of weft */
    weft_process guard;   /* ends the server if this command is killed */
    char folder[64];      /* "": none */
    /* the broker of weft */
    weft_hub_broker *broker; /* NULL: nats-server */
    int listener;            /* -1: none */
    weft_fiber fiber;        /* ends with the server */
    weft_event is_stopped;   /* set by SIGINT and SIGTERM */
    int status;              /* of the command */
} dev_server;

/* Return the port of a listening socket. */
static unsigned port_of(int fd)
{
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &bytes);
    return ntohs(address.sin_port);
}

/* Listen on the port of the settings. Return the descriptor, or an error. */
static int dev_listen(const hub_run *run)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", run->settings->port);
    return weft_listen("tcp", address);
}

/*
 * nats-server.
 */

static weft_value wait_for_server(void *arg)
{
    weft_process_wait(&((dev_server *)arg)->process);
    return 0;
}

/* Return whether the server accepts connections and greets. */
static bool server_greets(unsigned port)
{
    char address[32], first[5] = "";
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    int fd = weft_dial("tcp", address);
    if (fd < 0)
        return false;
    bool greets = weft_read_full(fd, first, 4) == 4 && strcmp(first, "INFO") == 0;
    weft_close(fd);
    return greets;
}

/* Wait until nats-server accepts connections. Return 0, or the exit status. */
static int server_wait(dev_server *d)
{
    double end_s = weft_now() + START_S_MAX;
    while (!server_greets(d->port)) {
        if (weft_state_of(d->fiber) == WEFT_DEAD || weft_now() > end_s)
            return weft__hub_command_say(d->run, "nats-server does not start (see --verbose)");
        if (weft_sleep(LOOK_S) < 0)
            return EXIT_FAILURE;
    }
    return 0;
}

/*
 * Start a shell that waits for the end of this command, also by SIGKILL: its standard input then
 * ends. The shell ends the server and removes its folder. Return 0, or the exit status.
 */
static int guard_start(dev_server *d)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)d->process.pid);
    char *argv[] = {"/bin/sh", "-c", "read -r line; kill -KILL \"$1\"; rm -rf \"$2\"", "sh", pid,
                    d->folder, NULL};
    weft_process_options options = {.in = WEFT_STDIO_PIPE,
                                    .out = WEFT_STDIO_NULL,
                                    .err = WEFT_STDIO_NULL,
                                    .has_group = true,
                                    .grace_s = END_S};
    int rc = weft_spawn_process(&d->guard, argv, &options);
    return rc == 0 ? 0 : weft__hub_command_say(d->run, "cannot run /bin/sh: %s", strerror(-rc));
}

static int server_start(dev_server *d)
{
    bool is_verbose = d->run->settings->is_verbose;
    char port[16];
    snprintf(d->folder, sizeof d->folder, "/tmp/weft-hub-XXXXXX");
    if (mkdtemp(d->folder) == NULL) {
        d->folder[0] = '\0';
        return weft__hub_command_say(d->run, "cannot create a folder: %s", strerror(errno));
    }
    snprintf(port, sizeof port, "%u", d->port);
    char *argv[] = {"nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", d->folder, NULL};
    weft_process_options options = {
        .out = is_verbose ? WEFT_STDIO_INHERIT : WEFT_STDIO_NULL,
        .err = is_verbose ? WEFT_STDIO_INHERIT : WEFT_STDIO_NULL,
        .has_group = true, /* a signal of the terminal goes to this command only */
        .grace_s = END_S,
    };
    int rc = weft_spawn_process(&d->process, argv, &options);
    if (rc < 0)
        return weft__hub_command_say(d->run, "cannot run nats-server: %s", strerror(-rc));
    int status = guard_start(d);
    if (status != 0)
        return status;
    d->fiber = weft_spin(wait_for_server, d);
    return server_wait(d);
}

/*
 * The broker of weft.
 */

static weft_value serve_broker(void *arg)
{
    dev_server *d = arg;
    return weft_hub_broker_serve(d->broker, d->listener);
}

static int broker_start(dev_server *d)
{
    d->broker = weft_hub_broker_get(BROKER_NAME);
    if (d->broker == NULL)
        return weft__hub_command_fail(d->run, weft_error()->code);
    d->fiber = weft_spin(serve_broker, d);
    return d->fiber != 0 ? 0 : weft__hub_command_fail(d->run, weft_error()->code);
}

/*
 * Both.
 */

static bool has_nats_server(void)
{
    char *argv[] = {"nats-server", "--version", NULL};
    weft_output output;
    int status = weft_run(argv, NULL, 0, NULL, &output);
    if (status >= 0)
        weft_output_free(&output);
    return status == 0;
}

/* Find the port, and start the server. Return 0, or the exit status. */
static int dev_start(dev_server *d)
{
    d->listener = dev_listen(d->run);
    if (d->listener < 0)
        return weft__hub_command_say(d->run, "cannot listen on 127.0.0.1:%u: %s",
                                     d->run->settings->port, strerror(-d->listener));
    d->port = port_of(d->listener);
    snprintf(d->url, sizeof d->url, "nats://127.0.0.1:%u", d->port);
    if (d->run->settings->is_embedded || !has_nats_server())
        return broker_start(d);
    weft_close(d->listener);
    d->listener = -1;
    return server_start(d);
}

static int remove_file(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void dev_end(dev_server *d)
{
    if (d->guard.pid != 0) { /* first: afterwards another process may get the pid of the server */
        weft_process_kill(&d->guard, SIGKILL);
        weft_process_close(&d->guard);
    }
    if (d->process.pid != 0) {
        weft_process_end(&d->process, END_S);
        weft_process_close(&d->process);
    }
    if (d->fiber != 0)
        weft_terminate(d->fiber, END_S);
    if (d->listener >= 0)
        weft_close(d->listener);
    weft_hub_broker_release(d->broker);
    if (d->folder[0] != '\0')
        nftw(d->folder, remove_file, 16, FTW_DEPTH | FTW_PHYS);
}

/* Run the command with the URL in WEFT_HUB. Return its exit status, as a shell does. */
static int dev_run_command(const dev_server *d)
{
    char setting[96];
    snprintf(setting, sizeof setting, "WEFT_HUB=%s", d->url);
    weft_process_options options = {.in = WEFT_STDIO_INHERIT, .set = (char *[]){setting, NULL}};
    int status = weft_run(d->run->args, NULL, 0, &options, NULL);
    if (status < 0)
        return weft__hub_command_fail(d->run, status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static weft_value run_command(void *arg)
{
    dev_server *d = arg;
    d->status = dev_run_command(d);
    return 0;
}

static void print_url(const dev_server *d)
{
    printf("%s (%s)\nexport WEFT_HUB=%s\n", d->url,
           d->broker != NULL ? "the broker of weft, in memory" : "nats-server with JetStream",
           d->url);
    fflush(stdout);
}

/* Wait for a signal, the end of the server, or the end of the command. Return the exit status. */
static int dev_wait(dev_server *d)
{
    weft_fiber command = d->run->args_count > 0 ? weft_spin(run_command, d) : 0;
    weft_clause clauses[] = {
        weft_clause_event(&d->is_stopped),
        weft_clause_ended(d->fiber),
        weft_clause_ended(command),
    };
    int ready = weft_select(clauses, command != 0 ? 3 : 2);
    if (command != 0)
        weft_terminate(command, END_S);
    if (ready == 1)
        return weft__hub_command_say(d->run, "the server has ended");
    if (ready < 0)
        return weft__hub_command_fail(d->run, ready);
    return ready == 0 && command == 0 ? EXIT_SUCCESS : d->status;
}

static weft_value stop_dev(void *arg)
{
    weft_event_set(&((dev_server *)arg)->is_stopped);
    return 0;
}

static int dev_run(dev_server *d)
{
    int status = dev_start(d);
    if (status == 0 && d->run->args_count == 0)
        print_url(d);
    if (status == 0)
        status = dev_wait(d);
    dev_end(d);
    return status;
}

int weft__hub_command_dev(hub_run *run)
{
    dev_server d = {.run = run, .listener = -1, .status = EXIT_FAILURE};
    int rc = weft_on_signal(SIGINT, stop_dev, &d);
    if (rc == 0)
        rc = weft_on_signal(SIGTERM, stop_dev, &d);
    int status = rc == 0 ? dev_run(&d) : weft__hub_command_fail(run, rc);
    weft_on_signal(SIGINT, NULL, NULL);
    weft_on_signal(SIGTERM, NULL, NULL);
    return status;
}
