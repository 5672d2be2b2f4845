/* Shares of CPU time, and the table of weft_top. */
#include "core/debug/top.h"

#include "base/clock.h"
#include "core/debug/diag.h"
#include "core/sched/sched.h"

#include <stdlib.h>
#include <string.h>

void weft__top_clear(weft__top *t)
{
    free(t->shares);
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

/*
 * Return the weighted time of a share, as of the given period. The function rounds down, so that
 * the sum of all shares does not exceed the total.
 */
static uint32_t share_left(const weft__share *s, uint32_t period)
{
    uint32_t age = period - s->period;
    return age < 32 ? s->ns >> age : 0;
}

static void share_add(weft__share *s, uint32_t period, uint32_t ns)
{
    s->ns = share_left(s, period) + ns;
    s->period = period;
}

/* Return the number of records. Other threads may add chunks of records at the same time. */
static uint32_t records_of(const weft__cord *c)
{
    return __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE) * WEFT__CHUNK_FIBERS;
}

/* Grow the array of shares to the number of records. Return false if memory is exhausted. */
static bool shares_grow(weft__cord *c)
{
    weft__top *t = &c->top;
    uint32_t count = records_of(c);
    weft__share *shares = realloc(t->shares, count * sizeof *shares);
    if (shares == NULL)
        return false;
    memset(shares + t->shares_count, 0, (count - t->shares_count) * sizeof *shares);
    t->shares = shares;
    t->shares_count = count;
    return true;
}

/*
 * Return the share of f, or the share of idle time if f is NULL. Return NULL if memory is
 * exhausted.
 */
static weft__share *share_of(weft__cord *c, const weft__fiber *f)
{
    if (f == NULL)
        return &c->top.idle;
    uint32_t slot = weft__fiber_slot(f->last_id);
    if (slot >= c->top.shares_count && !shares_grow(c))
        return NULL;
    weft__share *s = &c->top.shares[slot];
    if (s->id != f->id)
        *s = (weft__share){.id = f->id}; /* the previous fiber of this slot has ended */
    return s;
}

void weft__top_add(weft__cord *c, const weft__fiber *f, int64_t from_ns, int64_t to_ns)
{
    weft__top *t = &c->top;
    weft__share *s = share_of(c, f);
    if (f == NULL)
        t->idle_ns += to_ns - from_ns;
    int64_t oldest_ns = to_ns - 32 * (int64_t)WEFT__SHARE_PERIOD_NS; /* older time has no weight */
    for (int64_t at_ns = from_ns > oldest_ns ? from_ns : oldest_ns; at_ns < to_ns;) {
        uint32_t period = period_at(t, at_ns);
        int64_t end_ns = t->began_ns + (period + (int64_t)1) * WEFT__SHARE_PERIOD_NS;
        uint32_t ns = (uint32_t)((to_ns < end_ns ? to_ns : end_ns) - at_ns);
        if (s != NULL)
            share_add(s, period, ns);
        share_add(&t->all, period, ns);
        at_ns += ns;
    }
}

/*
 * Return the weighted time of f, or the weighted idle time if f is NULL, as of the current period.
 */
static uint32_t share_recent(const weft__cord *c, const weft__fiber *f)
{
    const weft__top *t = &c->top;
    if (f == NULL)
        return share_left(&t->idle, t->all.period);
    uint32_t slot = weft__fiber_slot(f->last_id);
    if (slot >= t->shares_count || t->shares[slot].id != f->id)
        return 0;
    return share_left(&t->shares[slot], t->all.period);
}

double weft__top_share(const weft__cord *c, const weft__fiber *f)
{
    return c->top.all.ns > 0 ? (double)share_recent(c, f) / c->top.all.ns : 0;
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
    weft__stats_publish_idle(c);
    weft__tick_set(c, 1);
}

/* A row of the table. */
typedef struct row {
    const weft__fiber *fiber; /* NULL: idle time */
    uint32_t recent_ns;
} row;

/* Sort by share, largest first, then by id. */
static int row_compare(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->recent_ns != y->recent_ns)
        return x->recent_ns > y->recent_ns ? -1 : 1;
    weft_fiber xid = x->fiber != NULL ? x->fiber->id : 0, yid = y->fiber != NULL ? y->fiber->id : 0;
    return (xid > yid) - (xid < yid);
}

/* Fill in a row for idle time and for every living fiber. */
static size_t rows_fill(const weft__cord *c, row *rows, size_t capacity)
{
    size_t n = 0;
    rows[n++] = (row){NULL, share_recent(c, NULL)};
    for (uint32_t slot = 0, end = records_of(c); slot < end && n < capacity; slot++) {
        const weft__fiber *f = weft__record_at(c, slot);
        if (f->phase != WEFT__FREE && f->phase != WEFT__ENDED)
            rows[n++] = (row){f, share_recent(c, f)};
    }
    return n;
}

static int print_row(const weft__cord *c, const row *r, int fd)
{
    uint32_t all = c->top.all.ns > 0 ? c->top.all.ns : 1;
    unsigned permille = (unsigned)((uint64_t)r->recent_ns * 1000 / all); /* at most 1000 */
    const weft__fiber *f = r->fiber;
    if (f == NULL)
        return weft__report_print(&WEFT__REPORT_TO(fd), "%5u.%u %12.3f %12s  idle\n", permille / 10,
                                  permille % 10, (double)c->top.idle_ns / 1e9, "-");
    return weft__report_print(&WEFT__REPORT_TO(fd), "%5u.%u %12.3f %12llu  #%llu '%s'\n",
                              permille / 10, permille % 10, (double)f->live->cpu_ns / 1e9,
                              (unsigned long long)f->switches, (unsigned long long)f->id, f->name);
}

int weft_top(int fd)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!c->is_accounting)
        return weft_fail(-ENODATA, "weft_top: weft_account is off");
    size_t capacity = (size_t)weft__cord_fibers(c) + 2;
    row *rows = malloc(capacity * sizeof *rows);
    if (rows == NULL)
        return weft__no_cord();
    weft__account(c);
    size_t n = rows_fill(c, rows, capacity);
    qsort(rows, n, sizeof *rows, row_compare);
    int rc = weft__report_print(&WEFT__REPORT_TO(fd), "%7s %12s %12s  %s\n", "%", "CPU s",
                                "switches", "fiber");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = print_row(c, &rows[i], fd);
    free(rows);
    return rc;
}
