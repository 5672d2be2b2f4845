/*
 * A hash table of intrusive nodes. Nodes with equal hashes stay in the order of insertion, so that
 * a run on the backend sim does not depend on addresses. The caller compares keys.
 */
#ifndef WEFT_HUB_TEXT_HASH_H
#define WEFT_HUB_TEXT_HASH_H

#include "base/list.h"

#include <stddef.h>
#include <stdint.h>

typedef struct weft__hash_node {
    weft__list link;
    uint64_t hash;
} weft__hash_node;

/* All-zero is empty. */
typedef struct weft__hash {
    weft__list *slots; /* NULL: no node was ever inserted */
    size_t mask, count;
} weft__hash;

/* Return the hash of bytes. The hash is the same in every process. */
uint64_t weft__hash_bytes(const void *data, size_t bytes);

/* Return the hash of a number. */
uint64_t weft__hash_number(uint64_t number);

/*
 * Insert a node, also if the table has nodes with the same hash. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__hash_insert(weft__hash *table, weft__hash_node *node, uint64_t hash);

void weft__hash_remove(weft__hash *table, weft__hash_node *node);

/* Return the first node with a hash, or NULL. */
weft__hash_node *weft__hash_first(const weft__hash *table, uint64_t hash);

/* Return the next node with the hash of a node, or NULL. */
weft__hash_node *weft__hash_next(const weft__hash *table, const weft__hash_node *node);

/* Free the memory of the table, but not the nodes. */
void weft__hash_free(weft__hash *table);

#define WEFT__HASH_FOR(node, table, hash)                                       \
    for (weft__hash_node *node = weft__hash_first(table, hash); (node) != NULL; \
         node = weft__hash_next(table, node))

#endif
