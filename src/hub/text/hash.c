/* A hash table of intrusive nodes. See hash.h. */
#include "hub/text/hash.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS_FIRST 16

/* FNV-1a. The final multiplication spreads the last bytes over the upper bits. */
uint64_t weft__hash_bytes(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return weft__hash_number(hash);
}

uint64_t weft__hash_number(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return number ^ number >> 32;
}

static void slots_init(weft__list *slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        weft__list_init(&slots[i]);
}

static void nodes_move(weft__list *slots, size_t mask, weft__list *from)
{
    for (weft__list *link; (link = weft__list_pop(from)) != NULL;) {
        weft__hash_node *node = CONTAINER_OF(link, weft__hash_node, link);
        weft__list_insert(&slots[node->hash & mask], link);
    }
}

static int hash_grow(weft__hash *table)
{
    size_t capacity = table->slots == NULL ? SLOTS_FIRST : 2 * (table->mask + 1);
    weft__list *slots = malloc(capacity * sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    slots_init(slots, capacity);
    for (size_t i = 0; table->slots != NULL && i <= table->mask; i++)
        nodes_move(slots, capacity - 1, &table->slots[i]);
    free(table->slots);
    table->slots = slots;
    table->mask = capacity - 1;
    return 0;
}

int weft__hash_insert(weft__hash *table, weft__hash_node *node, uint64_t hash)
{
    /* A full table works without growing, but slowly. Only the first slots must be there. */
    bool is_full = table->slots == NULL || table->count > table->mask;
    if (is_full && hash_grow(table) < 0 && table->slots == NULL)
        return -ENOMEM;
    node->hash = hash;
    weft__list_insert(&table->slots[hash & table->mask], &node->link);
    table->count++;
    return 0;
}

void weft__hash_remove(weft__hash *table, weft__hash_node *node)
{
    weft__list_remove(&node->link);
    table->count--;
}

static weft__hash_node *node_from(const weft__list *slot, const weft__list *link, uint64_t hash)
{
    for (; link != slot; link = link->next) {
        weft__hash_node *node = CONTAINER_OF(link, weft__hash_node, link);
        if (node->hash == hash)
            return node;
    }
    return NULL;
}

weft__hash_node *weft__hash_first(const weft__hash *table, uint64_t hash)
{
    if (table->count == 0)
        return NULL;
    const weft__list *slot = &table->slots[hash & table->mask];
    return node_from(slot, slot->next, hash);
}

weft__hash_node *weft__hash_next(const weft__hash *table, const weft__hash_node *node)
{
    return node_from(&table->slots[node->hash & table->mask], node->link.next, node->hash);
}

void weft__hash_free(weft__hash *table)
{
    free(table->slots);
    *table = (weft__hash){0};
}
