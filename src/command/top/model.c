/* What `weft top` shows. See model.h. */
#include "command/top/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const weft__top_sort_names[TOP_SORTS] = {"cpu", "wait", "stack", "switches", "id"};

/* Words of a line, taken one after the other. */
typedef struct word_reader {
    const inspect_line *line;
    size_t next;
} word_reader;

static const char *take_word(word_reader *w)
{
    return w->next < INSPECT_WORDS_MAX ? w->line->words[w->next++] : "";
}

static double take_double(word_reader *w)
{
    return strtod(take_word(w), NULL);
}

static uint64_t take_number(word_reader *w)
{
    return strtoull(take_word(w), NULL, 10);
}

#define TAKE_TEXT(w, field) snprintf((field), sizeof(field), "%s", take_word(w))

static void parse_process(word_reader *w, top_view *v)
{
    v->pid = (int)take_number(w);
    v->uptime_s = take_double(w);
    v->taken_s = take_double(w);
    v->fibers = take_number(w);
    v->rows_all = take_number(w);
    v->row_first = take_number(w);
    TAKE_TEXT(w, v->program);
}

static void parse_cord(word_reader *w, top_cord *c)
{
    c->id = take_number(w);
    c->thread_id = (int)take_number(w);
    c->has_replied = take_number(w) != 0;
    c->stalled_s = take_double(w);
    c->fibers = take_number(w);
    c->runnable = take_number(w);
    c->switches = take_number(w);
    c->polls = take_number(w);
    c->ops = take_number(w);
    c->timers = take_number(w);
    c->idle_share = take_double(w);
    c->cpu_s = take_double(w);
    TAKE_TEXT(w, c->backend);
    TAKE_TEXT(w, c->name);
}

static void parse_row(word_reader *w, top_row *r)
{
    r->id = take_number(w);
    r->count = take_number(w);
    r->cord = (unsigned)take_number(w);
    r->depth = (unsigned)take_number(w);
    TAKE_TEXT(w, r->state);
    r->cpu_share = take_double(w);
    r->cpu_s = take_double(w);
    r->waiting_s = take_double(w);
    r->switches = take_number(w);
    r->stack_used = take_number(w);
    r->stack_bytes = take_number(w);
    r->fd = (int)strtol(take_word(w), NULL, 10);
    r->deadline_s = take_double(w);
    r->holder = take_number(w);
    TAKE_TEXT(w, r->flags);
    TAKE_TEXT(w, r->reason);
    TAKE_TEXT(w, r->name);
    TAKE_TEXT(w, r->function);
    TAKE_TEXT(w, r->local);
    TAKE_TEXT(w, r->peer);
}

/* Return a new element of an array. Return NULL if memory is exhausted. */
static void *array_add(void *array, size_t *count, size_t *capacity, size_t bytes)
{
    void **data = array;
    if (*count == *capacity) {
        size_t more = *capacity > 0 ? 2 * *capacity : 16;
        void *grown = realloc(*data, more * bytes);
        if (grown == NULL)
            return NULL;
        *data = grown;
        *capacity = more;
    }
    return (char *)*data + bytes * (*count)++;
}

static void view_take_line(void *context, const inspect_line *line)
{
    top_view *v = context;
    word_reader w = {line, 0};
    const char *kind = take_word(&w);
    if (strcmp(kind, "process") == 0) {
        parse_process(&w, v);
    } else if (strcmp(kind, "cord") == 0 && v->cords_count < TOP_CORDS_MAX) {
        top_cord *c = array_add(&v->cords, &v->cords_count, &v->cords_capacity, sizeof *c);
        v->has_failed |= c == NULL;
        if (c != NULL)
            parse_cord(&w, c);
    } else if (strcmp(kind, "fiber") == 0) {
        top_row *r = array_add(&v->rows, &v->rows_count, &v->rows_capacity, sizeof *r);
        v->has_failed |= r == NULL;
        if (r != NULL)
            parse_row(&w, r);
    }
}

int weft__top_view_get(inspect_client *client, const top_query *q, top_view *v)
{
    char request[480];
    snprintf(request, sizeof request, "view sort=%s%s%s limit=%zu offset=%zu",
             weft__top_sort_names[q->sort], q->is_tree ? " tree" : "",
             q->has_groups ? " group" : "", q->limit, q->offset);
    if (q->filter[0] != '\0') {
        strcat(request, " filter=");
        if (!weft__inspect_append_word(request, sizeof request, q->filter))
            return -EMSGSIZE;
    }
    v->cords_count = v->rows_count = 0;
    v->has_failed = false;
    int rc = weft__inspect_request(client, request, view_take_line, v);
    return rc == 0 && v->has_failed ? -ENOMEM : rc;
}

void weft__top_view_free(top_view *v)
{
    free(v->cords);
    free(v->rows);
    *v = (top_view){0};
}

const top_cord *weft__top_cord_find(const top_view *v, uint64_t id)
{
    for (size_t i = 0; i < v->cords_count; i++)
        if (v->cords[i].id == id)
            return &v->cords[i];
    return NULL;
}

static void backtrace_take_line(void *context, const inspect_line *line)
{
    top_backtrace *b = context;
    word_reader w = {line, 0};
    const char *kind = take_word(&w);
    if (strcmp(kind, "fiber") == 0) {
        parse_row(&w, &b->fiber);
    } else if (strcmp(kind, "frame") == 0 && b->count < TOP_FRAMES_MAX) {
        top_frame *f = &b->frames[b->count++];
        TAKE_TEXT(&w, f->function);
        TAKE_TEXT(&w, f->file);
        f->line = (unsigned)take_number(&w);
        TAKE_TEXT(&w, f->module);
        TAKE_TEXT(&w, f->offset);
    }
}

int weft__top_backtrace_get(inspect_client *client, uint64_t id, top_backtrace *b)
{
    char request[64];
    *b = (top_backtrace){0};
    snprintf(request, sizeof request, "backtrace %" PRIu64, id);
    return weft__inspect_request(client, request, backtrace_take_line, b);
}
