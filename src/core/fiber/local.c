/*
 * Fiber-local values by key (weft_local_set), and their destructors.
 *
 * A key consists of a slot and the generation of the slot. Each new key of a slot has another
 * generation. Values of a freed key therefore do not belong to the next key of the slot. Threads
 * claim and free slots without a lock. Only the thread that has claimed a slot writes the
 * generation and the destructor of the slot.
 */
#include "core/cord/cord.h"

#include <limits.h>
#include <stdatomic.h>

/* The state of a slot while a thread creates its key. No key has this number. */
#define CLAIMED UINT_MAX
/*
 * A key has 6 bits for the slot and 26 bits for the generation. The last generation is not used,
 * because one of its keys would be 0 and another key would be CLAIMED.
 */
#define GENERATIONS ((1u << 26) - 1)
_Static_assert(WEFT__KEYS_MAX == 64, "a slot of a key has 6 bits");

typedef void destructor_fn(void *);
typedef _Atomic(destructor_fn *) atomic_destructor;

static atomic_uint slot_keys[WEFT__KEYS_MAX];     /* 0: the slot is free */
static unsigned slot_generations[WEFT__KEYS_MAX]; /* the generation of the next key */
static atomic_destructor destructors[WEFT__KEYS_MAX];
static atomic_uint slots_end; /* slots from slots_end on have never been used */

static unsigned key_slot(weft_key key)
{
    return (key - 1) % WEFT__KEYS_MAX;
}

static bool is_key(weft_key key)
{
    return key != 0 && key != CLAIMED && atomic_load(&slot_keys[key_slot(key)]) == key;
}

/* Initialise a slot that the caller has claimed. Return its key. */
static weft_key slot_open(unsigned slot, destructor_fn *destructor)
{
    unsigned generation = slot_generations[slot];
    weft_key key = generation * WEFT__KEYS_MAX + slot + 1;
    slot_generations[slot] = (generation + 1) % GENERATIONS;
    atomic_store(&destructors[slot], destructor);
    unsigned end = atomic_load(&slots_end);
    while (end <= slot && !atomic_compare_exchange_weak(&slots_end, &end, slot + 1))
        ;
    atomic_store(&slot_keys[slot], key);
    return key;
}

weft_key weft_key_new(void (*destructor)(void *))
{
    for (unsigned slot = 0; slot < WEFT__KEYS_MAX; slot++) {
        unsigned none = 0;
        if (atomic_compare_exchange_strong(&slot_keys[slot], &none, CLAIMED))
            return slot_open(slot, destructor);
    }
    weft_fail(-EAGAIN, "weft_key_new: %d keys exist already", WEFT__KEYS_MAX);
    return 0;
}

int weft_key_free(weft_key key)
{
    unsigned expected = key;
    if (key != 0 && key != CLAIMED &&
        atomic_compare_exchange_strong(&slot_keys[key_slot(key)], &expected, 0))
        return 0;
    return weft_fail(-EINVAL, "weft_key_free: key %u does not exist", key);
}

static void *extras_local(const weft__extras *x, weft_key key)
{
    unsigned slot = key_slot(key);
    return x->local_keys[slot] == key ? x->locals[slot] : NULL;
}

static void extras_set_local(weft__extras *x, weft_key key, void *value)
{
    unsigned slot = key_slot(key);
    x->locals[slot] = value;
    x->local_keys[slot] = key;
}

void *weft_local_get(weft_key key)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL || c->current->live->extras == NULL || !is_key(key))
        return NULL;
    return extras_local(c->current->live->extras, key);
}

int weft_local_set(weft_key key, void *value)
{
    if (!is_key(key))
        return -EINVAL;
    weft__extras *x = weft__extras_here();
    if (x == NULL)
        return weft__no_cord();
    extras_set_local(x, key, value);
    return 0;
}

void *weft__cord_local(const weft__cord *c, weft_key key)
{
    return c->main->live->extras != NULL ? extras_local(c->main->live->extras, key) : NULL;
}

int weft__cord_local_set(weft__cord *c, weft_key key, void *value)
{
    weft__extras *x = weft__extras_of(c->main);
    if (x == NULL)
        return -ENOMEM;
    extras_set_local(x, key, value);
    return 0;
}

/* Return the destructor of a key. Return NULL if the key has no destructor or was freed. */
static destructor_fn *key_destructor(weft_key key)
{
    if (!is_key(key))
        return NULL;
    destructor_fn *destructor = atomic_load(&destructors[key_slot(key)]);
    return is_key(key) ? destructor
                       : NULL; /* after a free, the destructor may belong to the next key */
}

/* A destructor may set values again. As with pthread keys, the number of rounds is limited. */
void weft__locals_destroy(weft__extras *x)
{
    bool has_called = true;
    for (int round = 0; round < 4 && has_called; round++) {
        has_called = false;
        for (unsigned i = 0; i < atomic_load(&slots_end); i++) {
            void *value = x->locals[i];
            x->locals[i] = NULL;
            destructor_fn *destructor = value != NULL ? key_destructor(x->local_keys[i]) : NULL;
            if (destructor == NULL)
                continue;
            has_called = true;
            destructor(value);
        }
    }
}
