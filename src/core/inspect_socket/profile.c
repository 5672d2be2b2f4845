/* Profiles. See profile.h. */
#include "core/inspect_socket/profile.h"

#include "base/clock.h"
#include "core/inspect_socket/cpu_sampler.h"

#include <weft/snapshot.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_FRAMES_MAX 64
/* The least time between two snapshots, in ns. */
#define WAIT_INTERVAL_NS 100000000
/* The ratio of the interval to the duration of a snapshot. */
#define WAIT_INTERVAL_RATIO 20
#define WAIT_REPLY_S 0.5

static struct {
    weft__stack_table *table; /* NULL: no profile */
    bool has_cpu, has_waits;
    unsigned hz;
    int64_t began_ns;
    int64_t sampled_ns; /* of the last snapshot */
    int64_t due_ns;     /* of the next snapshot */
    uint64_t wait_samples;
    uint64_t lost;
} profile;

static atomic_bool is_running;

int weft__profile_start(bool has_cpu, bool has_waits, unsigned hz)
{
    if (profile.table != NULL)
        return -EALREADY;
    weft__stack_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    int rc = has_cpu ? weft__cpu_sampler_start(hz) : 0;
    if (rc < 0) {
        free(table);
        return rc;
    }
    int64_t now_ns = weft__clock_ns();
    profile = (__typeof__(profile)){
        .table = table,
        .has_cpu = has_cpu,
        .has_waits = has_waits,
        .hz = hz,
        .began_ns = now_ns,
        .sampled_ns = now_ns,
        .due_ns = now_ns + WAIT_INTERVAL_NS,
    };
    atomic_store(&is_running, true);
    return 0;
}

/* Add the time since the last snapshot to the stacks of all waiting fibers. */
static void sample_waits(int64_t now_ns)
{
    weft_snapshot *s;
    weft_snapshot_options options = {.frames_max = WAIT_FRAMES_MAX, .timeout_s = WAIT_REPLY_S};
    uint64_t us = (uint64_t)(now_ns - profile.sampled_ns) / 1000;
    int rc = weft_snapshot_take(&options, &s);
    profile.sampled_ns = now_ns;
    if (rc < 0) {
        profile.lost++;
        return;
    }
    for (size_t i = 0; i < s->fibers_count; i++) {
        const weft_snapshot_fiber *f = &s->fibers[i];
        if (f->info.state != WEFT_WAITING)
            continue;
        weft__stack_key key = {.is_wait = true};
        weft__stack_name_set(key.cord, s->cords[f->cord].name);
        weft__stack_name_set(key.fiber, f->info.name);
        weft__stack_name_set(key.reason, f->info.waits_for);
        key.fn = key.fiber[0] == '\0' ? (const void *)f->info.fn : NULL;
        weft__stack_table_add(profile.table, &key, f->frames, f->frames_count, us);
    }
    weft_snapshot_free(s);
    profile.wait_samples++;
    int64_t end_ns = weft__clock_ns(), wait_ns = (end_ns - now_ns) * WAIT_INTERVAL_RATIO;
    profile.due_ns = end_ns + (wait_ns > WAIT_INTERVAL_NS ? wait_ns : WAIT_INTERVAL_NS);
}

int64_t weft__profile_run(int64_t now_ns)
{
    if (profile.table == NULL)
        return INT64_MAX;
    profile.lost += weft__cpu_sampler_read(profile.table);
    if (profile.has_waits && now_ns >= profile.due_ns)
        sample_waits(now_ns);
    int64_t read_ns = profile.has_cpu ? now_ns + WEFT__CPU_SAMPLER_READ_NS : INT64_MAX;
    return profile.has_waits && profile.due_ns < read_ns ? profile.due_ns : read_ns;
}

/* Append the name of a function, or of its module and its offset. */
static void reply_function(weft__inspect_reply *r, const weft_symbol *symbol, const void *address)
{
    char text[256];
    const char *module = strrchr(symbol->module, '/');
    if (symbol->function[0] != '\0')
        snprintf(text, sizeof text, "%s", symbol->function);
    else if (symbol->module[0] != '\0')
        snprintf(text, sizeof text, "%s+0x%" PRIxPTR, module != NULL ? module + 1 : symbol->module,
                 symbol->offset);
    else
        snprintf(text, sizeof text, "%p", address);
    weft__inspect_reply_word(r, text);
}

static void find_symbol(const void *address, weft_symbol *out)
{
    if (weft_symbol_find(address, out) < 0)
        *out = (weft_symbol){.function = "", .file = "", .module = ""};
}

