/*
 * The index of a snapshot: the tree, groups of equal fibers, wait reasons. The call takes one pass
 * over the fibers. Two adjacent fibers usually have the same group, and need no lookup.
 */
#include "inspect/inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A hash table of groups, while the index is built. */
typedef struct group_table {
    uint32_t *slots; /* group + 1; 0: empty */
    size_t mask;
} group_table;

static size_t hash_of_id(weft_fiber id)
{
    return (size_t)((id * 0x9e3779b97f4a7c15u) >> 20);
}

/* Return a power of 2 that is at least twice the count. */
static size_t table_size(size_t count)
{
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    return size;
}

/* Hash a name. Each run of digits counts as one character. */
static uint64_t hash_name(uint64_t hash, const char *name)
{
    for (; *name != '\0'; name++) {
        bool is_digit = *name >= '0' && *name <= '9';
        if (is_digit && name[1] >= '0' && name[1] <= '9')
            continue;
        hash = (hash ^ (is_digit ? '#' : (unsigned char)*name)) * 1099511628211u;
    }
    return hash;
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * 0x9e3779b97f4a7c15u;
}

/* The key of a fiber's group. The ids of parents are stable, their indices are not. */
static uint64_t group_key(const weft_info *info)
{
    uint64_t hash = hash_name(WEFT__HASH_FIRST, info->name);
    hash = weft__hash_text(hash, info->waits_for);
    hash = hash_number(hash, (uint64_t)(uintptr_t)info->fn);
    hash = hash_number(hash, (uint64_t)info->state);
    hash = hash_number(hash, info->parent);
    return hash ^ hash >> 29;
}

/* Append a group to the groups of a parent, or to the roots. */
static uint32_t group_append(weft__index *x, uint64_t key, uint32_t parent, uint32_t *roots_last)
{
    uint32_t g = (uint32_t)x->groups_count++;
    x->groups[g] = (weft__fiber_group){
        .key = key, .parent = parent, .next = WEFT__NONE, .first = WEFT__NONE, .last = WEFT__NONE};
    uint32_t *first = parent == WEFT__NONE ? &x->roots : &x->nodes[parent].groups;
    uint32_t *last = parent == WEFT__NONE ? roots_last : &x->nodes[parent].groups_last;
    if (*first == WEFT__NONE)
        *first = g;
    else
        x->groups[*last].next = g;
    *last = g;
    return g;
}

/* Find the group with a key, or append it. Each root has a group of its own. */
static uint32_t group_find(weft__index *x, group_table *t, uint64_t key, uint32_t parent,
                           uint32_t *roots_last)
{
    if (parent == WEFT__NONE)
        return group_append(x, key, parent, roots_last);
    size_t slot = (size_t)key & t->mask;
    for (; t->slots[slot] != 0; slot = (slot + 1) & t->mask) {
        uint32_t g = t->slots[slot] - 1;
        if (x->groups[g].key == key && x->groups[g].parent == parent)
            return g;
    }
    uint32_t g = group_append(x, key, parent, roots_last);
    t->slots[slot] = g + 1;
    return g;
}

static void group_add(weft__index *x, uint32_t g, uint32_t fiber)
{
    weft__fiber_group *group = &x->groups[g];
    if (group->first == WEFT__NONE)
        group->first = fiber;
    else
        x->nodes[group->last].next = fiber;
    group->last = fiber;
    group->count++;
    x->nodes[fiber].group = g;
}

static void reason_add(weft__index *x, const weft_info *info)
{
    size_t r = 0;
    while (r < x->reasons_count && x->reasons[r].text != info->waits_for &&
           strcmp(x->reasons[r].text, info->waits_for) != 0)
        r++;
    if (r == WEFT__REASONS_MAX)
        return;
    if (r == x->reasons_count)
        x->reasons[x->reasons_count++] = (weft__wait_reason){.text = info->waits_for};
    x->reasons[r].count++;
    if (x->reasons[r].waiting == 0 || info->waiting_s > x->reasons[r].waiting_s) {
        x->reasons[r].waiting_s = info->waiting_s;
        x->reasons[r].waiting = info->id;
    }
}

