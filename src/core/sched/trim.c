/* Release memory to the kernel while the thread is idle. See trim.h. */
#include "core/sched/trim.h"

#include "core/stack/guard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Chunks inspected per step. A chunk has 16 KiB of records. */
#define CHUNKS_PER_STEP 64

/*
 * Return whether the clock is real. With a virtual clock, waking up to trim would advance the
 * clock.
 */
static bool has_real_time(const weft__cord *c)
{
    return !weft__backend_is_virtual(c->backend);
}

void weft__trim_schedule(weft__cord *c)
{
    if (c->trim.due_ns == 0 && c->backend != NULL && has_real_time(c))
        c->trim.due_ns = c->now_ns + WEFT__TRIM_PERIOD_NS;
}

/* Return the pages that are completely inside a range of memory. */
static struct iovec whole_pages(void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t low = ((uintptr_t)from + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)from + bytes) & ~(page - 1);
    return (struct iovec){(void *)low, end > low ? end - low : 0};
}

static void pages_release(struct iovec pages)
{
    if (pages.iov_len > 0)
        weft__pages_release(&pages, 1);
}

/*
 * Return whether a record is on the list of uncached records. Records in the id reserve, and
 * records that have used their last serial, are on no list. Records with released pages read as
 * zeros.
 */
static bool is_record_uncached(const weft__fiber *f)
{
    return f->id == 0 && f->stack.low == NULL && f->sibling.next != NULL &&
           !weft__list_is_empty(&f->sibling);
}

static bool is_chunk_free(const weft__fiber *chunk)
{
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++)
        if (!is_record_uncached(&chunk[i]))
            return false;
    return true;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Grow `dormant` to the number of chunks. Returns false if memory is exhausted. */
static bool reserve_dormant(weft__cord *c)
{
    uint32_t count = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    if (count <= c->trim.dormant_count)
        return true;
    weft__dormant_chunk *dormant = realloc(c->trim.dormant, count * sizeof *dormant);
    if (dormant == NULL)
        return false;
    c->trim.dormant = dormant;
    c->trim.dormant_count = count;
    return true;
}

/*
 * Release the pages of a chunk of uncached records. A lookup of an id then reads zeros, and finds
 * no fiber.
 */
static void chunk_make_dormant(weft__cord *c, uint32_t index)
{
    weft__trim *trim = &c->trim;
    weft__fiber *chunk = c->chunks[index];
    weft__dormant_chunk d = {.next = trim->first};
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++) {
        d.serial = max_u32(d.serial, (uint32_t)(chunk[i].last_id >> 32));
        d.owner_generation = max_u32(d.owner_generation, chunk[i].owner_generation);
        d.scope_generation = max_u32(d.scope_generation, chunk[i].scope_generation);
        weft__list_remove(&chunk[i].sibling);
    }
    trim->dormant[index] = d;
    trim->first = index + 1;
    trim->serial_max = max_u32(trim->serial_max, d.serial);
    pages_release((struct iovec){chunk, WEFT__CHUNK_BYTES});
}

bool weft__trim_restore_chunk(weft__cord *c)
{
    weft__trim *trim = &c->trim;
    if (trim->first == 0)
        return false;
    uint32_t index = trim->first - 1;
    const weft__dormant_chunk *d = &trim->dormant[index];
    trim->first = d->next;
    for (uint32_t i = 0; i < WEFT__CHUNK_FIBERS; i++) {
        weft__fiber *f = &c->chunks[index][i];
        uint32_t slot = index * WEFT__CHUNK_FIBERS + i;
        weft__record_init(c, f, slot);
        f->last_id = (weft_fiber)d->serial << 32 | (uint32_t)f->last_id;
        f->owner_generation = d->owner_generation;
        f->scope_generation = d->scope_generation;
        weft__list_insert(&c->uncached, &f->sibling);
    }
    return true;
}

/*
 * Return whether a chunk consists of whole pages. The result is false with ASan, or if a page is
 * larger than a chunk.
 */
static bool can_chunks_be_dormant(void)
{
#ifdef WEFT__ASAN
    return false;
#else
    return WEFT__CHUNK_BYTES % (size_t)sysconf(_SC_PAGESIZE) == 0;
#endif
}

