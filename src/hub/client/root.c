/*
 * The root fiber of a hub: it reads the connection, and connects again when the connection breaks.
 * All other fibers of the hub are in its group, and end with it.
 */
#include "hub/client/hub.h"

#include <weft/scope.h>
#include <weft/time.h>

#include <math.h>

static void root_say_broken(const weft_hub *hub, int code)
{
    char text[WEFT__SERVER_TEXT_BYTES];
    const weft_error_info *e = weft_error();
    weft__hub_say(hub, LOG_WARNING, "the connection to %s ended: %s",
                  weft__server_text(hub->session.server, text),
                  e != NULL && e->code == code ? e->message : strerror(-code));
    weft_error_clear();
}

void weft__root_break(weft_hub *hub, int code)
{
    if (!hub->session.is_reading || hub->session.break_code != 0)
        return;
    hub->session.break_code = code;
    weft_interrupt(hub->root, code); /* fails if the root fiber runs; it then sees break_code */
}

void weft__root_move(weft_hub *hub)
{
    weft__hub_say(hub, LOG_NOTICE, "the server ends soon; moving to another one");
    hub->is_connected = false;
    if (hub->out.is_writer_asleep)
        hub->out.may_send = false;
}

bool weft__root_is_moved(const weft_hub *hub)
{
    return hub->info.is_lame && !hub->out.may_send && hub->out.current.bytes == 0 &&
           hub->requests.pending.count == 0;
}

/* Put the subscriptions before the output that has waited for the connection. */
static int root_send_subscriptions(weft_hub *hub)
{
    weft__buffer out = {0};
    weft__slice waiting = {hub->out.next.data, hub->out.next.bytes};
    int rc = weft__subscriptions_send(hub, &out);
    if (rc == 0)
        rc = weft__buffer_reserve(&out, waiting.bytes);
    if (rc < 0) {
        weft__buffer_free(&out);
        return rc;
    }
    weft__slice_put(out.data + out.bytes, waiting);
    out.bytes += waiting.bytes;
    weft__buffer_free(&hub->out.next);
    hub->out.next = out;
    return 0;
}

/* Let publishers and requests use a new connection. Returns 0 or -ENOMEM. */
static int root_begin(weft_hub *hub)
{
    int rc = root_send_subscriptions(hub);
    if (rc < 0)
        return rc;
    hub->pings = hub->pongs = 0;
    hub->is_connected = true;
    hub->connections++;
    hub->out.may_send = true;
    weft__writer_wake(hub);
    weft_cond_broadcast(&hub->has_connected);
    for (weft__list *node = hub->watchers.next, *next; node != &hub->watchers; node = next) {
        weft__hub_watcher *w = CONTAINER_OF(node, weft__hub_watcher, node);
        next = node->next;
        if (w->on_connect != NULL)
            w->on_connect(w);
    }
    return 0;
}

/*
 * Note that the connection has ended, or with -ECANCELED the hub. Nothing switches before the
 * requests have ended too.
 */
static void root_end(weft_hub *hub, int code)
{
    weft__server *server = hub->session.server;
    double now = weft_now();
    hub->is_connected = hub->out.may_send = false;
    weft__requests_fail(hub, code == -ECANCELED ? -EBADF : -ECONNRESET);
    if (!hub->info.is_lame)
        weft__writer_discard(hub);
    weft_cond_broadcast(&hub->has_pong);
    if (code != -ECANCELED && !hub->info.is_lame)
        root_say_broken(hub, code);
    weft__server_lost(&hub->servers, server, now - hub->session.since, now);
    weft__session_close(hub);
}

static void root_attempt_failed(weft_hub *hub, weft__server *server, int code)
{
    char text[WEFT__SERVER_TEXT_BYTES];
    const weft_error_info *e = weft_error();
    if (server->delay_s == 0 || (code == -EACCES && server->rejections == 0))
        weft__hub_say(hub, LOG_WARNING, "cannot connect to %s: %s", weft__server_text(server, text),
                      e != NULL && e->code == code ? e->message : strerror(-code));
    weft_error_clear();
    weft__server_failed(&hub->servers, server, code, weft_now());
}

