/* Options, the memory of a connection, and its state. */
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/fiber.h>

#include <math.h>
#include <string.h>
#include <strings.h>

#define FRAME_BYTES_MAX ((size_t)1 << 20)
#define MESSAGE_BYTES_MAX ((size_t)1 << 20)
#define PING_S 30.0
#define PONG_S 20.0
#define CLOSE_S 5.0
#define SEND_S 20.0
#define DEFLATE_LEVEL 6
#define DEFLATE_BYTES_MIN 64
/* The small input buffer, without the byte that the stream adds. */
#define SMALL_BUFFER_BYTES ((size_t)1023)

static int check_time(const char *name, double s)
{
    if (s >= 0)
        return 0;
    return weft_fail(-EINVAL, "weft_ws: %s is %g", name, s);
}

static int check_field(const weft_fetch_field *field)
{
    static const char prefix[] = WEFT__WS_FIELD_PREFIX;
    if (field->name == NULL || field->value == NULL)
        return weft_fail(-EINVAL, "weft_ws: the name or the value of a field is NULL");
    if (strncasecmp(field->name, prefix, sizeof prefix - 1) == 0)
        return weft_fail(-EPERM, "weft_ws: the handshake itself sets the field %s", field->name);
    return 0;
}

static int check_fields(const weft_ws_options *o)
{
    int rc = 0;
    if (o->fields == NULL && o->fields_count > 0)
        return weft_fail(-EINVAL, "weft_ws: fields is NULL");
    for (size_t i = 0; i < o->fields_count && rc == 0; i++)
        rc = check_field(&o->fields[i]);
    return rc;
}

int weft__ws_options_check(const weft_ws_options *o)
{
    int rc = check_time("ping_s", o->ping_s);
    rc = rc < 0 ? rc : check_time("pong_s", o->pong_s);
    rc = rc < 0 ? rc : check_time("close_s", o->close_s);
    rc = rc < 0 ? rc : check_time("send_s", o->send_s);
    if (rc < 0)
        return rc;
    if (o->deflate_level < 0 || o->deflate_level > 9)
        return weft_fail(-EINVAL, "weft_ws: deflate_level is %d", o->deflate_level);
    if (o->deflate_window_bits != 0 && (o->deflate_window_bits < 9 || o->deflate_window_bits > 15))
        return weft_fail(-EINVAL, "weft_ws: deflate_window_bits is %d", o->deflate_window_bits);
    if (o->protocols != NULL &&
        (!weft__ws_protocols_are_valid(o->protocols) || !weft__ws_protocols_differ(o->protocols)))
        return weft_fail(-EINVAL, "weft_ws: protocols is not a list of different tokens: %s",
                         o->protocols);
    return check_fields(o);
}

static double time_or(double s, double by_default)
{
    return s != 0 ? s : by_default;
}

static size_t size_or(size_t bytes, size_t by_default)
{
    return bytes != 0 ? bytes : by_default;
}

/* The settings of the last connection that this thread has created; NULL: none. */
static __thread weft__ws_settings *thread_settings;

/* Return the settings for options, with their defaults. Returns NULL if memory is exhausted. */
static weft__ws_settings *settings_get(const weft_ws_options *o)
{
    weft__ws_settings wanted = {
        .frame_bytes_max = size_or(o->frame_bytes_max, FRAME_BYTES_MAX),
        .message_bytes_max = size_or(o->message_bytes_max, MESSAGE_BYTES_MAX),
        .deflate_bytes_min = size_or(o->deflate_bytes_min, DEFLATE_BYTES_MIN),
        .ping_s = time_or(o->ping_s, PING_S),
        .pong_s = time_or(o->pong_s, PONG_S),
        .close_s = time_or(o->close_s, CLOSE_S),
        .send_s = time_or(o->send_s, SEND_S),
    };
    weft__ws_settings *s = thread_settings;
    if (s == NULL || memcmp(s, &wanted, offsetof(weft__ws_settings, users)) != 0) {
        s = malloc(sizeof *s);
        if (s == NULL)
            return NULL;
        *s = wanted;
        thread_settings = s;
    }
    s->users++;
    return s;
}

static void settings_put(weft__ws_settings *s)
{
    if (s == NULL || --s->users > 0)
        return;
    if (thread_settings == s)
        thread_settings = NULL;
    free(s);
}

int weft__ws_live_open(weft_ws *ws)
{
    if (ws->live == NULL)
        ws->live = calloc(1, sizeof *ws->live);
    return ws->live != NULL ? 0 : -ENOMEM;
}

