/* Connections of clients to a broker: the reader, the writer and the end. See conn.h. */
#include "hub/broker/conn.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <errno.h>
#include <stdlib.h>

/* As in nats-server: max_pending, ping_interval, ping_max. */
#define OUTPUT_BYTES_MAX (64u << 20)
#define PING_INTERVAL_NS INT64_C(120000000000)
#define PINGS_MAX 2

#define INPUT_BYTES (64u << 10)            /* of one read */
#define OUTPUT_IDLE_BYTES_MAX (256u << 10) /* memory that an idle connection may keep */
#define END_OUTPUT_S 1.0                   /* for the last output to a client that does not read */

weft__broker_conn *weft__broker_conn_new(weft_hub_broker *b, int fd)
{
    weft__broker_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return NULL;
    conn->broker = b;
    conn->fd = fd;
    conn->is_verbose = conn->is_echoing = true; /* until CONNECT */
    weft__list_init(&conn->node);
    weft__list_init(&conn->subs);
    return conn;
}

static void conn_free(weft__broker_conn *conn)
{
    weft_hub_broker *b = conn->broker;
    weft__buffer_free(&conn->output);
    free(conn->name);
    free(conn);
    weft_hub_broker_release(b);
}

void weft__broker_conn_drop(void *arg)
{
    weft__broker_conn *conn = arg;
    weft_close(conn->fd);
    conn_free(conn);
}

void weft__broker_conn_cut(weft__broker_conn *conn)
{
    if (conn->is_closed)
        return;
    conn->is_closed = true;
    weft_shutdown(conn->fd, SHUT_RDWR);
    weft_cond_broadcast(&conn->changed);
    weft_cond_broadcast(&conn->broker->gate);
}

/* Call this after each addition to the output, with the result. */
static void conn_added(weft__broker_conn *conn, int rc)
{
    if (rc < 0 || conn->output.bytes + conn->sending_bytes > OUTPUT_BYTES_MAX)
        weft__broker_conn_cut(conn); /* a slow consumer */
    else
        weft_cond_signal(&conn->changed);
}

void weft__broker_conn_deliver(weft__broker_conn *conn, const weft__publication *p, uint64_t sid)
{
    if (conn->is_closed)
        return;
    weft__publication copy = *p;
    if (!conn->has_headers)
        copy.headers = (weft__slice){0};
    conn_added(conn, weft__output_msg(&conn->output, &copy, sid));
}

void weft__broker_conn_send(weft__broker_conn *conn, const char *text)
{
    if (!conn->is_closed)
        conn_added(conn, weft__output_text(&conn->output, text));
}

int64_t weft__broker_conn_ping(weft__broker_conn *conn, int64_t now_ns)
{
    if (conn->is_closed)
        return WEFT__BROKER_NEVER;
    if (now_ns < conn->ping_ns)
        return conn->ping_ns;
    conn->ping_ns = now_ns + PING_INTERVAL_NS;
    if (conn->pings++ < PINGS_MAX)
        weft__broker_conn_send(conn, "PING\r\n");
    else
        weft__broker_conn_cut(conn);
    return conn->ping_ns;
}

/* Wait for output. Returns 0, or an error if the writer must end. */
static int writer_wait(weft__broker_conn *conn)
{
    for (;;) {
        int rc = weft__broker_conn_pass_gate(conn);
        if (rc == 0 && conn->output.bytes > 0)
            return 0;
        if (rc == 0)
            rc = conn->is_ending ? -ESHUTDOWN : weft_cond_wait(&conn->changed, NULL);
        if (rc < 0)
            return rc;
    }
}

/* Send the output, and use its memory again for the output after the next. */
static int writer_send(weft__broker_conn *conn, weft__buffer *spare)
{
    weft__buffer sending = conn->output;
    conn->output = *spare;
    conn->sending_bytes = sending.bytes;
    ssize_t n = weft_write_all(conn->fd, sending.data, sending.bytes);
    conn->sending_bytes = 0;
    sending.bytes = 0;
    if (sending.capacity > OUTPUT_IDLE_BYTES_MAX)
        weft__buffer_free(&sending);
    *spare = sending;
    return n < 0 ? (int)n : 0;
}

