/*
 * Another runtime on weft's backends: a plain C loop with callbacks instead of fibers. A server
 * echoes what a client sends. Then a worker thread computes a sum, and a wait times out.
 */
#include <weft/selector.h>

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

/* A task of the host: one operation, and the function that continues with its result. */
typedef struct task {
    weft_selector_op op; /* the first field: the loop casts it back */
    void (*then)(struct task *t, weft_value result);
    int fd;
    char data[64];
} task;

static weft_selector *selector;
static task server, client, sum, quiet;

/* Continue now if the operation has a result, else when the loop gets it. */
static void go_on(task *t, void (*then)(task *, weft_value), weft_value result)
{
    t->then = then;
    if (result != WEFT_SELECTOR_PENDING)
        then(t, result);
}

/* A call in a worker thread, and a time limit. */

static weft_value add_up(void *arg)
{
    weft_value total = 0;
    for (weft_value i = 1; i <= (weft_value)arg; i++)
        total += i;
    return total;
}

static void quiet_over(task *t, weft_value events)
{
    puts(events == -ETIMEDOUT ? "no input for 10 ms" : "unexpected input");
    close(t->fd);
}

static void sum_known(task *t, weft_value total)
{
    (void)t;
    printf("1 + ... + 100000 = %jd\n", (intmax_t)total);
    int fd[2];
    if (pipe(fd) < 0)
        return;
    quiet.fd = fd[0];
    go_on(&quiet, quiet_over, weft_selector_wait_fd(selector, &quiet.op, fd[0], POLLIN));
    (void)weft_selector_limit(selector, &quiet.op, 0.01);
}

/* The server. */

static void server_receive(task *t, weft_value sent);

static void server_send(task *t, weft_value received)
{
    if (received > 0) {
        weft_value n = weft_selector_send(selector, &t->op, t->fd, t->data, (size_t)received, 0);
        go_on(t, server_receive, n);
        return;
    }
    puts("server: the client has left");
    close(t->fd);
    go_on(&sum, sum_known, weft_selector_offload(selector, &sum.op, add_up, (void *)100000, NULL));
}

static void server_receive(task *t, weft_value sent)
{
    (void)sent;
    weft_value n = weft_selector_recv(selector, &t->op, t->fd, t->data, sizeof t->data, 0);
    go_on(t, server_send, n);
}

static void server_accepted(task *t, weft_value connection)
{
    close(t->fd); /* the listener: one client is enough */
    t->fd = (int)connection;
    server_receive(t, 0);
}

/* The client. */

static void client_received(task *t, weft_value n)
{
    printf("client: %.*s\n", (int)n, t->data);
    close(t->fd);
}

static void client_sent(task *t, weft_value n)
{
    (void)n;
    weft_value got = weft_selector_recv(selector, &t->op, t->fd, t->data, sizeof t->data, 0);
    go_on(t, client_received, got);
}

static void client_connected(task *t, weft_value rc)
{
    (void)rc;
    go_on(t, client_sent, weft_selector_send(selector, &t->op, t->fd, "hello, selector", 15, 0));
}

/* The loop of the host. */
static void run(void)
{
    while (weft_selector_pending(selector) > 0 && weft_selector_poll(selector, INFINITY) >= 0)
        for (weft_selector_op *op; (op = weft_selector_next(selector)) != NULL;) {
            task *t = (task *)op;
            t->then(t, op->result);
        }
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    server.fd = socket(AF_INET, SOCK_STREAM, 0);
    client.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server.fd, (struct sockaddr *)&address, bytes) < 0 || listen(server.fd, 1) < 0 ||
        getsockname(server.fd, (struct sockaddr *)&address, &bytes) < 0 ||
        weft_selector_open(&selector, NULL) < 0)
        return 1;
    go_on(&server, server_accepted,
          weft_selector_accept(selector, &server.op, server.fd, NULL, NULL));
    go_on(
        &client, client_connected,
        weft_selector_connect(selector, &client.op, client.fd, (struct sockaddr *)&address, bytes));
    run();
    weft_selector_close(selector);
}