/*
 * Functions of weft that a fiber calls to wait. A fiber that runs the idle loop has further frames
 * in them, which do not belong to its wait.
 */
static bool is_switch(const char *function)
{
    static const char *const prefixes[] = {"weft__switch", "weft__idle", "weft__yield"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(function, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* The frames of an entry that are sent: from first to end. */
typedef struct frame_range {
    unsigned first, end;
} frame_range;

/*
 * Find the frames that belong to an entry. The outermost frames of each fiber are the same frames
 * of weft. An idle loop runs on the stack of an unrelated fiber.
 */
static frame_range entry_frames(const weft__stack_entry *e)
{
    frame_range range = {0, e->frames_count};
    weft_symbol symbol;
    for (unsigned i = 0; i < e->frames_count; i++) {
        find_symbol((char *)e->frames[i] - (i > 0 || e->key.is_wait), &symbol);
        if (strcmp(symbol.function, "weft__fiber_entry") == 0 ||
            strcmp(symbol.function, "weft__first_frame") == 0) {
            range.end = i;
            break;
        }
        if (e->key.is_wait && is_switch(symbol.function))
            range.first = i + 1;
        if (e->key.is_idle && strcmp(symbol.function, "weft__idle") == 0) {
            range.end = i + 1;
            break;
        }
    }
    return range;
}

static void reply_entry(weft__inspect_reply *r, const weft__stack_entry *e)
{
    weft_symbol symbol;
    weft__inspect_reply_print(r, "%s %" PRIu64, e->key.is_wait ? "wait" : "cpu", e->value);
    weft__inspect_reply_word(r, e->key.cord);
    if (e->key.is_idle) {
        weft__inspect_reply_word(r, "(idle)");
    } else if (e->key.fn != NULL) {
        find_symbol(e->key.fn, &symbol);
        reply_function(r, &symbol, e->key.fn);
    } else {
        weft__inspect_reply_word(r, e->key.fiber[0] != '\0' ? e->key.fiber : "(unnamed)");
    }
    weft__inspect_reply_word(r, e->key.reason);
    frame_range range = entry_frames(e);
    for (unsigned i = range.end; i-- > range.first;) {
        /* The innermost frame of a sample is an instruction, the others are return addresses. */
        const void *at = (char *)e->frames[i] - (i > 0 || e->key.is_wait);
        find_symbol(at, &symbol);
        reply_function(r, &symbol, at);
    }
    weft__inspect_reply_print(r, "\n");
}

static uint64_t count_cpu_samples(const weft__stack_table *t)
{
    uint64_t count = 0;
    for (size_t i = 0; i < WEFT__STACK_BUCKETS; i++)
        for (const weft__stack_entry *e = t->buckets[i]; e != NULL; e = e->next)
            count += e->key.is_wait ? 0 : e->value;
    return count;
}

static void reply_profile(weft__inspect_reply *r, int64_t end_ns)
{
    const weft__stack_table *t = profile.table;
    weft__inspect_reply_print(r, "profile %.3f %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                              (double)(end_ns - profile.began_ns) / WEFT__NS_PER_S, profile.hz,
                              count_cpu_samples(t), profile.wait_samples, profile.lost + t->lost);
    for (size_t i = 0; i < WEFT__STACK_BUCKETS; i++)
        for (const weft__stack_entry *e = t->buckets[i]; e != NULL; e = e->next)
            reply_entry(r, e);
}

void weft__profile_read(weft__inspect_reply *r, bool has_snapshot)
{
    if (profile.table == NULL)
        return;
    int64_t now_ns = weft__clock_ns();
    profile.lost += weft__cpu_sampler_read(profile.table);
    if (has_snapshot && profile.has_waits)
        sample_waits(now_ns);
    reply_profile(r, now_ns);
    weft__stack_table_clear(profile.table);
    profile.began_ns = now_ns;
    profile.wait_samples = profile.lost = 0;
}

void weft__profile_stop(void)
{
    if (profile.table == NULL)
        return;
    weft__cpu_sampler_stop();
    weft__stack_table_clear(profile.table);
    free(profile.table);
    profile.table = NULL;
    atomic_store(&is_running, false);
}

bool weft__profile_is_running(void)
{
    return atomic_load(&is_running);
}

void weft__profile_after_fork(void)
{
    weft__cpu_sampler_after_fork();
    atomic_store(&is_running, false);
    /* The thread may have been changing the table, so it is not freed (see server.c). */
    static weft__stack_table *volatile inherited __attribute__((unused));
    if (profile.table != NULL)
        inherited = profile.table;
    profile.table = NULL;
}
