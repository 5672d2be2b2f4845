/*
 * The properties of channels under load, in one thread and between threads: each value arrives
 * once, in the order of its sender, or its send fails. Also items of any size.
 */
#include "support/cord_support.h"
#include "support/property_suite.h"

#define CHANS 3
#define SIDE 6 /* the most senders of a channel, and the most receivers */
#define VALUES 250
#define CORDS 6
#define ACTORS (CHANS * 2 * SIDE)
#define INTERRUPTED (-77)

enum { MISSED }; /* event: a call was interrupted or timed out */

typedef struct traffic {
    weft_chan *chan;
    atomic_int senders_left;
    atomic_uchar sent[SIDE][VALUES], arrived[SIDE][VALUES];
} traffic;

/* A fiber that sends or receives all its values in one channel. */
struct actor {
    traffic *of;
    int sender; /* -1: receives */
    bool has_timeouts;
    int next[SIDE]; /* for each sender, the lowest value that may arrive next */
    weft_fiber id;
};

static traffic traffics[CHANS];
static actor actors[ACTORS];
static unsigned actors_count;
static uint64_t first_seed;
static bool is_closed_early;

static double call_timeout(const actor *me)
{
    return me->has_timeouts && random_below(3) == 0 ? random_below(60) * 1e-6 : INFINITY;
}

static void pause_randomly(void)
{
    unsigned how = random_below(8);
    if (how == 0)
        weft_sleep(random_below(60) * 1e-6);
    else if (how < 4)
        weft_snooze();
}

/* Each value of a program is unique. */
static weft_value first_value_of(const actor *me, int sender)
{
    return ((me->of - traffics) * SIDE + sender) * VALUES;
}

static weft_value send_values(actor *me)
{
    for (int i = 0; i < VALUES;) {
        int rc = 1;
        WEFT_MOVE_ON_AFTER(call_timeout(me))
            rc = weft_chan_send(me->of->chan, first_value_of(me, me->sender) + i);
        if (rc == -EPIPE)
            break;
        if (rc == 0)
            me->of->sent[me->sender][i++]++;
        else
            count_event(MISSED);
        REQUIRE(rc == 0 || rc == -ECANCELED || rc == INTERRUPTED);
        pause_randomly();
    }
    REQUIRE(is_closed_early || me->of->sent[me->sender][VALUES - 1] == 1);
    if (atomic_fetch_sub(&me->of->senders_left, 1) == 1)
        weft_chan_close(me->of->chan);
    return 0;
}

static void take_value(actor *me, weft_value value)
{
    weft_value own = value - first_value_of(me, 0);
    REQUIRE(own >= 0 && own < SIDE * VALUES);
    int sender = (int)(own / VALUES), i = (int)(own % VALUES);
    REQUIRE(me->of->arrived[sender][i]++ == 0);
    REQUIRE(i >= me->next[sender]);
    me->next[sender] = i + 1;
}

static weft_value receive_values(actor *me)
{
    for (;;) {
        weft_value value = 0;
        WEFT_MOVE_ON_AFTER(call_timeout(me))
            value = weft_chan_recv(me->of->chan);
        if (value == -EPIPE)
            return 0;
        if (value >= 0)
            take_value(me, value);
        else
            count_event(MISSED);
        REQUIRE(value >= 0 || value == -ECANCELED || value == INTERRUPTED);
        pause_randomly();
    }
}

FIBER_DO(run_chan_actor, actor *me = arg, me->sender >= 0 ? send_values(me) : receive_values(me))

/* Run every n-th actor in this thread. */
static void spin_actors(unsigned first, unsigned n)
{
    for (unsigned i = first; i < actors_count; i += n)
        REQUIRE((actors[i].id = weft_spin(run_chan_actor, &actors[i])) != 0);
}

static weft_value run_cord_of_actors(void *arg)
{
    unsigned index = (unsigned)(uintptr_t)arg;
    random_state = first_seed + index;
    spin_actors(index, CORDS);
    return weft_await_children();
}

/* The first channel is a rendezvous with timeouts. The others use all capacities in turn. */
static void open_traffic(unsigned index, bool is_shared)
{
    static const size_t caps[] = {1, 2, 3, 7, 64};
    traffic *t = &traffics[index];
    int senders = 1 + (int)random_below(SIDE), receivers = 1 + (int)random_below(SIDE);
    size_t cap = index == 0 ? 0 : caps[(2 * first_seed + index) % COUNT_OF(caps)];
    t->chan = (is_shared ? weft_chan_new_shared : weft_chan_new)(cap);
    t->senders_left = senders;
    bool has_timeouts = index == 0 || random_below(2) == 0;
    for (int i = 0; i < senders + receivers; i++)
        actors[actors_count++] =
            (actor){.of = t, .sender = i < senders ? i : -1, .has_timeouts = has_timeouts};
}

