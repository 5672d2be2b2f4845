/*
 * The output of a hub. Publishers append whole operations to one buffer. The writer fiber exchanges
 * this buffer with an empty one and sends it with one call, so that the messages of many fibers
 * leave together.
 */
#include "hub/client/hub.h"

#include <weft/io.h>

/* A buffer that has grown larger is freed after use. */
#define BUFFER_KEPT_BYTES (256 * 1024)

static size_t out_bytes(const weft__out *out)
{
    return out->next.bytes + out->current.bytes;
}

static bool out_is_full(const weft_hub *hub)
{
    return out_bytes(&hub->out) > hub->options.out_bytes;
}

void weft__writer_wake(weft_hub *hub)
{
    if (hub->out.is_writer_asleep && hub->out.may_send) {
        hub->out.is_writer_asleep = false;
        weft_event_set(&hub->out.is_filled);
    }
}

static void buffer_clear(weft__buffer *b)
{
    b->bytes = 0;
    if (b->capacity > BUFFER_KEPT_BYTES)
        weft__buffer_free(b);
}

static void out_exchange(weft__out *out)
{
    weft__buffer sent = out->current;
    out->current = out->next;
    out->next = sent;
    out->current_messages = out->next_messages;
    out->next_messages = 0;
}

void weft__writer_discard(weft_hub *hub)
{
    weft__out *out = &hub->out;
    hub->counters.lost += out->current_messages + out->next_messages;
    out->current_messages = out->next_messages = 0;
    buffer_clear(&out->next);
    /* If the writer is in a call, current is in use. The writer clears current itself. */
    if (out->is_writer_asleep)
        buffer_clear(&out->current);
    weft_cond_broadcast(&out->has_room);
}

/* Wait for output and a connection. Returns 0 or a cancellation. */
static int writer_wait(weft_hub *hub)
{
    weft__out *out = &hub->out;
    while (out->next.bytes == 0 || !out->may_send) {
        if (hub->info.is_lame)
            out->may_send = false;
        out->is_writer_asleep = true;
        int rc = weft_event_wait(&out->is_filled);
        if (rc < 0)
            return rc;
    }
    out->is_writer_asleep = false;
    return 0;
}

/*
 * Send the output once. Other runnable fibers run first, because they may publish too. When the hub
 * moves to another server, the output up to here was the last for the old one.
 */
static int writer_send(weft_hub *hub)
{
    weft__out *out = &hub->out;
    int rc = weft_snooze();
    if (rc < 0)
        return rc;
    if (!out->may_send || out->next.bytes == 0)
        return 0;
    uint64_t connection = hub->session.serial;
    out_exchange(out);
    out->may_send = !hub->info.is_lame;
    rc = weft__session_write(hub, out->current.data, out->current.bytes);
    if (rc < 0 && connection == hub->session.serial)
        weft__root_break(hub, rc);
    out->current_messages = 0;
    buffer_clear(&out->current);
    if (!out_is_full(hub))
        weft_cond_broadcast(&out->has_room);
    if (hub->info.is_lame && weft__root_is_moved(hub))
        weft__root_break(hub, -ESHUTDOWN);
    return 0;
}

weft_value weft__writer_run(void *arg)
{
    weft_hub *hub = arg;
    int rc = 0;
    while (rc == 0 && (rc = writer_wait(hub)) == 0)
        rc = writer_send(hub);
    return rc;
}

COLD static int writer_wait_room_slow(weft_hub *hub)
{
    int rc = 0;
    weft__hub_hold(hub);
    while (rc == 0 && !hub->is_closed && out_is_full(hub))
        rc = weft_cond_wait(&hub->out.has_room, NULL);
    if (rc == 0 && hub->is_closed)
        rc = -EBADF;
    weft__hub_release(hub);
    return rc;
}

int weft__writer_wait_room(weft_hub *hub)
{
    return LIKELY(!out_is_full(hub)) ? 0 : writer_wait_room_slow(hub);
}

int weft__writer_append(weft_hub *hub, const char *text)
{
    int rc = weft__output_text(&hub->out.next, text);
    if (rc == 0)
        weft__writer_wake(hub);
    return rc;
}

int weft__hub_publish_now(weft_hub *hub, const weft__publication *p)
{
    if (UNLIKELY(hub->is_closed))
        return -EBADF;
    if (UNLIKELY(p->headers.bytes + p->payload.bytes > hub->info.payload_bytes_max))
        return weft_fail(-EMSGSIZE, "the message has %zu bytes, and the server permits %zu",
                         p->headers.bytes + p->payload.bytes, hub->info.payload_bytes_max);
    int rc = weft__output_pub(&hub->out.next, p);
    if (UNLIKELY(rc < 0))
        return rc;
    hub->out.next_messages++;
    hub->counters.sent++;
    weft__writer_wake(hub);
    return 0;
}

int weft__hub_publish(weft_hub *hub, const weft__publication *p)
{
    int rc = weft__writer_wait_room(hub);
    return rc < 0 ? rc : weft__hub_publish_now(hub, p);
}
