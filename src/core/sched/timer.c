/*
 * The timer wheel of a cord: what is armed, and what is due. It does not read the clock and does
 * not know what a timer means to its owner.
 *
 * Invariants, between calls:
 *   - a timer that is not fresh has a deadline after now_ns, and is in slots[level][slot], where
 *     level is that of the highest 6-bit digit in which deadline_ns and now_ns differ, and slot is
 *     that digit of deadline_ns;
 *   - so timers with the same deadline are in the same slot, in the order in which they were armed;
 *   - the timers of a level are all due before those of the levels above it, and those of a slot
 *     before those of the slots after it: the first slot of the lowest level holds the next timer;
 *   - a bit of `occupied` is set exactly if its slot is not empty.
 */
#include "core/timer.h"

/* Timers that are looked at to find out whether many are due: each may be out of the cache. */
#define LOOKS_MAX 32

static weft__timer *timer_of(weft__list *link)
{
    return CONTAINER_OF(link, weft__timer, link);
}

static int lowest_bit(uint64_t word)
{
    return __builtin_ctzll(word);
}

void weft__wheel_init(weft__wheel *wheel, int64_t now_ns)
{
    wheel->now_ns = now_ns;
    wheel->count = 0;
    weft__list_init(&wheel->fresh);
    for (int level = 0; level < WEFT__WHEEL_LEVELS; level++) {
        wheel->occupied[level] = 0;
        for (int slot = 0; slot < WEFT__WHEEL_SLOTS; slot++) {
            weft__list_init(&wheel->slots[level][slot]);
            wheel->earliest[level][slot] = WEFT__NEVER;
        }
    }
}

void weft__timer_init(weft__timer *timer, void (*fire)(weft__timer *timer))
{
    weft__list_init(&timer->link);
    timer->deadline_ns = WEFT__NEVER;
    timer->fire = fire;
}

/* Put a timer where it belongs as seen from now_ns: into a slot, or into `due` if it is that. */
static void place(weft__wheel *wheel, weft__timer *timer, weft__list *due)
{
    int64_t deadline = timer->deadline_ns;
    if (deadline <= wheel->now_ns) {
        weft__list_insert(due, &timer->link);
        return;
    }
    uint64_t differs = (uint64_t)deadline ^ (uint64_t)wheel->now_ns;
    int level = (63 - __builtin_clzll(differs)) / WEFT__WHEEL_BITS;
    int slot = (int)((uint64_t)deadline >> (level * WEFT__WHEEL_BITS)) & (WEFT__WHEEL_SLOTS - 1);
    uint64_t bit = (uint64_t)1 << slot;
    int64_t *earliest = &wheel->earliest[level][slot];
    if (!(wheel->occupied[level] & bit) || deadline < *earliest)
        *earliest = deadline;
    wheel->occupied[level] |= bit;
    weft__list_insert(&wheel->slots[level][slot], &timer->link);
}

/* If it is a slot, say so in the bitmap. Other lists have no bit. */
void weft__wheel_emptied(weft__wheel *wheel, const weft__list *head)
{
    uintptr_t offset = (uintptr_t)head - (uintptr_t)wheel->slots;
    if (offset >= sizeof wheel->slots)
        return;
    unsigned index = (unsigned)(offset / sizeof *head);
    wheel->occupied[index / WEFT__WHEEL_SLOTS] &= ~((uint64_t)1 << index % WEFT__WHEEL_SLOTS);
}

/* Put those that are armed and in no slot where they belong; what is due, into that list. */
static void settle(weft__wheel *wheel, weft__list *due)
{
    weft__list fresh;
    weft__list_init(&fresh);
    weft__list_splice(&fresh, &wheel->fresh);
    weft__list *link;
    while ((link = weft__list_pop(&fresh)) != NULL)
        place(wheel, timer_of(link), due);
}

int64_t weft__wheel_next(weft__wheel *wheel)
{
    if (wheel->count == 0)
        return WEFT__NEVER;
    settle(wheel, &wheel->fresh); /* those that are due stay there */
    if (!weft__list_is_empty(&wheel->fresh))
        return wheel->now_ns;
    for (int level = 0; level < WEFT__WHEEL_LEVELS; level++)
        if (wheel->occupied[level] != 0)
            return wheel->earliest[level][lowest_bit(wheel->occupied[level])];
    return WEFT__NEVER;
}