static void run_in_threads(void)
{
    weft_cord cords[CORDS];
    for (unsigned i = 0; i < CORDS; i++)
        cords[i] = start_cord(run_cord_of_actors, as_arg((weft_value)i));
    for (int i = 0; is_closed_early && i < 50; i++)
        weft_sleep(0);
    for (unsigned i = 0; is_closed_early && i < CHANS; i++)
        weft_chan_close(traffics[i].chan);
    for (unsigned i = 0; i < CORDS; i++)
        REQUIRE(weft_cord_join(cords[i]) == 0);
}

/* Interrupt senders and receivers. An interrupt has no effect on a fiber that does not wait. */
static void run_interrupted(void)
{
    spin_actors(0, 1);
    weft_counters now;
    while (weft_stats(&now) == 0 && now.fibers > 0) {
        weft_interrupt(actors[random_below(actors_count)].id, INTERRUPTED);
        weft_sleep(random_below(60) * 1e-6);
    }
    for (unsigned i = 0; i < actors_count; i++)
        REQUIRE(weft_await(actors[i].id) == 0);
}

enum { LOCAL, SHARED, CLOSED_EARLY };

static void run_traffic(int variant)
{
    first_seed = random_state;
    is_closed_early = variant == CLOSED_EARLY;
    for (unsigned i = 0; i < CHANS; i++)
        open_traffic(i, variant != LOCAL);
    if (variant == LOCAL)
        run_interrupted();
    else
        run_in_threads();
    for (unsigned i = 0; i < CHANS; i++) {
        REQUIRE(weft_chan_count(traffics[i].chan) == 0);
        REQUIRE(memcmp(traffics[i].sent, traffics[i].arrived, sizeof traffics[i].sent) == 0);
        weft_chan_free(traffics[i].chan);
    }
}

/* T69, T70, T71 */
static const property properties[] = {
    {"with_interrupted_senders_and_receivers_no_value_is_lost_or_duplicated", run_traffic,
     .variant = LOCAL, .seeds = 3, .sim_seeds = 12, .least = {[MISSED] = 1}},
    {"between_threads_each_value_arrives_once_in_the_order_of_its_sender_or_its_send_fails",
     run_traffic, .variant = SHARED, .seeds = 8},
    {"closing_during_traffic_loses_nothing_that_was_sent", run_traffic, .variant = CLOSED_EARLY,
     .seeds = 3},
};

PROPERTIES(properties)

/* Items of any size. The bytes of an item depend on its number. */

typedef struct large {
    unsigned char bytes[200];
} large;

WEFT_CHAN_OF(item_chan, large);
WEFT_CHAN_OF(number_chan, int64_t);

static large large_of(int n)
{
    large p;
    for (size_t i = 0; i < sizeof p.bytes; i++)
        p.bytes[i] = (unsigned char)((size_t)n * 7 + i);
    return p;
}

static weft_chan *chan;

static weft_value send_items(void *arg)
{
    for (int i = 0; i < 50; i++) {
        large p = large_of(i);
        ck_assert_int_eq(weft__chan_send_item(chan, &p), 0);
    }
    return weft_chan_close(chan);
}

/* API: WEFT_CHAN_OF */
TEST(items_of_any_size_arrive_whole_whichever_side_waits)
{
    static const size_t sizes[] = {0, 1, 8, 24, 199};
    for (size_t i = 0; i < 8 * COUNT_OF(sizes); i++) {
        size_t bytes = sizes[i / 8];
        chan = weft__chan_new_of(bytes, i % 8 / 2 * 3);
        weft_fiber f = weft_spin(send_items, NULL);
        if (i % 2 == 1) /* let the sender wait first */
            let_run();
        large p, expected;
        memset(&p, 0xee, sizeof p);
        for (int n = 0; n < 50; n++) {
            expected = large_of(n);
            ck_assert_int_eq(weft__chan_recv_item(chan, &p), 0);
            ck_assert_mem_eq(&p, &expected, bytes);
            ck_assert_uint_eq(p.bytes[bytes], 0xee);
        }
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_int_eq(weft__chan_recv_item(chan, &p), -EPIPE);
        ck_assert_int_eq(weft__chan_try_recv_item(chan, &p), -EPIPE);
        ck_assert_int_eq(weft__chan_try_send_item(chan, &p), -EPIPE);
        ck_assert_int_eq(weft__chan_send_item(chan, &p), -EPIPE);
        ck_assert_mem_eq(&p, &expected, bytes);
        weft_chan_free(chan);
    }
}

