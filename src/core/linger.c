/* Lingering, see linger.h. */
#include "core/linger.h"

#include "base/clock.h"
#include "base/cpu.h"

/* Looks at the inbox between two looks at the clock, which takes as long as some ten of them. */
#define LOOKS 32

bool weft__linger_is_off;

static bool is_alone;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* On a single CPU nobody can send anything while this thread looks. */
static void count_cpus(void)
{
    is_alone = weft__cpu_count() == 1;
}

static bool look(weft__cord *c)
{
    int64_t until_ns = weft__clock_ns() + WEFT__LINGER_NS;
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&c->inbox, memory_order_relaxed) != NULL)
                return true;
            weft__cpu_relax();
        }
    } while (weft__clock_ns() < until_ns);
    return false;
}

bool weft__linger(weft__cord *c)
{
    bool is_hit = look(c);
    if (is_hit)
        c->linger_credit = WEFT__LINGER_CREDIT;
    else if (--c->linger_credit == 0)
        c->linger_credit = -WEFT__LINGER_REST;
    return is_hit;
}

void weft__linger_learn(weft__cord *c, int64_t slept_ns, bool was_for_letter)
{
    if (c->linger_credit > 0)
        return;
    pthread_once(&once, count_cpus);
    if (is_alone || weft__linger_is_off || !was_for_letter || slept_ns > WEFT__LINGER_SLEPT_NS)
        c->linger_credit = 0;
    else
        c->linger_credit++;
}
