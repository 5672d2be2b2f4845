/*
 * The fast clock: measure the rate of the processor's counter, and check that the counter is
 * reliable.
 */
#include "base/fast_clock.h"

#include "base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/*
 * The time between two synchronisations, in ns. An error in the rate accumulates for at most this
 * time.
 */
#define SYNC_NS 1000000

/*
 * The limits of the duration of a measurement, in ns. A longer measurement is discarded, because
 * the machine may have slept.
 */
#define MEASURE_NS_MIN 10000000
#define MEASURE_NS_MAX WEFT__NS_PER_S
/*
 * The relative error of a measured rate is at most 1/MEASURE_PART. If the reads of counter and
 * clock are too far apart, the measurement is discarded.
 */
#define MEASURE_PART 1000

/*
 * The rate is increased by 1/MARGIN_PART, which is 2,000 ppm. The kernel may later adjust the rate
 * of its clock by up to 1,000 ppm.
 */
#define MARGIN_PART 500

bool weft__cpu_ticks_are_steady(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

static void rate_begin(weft__fast_clock *clock, int64_t ns)
{
    clock->first_ns = ns;
    clock->first_ticks = weft__cpu_ticks();
}

/*
 * Measure the rate. The caller must have read ticks just before ns.
 *
 * The measured rate is never too low, because first_ticks was read after first_ns, and ticks before
 * ns. The rate is accepted if two consecutive measurements agree. This check detects a machine that
 * sleeps during a measurement. The counter runs during the sleep, but the clock does not.
 */
static void rate_measure(weft__fast_clock *clock, uint64_t ticks, int64_t ns)
{
    int64_t passed_ns = ns - clock->first_ns;
    uint64_t passed = ticks - clock->first_ticks;
    if (clock->first_ns == 0 || passed_ns > MEASURE_NS_MAX) {
        rate_begin(clock, ns);
        return;
    }
    if (passed_ns < MEASURE_NS_MIN || weft__cpu_ticks() - ticks > passed / MEASURE_PART ||
        !weft__cpu_ticks_are_steady())
        return;
    double rate = (double)passed_ns / (double)passed, before = clock->measured_rate;
    clock->measured_rate = rate;
    rate_begin(clock, ns);
    if (rate < before - before / MEASURE_PART || rate > before + before / MEASURE_PART)
        return;
    rate = (rate > before ? rate : before) * (1 + 1.0 / MARGIN_PART);
    clock->rate = (uint64_t)(rate * 4294967296.0) + 1;
    clock->valid_ticks = (uint64_t)(SYNC_NS / rate);
}

/*
 * Return true if more time has passed since the last synchronisation than the rate predicts. The
 * caller must have read ticks just after ns.
 */
static bool is_rate_behind(const weft__fast_clock *clock, uint64_t ticks, int64_t ns)
{
    return (double)(ticks - clock->ticks) * (double)clock->rate <
           (double)(ns - clock->ns) * 4294967296.0;
}

COLD int64_t weft__fast_clock_sync(weft__fast_clock *clock)
{
    uint64_t ticks = weft__cpu_ticks();
    int64_t ns = weft__clock_ns();
    if (UNLIKELY(clock->rate != 0 && is_rate_behind(clock, weft__cpu_ticks(), ns))) {
        /* The virtual machine has probably migrated to a host with a slower counter. */
        clock->rate = clock->valid_ticks = 0;
        clock->first_ns = 0;
        clock->measured_rate = 0;
    }
    if (clock->rate == 0)
        rate_measure(clock, ticks, ns);
    clock->ticks = ticks;
    clock->ns = ns;
    return ns;
}
