/*
 * A hash table of nodes in the memory of the caller. All-zero is empty. The hash of a node is its
 * caller's: nodes with equal hashes are told apart by the caller.
 */
#ifndef WEFT_HUB_CLIENT_TABLE_H
#define WEFT_HUB_CLIENT_TABLE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct weft__table_node {
    struct weft__table_node *next;
    uint64_t hash;
} weft__table_node;

typedef struct weft__table {
    weft__table_node **buckets; /* NULL: none */
    size_t mask;                /* number of buckets - 1; a power of two */
    size_t count;
} weft__table;

#define WEFT__TABLE_BUCKETS_MIN 16

static inline uint64_t weft__hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

static inline uint64_t weft__hash_number(uint64_t number)
{
    number *= 0x9e3779b97f4a7c15;
    return number ^ number >> 32;
}

static inline void weft__table_link(weft__table *t, weft__table_node *node)
{
    weft__table_node **bucket = &t->buckets[node->hash & t->mask];
    node->next = *bucket;
    *bucket = node;
}

/* Give the table twice as many buckets. Returns 0 or -ENOMEM. */
static inline int weft__table_grow(weft__table *t)
{
    size_t old = t->buckets != NULL ? t->mask + 1 : 0;
    size_t size = old > 0 ? 2 * old : WEFT__TABLE_BUCKETS_MIN;
    weft__table grown = {calloc(size, sizeof(weft__table_node *)), size - 1, t->count};
    if (grown.buckets == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < old; i++)
        for (weft__table_node *node = t->buckets[i], *next; node != NULL; node = next) {
            next = node->next;
            weft__table_link(&grown, node);
        }
    free(t->buckets);
    *t = grown;
    return 0;
}

/* Add a node. Returns 0 or -ENOMEM. */
static inline int weft__table_add(weft__table *t, weft__table_node *node, uint64_t hash)
{
    if ((t->buckets == NULL || t->count > t->mask) && weft__table_grow(t) < 0 && t->buckets == NULL)
        return -ENOMEM;
    node->hash = hash;
    weft__table_link(t, node);
    t->count++;
    return 0;
}

/* Return the first node with a hash, or the next one after a node. NULL: none. */
static inline weft__table_node *weft__table_find(const weft__table *t, uint64_t hash)
{
    weft__table_node *node = t->buckets != NULL ? t->buckets[hash & t->mask] : NULL;
    while (node != NULL && node->hash != hash)
        node = node->next;
    return node;
}

static inline weft__table_node *weft__table_find_next(const weft__table_node *after)
{
    weft__table_node *node = after->next;
    while (node != NULL && node->hash != after->hash)
        node = node->next;
    return node;
}

static inline void weft__table_remove(weft__table *t, weft__table_node *node)
{
    weft__table_node **at = &t->buckets[node->hash & t->mask];
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    t->count--;
}

/* Free the buckets, not the nodes. */
static inline void weft__table_free(weft__table *t)
{
    free(t->buckets);
    *t = (weft__table){0};
}

#endif
