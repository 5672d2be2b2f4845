/*
 * Write a trace as JSON: slices, instants and arrows on one track per fiber.
 *
 * The events of a ring are read in order. A fiber runs, is runnable or waits, and each change
 * writes the slice that ends. A span of the program contains the slices from its begin to its end,
 * so a slice also ends where a span begins or ends. Times in a ring differ by at least 2 ns,
 * because slices inside of a span begin 1 ns later and end 1 ns earlier than the span.
 *
 * An arrow is written when the woken fiber runs. So each arrow has a begin and an end.
 */
#include "core/trace/export.h"

#include "base/clock.h"
#include "base/fast_clock.h"
#include "core/trace/file.h"
#include "core/trace/source.h"
#include "core/trace/tracks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A sent message, by its number. */
typedef struct sent {
    uint64_t message;
    weft__trace_point from;
} sent;

typedef struct exporter {
    weft__trace_file file;
    const weft__trace_totals *totals;
    weft__trace_source *sources;
    size_t sources_count;
    weft__tracks tracks;
    sent *sents;
    size_t sents_count;
    int tids; /* used so far */
} exporter;

/* Write the slice of a track that ends at end_ns. */
static void end_slice(exporter *x, weft__track *t, int64_t end_ns)
{
    weft__trace_point at = {t->pid, t->tid, t->since_ns};
    if (t->state == WEFT__TRACK_UNKNOWN || end_ns <= t->since_ns)
        return;
    if (t->state == WEFT__TRACK_RUNS || t->reason == NULL) {
        bool runs = t->state == WEFT__TRACK_RUNS;
        weft__trace_print_slice(&x->file, at, end_ns, runs ? "run" : "runnable",
                                runs ? "running" : "runnable");
        weft__trace_file_print(&x->file, "}");
        return;
    }
    weft__trace_print_slice(&x->file, at, end_ns, "wait", t->reason);
    weft__trace_file_print(&x->file, ",\"args\":{\"object\":\"0x%" PRIx64 "\"", t->object);
    if (t->fd >= 0)
        weft__trace_file_print(&x->file, ",\"fd\":%d", t->fd);
    if (t->awaited != 0)
        weft__trace_file_print(&x->file, ",\"fiber\":\"#%llu\"", (unsigned long long)t->awaited);
    weft__trace_file_print(&x->file, "}}");
}

static void set_state(exporter *x, weft__track *t, weft__track_state state, int64_t ns)
{
    end_slice(x, t, ns);
    t->state = state;
    t->since_ns = ns;
    t->reason = NULL;
}

/* Begin a span. Slices inside of it begin 1 ns later. */
static int span_begin(exporter *x, weft__track *t, const weft__trace_source *s, size_t index)
{
    int64_t ns = weft__trace_ns_of(&s->records[index]);
    const char *reason = t->reason;
    weft__track_state state = t->state;
    int rc = weft__track_push_span(t, ns, index);
    if (rc < 0)
        return rc;
    end_slice(x, t, ns);
    t->state = state != WEFT__TRACK_UNKNOWN ? state : WEFT__TRACK_RUNS;
    t->reason = reason;
    t->since_ns = ns + 1;
    return 0;
}

/* End the innermost span, if there is one. */
static void span_end(exporter *x, weft__track *t, const weft__trace_source *s, int64_t ns)
{
    char text[256];
    if (t->spans_count == 0)
        return;
    const weft__span *span = &t->spans[--t->spans_count];
    end_slice(x, t, ns - 1);
    weft__trace_text(s, span->record, text, sizeof text);
    weft__trace_print_slice(&x->file, (weft__trace_point){t->pid, t->tid, span->ns}, ns, "span",
                            text);
    weft__trace_file_print(&x->file, "}");
    t->since_ns = ns;
}

static int compare_sents(const void *a, const void *b)
{
    const sent *x = a, *y = b;
    return x->message < y->message ? -1 : x->message > y->message;
}

static const sent *find_sent(const exporter *x, uint64_t message)
{
    if (message == 0 || x->sents_count == 0)
        return NULL;
    return bsearch(&(sent){.message = message}, x->sents, x->sents_count, sizeof(sent),
                   compare_sents);
}

/* Return the track of a fiber with events in s. Return NULL if memory is exhausted. */
static weft__track *track_of(exporter *x, const weft__trace_source *s, weft_fiber fiber)
{
    weft__track *t = weft__tracks_get(&x->tracks, fiber);
    if (t != NULL && t->tid == 0) {
        t->pid = s->pid;
        t->tid = ++x->tids;
    }
    return t;
}