/* Of a slot: whether `count` of its timers are due, which it is reduced by. */
static bool is_slot_crowded(const weft__list *slot, int64_t until_ns, unsigned *count,
                            unsigned *looks)
{
    for (weft__list *link = slot->next; link != slot && *looks > 0; link = link->next) {
        --*looks;
        if (timer_of(link)->deadline_ns <= until_ns && --*count == 0)
            return true;
    }
    return false;
}

bool weft__wheel_is_crowded(const weft__wheel *wheel, int64_t until_ns, unsigned count)
{
    unsigned looks = LOOKS_MAX;
    for (int level = 0; level < WEFT__WHEEL_LEVELS; level++) {
        for (uint64_t left = wheel->occupied[level]; left != 0; left &= left - 1) {
            int slot = lowest_bit(left);
            if (wheel->earliest[level][slot] > until_ns || looks == 0)
                return false;
            if (is_slot_crowded(&wheel->slots[level][slot], until_ns, &count, &looks))
                return true;
        }
    }
    return false;
}

/* The first time that belongs to a slot: above the level's digit it has the digits of now_ns. */
static int64_t slot_start(const weft__wheel *wheel, int level, int slot)
{
    int shift = level * WEFT__WHEEL_BITS;
    uint64_t above = (uint64_t)wheel->now_ns >> shift >> WEFT__WHEEL_BITS << WEFT__WHEEL_BITS;
    return (int64_t)((above | (uint64_t)slot) << shift);
}

/*
 * Get the timers of a list into the cache, from both its ends at once: they are far apart, and to
 * follow one pointer after the other would wait for memory twice as long.
 */
static void fetch(const weft__list *head)
{
    const weft__list *first = head->next, *last = head->prev;
    while (first != last && first->next != last) {
        first = first->next;
        last = last->prev;
    }
}

/*
 * Step into the next occupied slot, if it begins at or before now_ns, and move its timers down a
 * level or to `firing`. Returns false if there is none.
 */
static bool enter_next_slot(weft__wheel *wheel, int64_t now_ns, weft__list *firing)
{
    int level = 0;
    while (wheel->occupied[level] == 0)
        if (++level == WEFT__WHEEL_LEVELS)
            return false;
    int slot = lowest_bit(wheel->occupied[level]);
    if (slot_start(wheel, level, slot) > now_ns)
        return false;

    /* Nothing is due before `earliest`: going straight there spares a lone timer some levels. */
    int64_t earliest = wheel->earliest[level][slot];
    wheel->now_ns = earliest < now_ns ? earliest : now_ns;
    wheel->occupied[level] &= wheel->occupied[level] - 1;

    weft__list entered;
    weft__list_init(&entered);
    weft__list_splice(&entered, &wheel->slots[level][slot]);
    fetch(&entered);
    weft__list *link;
    while ((link = weft__list_pop(&entered)) != NULL)
        place(wheel, timer_of(link), firing);
    return true;
}

void weft__wheel_expire(weft__wheel *wheel, int64_t now_ns)
{
    /*
     * First all that is due is collected, then it is fired: what a callback arms is fresh and waits
     * for the next call, so a timer that re-arms itself cannot hold us here. A timer in `firing` is
     * still armed: an earlier callback that disarms it takes it out of the list.
     */
    weft__list firing;
    weft__list_init(&firing);
    if (wheel->count > 0) {
        settle(wheel, &firing);
        while (enter_next_slot(wheel, now_ns, &firing))
            ;
    }
    if (now_ns > wheel->now_ns)
        wheel->now_ns = now_ns;

    weft__list *link;
    while ((link = weft__list_pop(&firing)) != NULL) {
        weft__timer *timer = timer_of(link);
        wheel->count--;
        __builtin_prefetch(firing.next); /* it is on another stack, and likely to be cold */
        timer->fire(timer);
    }
}
