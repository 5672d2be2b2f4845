/* The operations of clients: CONNECT, PUB, SUB, UNSUB, PING and PONG. */
#include "hub/broker/conn.h"
#include "hub/broker/faults.h"
#include "hub/broker/jetstream/jetstream.h"
#include "hub/text/subject.h"

#include <errno.h>
#include <stdlib.h>

/* Send an error that does not end the connection. */
static int verb_reject(weft__broker_conn *conn, const char *error)
{
    weft__broker_conn_send(conn, error);
    return 0;
}

static int verb_accept(weft__broker_conn *conn)
{
    if (conn->is_verbose)
        weft__broker_conn_send(conn, "+OK\r\n");
    return 0;
}

static void read_flag(const weft__json_doc *doc, const char *name, bool *flag)
{
    const weft__json_node *node = weft__json_find(doc, name);
    if (node != NULL)
        *flag = node->kind == WEFT__JSON_TRUE;
}

/* Store the name of a client. Faults select connections by this name. */
static int read_name(weft__broker_conn *conn, const weft__json_doc *doc)
{
    const weft__json_node *node = weft__json_find(doc, "name");
    if (node == NULL || node->kind != WEFT__JSON_STRING)
        return 0;
    size_t room = node->text.bytes + 1;
    char *name = malloc(room);
    if (name == NULL || weft__json_copy_text(node, name, room) < 0) {
        free(name);
        return -EPROTO;
    }
    free(conn->name);
    conn->name = name;
    conn->is_isolated = weft__fault_is_isolated(conn->broker, name);
    return 0;
}

static int perform_connect(weft__broker_conn *conn, weft__slice args)
{
    weft__json_doc doc = {0};
    int rc = weft__json_parse(&doc, args.data, args.bytes);
    if (rc == 0) {
        read_flag(&doc, "verbose", &conn->is_verbose);
        read_flag(&doc, "echo", &conn->is_echoing);
        read_flag(&doc, "headers", &conn->has_headers);
        read_flag(&doc, "no_responders", &conn->has_no_responders);
        rc = read_name(conn, &doc);
    }
    weft__json_free(&doc);
    return rc < 0 || (conn->has_no_responders && !conn->has_headers) ? -EPROTO : verb_accept(conn);
}

/* Tell the client that no subscriber can reply. */
static void send_no_responders(weft__broker_conn *conn, weft__slice reply)
{
    const weft__publication p = {.subject = reply,
                                 .headers = weft__slice_of("NATS/1.0 503\r\n\r\n")};
    weft__subjects_route_within(conn, reply, &p);
}

static int perform_pub(weft__broker_conn *conn, const weft__op_line *op)
{
    if (!weft__subject_is_valid(op->subject, false))
        return verb_reject(conn, "-ERR 'Invalid Publish Subject'\r\n");
    if (op->reply.bytes > 0 && !weft__subject_is_valid(op->reply, false))
        return verb_reject(conn, "-ERR 'Invalid Reply Subject'\r\n");
    verb_accept(conn);
    const weft__publication p = {op->subject, op->reply, op->headers, op->payload};
    size_t receivers =
        weft__subjects_route(conn->broker, p.subject, &p, conn->is_echoing ? NULL : conn);
    receivers += weft__jetstream_publish(conn->broker, &p);
    if (receivers == 0 && p.reply.bytes > 0 && conn->has_no_responders)
        send_no_responders(conn, p.reply);
    return 0;
}

static int perform_sub(weft__broker_conn *conn, const weft__op_line *op)
{
    if (!weft__subject_is_valid(op->subject, true))
        return verb_reject(conn, "-ERR 'Invalid Subject'\r\n");
    if (weft__subjects_add(conn, op->subject, op->queue, op->sid) < 0)
        return -EPROTO;
    return verb_accept(conn);
}

int weft__broker_conn_perform(weft__broker_conn *conn, const weft__op_line *op)
{
    switch (op->verb) {
    case WEFT__VERB_CONNECT:
        return perform_connect(conn, op->args);
    case WEFT__VERB_PUB:
        return perform_pub(conn, op);
    case WEFT__VERB_SUB:
        return perform_sub(conn, op);
    case WEFT__VERB_UNSUB:
        weft__subjects_end(conn, op->sid, op->messages_max);
        return verb_accept(conn);
    case WEFT__VERB_PING:
        weft__broker_conn_send(conn, "PONG\r\n");
        return 0;
    case WEFT__VERB_PONG:
        return 0;
    default: /* operations of servers */
        return -EPROTO;
    }
}