/* Set where the arrow to the next run of a fiber begins. */
static int set_cause(exporter *x, const weft__trace_source *s, const weft__trace_record *r,
                     weft_fiber fiber)
{
    weft_fiber by = r->words[WEFT__TRACE_OTHER];
    const sent *message = find_sent(x, r->words[WEFT__TRACE_MESSAGE]);
    weft__trace_point from = {0};
    if (message != NULL) {
        from = message->from;
    } else if (by != 0) {
        const weft__track *waker = track_of(x, s, by);
        if (waker == NULL)
            return -ENOMEM;
        if (waker->state != WEFT__TRACK_UNKNOWN && weft__trace_ns_of(r) > waker->since_ns)
            from = (weft__trace_point){waker->pid, waker->tid, weft__trace_ns_of(r)};
    }
    weft__track *t = track_of(x, s, fiber);
    if (t == NULL)
        return -ENOMEM;
    t->cause = from;
    t->cause_name = message != NULL                             ? "message"
                    : weft__trace_kind_of(r) == WEFT_TRACE_SPIN ? "spin"
                                                                : "wake";
    return 0;
}

/* Return whether the delivery of a message makes a fiber runnable. */
static bool has_effect(const weft__trace_source *s, size_t index)
{
    uint64_t message = s->records[index].words[WEFT__TRACE_MESSAGE];
    for (size_t i = index + 1; i < s->count; i++) {
        const weft__trace_record *r = &s->records[i];
        if (weft__trace_is_text(r))
            continue;
        if (weft__trace_kind_of(r) == WEFT_TRACE_WAKE || weft__trace_kind_of(r) == WEFT_TRACE_SPIN)
            return r->words[WEFT__TRACE_MESSAGE] == message;
        if (weft__trace_kind_of(r) == WEFT_TRACE_RECEIVE ||
            weft__trace_kind_of(r) == WEFT_TRACE_RUN)
            return false;
    }
    return false;
}

/* Write an event of the cord, not of a fiber. */
static void export_cord_event(exporter *x, weft__trace_source *s, size_t index)
{
    const weft__trace_record *r = &s->records[index];
    weft__trace_point at = {s->pid, s->tid, weft__trace_ns_of(r)};
    if (weft__trace_kind_of(r) == WEFT_TRACE_IDLE) {
        s->idle_ns = at.ns;
    } else if (weft__trace_kind_of(r) == WEFT_TRACE_BUSY && s->idle_ns >= 0) {
        weft__trace_print_slice(&x->file, (weft__trace_point){s->pid, s->tid, s->idle_ns}, at.ns,
                                "cord", "idle");
        weft__trace_file_print(&x->file, "}");
        s->idle_ns = -1;
    } else if (weft__trace_kind_of(r) == WEFT_TRACE_RECEIVE) {
        weft__trace_print_slice(&x->file, at, at.ns + 1, "message", "message");
        weft__trace_file_print(&x->file, ",\"args\":{\"to\":\"#%" PRIu64 "\"}}",
                               r->words[WEFT__TRACE_FIBER]);
        const sent *message = find_sent(x, r->words[WEFT__TRACE_MESSAGE]);
        if (message != NULL && !has_effect(s, index))
            weft__trace_print_arrow(&x->file, message->from, at, "message");
    }
}

/* Write an event that is an instant on the track of a fiber. */
static void export_instant(exporter *x, const weft__track *t, const weft__trace_source *s,
                           size_t index)
{
    static const struct {
        const char *category, *name;
    } instants[] = {
        [WEFT_TRACE_SPIN] = {"fiber", "spun"},      [WEFT_TRACE_CANCEL] = {"fiber", "cancelled"},
        [WEFT_TRACE_END] = {"fiber", "end"},        [WEFT_TRACE_SUBMIT] = {"io", "submit"},
        [WEFT_TRACE_COMPLETE] = {"io", "complete"}, [WEFT_TRACE_SEND] = {"message", "send"},
        [WEFT_TRACE_MARK] = {"mark", NULL},
    };
    const weft__trace_record *r = &s->records[index];
    weft_trace_kind kind = weft__trace_kind_of(r);
    weft__trace_point at = {t->pid, t->tid, weft__trace_ns_of(r)};
    char text[256];
    if (kind == WEFT_TRACE_MARK)
        weft__trace_text(s, index, text, sizeof text);
    weft__trace_print_instant(&x->file, at, instants[kind].category,
                              kind == WEFT_TRACE_MARK ? text : instants[kind].name);
    if (kind == WEFT_TRACE_MARK) {
        weft__trace_file_print(&x->file, "}");
        return;
    }
    weft__trace_file_print(&x->file, ",\"args\":{\"value\":%" PRId64,
                           (int64_t)r->words[WEFT__TRACE_VALUE]);
    if (weft__trace_reason_of(r) != NULL) {
        weft__trace_file_print(&x->file, ",\"operation\":");
        weft__trace_file_string(&x->file, weft__trace_reason_of(r));
        weft__trace_file_print(&x->file, ",\"fd\":%d", weft__trace_fd_of(r));
    }
    if (r->words[WEFT__TRACE_OTHER] != 0)
        weft__trace_file_print(&x->file, ",\"fiber\":\"#%" PRIu64 "\"",
                               r->words[WEFT__TRACE_OTHER]);
    weft__trace_file_print(&x->file, "}}");
}

