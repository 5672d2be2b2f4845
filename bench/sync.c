/*
 * Locks and signals: nanoseconds to take a mutex and let go of it, when nobody else wants it and
 * when three others always do; and a round trip between two fibers that wait for each other on a
 * condition. The same in other runtimes: bench/peers/compare.
 *
 * Who holds the contended mutex snoozes, so that the others come to wait for it. Once they do, it
 * is handed on with one switch.
 *
 * NUMBER: operations a round.
 */
#include "bare.h"
#include "rounds.h"

#include <weft.h>

#define CROWD 4

static double mutex_free(void *arg, size_t n)
{
    (void)arg;
    weft_mutex mutex = {0};
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i++) {
        weft_mutex_lock(&mutex);
        weft_mutex_unlock(&mutex);
    }
    return (bench_now_ns() - began) / (double)n;
}

typedef struct crowd {
    weft_mutex mutex;
    size_t n; /* for each */
    size_t done;
} crowd;

static weft_value jostle(void *arg)
{
    crowd *c = arg;
    for (size_t i = 0; i < c->n; i++) {
        weft_mutex_lock(&c->mutex);
        weft_snooze();
        c->done++;
        weft_mutex_unlock(&c->mutex);
    }
    return 0;
}

static double mutex_contended(void *arg, size_t n)
{
    (void)arg;
    crowd c = {.n = n / CROWD};
    weft_fiber fibers[CROWD];
    double began = bench_now_ns();
    for (size_t i = 0; i < CROWD; i++)
        fibers[i] = weft_spin(jostle, &c);
    for (size_t i = 0; i < CROWD; i++)
        weft_await(fibers[i]);
    double took = bench_now_ns() - began;
    bench_require(c.done == c.n * CROWD, "not all was done");
    return took / (double)c.done;
}

typedef struct turns {
    weft_mutex mutex;
    weft_cond cond;
    int whose;
    size_t n;
} turns;

/*
 * Wait for one's turn and pass it on, again and again. The mutex is let go of by waiting only:
 * else they would meet at it, and hardly ever at the condition.
 */
static void take_turns(turns *t, int mine)
{
    weft_mutex_lock(&t->mutex);
    for (size_t i = 0; i < t->n; i++) {
        while (t->whose != mine)
            weft_cond_wait(&t->cond, &t->mutex);
        t->whose = !mine;
        weft_cond_signal(&t->cond);
    }
    weft_mutex_unlock(&t->mutex);
}

static weft_value take_turns_too(void *arg)
{
    take_turns(arg, 1);
    return 0;
}

static double cond_round_trip(void *arg, size_t n)
{
    (void)arg;
    turns t = {.n = n};
    weft_fiber other = weft_spin(take_turns_too, &t);
    double began = bench_now_ns();
    take_turns(&t, 0);
    weft_value rc = weft_await(other);
    double took = bench_now_ns() - began;
    bench_require(rc == 0 && t.whose == 0, "somebody's turn was lost");
    return took / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = bench_start(argc, argv, 10000);
    const bench_case cases[] = {
        {"bare switch", bare_ping_pong, NULL},
        {"mutex, free", mutex_free, NULL},
        {"mutex, handed on among 4", mutex_contended, NULL},
        {"condition round trip", cond_round_trip, NULL},
    };
    BENCH_RUN(cases, n);
    return 0;
}
