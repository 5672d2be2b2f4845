/*
 * Names of code addresses. weft_symbol_find may read files, so a worker thread calls it. The
 * inspector remembers the results, because a call that waits for a lock of the worker would block
 * the cord.
 */
#include "inspect/inspect.h"

#include <weft/offload.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Addresses of one job. */
typedef struct symbols_job {
    size_t count;
    weft__symbol_entry entries[];
} symbols_job;

static weft_value symbols_run(void *arg)
{
    symbols_job *job = arg;
    for (size_t e = 0; e < job->count; e++)
        if (weft_symbol_find(job->entries[e].address, &job->entries[e].symbol) < 0)
            job->entries[e].symbol = (weft_symbol){.function = "", .file = "", .module = ""};
    return 0;
}

/* Return the entry of an address, or the empty entry where it belongs. Needs the lock. */
static weft__symbol_entry *symbol_slot(weft_inspector *i, const void *address)
{
    size_t slot = (size_t)(((uintptr_t)address * 0x9e3779b97f4a7c15u) >> 32) % WEFT__SYMBOL_SLOTS;
    while (i->symbols[slot].address != NULL && i->symbols[slot].address != address)
        slot = (slot + 1) % WEFT__SYMBOL_SLOTS;
    return &i->symbols[slot];
}

static void symbols_remember(weft_inspector *i, const symbols_job *job)
{
    pthread_mutex_lock(&i->lock);
    for (size_t e = 0; e < job->count; e++) {
        weft__symbol_entry *slot = symbol_slot(i, job->entries[e].address);
        if (slot->address != NULL || i->symbols_count >= WEFT__SYMBOLS_MAX)
            continue;
        *slot = job->entries[e];
        i->symbols_count++;
    }
    pthread_mutex_unlock(&i->lock);
}

/* Return the addresses that the inspector does not remember. NULL: all are, or no memory. */
static symbols_job *symbols_unknown(weft_inspector *i, const void *const *addresses, size_t count)
{
    symbols_job *job = calloc(1, sizeof *job + count * sizeof job->entries[0]);
    if (job == NULL)
        return NULL;
    pthread_mutex_lock(&i->lock);
    bool is_full = i->symbols_count >= WEFT__SYMBOLS_MAX;
    for (size_t a = 0; a < count && !is_full; a++)
        if (addresses[a] != NULL && symbol_slot(i, addresses[a])->address == NULL)
            job->entries[job->count++].address = addresses[a];
    pthread_mutex_unlock(&i->lock);
    if (job->count > 0)
        return job;
    free(job);
    return NULL;
}

int weft__symbols_find(weft_inspector *i, const void *const *addresses, size_t count)
{
    symbols_job *job = symbols_unknown(i, addresses, count);
    if (job == NULL)
        return 0;
    bool has_ended = false;
    int rc = (int)weft_offload_with(symbols_run, job,
                                    &(weft_offload_options){.drop = free, .has_ended = &has_ended});
    if (!has_ended)
        return rc;
    symbols_remember(i, job);
    free(job);
    return 0;
}

weft_symbol weft__symbol_get(weft_inspector *i, const void *address)
{
    weft_symbol symbol = {.function = "", .file = "", .module = ""};
    if (address == NULL)
        return symbol;
    pthread_mutex_lock(&i->lock);
    const weft__symbol_entry *slot = symbol_slot(i, address);
    if (slot->address != NULL)
        symbol = slot->symbol;
    pthread_mutex_unlock(&i->lock);
    return symbol;
}
