/*
 * The holders of locks, see holders.h: a hash table with linear probing, for each thread. A thread
 * that holds few locks needs no allocated memory. An empty table has no allocated memory, so
 * nothing is left when the thread ends.
 */
#include "posix/lock/holders.h"

#include "posix/hook.h"

#include <stdlib.h>
#include <unistd.h>

#define SMALL_ROOM 4

typedef struct holder {
    const void *lock; /* NULL: a free entry */
    weft_fiber fiber;
} holder;

typedef struct holder_table {
    holder *entries; /* NULL: small */
    size_t room;     /* of entries; a power of 2 */
    size_t count;    /* used entries; less than the room */
    holder small[SMALL_ROOM];
} holder_table;

static __thread holder_table table __attribute__((tls_model("initial-exec")));
static __thread pid_t thread_id __attribute__((tls_model("initial-exec"))); /* 0: not known */

static holder *entries_of(holder_table *t)
{
    return t->entries != NULL ? t->entries : t->small;
}

static size_t room_of(const holder_table *t)
{
    return t->entries != NULL ? t->room : SMALL_ROOM;
}

static size_t home_of(const void *lock, size_t room)
{
    return (size_t)(((uint64_t)(uintptr_t)lock * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (room - 1);
}

/* Return the entry of the lock, or the free entry at which the search ends. */
static holder *entry_of(holder *entries, size_t room, const void *lock)
{
    size_t i = home_of(lock, room);
    while (entries[i].lock != NULL && entries[i].lock != lock)
        i = (i + 1) & (room - 1);
    return &entries[i];
}

weft_fiber weft__holder_get(const void *lock)
{
    return entry_of(entries_of(&table), room_of(&table), lock)->fiber;
}

static void entries_free(holder_table *t)
{
    free(t->entries);
    t->entries = NULL;
}

/* Move all entries to a table of twice the room. Return false if memory is exhausted. */
static bool holders_grow(holder_table *t)
{
    size_t room = 2 * room_of(t);
    holder *entries = calloc(room, sizeof *entries);
    if (entries == NULL)
        return false;
    holder *old = entries_of(t);
    for (size_t i = 0; i < room / 2; i++) {
        if (old[i].lock != NULL)
            *entry_of(entries, room, old[i].lock) = old[i];
        old[i] = (holder){NULL, 0};
    }
    entries_free(t);
    t->entries = entries;
    t->room = room;
    return true;
}

/* The allocator may call hooks. A hook must not switch while the table changes. */
static bool holders_make_room(holder_table *t)
{
    if (t->count + 1 < room_of(t))
        return true;
    int error = errno;
    weft__hook_thread_self.passes++;
    bool has_grown = holders_grow(t);
    weft__hook_thread_self.passes--;
    errno = error;
    return has_grown;
}

void weft__holder_set(const void *lock, weft_fiber fiber)
{
    holder *h = entry_of(entries_of(&table), room_of(&table), lock);
    if (h->lock == NULL) {
        if (!holders_make_room(&table))
            return;
        h = entry_of(entries_of(&table), room_of(&table), lock);
        table.count++;
    }
    *h = (holder){lock, fiber};
}

/* Free an entry. Move later entries that a search would not find beyond the free entry. */
static void entry_remove(holder *entries, size_t room, size_t gap)
{
    for (size_t i = (gap + 1) & (room - 1); entries[i].lock != NULL; i = (i + 1) & (room - 1)) {
        size_t home = home_of(entries[i].lock, room);
        if (((i - home) & (room - 1)) >= ((i - gap) & (room - 1))) {
            entries[gap] = entries[i];
            gap = i;
        }
    }
    entries[gap] = (holder){NULL, 0};
}

void weft__holder_remove(const void *lock)
{
    holder *entries = entries_of(&table);
    holder *h = entry_of(entries, room_of(&table), lock);
    if (h->lock == NULL)
        return;
    entry_remove(entries, room_of(&table), (size_t)(h - entries));
    if (--table.count == 0 && table.entries != NULL) {
        weft__hook_thread_self.passes++;
        entries_free(&table);
        weft__hook_thread_self.passes--;
    }
}

pid_t weft__thread_id(void)
{
    if (UNLIKELY(thread_id == 0))
        thread_id = gettid();
    return thread_id;
}

static void thread_id_after_fork(void)
{
    thread_id = 0;
}

__attribute__((constructor)) static void thread_id_prepare(void)
{
    (void)pthread_atfork(NULL, NULL, thread_id_after_fork);
}