/* Write that a fiber waits, runs, is woken or ends. */
static int export_change(exporter *x, weft__track *t, const weft__trace_source *s, size_t index)
{
    const weft__trace_record *r = &s->records[index];
    int64_t ns = weft__trace_ns_of(r);
    switch (weft__trace_kind_of(r)) {
    case WEFT_TRACE_WAIT:
        set_state(x, t, WEFT__TRACK_WAITS, ns);
        t->reason = weft__trace_reason_of(r);
        t->object = r->words[WEFT__TRACE_OBJECT];
        t->fd = weft__trace_fd_of(r);
        t->awaited = r->words[WEFT__TRACE_OTHER];
        return 0;
    case WEFT_TRACE_RUN:
        set_state(x, t, WEFT__TRACK_RUNS, ns);
        if (t->cause.pid != 0)
            weft__trace_print_arrow(&x->file, t->cause, (weft__trace_point){t->pid, t->tid, ns},
                                    t->cause_name);
        t->cause = (weft__trace_point){0};
        return 0;
    case WEFT_TRACE_WAKE:
    case WEFT_TRACE_SPIN:
        set_state(x, t, WEFT__TRACK_WAITS, ns);
        if (weft__trace_kind_of(r) == WEFT_TRACE_SPIN)
            export_instant(x, t, s, index);
        return set_cause(x, s, r, t->fiber);
    case WEFT_TRACE_END:
        export_instant(x, t, s, index);
        weft__trace_text(s, index, t->name, sizeof t->name);
        while (t->spans_count > 0)
            span_end(x, t, s, ns);
        set_state(x, t, WEFT__TRACK_UNKNOWN, ns);
        return 0;
    default:
        return 0;
    }
}

static int export_event(exporter *x, weft__trace_source *s, size_t index)
{
    const weft__trace_record *r = &s->records[index];
    weft_fiber fiber = r->words[WEFT__TRACE_FIBER];
    weft_trace_kind kind = weft__trace_kind_of(r);
    if (fiber == 0 || kind == WEFT_TRACE_RECEIVE) {
        export_cord_event(x, s, index);
        return 0;
    }
    weft__track *t = track_of(x, s, fiber);
    if (t == NULL)
        return -ENOMEM;
    switch (kind) {
    case WEFT_TRACE_MARK:
    case WEFT_TRACE_SUBMIT:
    case WEFT_TRACE_COMPLETE:
    case WEFT_TRACE_SEND:
    case WEFT_TRACE_CANCEL:
        export_instant(x, t, s, index);
        return 0;
    case WEFT_TRACE_BEGIN:
        return span_begin(x, t, s, index);
    case WEFT_TRACE_STOP:
        span_end(x, t, s, weft__trace_ns_of(r));
        return 0;
    default:
        return export_change(x, t, s, index);
    }
}

/* Write the names of a cord and its track. */
static void name_cord(exporter *x, const weft__trace_source *s)
{
    char name[96];
    snprintf(name, sizeof name, "cord %s (thread %d)", s->ring->name, s->ring->thread_id);
    weft__trace_print_name(&x->file, (weft__trace_point){s->pid, s->tid, 0}, "process", name, 0);
    weft__trace_print_name(&x->file, (weft__trace_point){s->pid, s->tid, 0}, "thread", "cord", 0);
}

static int export_source(exporter *x, weft__trace_source *s)
{
    name_cord(x, s);
    for (size_t i = 0; i < s->count; i++) {
        if (weft__trace_is_text(&s->records[i]))
            continue;
        int rc = export_event(x, s, i);
        if (rc < 0)
            return rc;
    }
    if (s->idle_ns >= 0) {
        weft__trace_print_slice(&x->file, (weft__trace_point){s->pid, s->tid, s->idle_ns},
                                s->end_ns, "cord", "idle");
        weft__trace_file_print(&x->file, "}");
    }
    for (size_t i = 0; i < x->tracks.count; i++) {
        weft__track *t = &x->tracks.list[i];
        if (t->pid != s->pid)
            continue;
        while (t->spans_count > 0)
            span_end(x, t, s, s->end_ns);
        set_state(x, t, WEFT__TRACK_UNKNOWN, s->end_ns);
    }
    for (size_t i = 0; i < s->ring->names_count; i++)
        weft__tracks_set_name(&x->tracks, s->ring->names[i].fiber, s->ring->names[i].name);
    return 0;
}

