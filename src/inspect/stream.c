/*
 * The event stream of a viewer. The first update has all parts. Later updates have only rows that
 * have changed: an idle fiber costs no bytes, because a row has the begin of a wait and not its
 * duration. A viewer that reads slowly misses updates. The stream buffers only one.
 */
#include "inspect/inspect.h"

#include <weft/io.h>
#include <weft/time.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_S 0.1  /* between two looks at the sample that another viewer takes */
#define RETRY_S 1.0 /* after a snapshot that failed */
/* The begin of a wait is computed from two clocks. A smaller change is not a change. */
#define SINCE_SLACK_MS 100

/* A row that the viewer has. */
typedef struct sent_row {
    uint64_t key;
    uint64_t hash; /* of its JSON */
    int64_t since_ms;
} sent_row;

/* A viewer. */
typedef struct viewer {
    weft_http_request *request;
    weft_inspector *inspector;
    weft__view view;
    uint64_t sample; /* the number of the last sample; 0: none */
    uint64_t points; /* points of the timeline that the viewer has */
    sent_row *rows;  /* as many as the view has */
    size_t rows_count;
    uint64_t parts[4]; /* hashes of the parts that seldom change */
    double cost_s;     /* CPU time of the last update */
} viewer;

/* Find the names of all functions, and of the sites of the stack advice. */
static int find_functions(viewer *v, const weft__sample *s)
{
    const weft__index *x = &s->index; /* the fibers of a group have one function */
    size_t room = x->groups_count + 2 * WEFT__ADVICE_MAX;
    const void **functions = malloc(room * sizeof *functions);
    size_t count = 0;
    if (functions == NULL)
        return -ENOMEM;
    for (size_t g = 0; g < x->groups_count && count < WEFT__SYMBOLS_MAX; g++) {
        const void *fn = (const void *)x->snapshot->fibers[x->groups[g].first].info.fn;
        if (fn != NULL && (count == 0 || functions[count - 1] != fn) &&
            weft__symbol_get(v->inspector, fn).module[0] == '\0')
            functions[count++] = fn;
    }
    for (size_t n = 0; n < s->advice_count && count + 2 <= room; n++) {
        functions[count++] = (const void *)s->advice[n].fn;
        functions[count++] = weft__call_address(s->advice[n].spun_at);
    }
    int rc = count > 0 ? weft__symbols_find(v->inspector, functions, count) : 0;
    free(functions);
    return rc;
}

static const sent_row *sent_find(const viewer *v, uint64_t key, size_t near)
{
    if (near < v->rows_count && v->rows[near].key == key)
        return &v->rows[near];
    for (size_t r = 0; r < v->rows_count; r++)
        if (v->rows[r].key == key)
            return &v->rows[r];
    return NULL;
}

/* Write a row unless the viewer has it. Sets *now to its new state. */
static void write_row(viewer *v, weft__json *w, const weft__index *x, const weft__view_row *row,
                      size_t at, sent_row *now)
{
    weft__json text = {0};
    weft__json_open(&text, '{');
    int64_t since_ms = weft__row_write(&text, v->inspector, x, &v->view, row);
    *now = (sent_row){.key = row->key, .since_ms = since_ms};
    now->hash = weft__hash_text(WEFT__HASH_FIRST, text.text.data != NULL ? text.text.data : "");
    const sent_row *then = sent_find(v, row->key, at);
    int64_t change_ms = then != NULL ? llabs(then->since_ms - now->since_ms) : 0;
    bool is_same = then != NULL && then->hash == now->hash && change_ms < SINCE_SLACK_MS;
    if (is_same) {
        now->since_ms = then->since_ms; /* otherwise a slow drift would stay unnoticed */
    } else {
        if (now->since_ms != 0)
            weft__json_name_number(&text, "since", now->since_ms);
        weft__json_close(&text, '}');
        if (text.text.has_failed)
            w->text.has_failed = true;
        else
            weft__json_raw(w, text.text.data, text.text.bytes);
    }
    free(text.text.data);
}

/* Write the keys of all rows if their order has changed, and the rows that have changed. */
static int write_rows(viewer *v, weft__json *w, const weft__index *x, const weft__view_page *page)
{
    sent_row *now = calloc(page->count + 1, sizeof *now);
    if (now == NULL)
        return -ENOMEM;
    weft__json_name(w, "rows");
    weft__json_open(w, '[');
    for (size_t r = 0; r < page->count; r++)
        write_row(v, w, x, &page->rows[r], r, &now[r]);
    weft__json_close(w, ']');
    bool has_new_order = page->count != v->rows_count || v->sample == 0;
    for (size_t r = 0; r < page->count && !has_new_order; r++)
        has_new_order = now[r].key != v->rows[r].key;
    if (has_new_order) {
        weft__json_name(w, "order");
        weft__json_open(w, '[');
        for (size_t r = 0; r < page->count; r++) {
            char key[20];
            snprintf(key, sizeof key, "%llx", (unsigned long long)now[r].key);
            weft__json_string(w, key);
        }
        weft__json_close(w, ']');
    }
    free(v->rows);
    v->rows = now;
    v->rows_count = page->count;
    return 0;
}

