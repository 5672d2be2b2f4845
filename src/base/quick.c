/* The quick clock: the rate of the processor's counter, and whether there is one to rely on. */
#include "base/quick.h"

#include "base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* A look at the clock serves so long: errors, of whatever kind, are bounded by that. */
#define SPAN_NS 1000000

/*
 * The rate is measured over so long, not longer (the machine may have slept), and only if the two
 * were read so close together that it is right to a thousandth.
 */
#define MEASURE_NS_MIN 10000000
#define MEASURE_NS_MAX WEFT__NS_PER_S
#define MEASURE_PART 1000

/* What is added to it: twice what the clock may be made to run faster later (500 + 500 ppm). */
#define MARGIN_PART 500

/* Does the counter run at one rate, whatever the processor does? */
static bool is_steady(void)
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

static void begin_measuring(weft__quick *q, int64_t ns)
{
    q->first_ns = ns;
    q->first_ticks = weft__ticks();
}

/*
 * The rate cannot be too low: the first ticks were read after the time they stand for, those now
 * before it. It is taken when two spells in a row agree: in one of them the machine may have slept,
 * while the counter ran and the clock did not.
 */
static void measure(weft__quick *q, uint64_t ticks, int64_t ns)
{
    int64_t passed_ns = ns - q->first_ns;
    uint64_t passed = ticks - q->first_ticks;
    if (q->first_ns == 0 || passed_ns > MEASURE_NS_MAX) {
        begin_measuring(q, ns);
        return;
    }
    if (passed_ns < MEASURE_NS_MIN || weft__ticks() - ticks > passed / MEASURE_PART || !is_steady())
        return;
    double rate = (double)passed_ns / (double)passed, before = q->first_rate;
    q->first_rate = rate;
    begin_measuring(q, ns);
    if (rate < before - before / MEASURE_PART || rate > before + before / MEASURE_PART)
        return;
    rate = (rate > before ? rate : before) * (1 + 1.0 / MARGIN_PART);
    q->rate = (uint64_t)(rate * 4294967296.0) + 1;
    q->span = (uint64_t)(SPAN_NS / rate);
}

/* Has more time passed since the last look than the rate says? Ticks are just after ns was read. */
static bool is_behind(const weft__quick *q, uint64_t ticks, int64_t ns)
{
    return (double)(ticks - q->ticks) * (double)q->rate < (double)(ns - q->ns) * 4294967296.0;
}

COLD int64_t weft__quick_look(weft__quick *q)
{
    uint64_t ticks = weft__ticks();
    int64_t ns = weft__clock_ns();
    if (UNLIKELY(q->rate != 0 && is_behind(q, weft__ticks(), ns))) {
        /* Another processor, of a machine that this one was moved to: begin again. */
        q->rate = q->span = 0;
        q->first_ns = 0;
        q->first_rate = 0;
    }
    if (q->rate == 0)
        measure(q, ticks, ns);
    q->ticks = ticks;
    q->ns = ns;
    return ns;
}