/* Copy the rings, and assign numbers to cords and to the tracks of cords. */
static int copy_sources(exporter *x, weft__list *rings)
{
    size_t count = 0;
    WEFT__LIST_FOR(link, rings) {
        count++;
    }
    x->sources = calloc(count + 1, sizeof *x->sources);
    if (x->sources == NULL)
        return -ENOMEM;
    WEFT__LIST_FOR(link, rings) {
        weft__trace_ring *ring = CONTAINER_OF(link, weft__trace_ring, link);
        weft__trace_source *s = &x->sources[x->sources_count];
        if (!ring->is_attached)
            continue;
        s->pid = (int)x->sources_count + 1;
        s->tid = ++x->tids;
        int rc = weft__trace_source_open(s, ring, x->totals);
        if (rc < 0)
            return rc;
        x->sources_count++;
        if (track_of(x, s, ring->main) == NULL) /* the second track of the cord */
            return -ENOMEM;
    }
    return 0;
}

/* Find all sent messages. */
static int collect_sents(exporter *x)
{
    size_t room = 0;
    for (size_t i = 0; i < x->sources_count; i++)
        for (size_t j = 0; j < x->sources[i].count; j++)
            room += weft__trace_kind_of(&x->sources[i].records[j]) == WEFT_TRACE_SEND;
    x->sents = malloc((room + 1) * sizeof *x->sents);
    if (x->sents == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < x->sources_count; i++)
        for (size_t j = 0; j < x->sources[i].count; j++) {
            const weft__trace_record *r = &x->sources[i].records[j];
            if (weft__trace_kind_of(r) != WEFT_TRACE_SEND || r->words[WEFT__TRACE_FIBER] == 0)
                continue;
            const weft__track *t = track_of(x, &x->sources[i], r->words[WEFT__TRACE_FIBER]);
            if (t == NULL)
                return -ENOMEM;
            x->sents[x->sents_count++] =
                (sent){r->words[WEFT__TRACE_MESSAGE], {t->pid, t->tid, weft__trace_ns_of(r)}};
        }
    qsort(x->sents, x->sents_count, sizeof *x->sents, compare_sents);
    return 0;
}

/* Write the facts about the whole trace, and begin the list of events. */
static void print_head(exporter *x)
{
    uint64_t events = 0, dropped = 0;
    for (size_t i = 0; i < x->sources_count; i++) {
        events += x->sources[i].count;
        dropped += x->sources[i].dropped;
    }
    weft__trace_file_print(
        &x->file,
        "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"process\":%d,"
        "\"events\":%" PRIu64 ",\"events_dropped\":%" PRIu64 ",\"cords_missed\":%" PRIu64
        ",\"cords_dropped\":%" PRIu64 "},\n\"traceEvents\":[",
        (int)getpid(), events, dropped, x->totals->cords_missed, x->totals->cords_dropped);
}

static int export_all(exporter *x, weft__list *rings)
{
    int rc = copy_sources(x, rings);
    if (rc == 0)
        rc = collect_sents(x);
    if (rc < 0)
        return rc;
    print_head(x);
    for (size_t i = 0; i < x->sources_count; i++) {
        rc = export_source(x, &x->sources[i]);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < x->tracks.count; i++) {
        const weft__track *t = &x->tracks.list[i];
        if (t->tid != 0)
            weft__trace_print_name(&x->file, (weft__trace_point){t->pid, t->tid, 0}, "thread",
                                   t->name, t->fiber);
    }
    weft__trace_file_print(&x->file, "\n]}\n");
    return 0;
}

int weft__trace_export(const char *path, weft__list *rings, const weft__trace_totals *totals)
{
    exporter x = {.totals = totals};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    int rc = weft__trace_file_begin(&x.file, fd);
    if (rc == 0)
        rc = export_all(&x, rings);
    int written = weft__trace_file_end(&x.file);
    rc = rc < 0 ? rc : written;
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    for (size_t i = 0; i < x.sources_count; i++)
        weft__trace_source_close(&x.sources[i]);
    free(x.sources);
    free(x.sents);
    weft__tracks_free(&x.tracks);
    return rc;
}
