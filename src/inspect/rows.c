/* The parts of an update as JSON. Shares of a core are in hundredths of a percent. */
#include "inspect/inspect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sums over the fibers of a row. */
typedef struct row_sums {
    double cpu_share, waiting_s;
    uint64_t switches, stack_used, stack_bytes;
    bool has_one_name; /* all names are equal */
} row_sums;

const char *weft__state_name(weft_state state)
{
    static const char *const names[] = {
        [WEFT_RUNNING] = "running",
        [WEFT_RUNNABLE] = "runnable",
        [WEFT_WAITING] = "waiting",
        [WEFT_DEAD] = "ended",
    };
    return names[state];
}

/* Return whether the sums of a group include a fiber: with a filter, only matching fibers. */
static bool is_counted(const weft__view *v, weft_inspector *i, const weft__index *x, uint32_t f,
                       bool has_filter)
{
    return !has_filter || weft__view_matches(v, i, x, f);
}

static row_sums sum_row(weft_inspector *i, const weft__index *x, const weft__view *v,
                        const weft__view_row *row)
{
    row_sums sums = {.has_one_name = true};
    const char *name = x->snapshot->fibers[row->fiber].info.name;
    bool has_filter = row->group != WEFT__NONE && weft__view_has_filter(v);
    uint32_t next;
    for (uint32_t f = row->fiber; f != WEFT__NONE; f = next) {
        const weft_info *info = &x->snapshot->fibers[f].info;
        next = row->group != WEFT__NONE ? x->nodes[f].next : WEFT__NONE;
        if (!is_counted(v, i, x, f, has_filter))
            continue;
        sums.cpu_share += info->cpu_share;
        sums.waiting_s = fmax(sums.waiting_s, info->waiting_s);
        sums.switches += info->switches;
        sums.stack_used += info->stack_used;
        sums.stack_bytes += info->stack_bytes;
        sums.has_one_name = sums.has_one_name && strcmp(info->name, name) == 0;
    }
    return sums;
}

/* Write a name with a number sign in place of each number. */
static void write_pattern(weft__json *w, const char *name)
{
    char pattern[WEFT__NAME_BYTES];
    size_t bytes = 0;
    for (; *name != '\0' && bytes + 1 < sizeof pattern; name++) {
        bool is_digit = *name >= '0' && *name <= '9';
        if (is_digit && name[1] >= '0' && name[1] <= '9')
            continue;
        pattern[bytes++] = is_digit ? '#' : *name;
    }
    pattern[bytes] = '\0';
    weft__json_name_string(w, "name", pattern);
}

int64_t weft__row_write(weft__json *w, weft_inspector *i, const weft__index *x, const weft__view *v,
                        const weft__view_row *row)
{
    const weft_snapshot_fiber *fiber = &x->snapshot->fibers[row->fiber];
    const weft_info *info = &fiber->info;
    row_sums sums = sum_row(i, x, v, row);
    char key[20];
    snprintf(key, sizeof key, "%llx", (unsigned long long)row->key);
    weft__json_name_string(w, "key", key);
    weft__json_name_number(w, "level", row->level);
    if (row->can_open)
        weft__json_name_bool(w, "open", row->is_open);
    if (row->group == WEFT__NONE)
        weft__json_name_id(w, "id", info->id);
    else
        weft__json_name_number(w, "count", row->count);
    if (sums.has_one_name)
        weft__json_name_string(w, "name", info->name);
    else
        write_pattern(w, info->name);
    if (row->is_context)
        weft__json_name_bool(w, "context", true);
    weft__json_name_string(w, "fn", weft__symbol_get(i, (const void *)info->fn).function);
    weft__json_name_string(w, "state", weft__state_name(info->state));
    if (info->waits_for[0] != '\0')
        weft__json_name_string(w, "wait", info->waits_for);
    if (info->waits_for_fiber != 0 && row->group == WEFT__NONE)
        weft__json_name_id(w, "holder", info->waits_for_fiber);
    weft__json_name_number(w, "cpu", (int64_t)(10000 * sums.cpu_share + 0.5));
    weft__json_name_number(w, "switches", (int64_t)sums.switches);
    weft__json_name_number(w, "used", (int64_t)sums.stack_used);
    weft__json_name_number(w, "stack", (int64_t)sums.stack_bytes);
    weft__json_name_number(w, "cord", x->snapshot->cords[fiber->cord].thread_id);
    return sums.waiting_s > 0 ? (int64_t)(1e3 * (x->snapshot->taken_s - sums.waiting_s)) : 0;
}

void weft__write_program(weft__json *w, const weft_inspector *i)
{
    weft__json_name(w, "program");
    weft__json_open(w, '{');
    weft__json_name_string(w, "title", i->title);
    weft__json_name_number(w, "pid", getpid());
    weft__json_name_bool(w, "hasActions", i->token != NULL);
    weft__json_name_bool(w, "hasCpu", !i->options.has_no_accounting);
    weft__json_close(w, '}');
}

void weft__write_sums(weft__json *w, const weft__sample *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } sums[] = {
        {"cords", s->snapshot->cords_count},
        {"fibers", s->total.fibers + s->snapshot->cords_count}, /* with the main fibers */
        {"running", s->index.running},
        {"runnable", s->total.runnable},
        {"runnableMax", s->total.runnable_max},
        {"waiting", s->index.waiting},
        {"switches", s->total.switches},
        {"switchesPerS", s->point.switches_per_s},
        {"cpu", s->point.cpu},
        {"stackBytes", s->index.stack_bytes},
        {"stackUsed", s->index.stack_used},
        {"stacks", s->total.stacks},
        {"stacksCached", s->total.stacks_cached},
        {"ops", s->total.ops},
        {"opsPending", s->total.ops_pending},
        {"polls", s->total.polls},
        {"messages", s->total.messages},
        {"timers", s->total.timers},
        {"unawaited", s->total.fibers_unawaited},
    };
    weft__json_name(w, "sums");
    weft__json_open(w, '{');
    for (size_t n = 0; n < sizeof sums / sizeof sums[0]; n++)
        weft__json_name_number(w, sums[n].name, (int64_t)sums[n].value);
    weft__json_close(w, '}');
}