static weft_value conn_write(void *arg)
{
    weft__broker_conn *conn = arg;
    weft__buffer spare = {0};
    int rc;
    while ((rc = writer_wait(conn)) == 0 && (rc = writer_send(conn, &spare)) == 0)
        continue;
    if (rc != -ESHUTDOWN)
        weft__broker_conn_cut(conn);
    weft__buffer_free(&spare);
    return 0;
}

/*
 * Perform the operations of the input. Returns the number of bytes of the operations. *need is the
 * number of bytes after these that the next operation needs.
 */
static ssize_t input_perform(weft__broker_conn *conn, const char *data, size_t bytes, size_t *need)
{
    size_t done = 0;
    while (done < bytes && !conn->is_closed && !weft__broker_conn_is_held(conn)) {
        weft__op_line op;
        ssize_t n =
            weft__wire_parse(data + done, bytes - done, WEFT__BROKER_PAYLOAD_BYTES_MAX, &op, need);
        if (n == 0)
            return (ssize_t)done;
        int rc = n < 0 ? (int)n : weft__broker_conn_perform(conn, &op);
        if (rc < 0)
            return rc;
        done += (size_t)n;
    }
    *need = 1;
    return (ssize_t)done;
}

static int input_read(weft__broker_conn *conn)
{
    for (size_t need = 1;;) {
        const void *data;
        ssize_t n = weft_stream_peek(&conn->input, need, &data);
        if (n < 0 || (size_t)n < need)
            return n < 0 ? (int)n : 0;
        int rc = weft__broker_conn_pass_gate(conn);
        if (rc < 0)
            return rc;
        conn->pings = 0;
        n = input_perform(conn, data, (size_t)n, &need);
        if (n < 0)
            return (int)n;
        weft_stream_skip(&conn->input, (size_t)n);
    }
}

/* Tell the client why its connection ends. */
static void conn_refuse(weft__broker_conn *conn, int rc)
{
    if (rc == -EMSGSIZE)
        weft__broker_conn_send(conn, "-ERR 'Maximum Payload Violation'\r\n");
    else if (rc == -EPROTO)
        weft__broker_conn_send(conn, "-ERR 'Unknown Protocol Operation'\r\n");
}

static void conn_send_info(weft__broker_conn *conn)
{
    weft_hub_broker *b = conn->broker;
    conn_added(conn, weft__output_printf(
                         &conn->output,
                         "INFO {\"server_id\":\"%s\",\"server_name\":\"weft\","
                         "\"version\":\"2.9.10\",\"proto\":1,\"headers\":true,"
                         "\"max_payload\":%d,\"jetstream\":true,\"client_id\":%llu}\r\n",
                         b->id, WEFT__BROKER_PAYLOAD_BYTES_MAX, (unsigned long long)conn->id));
}

static void conn_enter(weft__broker_conn *conn)
{
    weft_hub_broker *b = conn->broker;
    conn->id = ++b->conns_opened;
    conn->ping_ns = weft__broker_now_ns(b) + PING_INTERVAL_NS;
    weft__list_insert(&b->conns, &conn->node);
    weft__broker_wake_at(b, conn->ping_ns);
    weft_stream_open(&conn->input, conn->fd);
    weft_stream_configure(&conn->input, &(weft_stream_options){.read_bytes = INPUT_BYTES});
    conn_send_info(conn);
}

/* Let the writer send the last output, and end the writer. */
static void writer_end(weft__broker_conn *conn, weft_fiber writer)
{
    conn->is_ending = true;
    weft_cond_broadcast(&conn->changed);
    WEFT_MOVE_ON_AFTER(END_OUTPUT_S) {
        weft_await(writer);
    }
    weft_terminate(writer, END_OUTPUT_S);
}

weft_value weft__broker_conn_run(void *arg)
{
    weft__broker_conn *conn = arg;
    conn_enter(conn);
    weft_fiber writer = weft_spin_with(
        conn_write, conn, &(weft_spin_options){.name = "broker writer", .is_daemon = true});
    if (writer != 0) {
        conn_refuse(conn, input_read(conn));
        weft__subjects_end_all(conn);
        writer_end(conn, writer);
    }
    conn->is_closed = true;
    weft__list_remove(&conn->node);
    weft_stream_close(&conn->input);
    conn_free(conn);
    weft_error_clear();
    return 0;
}
