/* Copies of rings. See source.h. */
#include "core/trace/source.h"

#include "base/clock.h"
#include "base/fast_clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The minimal distance of two events, so that slices inside of a span can be shorter. */
#define STEP_NS 2

void weft__trace_times_read(weft__trace_times *out)
{
    out->ticks = weft__cpu_ticks();
    out->ns = weft__clock_ns();
}

void weft__trace_text(const weft__trace_source *s, size_t index, char *out, size_t bytes_max)
{
    size_t bytes = s->records[index].words[WEFT__TRACE_TYPE] >> 8 & 0xff, count = 0;
    if (weft__trace_has_short_text(weft__trace_kind_of(&s->records[index]), bytes)) {
        memcpy(out, &s->records[index].words[WEFT__TRACE_OTHER], bytes);
        count = bytes;
        bytes = 0;
    }
    for (size_t i = index + 1; i < s->count && weft__trace_is_text(&s->records[i]) && count < bytes;
         i++) {
        uint64_t words[WEFT__TRACE_WORDS - 1] = {s->records[i].words[WEFT__TRACE_TIME]};
        memcpy(words + 1, &s->records[i].words[WEFT__TRACE_TYPE + 1], sizeof words - 8);
        size_t part = bytes - count < sizeof words ? bytes - count : sizeof words;
        part = part < bytes_max - 1 - count ? part : bytes_max - 1 - count;
        memcpy(out + count, words, part);
        count += part;
    }
    out[count] = '\0';
}

/* Convert a time of a ring to ns since the start of the trace. */
static int64_t convert_time(const weft__trace_source *s, const weft__trace_totals *totals,
                            uint64_t time)
{
    if (s->ring->clock != WEFT__TRACE_TICKS)
        return (int64_t)time - (s->ring->clock == WEFT__TRACE_NS ? totals->begin.ns : 0);
    uint64_t ticks = totals->end.ticks - totals->begin.ticks;
    double rate = ticks > 0 ? (double)(totals->end.ns - totals->begin.ns) / (double)ticks : 1;
    return (int64_t)((double)(int64_t)(time - totals->begin.ticks) * rate);
}

/* Convert all times of a ring. The results are at least STEP_NS apart. */
static void convert_times(weft__trace_source *s, const weft__trace_totals *totals)
{
    int64_t last_ns = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint64_t *time = &s->records[i].words[WEFT__TRACE_TIME];
        if (weft__trace_is_text(&s->records[i]))
            continue;
        int64_t ns = convert_time(s, totals, *time);
        last_ns = ns > last_ns + STEP_NS ? ns : last_ns + STEP_NS;
        *time = (uint64_t)last_ns;
    }
    int64_t end_ns = s->ring->is_done ? convert_time(s, totals, s->ring->end_time) : 0;
    s->end_ns = end_ns > last_ns + STEP_NS ? end_ns : last_ns + STEP_NS;
}

int weft__trace_source_open(weft__trace_source *s, weft__trace_ring *ring,
                            const weft__trace_totals *totals)
{
    ssize_t records = weft__trace_ring_copy(ring, ring->is_done, &s->records);
    if (records < 0)
        return (int)records;
    s->ring = ring;
    s->count = (size_t)records;
    s->dropped = weft__trace_ring_dropped(ring);
    s->idle_ns = -1;
    convert_times(s, totals);
    return 0;
}

void weft__trace_source_close(weft__trace_source *s)
{
    free(s->records);
}