static void sum_add(weft__index *x, const weft_info *info)
{
    x->stack_bytes += info->stack_bytes;
    x->stack_used += info->stack_used;
    x->running += info->state == WEFT_RUNNING;
    x->runnable += info->state == WEFT_RUNNABLE;
    x->waiting += info->state == WEFT_WAITING;
    if (info->state == WEFT_WAITING && info->waits_for[0] != '\0')
        reason_add(x, info);
}

static int compare_reasons(const void *a, const void *b)
{
    const weft__wait_reason *left = a, *right = b;
    if (left->count != right->count)
        return left->count < right->count ? 1 : -1;
    return strcmp(left->text, right->text);
}

static void id_add(weft__index *x, uint32_t fiber)
{
    size_t slot = hash_of_id(x->snapshot->fibers[fiber].info.id) & x->by_id_mask;
    while (x->by_id[slot] != 0)
        slot = (slot + 1) & x->by_id_mask;
    x->by_id[slot] = fiber + 1;
}

uint32_t weft__index_find(const weft__index *x, weft_fiber id)
{
    size_t slot = hash_of_id(id) & x->by_id_mask;
    for (; x->by_id[slot] != 0; slot = (slot + 1) & x->by_id_mask) {
        uint32_t fiber = x->by_id[slot] - 1;
        if (x->snapshot->fibers[fiber].info.id == id)
            return fiber;
    }
    return WEFT__NONE;
}

static int index_allocate(weft__index *x, group_table *t)
{
    size_t count = x->snapshot->fibers_count, size = table_size(count);
    x->nodes = calloc(count + 1, sizeof *x->nodes);
    x->groups = calloc(count + 1, sizeof *x->groups);
    x->by_id = calloc(size, sizeof *x->by_id);
    x->by_id_mask = size - 1;
    t->slots = calloc(size, sizeof *t->slots);
    t->mask = size - 1;
    return x->nodes != NULL && x->groups != NULL && x->by_id != NULL && t->slots != NULL ? 0
                                                                                         : -ENOMEM;
}

static void index_fill(weft__index *x, group_table *t)
{
    uint32_t roots_last = WEFT__NONE, previous = WEFT__NONE;
    for (uint32_t f = 0; f < x->snapshot->fibers_count; f++) {
        const weft_info *info = &x->snapshot->fibers[f].info;
        id_add(x, f);
        /* Parents are before their children. A parent can be missing if its cord is stalled. */
        uint32_t parent = info->parent != 0 ? weft__index_find(x, info->parent) : WEFT__NONE;
        x->nodes[f] = (weft__tree_node){
            .parent = parent, .next = WEFT__NONE, .groups = WEFT__NONE, .groups_last = WEFT__NONE};
        uint64_t key = group_key(info);
        if (previous == WEFT__NONE || parent == WEFT__NONE || x->groups[previous].key != key ||
            x->groups[previous].parent != parent)
            previous = group_find(x, t, key, parent, &roots_last);
        group_add(x, previous, f);
        sum_add(x, info);
    }
    qsort(x->reasons, x->reasons_count, sizeof *x->reasons, compare_reasons);
}

int weft__index_open(weft__index *x, const weft_snapshot *snapshot)
{
    group_table t = {0};
    *x = (weft__index){.snapshot = snapshot, .roots = WEFT__NONE};
    int rc = index_allocate(x, &t);
    if (rc == 0)
        index_fill(x, &t);
    else
        weft__index_close(x);
    free(t.slots);
    return rc;
}

void weft__index_close(weft__index *x)
{
    free(x->nodes);
    free(x->groups);
    free(x->by_id);
    *x = (weft__index){0};
}