/* Write a part of the update unless the viewer has it. */
static void write_part(viewer *v, weft__json *w, size_t part, const weft__sample *s,
                       void (*write)(weft__json *w, const weft__sample *s))
{
    weft__json text = {0};
    write(&text, s);
    uint64_t hash = weft__hash_text(WEFT__HASH_FIRST, text.text.data != NULL ? text.text.data : "");
    if (text.text.has_failed)
        w->text.has_failed = true;
    else if (text.text.bytes > 0 && hash != v->parts[part])
        weft__json_raw(w, text.text.data, text.text.bytes);
    v->parts[part] = hash;
    free(text.text.data);
}

static void write_parts(viewer *v, weft__json *w, const weft__sample *s)
{
    weft__point points[WEFT__POINTS_MAX];
    weft__json_name_number(w, "time", (int64_t)(1e3 * s->snapshot->taken_s));
    weft__json_name_number(w, "intervalMs", (int64_t)(1e3 * s->interval_s));
    if (v->sample == 0)
        weft__write_program(w, v->inspector);
    weft__write_sums(w, s);
    write_part(v, w, 0, s, weft__write_cords);
    write_part(v, w, 1, s, weft__write_reasons);
    write_part(v, w, 2, s, weft__write_latency);
    write_part(v, w, 3, s, weft__write_advice);
    weft__write_points(w, points, weft__points_copy(v->inspector, &v->points, points));
}

/* Write an update. Returns 0 or -ENOMEM. */
static int write_update(viewer *v, weft__json *w, const weft__sample *s)
{
    weft__view_page page;
    double begin_s = weft__cpu_time_self();
    int rc = weft__view_select(&v->view, v->inspector, &s->index, &page);
    if (rc < 0)
        return rc;
    weft__json_open(w, '{');
    write_parts(v, w, s);
    weft__json_name_number(w, "from", (int64_t)page.from);
    weft__json_name_number(w, "total", (int64_t)page.total);
    weft__json_name_number(w, "matching", (int64_t)page.matching);
    weft__json_name_number(w, "all", (int64_t)s->snapshot->fibers_count);
    rc = write_rows(v, w, &s->index, &page);
    weft__json_close(w, '}');
    free(page.rows);
    v->sample = s->number;
    v->cost_s = weft__cpu_time_self() - begin_s;
    return w->text.has_failed ? -ENOMEM : rc;
}

/* Send the latest sample, unless the viewer has it. */
static int send_update(viewer *v, double *wait_s)
{
    weft__sample *s;
    weft__json w = {0};
    int rc = weft__sample_get(v->inspector, &s);
    if (rc < 0)
        return rc;
    bool is_new = s->number != v->sample;
    if (is_new && (rc = find_functions(v, s)) == 0)
        rc = write_update(v, &w, s);
    *wait_s = s->interval_s;
    weft__sample_release(v->inspector, s);
    if (!is_new)
        *wait_s = LOOK_S;
    else if (v->cost_s / v->inspector->options.cpu_share_max > *wait_s)
        *wait_s = v->cost_s / v->inspector->options.cpu_share_max;
    if (rc == 0 && is_new)
        rc = weft_http_event(v->request, "update", NULL, w.text.data);
    free(w.text.data);
    return rc;
}

int weft__serve_events(weft_http_request *r, weft_inspector *i)
{
    viewer v = {.request = r, .inspector = i};
    int rc = weft__view_read(&v.view, r);
    if (rc == 0)
        rc = weft__viewer_enter(i);
    if (rc < 0)
        return rc;
    rc = weft_http_events(r);
    while (rc == 0) {
        double wait_s = 0;
        rc = send_update(&v, &wait_s);
        if (rc == -ENOMEM) { /* a part of the update is missing: begin again */
            v.sample = 0;
            v.rows_count = 0;
            wait_s = RETRY_S;
            rc = weft_http_event(r, "problem", NULL, "memory is exhausted");
        }
        if (rc == 0)
            rc = weft_sleep(wait_s);
    }
    free(v.rows);
    weft__viewer_leave(i);
    return rc;
}
