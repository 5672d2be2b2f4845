/* weft hub status: print the server, and the queues, logs and names that weft has on it. */
#include "command/command.h"
#include "command/hub/hub.h"

#include "hub/client/client.h"
#include "hub/text/json_read.h"

#include <weft/time.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_REQUEST_S 5.0
#define STREAM_NAME_BYTES 96
#define QUEUE_PREFIX "WEFT_Q_"
#define LOG_PREFIX "WEFT_LOG_"

/* Send a request to JetStream, and read the reply. Free doc and reply in any case. */
static int api_request(weft_hub *hub, const char *subject, const char *body, weft__reply *reply,
                       weft__json_doc *doc)
{
    weft__publication p = {.subject = weft__slice_of(subject), .payload = weft__slice_of(body)};
    int rc = weft__hub_request(hub, &p, API_REQUEST_S, reply);
    if (rc == 0)
        rc = weft__json_parse(doc, reply->payload.data, reply->payload.bytes);
    if (rc == 0 && weft__json_find(doc, "error") != NULL)
        rc = -EREMOTEIO;
    return rc;
}

static void print_queue(weft_hub *hub, const char *name, const weft__json_doc *stream)
{
    char subject[2 * STREAM_NAME_BYTES];
    weft__reply reply = {0};
    weft__json_doc consumer = {0};
    printf("queue  %-24s %8" PRId64 " items", name + strlen(QUEUE_PREFIX),
           weft__json_integer(stream, "state.messages", 0));
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.INFO.%s.work", name);
    if (api_request(hub, subject, "", &reply, &consumer) == 0)
        printf(", %" PRId64 " in flight, %" PRId64 " redelivered",
               weft__json_integer(&consumer, "num_ack_pending", 0),
               weft__json_integer(&consumer, "num_redelivered", 0));
    printf(", replicas %" PRId64 "\n", weft__json_integer(stream, "config.num_replicas", 1));
    weft__json_free(&consumer);
    weft__reply_free(&reply);
}

static void print_other(const char *name, const weft__json_doc *stream)
{
    int64_t messages = weft__json_integer(stream, "state.messages", 0);
    if (strncmp(name, LOG_PREFIX, strlen(LOG_PREFIX)) == 0)
        printf("log    %-24s %8" PRId64 " entries\n", name + strlen(LOG_PREFIX), messages);
    else if (strcmp(name, "KV_weft") == 0)
        printf("keys   %-24s %8" PRId64 "\n", "", messages);
    else if (strcmp(name, "KV_weft_names") == 0)
        printf("names  %-24s %8" PRId64 "\n", "", messages);
}

static void print_stream(weft_hub *hub, const char *name)
{
    char subject[2 * STREAM_NAME_BYTES];
    weft__reply reply = {0};
    weft__json_doc doc = {0};
    snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", name);
    int rc = api_request(hub, subject, "", &reply, &doc);
    if (rc < 0)
        printf("       %-24s unknown: %s\n", name, strerror(-rc));
    else if (strncmp(name, QUEUE_PREFIX, strlen(QUEUE_PREFIX)) == 0)
        print_queue(hub, name, &doc);
    else
        print_other(name, &doc);
    weft__json_free(&doc);
    weft__reply_free(&reply);
}

/* Print the streams of one page of names. Return the number of names, or an error. */
static int print_page(weft_hub *hub, int64_t offset, int64_t *total)
{
    char body[64];
    weft__reply reply = {0};
    weft__json_doc doc = {0};
    int count = 0;
    snprintf(body, sizeof body, "{\"offset\":%" PRId64 "}", offset);
    int rc = api_request(hub, "$JS.API.STREAM.NAMES", body, &reply, &doc);
    *total = rc == 0 ? weft__json_integer(&doc, "total", 0) : 0;
    const weft__json_node *names = rc == 0 ? weft__json_find(&doc, "streams") : NULL;
    if (names != NULL && names->kind == WEFT__JSON_ARRAY) {
        const weft__json_node *n = weft__json_first(&doc, names);
        for (; n != NULL; n = weft__json_next(&doc, names, n)) {
            char name[STREAM_NAME_BYTES];
            snprintf(name, sizeof name, "%.*s", (int)n->text.bytes, n->text.data);
            print_stream(hub, name);
            count++;
        }
    }
    weft__json_free(&doc);
    weft__reply_free(&reply);
    return rc < 0 ? rc : count;
}

static int print_streams(weft_hub *hub)
{
    int64_t offset = 0, total;
    int count;
    do {
        count = print_page(hub, offset, &total);
        offset += count;
    } while (count > 0 && offset < total);
    return count < 0 ? count : 0;
}

int weft__hub_command_status(hub_run *run)
{
    double before_s = weft_now();
    int rc = weft__hub_flush(run->hub);
    if (rc < 0)
        return weft__hub_command_fail(run, rc);
    double round_trip_ms = (weft_now() - before_s) * 1e3;
    const weft__hub_server *server = weft__hub_server_of(run->hub);
    printf("server %s, version %s, %s%s, round trip %.2f ms\n", server->name, server->version,
           server->cluster[0] != '\0' ? "cluster " : "single", server->cluster, round_trip_ms);
    rc = print_streams(run->hub);
    if (rc == -EHOSTUNREACH) {
        printf("JetStream is off: no queues, logs, keys and owned names\n");
        return EXIT_SUCCESS;
    }
    return rc < 0 ? weft__hub_command_fail(run, rc) : EXIT_SUCCESS;
}