/* Connect to any server. Returns 0, or a cancellation. */
static int root_connect_again(weft_hub *hub)
{
    for (;;) {
        double wait_s;
        weft__server *server = weft__servers_next(&hub->servers, weft_now(), &wait_s);
        int rc = server == NULL ? weft_sleep(wait_s) : weft__session_open(hub, server);
        if (server != NULL && rc == 0 && (rc = root_begin(hub)) < 0)
            weft__session_close(hub);
        if (weft_is_cancelled())
            return -ECANCELED;
        if (server == NULL)
            continue;
        if (rc == 0)
            return 0;
        root_attempt_failed(hub, server, rc);
    }
}

static void root_say_connected(weft_hub *hub)
{
    char text[WEFT__SERVER_TEXT_BYTES];
    hub->counters.reconnects++;
    weft__hub_say(hub, LOG_NOTICE, "connected to %s", weft__server_text(hub->session.server, text));
}

/* Read connections until the root fiber is cancelled. */
static void root_loop(weft_hub *hub)
{
    for (;;) {
        hub->session.is_reading = true;
        int rc = weft__reader_run(hub);
        hub->session.is_reading = false;
        if (weft_is_cancelled())
            rc = -ECANCELED;
        root_end(hub, rc);
        if (rc == -ECANCELED || root_connect_again(hub) < 0)
            return;
        root_say_connected(hub);
    }
}

static int root_spin_fibers(weft_hub *hub)
{
    hub->monitor = weft__hub_spin(hub, weft__monitor_run, hub, "hub monitor");
    bool has_all = hub->monitor != 0 &&
                   weft__hub_spin(hub, weft__writer_run, hub, "hub writer") != 0 &&
                   weft__hub_spin(hub, weft__keep_alive_run, hub, "hub keep-alive") != 0;
    return has_all ? 0 : -ENOMEM;
}

/*
 * If the thread ends without weft_hub_close, the memory remains until the thread is gone: other
 * fibers may still free their messages and close the hub.
 */
static weft_value root_run(void *arg)
{
    weft_hub *hub = arg;
    int rc = weft_group_open(&hub->group);
    if (rc == 0 && (rc = root_spin_fibers(hub)) == 0 && (rc = root_begin(hub)) == 0) {
        weft_event_set(&hub->is_started);
        root_loop(hub);
    }
    hub->is_closed = true;
    weft__session_close(hub);
    weft__hub_wake_all(hub);
    weft_group_cancel(&hub->group);
    rc = weft_group_close(&hub->group);
    weft_event_set(&hub->is_started);
    return 0;
}

void weft__root_end(weft_hub *hub, double grace_s)
{
    weft_terminate(hub->root, grace_s);
    WEFT_SHIELD(INFINITY)
        (void)weft_await(hub->root); /* at once: weft does not store its value any more */
    hub->root = 0;
}

int weft__root_start(weft_hub *hub)
{
    hub->root = weft_spin_with(
        root_run, hub,
        &(weft_spin_options){.name = "hub", .parent = weft_main(), .is_daemon = true});
    if (hub->root == 0)
        return weft_error()->code;
    int rc = weft_event_wait(&hub->is_started);
    if (rc < 0 || hub->is_closed)
        weft__root_end(hub, 0);
    if (rc == 0 && hub->is_closed)
        rc = weft_fail(-ENOMEM, "weft_hub_open: no memory for the fibers of the hub");
    return rc;
}

/* The argument of a fiber of the hub, on its stack. */
typedef struct hub_fiber {
    weft_fn *fn;
    void *arg;
    void (*drop)(void *arg); /* NULL: nothing to do */
} hub_fiber;

/* An error of a fiber must not end the other fibers of the group. */
static weft_value hub_fiber_run(void *arg)
{
    hub_fiber *f = arg;
    f->fn(f->arg);
    weft_error_clear();
    return 0;
}

static void hub_fiber_drop(void *arg)
{
    hub_fiber *f = arg;
    if (f->drop != NULL)
        f->drop(f->arg);
}

weft_fiber weft__root_spin(weft_hub *hub, weft_fn *fn, void *arg, void (*drop)(void *),
                           const char *name)
{
    hub_fiber f = {fn, arg, drop};
    return weft_group_spin_with(
        &hub->group, hub_fiber_run, &f,
        &(weft_spin_options){
            .name = name, .is_daemon = true, .arg_bytes = sizeof f, .drop = hub_fiber_drop});
}

weft_fiber weft__hub_spin(weft_hub *hub, weft_fn *fn, void *arg, const char *name)
{
    return weft__root_spin(hub, fn, arg, NULL, name);
}
