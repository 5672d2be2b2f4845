/* The details and the backtrace of one fiber. */
#include "inspect/inspect.h"

#include <weft/error.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 64
#define TIMEOUT_S 1.0

/* Find the names of the frames, of the function and of the place where the fiber was created. */
static int find_names(weft_inspector *i, const weft_snapshot_fiber *f)
{
    const void *addresses[FRAMES_MAX + 2];
    size_t count = 0;
    for (size_t n = 0; n < f->frames_count && n < FRAMES_MAX; n++)
        addresses[count++] = weft__call_address(f->frames[n]);
    addresses[count++] = (const void *)f->info.fn;
    addresses[count++] = weft__call_address(f->info.spun_at);
    return weft__symbols_find(i, addresses, count);
}

/* Return the id in a text, or 0, which is not an id. */
static weft_fiber parse_fiber_id(const char *text)
{
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return 0;
    char *end;
    weft_fiber id = strtoull(text, &end, 10);
    return *end == '\0' ? id : 0;
}

int weft__fiber_snapshot(weft_inspector *i, const char *id_text, weft_snapshot **out)
{
    weft_fiber id = parse_fiber_id(id_text);
    if (id == 0) /* weft_snapshot_take would copy all fibers */
        return -ESRCH;
    int rc = weft_snapshot_take(
        &(weft_snapshot_options){
            .fiber = id, .frames_max = FRAMES_MAX, .has_addresses = true, .timeout_s = TIMEOUT_S},
        out);
    if (rc < 0)
        return rc;
    if ((*out)->fibers_count == 0)
        rc = (*out)->cords_count > 0 && !(*out)->cords[0].has_replied ? -ETIMEDOUT : -ESRCH;
    if (rc == 0)
        rc = find_names(i, &(*out)->fibers[0]);
    if (rc < 0) {
        weft_snapshot_free(*out);
        *out = NULL;
    }
    return rc;
}

static void write_symbol(weft__json *w, weft_inspector *i, const void *address)
{
    weft_symbol s = weft__symbol_get(i, address);
    char text[24];
    snprintf(text, sizeof text, "%#llx", (unsigned long long)(uintptr_t)address);
    weft__json_open(w, '{');
    weft__json_name_string(w, "address", text);
    weft__json_name_string(w, "function", s.function);
    weft__json_name_string(w, "file", s.file);
    weft__json_name_number(w, "line", s.line);
    weft__json_name_string(w, "module", s.module);
    snprintf(text, sizeof text, "%#llx", (unsigned long long)s.offset);
    weft__json_name_string(w, "offset", text);
    weft__json_close(w, '}');
}

/* Write the id of another fiber, and its name if the last sample has it. */
static void write_other_fiber(weft__json *w, weft_inspector *i, const char *member, weft_fiber id)
{
    char name[WEFT__NAME_BYTES] = "";
    if (id == 0)
        return;
    pthread_mutex_lock(&i->lock);
    if (i->latest != NULL) {
        uint32_t f = weft__index_find(&i->latest->index, id);
        if (f != WEFT__NONE)
            snprintf(name, sizeof name, "%s", i->latest->snapshot->fibers[f].info.name);
    }
    pthread_mutex_unlock(&i->lock);
    weft__json_name(w, member);
    weft__json_open(w, '{');
    weft__json_name_id(w, "id", id);
    weft__json_name_string(w, "name", name);
    weft__json_close(w, '}');
}

/* Write the number of children, if the last sample has the fiber. */
static void write_children(weft__json *w, weft_inspector *i, weft_fiber id)
{
    int64_t count = -1;
    pthread_mutex_lock(&i->lock);
    const weft__index *x = i->latest != NULL ? &i->latest->index : NULL;
    uint32_t f = x != NULL ? weft__index_find(x, id) : WEFT__NONE;
    if (f != WEFT__NONE) {
        count = 0;
        for (uint32_t g = x->nodes[f].groups; g != WEFT__NONE; g = x->groups[g].next)
            count += x->groups[g].count;
    }
    pthread_mutex_unlock(&i->lock);
    if (count >= 0)
        weft__json_name_number(w, "children", count);
}

