/* A table of stacks. See stack_table.h. */
#include "core/inspect_socket/stack_table.h"

#include <stdlib.h>
#include <string.h>

void weft__stack_name_set(char dst[WEFT__STACK_NAME_BYTES], const char *name)
{
    size_t bytes = strnlen(name, WEFT__STACK_NAME_BYTES - 1);
    memcpy(dst, name, bytes);
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t key_hash(const weft__stack_key *key)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ key->is_wait ^ (uint64_t)key->is_idle << 1;
    hash = hash_bytes(hash, key->cord, strlen(key->cord));
    hash = hash_bytes(hash, key->fiber, strlen(key->fiber));
    hash = hash_bytes(hash, key->reason, strlen(key->reason));
    return hash_bytes(hash, &key->fn, sizeof key->fn);
}

static bool key_is_equal(const weft__stack_key *a, const weft__stack_key *b)
{
    return a->is_wait == b->is_wait && a->is_idle == b->is_idle && a->fn == b->fn &&
           strcmp(a->fiber, b->fiber) == 0 && strcmp(a->reason, b->reason) == 0 &&
           strcmp(a->cord, b->cord) == 0;
}

static weft__stack_entry *entry_find(weft__stack_table *t, uint64_t hash,
                                     const weft__stack_key *key, void *const *frames,
                                     unsigned frames_count)
{
    weft__stack_entry *e = t->buckets[hash % WEFT__STACK_BUCKETS];
    while (e != NULL &&
           (e->hash != hash || e->frames_count != frames_count || !key_is_equal(&e->key, key) ||
            (frames_count > 0 && memcmp(e->frames, frames, frames_count * sizeof *frames) != 0)))
        e = e->next;
    return e;
}

void weft__stack_table_add(weft__stack_table *t, const weft__stack_key *key, void *const *frames,
                           unsigned frames_count, uint64_t value)
{
    if (t->count >= WEFT__STACK_ENTRIES_MAX)
        frames_count = 0;
    uint64_t hash = hash_bytes(key_hash(key), frames, frames_count * sizeof *frames);
    weft__stack_entry *e = entry_find(t, hash, key, frames, frames_count);
    if (e == NULL) {
        e = t->count < 2 * WEFT__STACK_ENTRIES_MAX
                ? malloc(sizeof *e + frames_count * sizeof *frames)
                : NULL;
        if (e == NULL) {
            t->lost++;
            return;
        }
        *e = (weft__stack_entry){.next = t->buckets[hash % WEFT__STACK_BUCKETS],
                                 .hash = hash,
                                 .key = *key,
                                 .frames_count = frames_count};
        if (frames_count > 0)
            memcpy(e->frames, frames, frames_count * sizeof *frames);
        t->buckets[hash % WEFT__STACK_BUCKETS] = e;
        t->count++;
    }
    e->value += value;
}

void weft__stack_table_clear(weft__stack_table *t)
{
    for (size_t i = 0; i < WEFT__STACK_BUCKETS; i++)
        for (weft__stack_entry *e = t->buckets[i], *next; e != NULL; e = next) {
            next = e->next;
            free(e);
        }
    *t = (weft__stack_table){0};
}
