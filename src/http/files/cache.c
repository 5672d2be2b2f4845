/*
 * A cache of recent lookups. All threads that serve a directory share the cache. A lookup has a
 * reference count. Removal from the cache does not free a lookup that a request still uses.
 */
#include "http/files/files.h"

#include <weft/time.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void weft__files_cache_open(weft__files_cache *cache)
{
    struct rlimit limit;
    *cache = (weft__files_cache){.lock = PTHREAD_MUTEX_INITIALIZER, .count_max = WEFT__LOOKUPS_MAX};
    /* A lookup has up to 3 descriptors. Most descriptors must remain available for connections. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 24 < cache->count_max)
        cache->count_max = (size_t)limit.rlim_cur / 24;
    for (size_t i = 0; i < WEFT__LOOKUP_BUCKETS; i++)
        weft__list_init(&cache->buckets[i]);
    weft__list_init(&cache->lru);
}

static weft__list *cache_bucket_of(weft__files_cache *cache, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a; collisions are cheap in a cache of 256 entries */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &cache->buckets[(hash ^ hash >> 16) % WEFT__LOOKUP_BUCKETS];
}

static weft__file_lookup *cache_find(weft__files_cache *cache, const char *name)
{
    weft__list *bucket = cache_bucket_of(cache, name);
    WEFT__LIST_FOR(node, bucket) {
        weft__file_lookup *f = CONTAINER_OF(node, weft__file_lookup, bucket);
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

/* Remove a lookup from the cache. Returns true if the caller must free the lookup. */
static bool cache_unlink(weft__files_cache *cache, weft__file_lookup *f)
{
    weft__list_remove(&f->bucket);
    weft__list_remove(&f->lru_node);
    cache->count--;
    return --f->refs == 0;
}

weft__file_lookup *weft__files_cache_get(weft__files_cache *cache, const char *name)
{
    double now = weft_now();
    pthread_mutex_lock(&cache->lock);
    weft__file_lookup *f = cache_find(cache, name);
    if (f != NULL && now - f->looked_up_s > WEFT__LOOKUP_FRESH_S) {
        /* The caller repeats the lookup. Meanwhile other requests use the previous result. */
        f->looked_up_s = now;
        f = NULL;
    }
    if (f != NULL) {
        f->refs++;
        weft__list_remove(&f->lru_node);
        weft__list_insert(cache->lru.next, &f->lru_node);
    }
    pthread_mutex_unlock(&cache->lock);
    return f;
}

void weft__files_cache_add(weft__files_cache *cache, weft__file_lookup *found)
{
    double now = weft_now();
    weft__file_lookup *unreferenced[2] = {NULL, NULL};
    pthread_mutex_lock(&cache->lock);
    weft__file_lookup *previous = cache_find(cache, found->name);
    if (previous != NULL && cache_unlink(cache, previous))
        unreferenced[0] = previous;
    if (cache->count > 0 && cache->count >= cache->count_max) {
        weft__file_lookup *last = CONTAINER_OF(cache->lru.prev, weft__file_lookup, lru_node);
        unreferenced[1] = cache_unlink(cache, last) ? last : NULL;
    }
    if (cache->count < cache->count_max && found->root == found->files->root) {
        found->refs++;
        found->looked_up_s = now;
        weft__list_insert(cache_bucket_of(cache, found->name), &found->bucket);
        weft__list_insert(cache->lru.next, &found->lru_node);
        cache->count++;
    }
    pthread_mutex_unlock(&cache->lock);
    for (size_t i = 0; i < 2; i++)
        weft__file_lookup_free(unreferenced[i]);
}

void weft__files_cache_remove(weft__files_cache *cache, const char *name)
{
    pthread_mutex_lock(&cache->lock);
    weft__file_lookup *f = cache_find(cache, name);
    bool is_unreferenced = f != NULL && cache_unlink(cache, f);
    pthread_mutex_unlock(&cache->lock);
    if (is_unreferenced)
        weft__file_lookup_free(f);
}

void weft__files_cache_put(weft__files_cache *cache, weft__file_lookup *found)
{
    pthread_mutex_lock(&cache->lock);
    bool is_unreferenced = --found->refs == 0;
    pthread_mutex_unlock(&cache->lock);
    if (is_unreferenced)
        weft__file_lookup_free(found);
}

/*
 * Remove and return the least recently used lookup, or return NULL. Set *is_unreferenced if the
 * caller must free the lookup.
 */
static weft__file_lookup *cache_pop(weft__files_cache *cache, bool *is_unreferenced)
{
    pthread_mutex_lock(&cache->lock);
    weft__file_lookup *f = NULL;
    if (!weft__list_is_empty(&cache->lru)) {
        f = CONTAINER_OF(cache->lru.prev, weft__file_lookup, lru_node);
        *is_unreferenced = cache_unlink(cache, f);
    }
    pthread_mutex_unlock(&cache->lock);
    return f;
}

void weft__files_cache_empty(weft__files_cache *cache)
{
    weft__file_lookup *f;
    bool is_unreferenced;
    while ((f = cache_pop(cache, &is_unreferenced)) != NULL)
        if (is_unreferenced)
            weft__file_lookup_free(f);
}
