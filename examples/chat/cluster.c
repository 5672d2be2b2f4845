#include "cluster.h"

#include "cluster_hub.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LOG "chat"             /* each room is a key of this log */
#define EPOCH_KEY "chat.epoch" /* a key-value pair of the hub */
#define CALL_S 5.0             /* then a call fails */
#define APPEND_S 5.0

static struct {
    weft_hub *hub; /* NULL: not open */
    char process[NAME_BYTES];
    char id[17]; /* of this process, unique */
    char epoch[EPOCH_BYTES];
} cluster;

static int random_text(char out[17])
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return weft_fail(-EIO, "no random numbers");
    snprintf(out, 17, "%016" PRIx64, random);
    return 0;
}

/* The first process of the cluster chooses the epoch. */
static int agree_on_epoch(void)
{
    char proposal[17];
    uint64_t revision = 0; /* the key must not exist */
    weft_hub_msg *chosen;
    int rc = random_text(proposal);
    if (rc == 0)
        rc = weft_hub_set(cluster.hub, EPOCH_KEY, proposal, strlen(proposal), &revision);
    if (rc == 0)
        memcpy(cluster.epoch, proposal, sizeof proposal);
    if (rc != -ESTALE || (rc = weft_hub_get(cluster.hub, EPOCH_KEY, &chosen, NULL)) < 0)
        return rc;
    snprintf(cluster.epoch, sizeof cluster.epoch, "%s", (const char *)chosen->data);
    weft_hub_free(chosen);
    return 0;
}

int cluster_open(const char *where, const char *process)
{
    const weft_hub_options options = {.name = process, .lease_s = LEASE_S};
    const weft_hub_log_options log = {.entries_max = LOG_ENTRIES_MAX};
    snprintf(cluster.process, sizeof cluster.process, "%s", process);
    int rc = random_text(cluster.id);
    if (rc == 0 && (cluster.hub = weft_hub_open(where, &options)) == NULL)
        rc = weft_error()->code;
    if (rc == 0)
        rc = weft_hub_log(cluster.hub, LOG, &log);
    return rc == 0 ? agree_on_epoch() : rc;
}

void cluster_close(void)
{
    (void)weft_hub_close(cluster.hub);
    cluster.hub = NULL;
}

bool cluster_is_open(void)
{
    return cluster.hub != NULL;
}

const char *cluster_process(void)
{
    return cluster.process;
}

const char *cluster_epoch(void)
{
    return cluster.epoch;
}

weft_hub *cluster_hub(void)
{
    return cluster.hub;
}

void cluster_owner_name(const char *room_name, char out[ADDRESS_BYTES])
{
    snprintf(out, ADDRESS_BYTES, "chat.room.%s", room_name);
}

void cluster_address(const char *room_name, char out[ADDRESS_BYTES])
{
    snprintf(out, ADDRESS_BYTES, "chat.at.%s.%s", cluster.id, room_name);
}

/* Write a message as text. The caller frees w->text. */
static int write_text(json_writer *w, const peer_message *m)
{
    peer_message_write(w, m);
    return w->has_failed ? -ENOMEM : 0;
}

int cluster_append(const char *key, const peer_message *m, uint64_t *number)
{
    json_writer w = {0};
    int rc = write_text(&w, m), timed_out = 0;
    WEFT_SHIELD(INFINITY) {
        WEFT_CANCEL_AFTER(APPEND_S, timed_out) {
            if (rc == 0)
                rc = weft_hub_append(cluster.hub, LOG, key, w.text, w.bytes, number);
        }
    }
    free(w.text);
    return timed_out < 0 ? -ETIMEDOUT : rc;
}

int cluster_read(const char *key, uint64_t *number, peer_message *out)
{
    weft_hub_msg *entry;
    int rc;
    do {
        rc = weft_hub_next(cluster.hub, LOG, key, *number, &entry);
        if (rc < 0)
            return rc == -ENOENT ? 0 : rc;
        *number = entry->number;
        rc = peer_message_read(out, entry->data, entry->bytes);
        weft_hub_free(entry);
    } while (rc == -EBADMSG); /* not an entry of this version of the chat */
    return rc == 0 ? 1 : rc;
}

int cluster_tell(const char *to, const peer_message *m)
{
    json_writer w = {0};
    int rc = write_text(&w, m);
    if (rc == 0)
        rc = weft_hub_tell(cluster.hub, to, w.text, w.bytes);
    free(w.text);
    return rc;
}

int cluster_call(const char *to, const peer_message *m, peer_message *reply)
{
    json_writer w = {0};
    weft_hub_msg *got = NULL;
    int rc = write_text(&w, m), timed_out = 0;
    WEFT_CANCEL_AFTER(CALL_S, timed_out) {
        if (rc == 0)
            rc = weft_hub_call(cluster.hub, to, w.text, w.bytes, &got);
    }
    free(w.text);
    if (rc == 0)
        rc = peer_message_read(reply, got->data, got->bytes);
    weft_hub_free(got);
    return timed_out < 0 ? -ETIMEDOUT : rc;
}

int cluster_reply(weft_hub_msg *call, const peer_message *m)
{
    json_writer w = {0};
    int rc = write_text(&w, m);
    if (rc == 0)
        rc = weft_hub_reply(call, w.text, w.bytes);
    free(w.text);
    return rc;
}
