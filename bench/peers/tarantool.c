/*
 * What bench/messages.c and sync.c measure, with Tarantool's fibers in C: the same names, one line
 * each. A latch is a mutex by another name; there is no select. A condition has no mutex: fibers of
 * one thread need none for what they do not touch across a wait, and the measurement does without.
 * Channels are in the program, but in no header of the package.
 *
 * A module that Tarantool loads; what Lua would call to open it does all the work.
 */
#include <tarantool/module.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 21
#define NUMBER 10000
#define CROWD 4
#define ROOM 128
/* Seconds: for ever, as Tarantool has it, which arms no timer. */
#define FOR_EVER (365 * 86400 * 100.0)

struct fiber_channel;
struct fiber_channel *fiber_channel_new(uint32_t size);
void fiber_channel_delete(struct fiber_channel *channel);
int fiber_channel_put_timeout(struct fiber_channel *channel, void *data, double seconds);
int fiber_channel_get_timeout(struct fiber_channel *channel, void **data, double seconds);

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct fiber *spin(fiber_func fn)
{
    struct fiber *f = fiber_new("peer", fn);
    fiber_set_joinable(f, true);
    return f;
}

static struct fiber_channel *there, *back;
static box_latch_t *latch;
static struct fiber_cond *cond;
static int whose;
static size_t done;

static void put(struct fiber_channel *channel, uintptr_t value)
{
    fiber_channel_put_timeout(channel, (void *)value, FOR_EVER);
}

static uintptr_t get(struct fiber_channel *channel)
{
    void *value = NULL;
    fiber_channel_get_timeout(channel, &value, FOR_EVER);
    return (uintptr_t)value;
}

static int answer(va_list args)
{
    (void)args;
    for (size_t i = 0; i < NUMBER; i++)
        put(back, get(there));
    return 0;
}

static double chan_round_trip(void)
{
    uintptr_t got = 0;
    there = fiber_channel_new(0);
    back = fiber_channel_new(0);
    struct fiber *other = spin(answer);
    fiber_wakeup(other);
    double began = now_ns();
    for (size_t i = 1; i <= NUMBER; i++) {
        put(there, i);
        got = get(back);
    }
    double took = now_ns() - began;
    fiber_join(other);
    fiber_channel_delete(there);
    fiber_channel_delete(back);
    return got == NUMBER ? took : NAN;
}

static int drain(va_list args)
{
    (void)args;
    done = 0;
    for (size_t i = 0; i < NUMBER; i++)
        done += get(there);
    return 0;
}

static double chan_stream(void)
{
    there = fiber_channel_new(ROOM);
    struct fiber *other = spin(drain);
    fiber_wakeup(other);
    double began = now_ns();
    for (size_t i = 1; i <= NUMBER; i++)
        put(there, i);
    fiber_join(other);
    double took = now_ns() - began;
    fiber_channel_delete(there);
    return done == (size_t)NUMBER * (NUMBER + 1) / 2 ? took : NAN;
}

static double mutex_free(void)
{
    double began = now_ns();
    for (size_t i = 0; i < NUMBER; i++) {
        box_latch_lock(latch);
        box_latch_unlock(latch);
    }
    return now_ns() - began;
}

static int jostle(va_list args)
{
    (void)args;
    for (size_t i = 0; i < NUMBER / CROWD; i++) {
        box_latch_lock(latch);
        fiber_reschedule();
        done++;
        box_latch_unlock(latch);
    }
    return 0;
}

static double mutex_contended(void)
{
    struct fiber *fibers[CROWD];
    done = 0;
    double began = now_ns();
    for (size_t i = 0; i < CROWD; i++)
        fiber_wakeup(fibers[i] = spin(jostle));
    for (size_t i = 0; i < CROWD; i++)
        fiber_join(fibers[i]);
    double took = now_ns() - began;
    return done == NUMBER ? took : NAN;
}

static void take_turns(int mine)
{
    for (size_t i = 0; i < NUMBER; i++) {
        while (whose != mine)
            fiber_cond_wait(cond);
        whose = !mine;
        fiber_cond_signal(cond);
    }
}

static int take_turns_too(va_list args)
{
    (void)args;
    take_turns(1);
    return 0;
}

static double cond_round_trip(void)
{
    struct fiber *other = spin(take_turns_too);
    fiber_wakeup(other);
    double began = now_ns();
    take_turns(0);
    fiber_join(other);
    return now_ns() - began;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Print the median of the rounds, after one to warm up. */
static void measure(const char *what, double (*run)(void))
{
    double took[ROUNDS];
    run();
    for (size_t i = 0; i < ROUNDS; i++)
        took[i] = run() / NUMBER;
    qsort(took, ROUNDS, sizeof *took, compare);
    printf("%s %.2f\n", what, took[ROUNDS / 2]);
}

int luaopen_peer(lua_State *lua);

int luaopen_peer(lua_State *lua)
{
    (void)lua;
    latch = box_latch_new();
    cond = fiber_cond_new();
    measure("channel round trip", chan_round_trip);
    measure("channel of 128, a message", chan_stream);
    measure("mutex, free", mutex_free);
    measure("mutex, handed on among 4", mutex_contended);
    measure("condition round trip", cond_round_trip);
    fiber_cond_delete(cond);
    box_latch_delete(latch);
    fflush(stdout);
    return 0;
}