static weft_value fail_to_recv(void *arg)
{
    large p = large_of(50), before = p;
    int rc = item_chan_recv(arg, &p);
    ck_assert_mem_eq(&p, &before, sizeof p);
    return rc;
}

TEST(an_interrupted_typed_call_writes_nothing_and_sends_nothing)
{
    item_chan *c = item_chan_new(1);
    large p, expected = large_of(1);
    ck_assert_int_eq(item_chan_try_recv(c, &p), -EAGAIN);
    weft_fiber f = spin_waiting(fail_to_recv, c);
    weft_interrupt(f, -3);
    ck_assert_int_eq(item_chan_send(c, large_of(1)), 0); /* not to the interrupted receiver */
    ck_assert_int_eq(weft_await(f), -3);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(item_chan_send(c, large_of(2)), -ECANCELED);
        ck_assert_int_eq(item_chan_try_send(c, large_of(2)), -EAGAIN);
    }
    ck_assert_uint_eq(weft_chan_count(item_chan_chan(c)), 1);
    ck_assert_int_eq(item_chan_try_recv(c, &p), 0);
    ck_assert_mem_eq(&p, &expected, sizeof p);
    f = spin_waiting(fail_to_recv, c);
    item_chan_free(c);
    ck_assert_int_eq(weft_await(f), -EPIPE);
}

FIBER_DO(recv_number, int64_t n = 0, ck_assert_int_eq(number_chan_recv(arg, &n), 0), n == -EIO)

/* API: WEFT_CHAN_OF */
TEST(an_item_may_have_the_bytes_of_an_error_code)
{
    number_chan *c = number_chan_new(1);
    int64_t n;
    weft_fiber f = spin_waiting(recv_number, c);
    ck_assert_int_eq(number_chan_send(c, -EIO), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(number_chan_send(c, -EPERM), 0);
    ck_assert_int_eq(number_chan_recv(c, &n), 0);
    ck_assert_int_eq(n, -EPERM);
    ck_assert_int_eq(weft_chan_send(number_chan_chan(c), -EPERM), -EINVAL);
    number_chan_free(c);
}

TEST(a_channel_of_structs_is_not_mistaken_for_one_of_values)
{
    item_chan *c = item_chan_new(2);
    weft_chan *plain = item_chan_chan(c);
    ck_assert_int_eq(item_chan_send(c, large_of(1)), 0);
    ck_assert_int_eq(weft_chan_send(plain, 1), -EINVAL);
    ck_assert_error(-EINVAL, "weft_chan: the items have 200 bytes and are not values");
    ck_assert_int_eq(weft_chan_try_send(plain, 1), -EINVAL);
    ck_assert_int_eq(weft_chan_recv(plain), -EINVAL);
    ck_assert_int_eq(weft_chan_try_recv(plain), -EINVAL);
    ck_assert_uint_eq(weft_chan_count(plain), 1);
    item_chan_free(c);
}

TEST(items_of_zero_bytes_are_counted)
{
    char nothing;
    chan = weft__chan_new_of(0, 100);
    for (int i = 0; i < 101; i++)
        ck_assert_int_eq(weft__chan_try_send_item(chan, &nothing), i < 100 ? 0 : -EAGAIN);
    for (int i = 0; i < 101; i++)
        ck_assert_int_eq(weft__chan_try_recv_item(chan, &nothing), i < 100 ? 0 : -EAGAIN);
    weft_chan_free(chan);
}

static weft_value recv_forever(void *arg)
{
    return weft_chan_recv(chan);
}

TEST_PROGRAM(the_process_may_end_while_fibers_wait_on_a_channel, 0, "")
{ /* T35 */
    chan = weft_chan_new(1);
    weft_go(recv_forever, NULL);
    weft_go(recv_forever, NULL);
    weft_snooze();
    return weft_chan_has_receivers(chan) ? 0 : 1;
}

static int recv_without_sender(void)
{
    chan = weft_chan_new(1);
    weft_value v = weft_chan_recv(chan);
    return v == -EDEADLK && !weft_chan_has_receivers(chan) && weft_chan_send(chan, 5) == 0 &&
                   weft_chan_recv(chan) == 5
               ? 0
               : 1;
}

TEST(a_main_fiber_that_no_fiber_can_send_to_gets_edeadlk)
{
    const outcome *o = run_apart(recv_without_sender);
    ck_assert_int_eq(o->status, 0);
    if (!is_sanitized())
        assert_printed(o, "an item from a channel");
}
