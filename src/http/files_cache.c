/*
 * What was found lately, shared by all threads that serve the same folder. An entry that is used is
 * out of nobody's reach: it is freed when the last one gives it back.
 */
#include "http/files.h"

#include <weft/time.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void weft__files_cache_open(weft__files_cache *cache)
{
    struct rlimit limit;
    *cache = (weft__files_cache){.lock = PTHREAD_MUTEX_INITIALIZER, .count_max = WEFT__FOUND_MAX};
    /* Two descriptors each, and most are to be left to connections. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 16 < cache->count_max)
        cache->count_max = (size_t)limit.rlim_cur / 16;
    for (size_t i = 0; i < WEFT__FOUND_BUCKETS; i++)
        weft__list_init(&cache->buckets[i]);
    weft__list_init(&cache->ages);
}

static weft__list *bucket_of(weft__files_cache *cache, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a; who makes names collide has 256 entries to do it with */
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &cache->buckets[(hash ^ hash >> 16) % WEFT__FOUND_BUCKETS];
}

static weft__found *find(weft__files_cache *cache, const char *name)
{
    weft__list *bucket = bucket_of(cache, name);
    WEFT__LIST_FOR(node, bucket) {
        weft__found *f = CONTAINER_OF(node, weft__found, bucket);
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

/* Take it out of the cache; whoever uses it has it still. It is to be freed if true. */
static bool take_out(weft__files_cache *cache, weft__found *f)
{
    weft__list_remove(&f->bucket);
    weft__list_remove(&f->age);
    cache->count--;
    return --f->refs == 0;
}

weft__found *weft__files_cache_get(weft__files_cache *cache, const char *name)
{
    double now = weft_now();
    pthread_mutex_lock(&cache->lock);
    weft__found *f = find(cache, name);
    if (f != NULL && now - f->looked_s > WEFT__FOUND_S) {
        f->looked_s = now; /* the caller looks it up; the others need not wait for that */
        f = NULL;
    }
    if (f != NULL) {
        f->refs++;
        weft__list_remove(&f->age);
        weft__list_insert(cache->ages.next, &f->age);
    }
    pthread_mutex_unlock(&cache->lock);
    return f;
}

void weft__files_cache_keep(weft__files_cache *cache, weft__found *found)
{
    double now = weft_now();
    weft__found *dead[2] = {NULL, NULL};
    pthread_mutex_lock(&cache->lock);
    weft__found *old = find(cache, found->name);
    if (old != NULL && take_out(cache, old))
        dead[0] = old;
    if (cache->count > 0 && cache->count >= cache->count_max) {
        weft__found *last = CONTAINER_OF(cache->ages.prev, weft__found, age);
        dead[1] = take_out(cache, last) ? last : NULL;
    }
    if (cache->count < cache->count_max && found->root == found->files->root) {
        found->refs++;
        found->looked_s = now;
        weft__list_insert(bucket_of(cache, found->name), &found->bucket);
        weft__list_insert(cache->ages.next, &found->age);
        cache->count++;
    }
    pthread_mutex_unlock(&cache->lock);
    for (size_t i = 0; i < 2; i++)
        weft__found_free(dead[i]);
}

void weft__files_cache_forget(weft__files_cache *cache, const char *name)
{
    pthread_mutex_lock(&cache->lock);
    weft__found *f = find(cache, name);
    bool is_dead = f != NULL && take_out(cache, f);
    pthread_mutex_unlock(&cache->lock);
    if (is_dead)
        weft__found_free(f);
}

void weft__files_cache_put(weft__files_cache *cache, weft__found *found)
{
    pthread_mutex_lock(&cache->lock);
    bool is_dead = --found->refs == 0;
    pthread_mutex_unlock(&cache->lock);
    if (is_dead)
        weft__found_free(found);
}

/* The one that has not been used for longest, taken out; NULL: there is none. */
static weft__found *pop(weft__files_cache *cache, bool *is_dead)
{
    pthread_mutex_lock(&cache->lock);
    weft__found *f = NULL;
    if (!weft__list_is_empty(&cache->ages)) {
        f = CONTAINER_OF(cache->ages.prev, weft__found, age);
        *is_dead = take_out(cache, f);
    }
    pthread_mutex_unlock(&cache->lock);
    return f;
}

void weft__files_cache_empty(weft__files_cache *cache)
{
    weft__found *f;
    bool is_dead;
    while ((f = pop(cache, &is_dead)) != NULL)
        if (is_dead)
            weft__found_free(f);
}