static void write_wait(weft__json *w, weft_inspector *i, const weft_snapshot_fiber *f)
{
    const weft_info *info = &f->info;
    char object[24];
    weft__json_name_string(w, "wait", info->waits_for);
    weft__json_name_number(w, "waitingMs", (int64_t)(1e3 * info->waiting_s));
    write_other_fiber(w, i, "holder", info->waits_for_fiber);
    if (info->waits_on != NULL) {
        snprintf(object, sizeof object, "%#llx", (unsigned long long)(uintptr_t)info->waits_on);
        weft__json_name_string(w, "object", object);
    }
    if (isfinite(info->deadline_s))
        weft__json_name_number(w, "deadlineMs", (int64_t)(1e3 * info->deadline_s));
    if (info->fd >= 0)
        weft__json_name_number(w, "fd", info->fd);
    weft__json_name_string(w, "local", f->local);
    weft__json_name_string(w, "peer", f->peer);
}

static void write_fiber(weft__json *w, weft_inspector *i, const weft_snapshot *s)
{
    const weft_snapshot_fiber *f = &s->fibers[0];
    const weft_info *info = &f->info;
    weft__json_open(w, '{');
    weft__json_name_id(w, "id", info->id);
    weft__json_name_string(w, "name", info->name);
    weft__json_name_string(w, "state", weft__state_name(info->state));
    weft__json_name_string(w, "cord", s->cords[f->cord].name);
    weft__json_name_number(w, "thread", s->cords[f->cord].thread_id);
    write_other_fiber(w, i, "parent", info->parent);
    write_children(w, i, info->id);
    write_wait(w, i, f);
    weft__json_name_number(w, "switches", (int64_t)info->switches);
    weft__json_name_number(w, "cpuUs", (int64_t)(1e6 * info->cpu_s));
    weft__json_name_number(w, "cpu", (int64_t)(10000 * info->cpu_share + 0.5));
    weft__json_name_number(w, "used", (int64_t)info->stack_used);
    weft__json_name_number(w, "stack", (int64_t)info->stack_bytes);
    weft__json_name_bool(w, "isDaemon", info->is_daemon);
    weft__json_name_bool(w, "isParked", info->is_parked);
    weft__json_name_bool(w, "isMain", info->fn == NULL);
    if (info->fn != NULL) {
        weft__json_name(w, "fn");
        write_symbol(w, i, (const void *)info->fn);
    }
    if (info->spun_at != NULL) {
        weft__json_name(w, "spunAt");
        write_symbol(w, i, weft__call_address(info->spun_at));
    }
    weft__json_name(w, "frames");
    weft__json_open(w, '[');
    for (size_t n = 0; n < f->frames_count; n++)
        write_symbol(w, i, weft__call_address(f->frames[n]));
    weft__json_close(w, ']');
    weft__json_close(w, '}');
}

int weft__serve_fiber(weft_http_request *r, weft_inspector *i)
{
    weft_snapshot *s = NULL;
    weft__json w = {0};
    int rc = weft__fiber_snapshot(i, weft_http_query_param(r, "id"), &s);
    if (rc == -ESRCH)
        return weft_http_reply_text(r, 404, "The fiber has ended.\n");
    if (rc == -ETIMEDOUT)
        return weft_http_reply_text(r, 504, "The cord of the fiber is stalled.\n");
    if (rc < 0)
        return rc;
    write_fiber(&w, i, s);
    weft_snapshot_free(s);
    rc = w.text.has_failed ? -ENOMEM
                           : weft_http_reply(r, 200, "application/json", w.text.data, w.text.bytes);
    free(w.text.data);
    return rc;
}
