/*
 * Processes of the chat that share rooms, and their visitors.
 *
 * CHAT_PROGRAM is the path of the chat. The processes use a server if tests/hub/servers runs the
 * test, and a broker of the test otherwise.
 */
#ifndef TESTS_CHAT_CHAT_PROCESSES_H
#define TESTS_CHAT_CHAT_PROCESSES_H

#include "hub/hub_support.h"
#include "support/process_support.h"

#include "chat/chat.h"
#include "chat/json.h"

#include <netinet/in.h>
#include <signal.h>

#define PROCESSES_MAX 3
#define POLL_S 0.05 /* between two looks at a page */

typedef struct chat_process {
    weft_process process; /* pid 0: not running */
    char name[8];         /* "p1" */
    char origin[64];      /* "http://127.0.0.1:8080" */
} chat_process;

static struct {
    chat_process processes[PROCESSES_MAX];
    char where[128]; /* URL of the hub */
    weft_hub_broker *broker;
    weft_fiber broker_fiber;
    int broker_fd;
} cluster_of_test;

/* A broker for other processes. */

static inline weft_value serve_broker(void *arg)
{
    return weft_hub_broker_serve(cluster_of_test.broker, cluster_of_test.broker_fd);
}

static inline void open_broker(void)
{
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    cluster_of_test.broker = weft_hub_broker_get("");
    ck_assert_ptr_nonnull(cluster_of_test.broker);
    cluster_of_test.broker_fd = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(cluster_of_test.broker_fd, 0);
    getsockname(cluster_of_test.broker_fd, (struct sockaddr *)&at, &bytes);
    snprintf(cluster_of_test.where, sizeof cluster_of_test.where, "nats://127.0.0.1:%d",
             ntohs(at.sin_port));
    cluster_of_test.broker_fiber = weft_spin(serve_broker, NULL);
}

static inline void open_cluster(void)
{
    if (is_on_server())
        snprintf(cluster_of_test.where, sizeof cluster_of_test.where, "%s", hub_where());
    else
        open_broker();
}

/* Start a process, and wait until it serves. */
static inline void start_process(int number)
{
    chat_process *p = &cluster_of_test.processes[number];
    char line[256];
    weft_stream out;
    snprintf(p->name, sizeof p->name, "p%d", number + 1);
    p->process = spawn(ARGV(getenv("CHAT_PROGRAM"), "--listen=127.0.0.1:0", "--name", p->name,
                            "--hub", cluster_of_test.where, "/tmp"),
                       (weft_process_options){.out = WEFT_STDIO_PIPE});
    ck_assert_int_eq(weft_stream_open(&out, p->process.out), 0);
    p->process.out = -1;
    ck_assert_int_gt(weft_stream_gets(&out, line, sizeof line), 0);
    ck_assert_int_eq(sscanf(line, "Open %63[^ ]", p->origin), 1);
    p->origin[strlen(p->origin) - 1] = '\0';
    weft_stream_close(&out);
}

static inline void start_processes(int count)
{
    for (int i = 0; i < count; i++)
        start_process(i);
}

/* End a process with a signal. Return when the process is gone. */
static inline void end_process(int number, int with_signal)
{
    chat_process *p = &cluster_of_test.processes[number];
    ck_assert_int_eq(weft_process_kill(&p->process, with_signal), 0);
    int status = weft_process_wait(&p->process);
    weft_process_close(&p->process);
    p->process.pid = 0;
    ck_assert_int_eq(status, with_signal == SIGKILL ? SIGKILL : 0);
}

static inline bool is_running(int number)
{
    return cluster_of_test.processes[number].process.pid != 0;
}

static inline void close_cluster(void)
{
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (is_running(i))
            end_process(i, SIGTERM);
    if (cluster_of_test.broker == NULL)
        return;
    weft_terminate(cluster_of_test.broker_fiber, 5.0);
    weft_close(cluster_of_test.broker_fd);
    weft_hub_broker_release(cluster_of_test.broker);
}

/* Return the number of the process that owns a room as seen by a process. -1: none. */
static inline int owner_seen_by(int number, const char *room_name)
{
    char *body, pattern[64], owner[8] = "";
    weft_fetch *fetch;
    int status =
        weft_fetch_get(NULL, format("%s/rooms", cluster_of_test.processes[number].origin), &fetch);
    ck_assert_int_eq(status, 200);
    ck_assert_int_ge(weft_fetch_read_all(fetch, &body), 0);
    snprintf(pattern, sizeof pattern, "{\"name\":\"%s\"", room_name);
    const char *at = strstr(body, pattern);
    const char *name = at != NULL ? strstr(at, "\"owner\":\"") : NULL;
    if (name != NULL)
        sscanf(name, "\"owner\":\"%7[^\"]", owner);
    weft_fetch_close(fetch);
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (owner[0] != '\0' && strcmp(cluster_of_test.processes[i].name, owner) == 0)
            return i;
    return -1;
}

/* Wait until all running processes agree on a running owner of a room. Return the owner. */
static inline int await_owner(const char *room_name)
{
    for (;; weft_sleep(POLL_S)) {
        int owner = -1, agree = 0, running = 0;
        for (int i = 0; i < PROCESSES_MAX; i++) {
            if (!is_running(i))
                continue;
            int seen = owner_seen_by(i, room_name);
            agree += running++ == 0 || seen == owner;
            owner = seen;
        }
        if (owner >= 0 && is_running(owner) && agree == running)
            return owner;
    }
}

#endif