void weft__ws_live_close(weft_ws *ws)
{
    weft__ws_live *l = ws->live;
    if (l == NULL)
        return;
    if (l->input != NULL) {
        weft__buffer_free(&l->input->message);
        weft__buffer_free(&l->input->delivered);
    }
    weft__buffer_free(&l->out);
    free(l->input);
    free(l->masks);
    free(l->close_reason);
    free(l);
    ws->live = NULL;
}

static int deflate_open(weft_ws *ws, const weft_ws_options *o,
                        const weft__ws_deflate_params *params)
{
    if (params == NULL)
        return 0;
    ws->deflate = calloc(1, sizeof *ws->deflate);
    if (ws->deflate == NULL)
        return -ENOMEM;
    ws->deflate->params = *params;
    ws->deflate->level = (uint8_t)(o->deflate_level != 0 ? o->deflate_level : DEFLATE_LEVEL);
    return 0;
}

static int masks_open(weft_ws *ws)
{
    ws->live->masks = calloc(1, sizeof *ws->live->masks);
    return ws->live->masks != NULL ? 0 : -ENOMEM;
}

weft_ws *weft__ws_new(const weft_ws_options *o, const weft__ws_deflate_params *params,
                      weft__span protocol, bool is_client)
{
    weft_ws *ws = calloc(1, sizeof *ws + protocol.bytes + 1);
    if (ws == NULL)
        return NULL;
    if (protocol.at != NULL)
        memcpy(ws->protocol, protocol.at, protocol.bytes);
    ws->settings = settings_get(o);
    int rc = ws->settings != NULL ? weft__ws_live_open(ws) : -ENOMEM;
    if (rc == 0)
        rc = deflate_open(ws, o, params);
    if (rc == 0 && is_client)
        rc = masks_open(ws);
    if (rc == 0)
        return ws;
    weft__ws_delete(ws);
    return NULL;
}

void weft__ws_delete(weft_ws *ws)
{
    if (ws->deflate != NULL)
        weft__ws_deflate_close(ws->deflate);
    weft__ws_live_close(ws);
    settings_put(ws->settings);
    free(ws->deflate);
    free(ws);
}

int weft__ws_enter(weft_ws *ws)
{
    int rc = ws->is_served ? weft__ws_served_enter(ws) : 0;
    if (rc == 0)
        ws->users++;
    return rc;
}

void weft__ws_leave(weft_ws *ws)
{
    ws->users--;
    (void)weft_cond_broadcast(&ws->live->changed);
    if (ws->is_served)
        weft__ws_served_leave(ws);
}

void weft__ws_set_buffer(weft_ws *ws, bool is_large)
{
    static const weft_stream_options small = {.read_bytes = SMALL_BUFFER_BYTES};
    if (weft__ws_is_client(ws))
        return;
    ws->live->has_large_buffer = is_large;
    /* The call fails if the small buffer of a request still has input. */
    (void)weft_stream_configure(ws->live->stream, is_large ? NULL : &small);
}

void weft__ws_release_memory(weft_ws *ws)
{
    weft__ws_input_release(ws);
    if (ws->live->has_large_buffer && ws->live->receiver != 0)
        weft__ws_set_buffer(ws, false);
    if (ws->live->writer != 0 || ws->live->author != 0 || ws->live->out.bytes > 0)
        return;
    weft__buffer_free(&ws->live->out);
    if (ws->deflate != NULL)
        weft__ws_deflate_release(ws->deflate);
}

void weft__ws_wake_receiver(weft_ws *ws)
{
    if (ws->live->recv_scope != NULL)
        (void)weft_scope_cancel(ws->live->recv_scope);
}

void weft__ws_end(weft_ws *ws, int error)
{
    if (ws->failure == 0)
        ws->failure = error;
    weft__ws_wake_receiver(ws);
    if (ws->live->send_scope != NULL)
        (void)weft_scope_cancel(ws->live->send_scope);
    (void)weft_cond_broadcast(&ws->live->turn);
    (void)weft_cond_broadcast(&ws->live->urgent);
    (void)weft_cond_broadcast(&ws->live->changed);
    if (ws->is_served)
        weft__ws_served_wake(ws);
}

int weft_ws_close_code(const weft_ws *ws)
{
    if (ws->is_close_received)
        return ws->close_code;
    return ws->failure != 0 ? WEFT_WS_ABNORMAL : 0;
}

const char *weft_ws_close_reason(const weft_ws *ws)
{
    return ws->live != NULL && ws->live->close_reason != NULL ? ws->live->close_reason : "";
}

const char *weft_ws_protocol(const weft_ws *ws)
{
    return ws->protocol;
}