/* Inspect the next chunks. Returns false if all chunks have been inspected. */
static bool trim_records(weft__cord *c)
{
    weft__trim *trim = &c->trim;
    uint32_t count = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    if (trim->chunk >= count || !can_chunks_be_dormant() || !reserve_dormant(c))
        return false;
    for (int i = 0; i < CHUNKS_PER_STEP && trim->chunk < count; i++, trim->chunk++) {
        if (!is_chunk_free(c->chunks[trim->chunk]))
            continue;
        if (trim->chunks_retained > 0)
            trim->chunks_retained--;
        else
            chunk_make_dormant(c, trim->chunk);
    }
    return true;
}

/* The number of switches of a warm record that no fiber has used since the period began. */
#define SWITCHES_UNUSED UINT64_MAX

/*
 * Return the number of warm records that were not used in the last period. Warm records are reused
 * last in, first out, so the unused records are the first ones.
 */
static uint32_t warm_unused(const weft__cord *c)
{
    uint32_t count = 0;
    while (count < c->warm_count && c->warm[count]->switches == SWITCHES_UNUSED)
        count++;
    return count;
}

/*
 * Release the stacks of warm records that were not used in the last period, except a few. Their
 * pages are discarded after the next period. Mark the other records as unused. A new fiber in a
 * record removes the mark, because its number of switches starts at 0.
 */
static void trim_warm_records(weft__cord *c)
{
    uint32_t unused = warm_unused(c), released = 0;
    if (unused > WEFT__WARM_IDLE)
        released = unused - WEFT__WARM_IDLE;
    for (uint32_t i = 0; i < released; i++) {
        weft__fiber_release_stack(c, c->warm[i]);
        weft__record_put(c->uncached.next, c->warm[i]);
    }
    c->records_used -= released;
    c->warm_count -= released;
    memmove(c->warm, c->warm + released, c->warm_count * sizeof *c->warm);
    for (uint32_t i = 0; i < c->warm_count; i++)
        c->warm[i]->switches = SWITCHES_UNUSED;
}

/* Trim the stacks of warm records, because these stacks may be deep. */
static void trim_warm_stacks(weft__cord *c)
{
    weft__stack *stacks[WEFT__WARM_MAX];
    for (uint32_t i = 0; i < c->warm_count; i++)
        stacks[i] = &c->warm[i]->stack;
    weft__stack_trim_deep(stacks, c->warm_count);
}

static void trim_begin(weft__cord *c)
{
    weft__trim *trim = &c->trim;
    uint32_t spared = c->records_peak + WEFT__RECORDS_IDLE - c->records_used;
    trim->chunks_retained = spared / WEFT__CHUNK_FIBERS;
    trim->chunk = 0;
    trim->was_busy = c->records_peak > c->records_used;
    trim->is_active = true;
    weft__stack_trim_begin(&c->stacks);
    trim_warm_records(c);
    c->records_peak = c->records_used;
    trim_warm_stacks(c);
    size_t ring_bytes = ((size_t)c->runqueue.mask + 1) * sizeof *c->runqueue.ring;
    /* The run queue is empty, so its ring may read as zeros. */
    pages_release(whole_pages(c->runqueue.ring, ring_bytes));
}

/* If the last period used more memory than an idle thread retains, schedule another period. */
static void trim_end(weft__cord *c)
{
    weft__trim *trim = &c->trim;
    trim->is_active = false;
    weft__stack_update_can_trim(&c->stacks);
    bool is_more = c->stacks.can_trim || trim->was_busy || c->warm_count > WEFT__WARM_IDLE;
    trim->due_ns = is_more ? c->now_ns + WEFT__TRIM_PERIOD_NS : 0;
}

bool weft__trim_step(weft__cord *c)
{
    weft__trim *trim = &c->trim;
    if (trim->due_ns == 0)
        weft__trim_schedule(c);
    if (trim->due_ns == 0 || c->now_ns < trim->due_ns)
        return false;
    if (!trim->is_active)
        trim_begin(c);
    if (weft__stack_trim_step(&c->stacks) || trim_records(c))
        return true;
    trim_end(c);
    return false;
}
