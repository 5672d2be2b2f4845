/* Measuring who uses the time, and the table of it. */
#include "core/top.h"

#include "base/clock.h"
#include "core/report.h"
#include "core/sched.h"

#include <stdlib.h>
#include <string.h>

void weft__top_clear(weft__top *t)
{
    free(t->of);
    *t = (weft__top){0};
}

void weft__top_begin(weft__top *t, int64_t now_ns)
{
    weft__top_clear(t);
    t->began_ns = now_ns;
}

static uint32_t period_at(const weft__top *t, int64_t ns)
{
    return (uint32_t)((ns - t->began_ns) / WEFT__SHARE_PERIOD_NS);
}

/* What is left of a share by then. Rounded down each time: the parts never exceed the whole. */
static uint32_t left_in(const weft__share *s, uint32_t period)
{
    uint32_t age = period - s->period;
    return age < 32 ? s->ns >> age : 0;
}

static void add(weft__share *s, uint32_t period, uint32_t ns)
{
    s->ns = left_in(s, period) + ns;
    s->period = period;
}

/* Others add some, too. */
static uint32_t records_of(const weft__cord *c)
{
    return __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE) * WEFT__CHUNK_FIBERS;
}

/* Room for a share of every fiber. False: no memory. */
static bool grow(weft__cord *c)
{
    weft__top *t = &c->top;
    uint32_t count = records_of(c);
    weft__share *of = realloc(t->of, count * sizeof *of);
    if (of == NULL)
        return false;
    memset(of + t->of_count, 0, (count - t->of_count) * sizeof *of);
    t->of = of;
    t->of_count = count;
    return true;
}

/* NULL: no memory. */
static weft__share *share_of(weft__cord *c, const weft__fiber *f)
{
    if (f == NULL)
        return &c->top.idle;
    uint32_t slot = weft__fiber_slot(f->last_id);
    if (slot >= c->top.of_count && !grow(c))
        return NULL;
    weft__share *s = &c->top.of[slot];
    if (s->id != f->id)
        *s = (weft__share){.id = f->id}; /* the one before it in this slot is gone */
    return s;
}

void weft__top_add(weft__cord *c, const weft__fiber *f, int64_t from_ns, int64_t to_ns)
{
    weft__top *t = &c->top;
    weft__share *s = share_of(c, f);
    if (f == NULL)
        t->idle_ns += to_ns - from_ns;
    int64_t oldest_ns = to_ns - 32 * (int64_t)WEFT__SHARE_PERIOD_NS; /* nothing is left of it */
    for (int64_t at_ns = from_ns > oldest_ns ? from_ns : oldest_ns; at_ns < to_ns;) {
        uint32_t period = period_at(t, at_ns);
        int64_t end_ns = t->began_ns + (period + (int64_t)1) * WEFT__SHARE_PERIOD_NS;
        uint32_t ns = (uint32_t)((to_ns < end_ns ? to_ns : end_ns) - at_ns);
        if (s != NULL)
            add(s, period, ns);
        add(&t->all, period, ns);
        at_ns += ns;
    }
}

/* What is left of the share of a fiber, or of idleness, now. */
static uint32_t recent(const weft__cord *c, const weft__fiber *f)
{
    const weft__top *t = &c->top;
    if (f == NULL)
        return left_in(&t->idle, t->all.period);
    uint32_t slot = weft__fiber_slot(f->last_id);
    if (slot >= t->of_count || t->of[slot].id != f->id)
        return 0;
    return left_in(&t->of[slot], t->all.period);
}

double weft__top_share(const weft__cord *c, const weft__fiber *f)
{
    return c->top.all.ns > 0 ? (double)recent(c, f) / c->top.all.ns : 0;
}

void weft_account(bool on)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL || c->is_accounting == on)
        return;
    if (on) {
        c->switched_ns = weft__clock_ns();
        weft__top_begin(&c->top, c->switched_ns);
    } else {
        weft__account(c);
        weft__top_clear(&c->top);
    }
    c->is_accounting = on;
    weft__set_turn(c, 1);
}

/* A line of the table. */
typedef struct row {
    const weft__fiber *fiber; /* NULL: nobody */
    uint32_t recent_ns;
} row;

/* The greater share first, then the lower id. */
static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->recent_ns != y->recent_ns)
        return x->recent_ns > y->recent_ns ? -1 : 1;
    weft_fiber xid = x->fiber != NULL ? x->fiber->id : 0, yid = y->fiber != NULL ? y->fiber->id : 0;
    return (xid > yid) - (xid < yid);
}

/* The living, and one more for nobody. */
static size_t fill(const weft__cord *c, row *rows, size_t room)
{
    size_t n = 0;
    rows[n++] = (row){NULL, recent(c, NULL)};
    for (uint32_t slot = 0, end = records_of(c); slot < end && n < room; slot++) {
        const weft__fiber *f = weft__cord_at(c, slot);
        if (f->phase != WEFT__FREE && f->phase != WEFT__ENDED)
            rows[n++] = (row){f, recent(c, f)};
    }
    return n;
}

static int say_row(const weft__cord *c, const row *r, int fd)
{
    uint32_t all = c->top.all.ns > 0 ? c->top.all.ns : 1;
    unsigned permille = (unsigned)((uint64_t)r->recent_ns * 1000 / all); /* never more than 1000 */
    const weft__fiber *f = r->fiber;
    if (f == NULL)
        return weft__say(fd, "%5u.%u %12.3f %12s  idle\n", permille / 10, permille % 10,
                         (double)c->top.idle_ns / 1e9, "-");
    return weft__say(fd, "%5u.%u %12.3f %12llu  #%llu '%s'\n", permille / 10, permille % 10,
                     (double)f->life->cpu_ns / 1e9, (unsigned long long)f->switches,
                     (unsigned long long)f->id, f->name);
}

int weft_top(int fd)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!c->is_accounting)
        return weft_fail(-ENODATA, "time is not measured: weft_account(true)");
    size_t room = (size_t)weft__cord_fibers(c) + 2;
    row *rows = malloc(room * sizeof *rows);
    if (rows == NULL)
        return weft__no_cord();
    weft__account(c);
    size_t n = fill(c, rows, room);
    qsort(rows, n, sizeof *rows, compare);
    int rc = weft__say(fd, "%7s %12s %12s  %s\n", "%", "CPU s", "switches", "fiber");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = say_row(c, &rows[i], fd);
    free(rows);
    return rc;
}