void weft__write_cords(weft__json *w, const weft__sample *s)
{
    weft__json_name(w, "cords");
    weft__json_open(w, '[');
    for (size_t c = 0; c < s->snapshot->cords_count; c++) {
        const weft_snapshot_cord *cord = &s->snapshot->cords[c];
        weft__json_open(w, '{');
        weft__json_name_id(w, "id", cord->id);
        weft__json_name_string(w, "name", cord->name);
        weft__json_name_string(w, "backend", cord->backend);
        weft__json_name_number(w, "thread", cord->thread_id);
        weft__json_name_number(w, "fibers", (int64_t)cord->counters.fibers);
        weft__json_name_number(w, "runnable", (int64_t)cord->counters.runnable);
        weft__json_name_number(w, "switchesPerS", (int64_t)s->cords[c].switches_per_s);
        weft__json_name_number(w, "cpu", s->cords[c].share);
        if (!cord->has_replied)
            weft__json_name_number(w, "stalledMs", (int64_t)(1e3 * cord->stalled_s));
        weft__json_close(w, '}');
    }
    weft__json_close(w, ']');
}

void weft__write_reasons(weft__json *w, const weft__sample *s)
{
    weft__json_name(w, "reasons");
    weft__json_open(w, '[');
    for (size_t r = 0; r < s->index.reasons_count; r++) {
        const weft__wait_reason *reason = &s->index.reasons[r];
        weft__json_open(w, '{');
        weft__json_name_string(w, "reason", reason->text);
        weft__json_name_number(w, "count", (int64_t)reason->count);
        double since_s = s->snapshot->taken_s - reason->waiting_s;
        weft__json_name_number(w, "since", 100 * (int64_t)(10 * since_s + 0.5));
        weft__json_name_id(w, "fiber", reason->waiting);
        weft__json_close(w, '}');
    }
    weft__json_close(w, ']');
}

void weft__write_points(weft__json *w, const weft__point *points, size_t count)
{
    weft__json_name(w, "points");
    weft__json_open(w, '[');
    for (size_t p = 0; p < count; p++) {
        weft__json_open(w, '{');
        weft__json_name_number(w, "at", (int64_t)(1e3 * points[p].at_s));
        weft__json_name_number(w, "switchesPerS", (int64_t)points[p].switches_per_s);
        weft__json_name_number(w, "runnable", (int64_t)points[p].runnable);
        weft__json_name_number(w, "fibers", (int64_t)points[p].fibers);
        weft__json_name_number(w, "stalled", points[p].stalled);
        weft__json_name_number(w, "cpu", points[p].cpu);
        weft__json_name(w, "cords");
        weft__json_open(w, '{');
        for (size_t c = 0; c < points[p].cords_count; c++) {
            char thread[16];
            snprintf(thread, sizeof thread, "%d", points[p].cords[c].thread_id);
            weft__json_name_number(w, thread, points[p].cords[c].cpu);
        }
        weft__json_close(w, '}');
        weft__json_close(w, '}');
    }
    weft__json_close(w, ']');
}

void weft__write_latency(weft__json *w, const weft__sample *s)
{
    const weft_histogram *latency = &s->total.wake_latency;
    weft__json_name(w, "latency");
    weft__json_open(w, '[');
    for (size_t b = 0; b < WEFT_HISTOGRAM_BUCKETS; b++) {
        double bound_s = weft_histogram_bound(b);
        weft__json_open(w, '[');
        weft__json_number(w, isfinite(bound_s) ? (int64_t)(1e9 * bound_s + 0.5) : 0);
        weft__json_number(w, (int64_t)latency->buckets[b]);
        weft__json_close(w, ']');
    }
    weft__json_close(w, ']');
}

/* Write the place of a call: its function, or its address in the module. */
static void write_site(weft__json *w, weft_inspector *i, const void *spun_at)
{
    weft_symbol s = weft__symbol_get(i, weft__call_address(spun_at));
    const char *file = strrchr(s.file, '/');
    char text[256];
    if (s.file[0] != '\0')
        snprintf(text, sizeof text, "%s %s:%u", s.function, file != NULL ? file + 1 : s.file,
                 s.line);
    else if (s.function[0] != '\0')
        snprintf(text, sizeof text, "%s", s.function);
    else
        snprintf(text, sizeof text, "%p", spun_at);
    weft__json_name_string(w, "site", text);
}

void weft__write_advice(weft__json *w, const weft__sample *s)
{
    weft__json_name(w, "advice");
    weft__json_open(w, '[');
    for (size_t n = 0; n < s->advice_count; n++) {
        const weft_stack_use *use = &s->advice[n];
        weft__json_open(w, '{');
        write_site(w, s->inspector, use->spun_at);
        weft__json_name_string(w, "fn",
                               weft__symbol_get(s->inspector, (const void *)use->fn).function);
        weft__json_name_number(w, "fibers", (int64_t)use->fibers);
        weft__json_name_number(w, "stack", (int64_t)use->stack_bytes);
        weft__json_name_number(w, "used", (int64_t)use->used_max);
        weft__json_name_number(w, "suggested", (int64_t)use->suggested_bytes);
        weft__json_close(w, '}');
    }
    weft__json_close(w, ']');
}
