/* The table of ended children that are kept in short: see ended.h. */
#include "core/ended.h"

#include "core/alarm.h"
#include "core/end.h"
#include "core/error.h"
#include "core/report.h"
#include "core/tree.h"

#include <stdlib.h>
#include <string.h>

/* How many of a parent's oldest ended children are examined for one that can be shortened. */
#define LOOKED_AT_MAX 8
#define PLACES_MIN 64

static uint32_t *bucket_of(const weft__ended_table *t, weft_fiber id)
{
    uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15);
    return &t->buckets[hash >> 32 & (t->places - 1)];
}

static void chain_in(weft__ended_table *t, uint32_t place)
{
    uint32_t *bucket = bucket_of(t, t->at[place].id);
    t->at[place].chain = *bucket;
    *bucket = place;
}

static void chain_out(weft__ended_table *t, uint32_t place)
{
    uint32_t *link = bucket_of(t, t->at[place].id);
    while (*link != place)
        link = &t->at[*link].chain;
    *link = t->at[place].chain;
}

/* Double the table, in which all places are used. False: no memory. */
static bool grow_ended_table(weft__ended_table *t)
{
    uint32_t places = t->places > 0 ? t->places * 2 : PLACES_MIN;
    weft__ended *at = realloc(t->at, places * sizeof *at);
    if (at == NULL)
        return false;
    t->at = at;
    uint32_t *buckets = calloc(places, sizeof *buckets);
    if (buckets == NULL)
        return false;
    free(t->buckets);
    t->buckets = buckets;
    uint32_t end = t->places;
    t->places = places;
    for (uint32_t i = 1; i < end; i++)
        chain_in(t, i);
    t->unused = end > 0 ? end : 1;
    return true;
}

/* A place that is not in use; 0: no memory. */
static uint32_t take_place(weft__ended_table *t)
{
    uint32_t place = t->first_free;
    if (place != 0) {
        t->first_free = t->at[place].next;
        return place;
    }
    if (t->unused == t->places && !grow_ended_table(t))
        return 0;
    return t->unused++;
}

static void free_table(weft__ended_table *t)
{
    free(t->at);
    free(t->buckets);
    *t = (weft__ended_table){0};
}

/* In front of the others of its parent. */
static void link_to_parent(weft__ended_table *t, uint32_t place, weft__fiber *parent)
{
    weft__ended *e = &t->at[place];
    e->prev = 0;
    e->next = parent->life->short_first;
    if (e->next != 0)
        t->at[e->next].prev = place;
    parent->life->short_first = place;
    parent->life->short_count++;
    parent->has_short = true;
}

/* Remove an entry. Free the table with the last one. */
static void remove_place(weft__cord *c, uint32_t place)
{
    weft__ended_table *t = &c->ended;
    weft__ended *e = &t->at[place];
    weft__life *life = weft__cord_at(c, e->parent)->life;
    chain_out(t, place);
    if (e->prev != 0)
        t->at[e->prev].next = e->next;
    else
        life->short_first = e->next;
    if (e->next != 0)
        t->at[e->next].prev = e->prev;
    life->short_count--;
    e->id = 0;
    e->next = t->first_free;
    t->first_free = place;
    if (--t->count == 0)
        free_table(t);
}

/* Can an entry replace the record? Not if a keeper or a monitor needs it. */
static bool can_be_short(const weft__fiber *f)
{
    return f->keeper == NULL && f->monitors == NULL && f->awaits_left == 1;
}

/* False: no memory. */
static bool keep_short(weft__cord *c, weft__fiber *parent, weft__fiber *f)
{
    weft__ended_table *t = &c->ended;
    uint32_t place = take_place(t);
    if (place == 0)
        return false;
    bool has_words =
        weft_is_error(f->result) && f->error != NULL && f->error->info.code == (int)f->result;
    weft__ended *e = &t->at[place];
    *e = (weft__ended){.id = f->id,
                       .value = f->result,
                       .parent = weft__fiber_slot(parent->last_id),
                       .has_words = has_words};
    if (has_words)
        e->words = weft__error_ref(f->error);
    chain_in(t, place);
    link_to_parent(t, place, parent);
    t->count++;
    weft__list_remove(&f->sibling);
    c->ended_count--;
    parent->life->ended_count--;
    weft__fiber_free(c, f);
    return true;
}

static void shorten_oldest(weft__cord *c, weft__fiber *parent)
{
    weft__list *head = &parent->life->ended, *node = head->next;
    for (int i = 0; i < LOOKED_AT_MAX && node != head; i++, node = node->next) {
        weft__fiber *f = weft__fiber_of_sibling(node);
        if (can_be_short(f)) {
            keep_short(c, parent, f);
            return;
        }
    }
}

COLD void weft__ended_shorten(weft__cord *c, weft__fiber *parent, const weft__fiber *child)
{
    const weft__life *life = parent->life;
    if (life->ended_count + life->short_count == WEFT__ENDED_SAID)
        weft__report_unawaited(parent, child, WEFT__ENDED_SAID);
    shorten_oldest(c, parent);
}

static uint32_t find_place(const weft__cord *c, weft_fiber id)
{
    const weft__ended_table *t = &c->ended;
    uint32_t place = t->count > 0 ? *bucket_of(t, id) : 0;
    while (place != 0 && t->at[place].id != id)
        place = t->at[place].chain;
    return place;
}

const weft__ended *weft__ended_find(const weft__cord *c, weft_fiber id)
{
    uint32_t place = find_place(c, id);
    return place != 0 ? &c->ended.at[place] : NULL;
}

bool weft__ended_take(weft__cord *c, weft_fiber id, weft_value *value)
{
    uint32_t place = find_place(c, id);
    if (place == 0)
        return false;
    weft__ended e = c->ended.at[place];
    weft__fiber *parent = weft__cord_at(c, e.parent);
    remove_place(c, place);
    weft__error *words = e.has_words ? e.words : NULL;
    *value = e.has_words ? words->info.code : e.value;
    if (weft_is_error(*value)) { /* the parent need not get it any more */
        weft__error_unqueue(parent, words, (int)*value);
        weft__alarm_update(parent);
        weft__error_set(c->current, words);
    }
    return true;
}

void weft__ended_bury(weft__cord *c, weft__fiber *parent)
{
    uint32_t place;
    while ((place = parent->life->short_first) != 0) {
        const weft__ended *e = &c->ended.at[place];
        weft__error *words = e->has_words ? e->words : NULL;
        remove_place(c, place);
        weft__error_unref(words);
    }
    parent->has_short = false;
}

void weft__ended_close(weft__cord *c)
{
    weft__ended_table *t = &c->ended;
    for (uint32_t i = 1; i < t->unused; i++)
        if (t->at[i].id != 0 && t->at[i].has_words)
            weft__error_unref(t->at[i].words);
    free_table(t);
}
