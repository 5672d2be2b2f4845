/* The table of ended children without records. See unawaited.h. */
#include "core/lifetime/unawaited.h"

#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/tree.h"

#include <stdlib.h>
#include <string.h>

/* Maximum number of ended children that compact_oldest() inspects. */
#define INSPECTED_MAX 8
#define CAPACITY_MIN 64

static uint32_t *bucket_of(const weft__unawaited_table *t, weft_fiber id)
{
    uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15);
    return &t->buckets[hash >> 32 & (t->capacity - 1)];
}

static void entry_hash_insert(weft__unawaited_table *t, uint32_t slot)
{
    uint32_t *bucket = bucket_of(t, t->entries[slot].id);
    t->entries[slot].hash_next = *bucket;
    *bucket = slot;
}

static void entry_hash_remove(weft__unawaited_table *t, uint32_t slot)
{
    uint32_t *link = bucket_of(t, t->entries[slot].id);
    while (*link != slot)
        link = &t->entries[*link].hash_next;
    *link = t->entries[slot].hash_next;
}

/* Double the capacity of a table without free slots. Returns false if memory is exhausted. */
static bool unawaited_table_grow(weft__unawaited_table *t)
{
    uint32_t capacity = t->capacity > 0 ? t->capacity * 2 : CAPACITY_MIN;
    weft__unawaited *entries = realloc(t->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return false;
    t->entries = entries;
    uint32_t *buckets = calloc(capacity, sizeof *buckets);
    if (buckets == NULL)
        return false;
    free(t->buckets);
    t->buckets = buckets;
    uint32_t end = t->capacity;
    t->capacity = capacity;
    for (uint32_t i = 1; i < end; i++)
        entry_hash_insert(t, i);
    t->unused = end > 0 ? end : 1;
    return true;
}

/* Return a free slot, or 0 if memory is exhausted. */
static uint32_t entry_take_slot(weft__unawaited_table *t)
{
    uint32_t slot = t->first_free;
    if (slot != 0) {
        t->first_free = t->entries[slot].next;
        return slot;
    }
    if (t->unused == t->capacity && !unawaited_table_grow(t))
        return 0;
    return t->unused++;
}

static void unawaited_table_free(weft__unawaited_table *t)
{
    free(t->entries);
    free(t->buckets);
    *t = (weft__unawaited_table){0};
}

/* Add an entry to the front of the list of its parent. */
static void entry_link_parent(weft__unawaited_table *t, uint32_t slot, weft__fiber *parent)
{
    weft__unawaited *e = &t->entries[slot];
    e->prev = 0;
    e->next = parent->live->unawaited_first;
    if (e->next != 0)
        t->entries[e->next].prev = slot;
    parent->live->unawaited_first = slot;
    parent->live->unawaited_count++;
    parent->has_unawaited = true;
}

/* Remove an entry. Free the table with the last entry. */
static void entry_remove(weft__cord *c, uint32_t slot)
{
    weft__unawaited_table *t = &c->unawaited;
    weft__unawaited *e = &t->entries[slot];
    weft__fiber_live *live = weft__record_at(c, e->parent)->live;
    entry_hash_remove(t, slot);
    if (e->prev != 0)
        t->entries[e->prev].next = e->next;
    else
        live->unawaited_first = e->next;
    if (e->next != 0)
        t->entries[e->next].prev = e->prev;
    live->unawaited_count--;
    e->id = 0;
    e->next = t->first_free;
    t->first_free = slot;
    if (--t->count == 0)
        unawaited_table_free(t);
}

/*
 * Return whether an entry can replace the record. The result is false if a reaper or a monitor
 * needs the record.
 */
static bool can_be_compacted(const weft__fiber *f)
{
    return f->reaper == NULL && f->monitors == NULL && f->awaits_left == 1;
}

/* Replace a record with an entry. Returns false if memory is exhausted. */
static bool record_compact(weft__cord *c, weft__fiber *parent, weft__fiber *f)
{
    weft__unawaited_table *t = &c->unawaited;
    uint32_t slot = entry_take_slot(t);
    if (slot == 0)
        return false;
    bool has_error =
        weft_is_error(f->result) && f->error != NULL && f->error->info.code == (int)f->result;
    weft__unawaited *e = &t->entries[slot];
    *e = (weft__unawaited){.id = f->id,
                           .value = f->result,
                           .parent = weft__fiber_slot(parent->last_id),
                           .has_error = has_error};
    if (has_error)
        e->error = weft__error_ref(f->error);
    entry_hash_insert(t, slot);
    entry_link_parent(t, slot, parent);
    t->count++;
    weft__list_remove(&f->sibling);
    c->ended_count--;
    parent->live->ended_count--;
    weft__fiber_free(c, f);
    return true;
}

static void compact_oldest(weft__cord *c, weft__fiber *parent)
{
    weft__list *head = &parent->live->ended, *node = head->next;
    for (int i = 0; i < INSPECTED_MAX && node != head; i++, node = node->next) {
        weft__fiber *f = weft__fiber_of_sibling(node);
        if (can_be_compacted(f)) {
            record_compact(c, parent, f);
            return;
        }
    }
}

COLD void weft__unawaited_compact(weft__cord *c, weft__fiber *parent, const weft__fiber *child)
{
    const weft__fiber_live *live = parent->live;
    if (live->ended_count + live->unawaited_count == WEFT__UNAWAITED_WARN)
        weft__diag_unawaited(parent, child, WEFT__UNAWAITED_WARN);
    compact_oldest(c, parent);
}

static uint32_t entry_find(const weft__cord *c, weft_fiber id)
{
    const weft__unawaited_table *t = &c->unawaited;
    uint32_t slot = t->count > 0 ? *bucket_of(t, id) : 0;
    while (slot != 0 && t->entries[slot].id != id)
        slot = t->entries[slot].hash_next;
    return slot;
}

const weft__unawaited *weft__unawaited_find(const weft__cord *c, weft_fiber id)
{
    uint32_t slot = entry_find(c, id);
    return slot != 0 ? &c->unawaited.entries[slot] : NULL;
}

bool weft__unawaited_take(weft__cord *c, weft_fiber id, weft_value *value)
{
    uint32_t slot = entry_find(c, id);
    if (slot == 0)
        return false;
    weft__unawaited e = c->unawaited.entries[slot];
    weft__fiber *parent = weft__record_at(c, e.parent);
    entry_remove(c, slot);
    weft__error *error = e.has_error ? e.error : NULL;
    *value = e.has_error ? error->info.code : e.value;
    if (weft_is_error(*value)) { /* the caller gets the error instead of the parent */
        weft__error_unqueue(parent, error, (int)*value);
        weft__cancel_update(parent);
        weft__error_set(c->current, error);
    }
    return true;
}

void weft__unawaited_drop(weft__cord *c, weft__fiber *parent)
{
    uint32_t slot;
    while ((slot = parent->live->unawaited_first) != 0) {
        const weft__unawaited *e = &c->unawaited.entries[slot];
        weft__error *error = e->has_error ? e->error : NULL;
        entry_remove(c, slot);
        weft__error_unref(error);
    }
    parent->has_unawaited = false;
}

void weft__unawaited_close(weft__cord *c)
{
    weft__unawaited_table *t = &c->unawaited;
    for (uint32_t i = 1; i < t->unused; i++)
        if (t->entries[i].id != 0 && t->entries[i].has_error)
            weft__error_unref(t->entries[i].error);
    unawaited_table_free(t);
}
