/* Giving memory back when the thread is idle: see rest.h. */
#include "core/rest.h"

#include "core/guard.h"

#include <stdlib.h>
#include <unistd.h>

/* Chunks that are looked at in one step: 16 KiB of records each. */
#define CHUNKS_IN_A_STEP 64

/* Virtual time would advance: waking to give memory back is an event. */
static bool has_real_time(const weft__cord *c)
{
    return c->backend->type->follow == NULL;
}

void weft__rest_expect(weft__cord *c)
{
    if (c->rest.due_ns == 0 && c->backend != NULL && has_real_time(c))
        c->rest.due_ns = c->now_ns + WEFT__REST_PERIOD_NS;
}

/* The pages that lie wholly inside the memory. */
static struct iovec whole_pages(void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t low = ((uintptr_t)from + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)from + bytes) & ~(page - 1);
    return (struct iovec){(void *)low, end > low ? end - low : 0};
}

static void give_back(struct iovec pages)
{
    if (pages.iov_len > 0)
        weft__pages_give_back(&pages, 1);
}

/*
 * Is the record in the list of bare ones? Records in the reserve and spent ones are not, and those
 * whose pages were given back read as zeros.
 */
static bool is_bare(const weft__fiber *f)
{
    return f->id == 0 && f->stack.low == NULL && f->sibling.next != NULL &&
           !weft__list_is_empty(&f->sibling);
}

static bool is_chunk_free(const weft__fiber *chunk)
{
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++)
        if (!is_bare(&chunk[i]))
            return false;
    return true;
}

static uint32_t greater(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Make room in dormant for every chunk. False: no memory. */
static bool reserve_dormant(weft__cord *c)
{
    uint32_t count = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    if (count <= c->rest.dormant_count)
        return true;
    weft__dormant *dormant = realloc(c->rest.dormant, count * sizeof *dormant);
    if (dormant == NULL)
        return false;
    c->rest.dormant = dormant;
    c->rest.dormant_count = count;
    return true;
}

/* Give the pages of a chunk of bare records back. Lookups of ids read zeros there: no fiber. */
static void put_to_sleep(weft__cord *c, uint32_t index)
{
    weft__rest *rest = &c->rest;
    weft__fiber *chunk = c->chunks[index];
    weft__dormant d = {.next = rest->first};
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++) {
        d.serial = greater(d.serial, (uint32_t)(chunk[i].last_id >> 32));
        d.claim_run = greater(d.claim_run, chunk[i].claim_run);
        d.scope_run = greater(d.scope_run, chunk[i].scope_run);
        weft__list_remove(&chunk[i].sibling);
    }
    rest->dormant[index] = d;
    rest->first = index + 1;
    rest->serial_max = greater(rest->serial_max, d.serial);
    give_back((struct iovec){chunk, WEFT__CHUNK_BYTES});
}

bool weft__rest_wake(weft__cord *c)
{
    weft__rest *rest = &c->rest;
    if (rest->first == 0)
        return false;
    uint32_t index = rest->first - 1;
    const weft__dormant *d = &rest->dormant[index];
    rest->first = d->next;
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++) {
        weft__fiber *f = &c->chunks[index][i];
        uint32_t slot = index * WEFT__CHUNK_FIBERS + i;
        weft__record_init(c, f, slot);
        f->last_id = (weft_fiber)d->serial << 32 | (uint32_t)f->last_id;
        f->claim_run = d->claim_run;
        f->scope_run = d->scope_run;
        weft__list_insert(&c->bare, &f->sibling);
    }
    return true;
}

/* Is a chunk made of whole pages? Not with ASan, and not where a page is larger than a chunk. */
static bool can_chunks_sleep(void)
{
#ifdef WEFT__ASAN
    return false;
#else
    return WEFT__CHUNK_BYTES % (size_t)sysconf(_SC_PAGESIZE) == 0;
#endif
}

/* Look at some chunks. False: all have been looked at. */
static bool rest_records(weft__cord *c)
{
    weft__rest *rest = &c->rest;
    uint32_t count = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    if (rest->chunk >= count || !can_chunks_sleep() || !reserve_dormant(c))
        return false;
    for (int i = 0; i < CHUNKS_IN_A_STEP && rest->chunk < count; i++, rest->chunk++) {
        if (!is_chunk_free(c->chunks[rest->chunk]))
            continue;
        if (rest->chunks_spared > 0)
            rest->chunks_spared--;
        else
            put_to_sleep(c, rest->chunk);
    }
    return true;
}

/* The free records with stacks: they may have been deep. */
static void shorten_warm(weft__cord *c)
{
    weft__stack *stacks[WEFT__WARM_MAX];
    for (uint32_t i = 0; i < c->warm_count; i++)
        stacks[i] = &c->warm[i]->stack;
    weft__stack_shorten(stacks, c->warm_count);
}

static void begin_rest(weft__cord *c)
{
    weft__rest *rest = &c->rest;
    uint32_t spared = c->records_peak + WEFT__RECORDS_REST - c->records_used;
    rest->chunks_spared = spared / WEFT__CHUNK_FIBERS;
    rest->chunk = 0;
    rest->was_busy = c->records_peak > c->records_used;
    rest->is_under_way = true;
    c->records_peak = c->records_used;
    weft__stack_rest_begin(&c->stacks);
    shorten_warm(c);
    size_t ring_bytes = ((size_t)c->runqueue.mask + 1) * sizeof *c->runqueue.ring;
    give_back(whole_pages(c->runqueue.ring, ring_bytes)); /* it is empty: NULLs are as good */
}

/* Another period, if more was used in the last one than is kept at rest. */
static void end_rest(weft__cord *c)
{
    weft__rest *rest = &c->rest;
    rest->is_under_way = false;
    weft__stack_look_rich(&c->stacks);
    bool is_more = c->stacks.is_rich || rest->was_busy;
    rest->due_ns = is_more ? c->now_ns + WEFT__REST_PERIOD_NS : 0;
}

bool weft__rest_some(weft__cord *c)
{
    weft__rest *rest = &c->rest;
    if (rest->due_ns == 0)
        weft__rest_expect(c);
    if (rest->due_ns == 0 || c->now_ns < rest->due_ns)
        return false;
    if (!rest->is_under_way)
        begin_rest(c);
    if (weft__stack_rest(&c->stacks) || rest_records(c))
        return true;
    end_rest(c);
    return false;
}
