/*
 * The timer wheel of a cord. The wheel does not read the clock. The wheel does not depend on the
 * owners of timers.
 *
 * Invariants between calls:
 *   - A timer that is not in `fresh` has a deadline after now_ns, and is in slots[level][slot].
 *     level is the position of the highest 6-bit digit in which deadline_ns and now_ns differ. slot
 *     is the value of that digit in deadline_ns.
 *   - Timers with the same deadline are in the same slot, in the order in which they were armed.
 *   - All timers of a level are due before the timers of higher levels. All timers of a slot are
 *     due before the timers of later slots of the level. Therefore the first occupied slot of the
 *     lowest occupied level holds the next timer.
 *   - A bit of `occupied` is set if and only if its slot is not empty.
 */
#include "core/sched/timer.h"

/*
 * The maximal number of timers that weft__wheel_has_due inspects. Each inspection may be a cache
 * miss.
 */
#define INSPECTIONS_MAX 32

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

/*
 * Insert a timer into the slot for its deadline. If the timer is due, insert it into `due` instead.
 */
static void timer_insert(weft__wheel *wheel, weft__timer *timer, weft__list *due)
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

/* Lists that are not slots have no bit in `occupied`. */
void weft__wheel_list_emptied(weft__wheel *wheel, const weft__list *head)
{
    uintptr_t offset = (uintptr_t)head - (uintptr_t)wheel->slots;
    if (offset >= sizeof wheel->slots)
        return;
    unsigned index = (unsigned)(offset / sizeof *head);
    wheel->occupied[index / WEFT__WHEEL_SLOTS] &= ~((uint64_t)1 << index % WEFT__WHEEL_SLOTS);
}

/* Insert the timers of `fresh` into their slots. Insert due timers into `due` instead. */
static void wheel_insert_fresh(weft__wheel *wheel, weft__list *due)
{
    weft__list fresh;
    weft__list_init(&fresh);
    weft__list_splice(&fresh, &wheel->fresh);
    weft__list *link;
    while ((link = weft__list_pop(&fresh)) != NULL)
        timer_insert(wheel, timer_of(link), due);
}

int64_t weft__wheel_next(weft__wheel *wheel)
{
    if (wheel->count == 0)
        return WEFT__NEVER;
    wheel_insert_fresh(wheel, &wheel->fresh); /* due timers remain in fresh */
    if (!weft__list_is_empty(&wheel->fresh))
        return wheel->now_ns;
    for (int level = 0; level < WEFT__WHEEL_LEVELS; level++)
        if (wheel->occupied[level] != 0)
            return wheel->earliest[level][lowest_bit(wheel->occupied[level])];
    return WEFT__NEVER;
}

/*
 * Return whether at least *count timers of a slot are due. Subtract the due timers from *count, and
 * the inspected timers from *inspections.
 */
static bool slot_has_due(const weft__list *slot, int64_t until_ns, unsigned *count,
                         unsigned *inspections)
{
    for (weft__list *link = slot->next; link != slot && *inspections > 0; link = link->next) {
        --*inspections;
        if (timer_of(link)->deadline_ns <= until_ns && --*count == 0)
            return true;
    }
    return false;
}

bool weft__wheel_has_due(const weft__wheel *wheel, int64_t until_ns, unsigned count)
{
    unsigned inspections = INSPECTIONS_MAX;
    for (int level = 0; level < WEFT__WHEEL_LEVELS; level++) {
        for (uint64_t left = wheel->occupied[level]; left != 0; left &= left - 1) {
            int slot = lowest_bit(left);
            if (wheel->earliest[level][slot] > until_ns || inspections == 0)
                return false;
            if (slot_has_due(&wheel->slots[level][slot], until_ns, &count, &inspections))
                return true;
        }
    }
    return false;
}

/*
 * Return the start time of a slot. The digits above the level are equal in the start time and in
 * now_ns.
 */
static int64_t slot_start(const weft__wheel *wheel, int level, int slot)
{
    int shift = level * WEFT__WHEEL_BITS;
    uint64_t above = (uint64_t)wheel->now_ns >> shift >> WEFT__WHEEL_BITS << WEFT__WHEEL_BITS;
    return (int64_t)((above | (uint64_t)slot) << shift);
}

/*
 * Load the timers of a list into the processor's cache, from both ends at the same time. Timers are
 * far apart in memory. Following only one chain of pointers would take twice as long. Without the
 * prefetches: 100,000 sleepers +10 % time (docs/adr/0051).
 */
static void timers_prefetch(const weft__list *head)
{
    const weft__list *first = head->next, *last = head->prev;
    while (first != last && first->next != last) {
        first = first->next;
        last = last->prev;
    }
}

/*
 * Enter the next occupied slot, if its start time is not after now_ns. Move the timers of the slot
 * to lower levels or to `firing`. Returns false if no slot was entered.
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

    /*
     * No timer is due before `earliest`. If the time advances directly to `earliest`, a single
     * timer skips levels.
     */
    int64_t earliest = wheel->earliest[level][slot];
    wheel->now_ns = earliest < now_ns ? earliest : now_ns;
    wheel->occupied[level] &= wheel->occupied[level] - 1;

    weft__list entered;
    weft__list_init(&entered);
    weft__list_splice(&entered, &wheel->slots[level][slot]);
    timers_prefetch(&entered);
    weft__list *link;
    while ((link = weft__list_pop(&entered)) != NULL)
        timer_insert(wheel, timer_of(link), firing);
    return true;
}

void weft__wheel_expire(weft__wheel *wheel, int64_t now_ns)
{
    /*
     * Collect all due timers first, then fire them. A timer that a callback arms is inserted into
     * `fresh`, and fires in the next call at the earliest. Therefore a timer that re-arms itself
     * does not make this loop endless. A timer in `firing` is still armed. If an earlier callback
     * disarms the timer, it is removed from `firing`.
     */
    weft__list firing;
    weft__list_init(&firing);
    if (wheel->count > 0) {
        wheel_insert_fresh(wheel, &firing);
        while (enter_next_slot(wheel, now_ns, &firing))
            ;
    }
    if (now_ns > wheel->now_ns)
        wheel->now_ns = now_ns;

    weft__list *link;
    while ((link = weft__list_pop(&firing)) != NULL) {
        weft__timer *timer = timer_of(link);
        wheel->count--;
        __builtin_prefetch(firing.next); /* the timer is probably not in the processor's cache */
        timer->fire(timer);
    }
}
