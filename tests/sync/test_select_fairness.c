/*
 * Fairness of select: equal chances of clauses, selects on both sides of a channel, and many fibers
 * with cancels.
 */
#include "support/random.h"
#include "support/suite.h"

/* Return a full channel with this one value. */
static weft_chan *chan_of_one(weft_value value)
{
    weft_chan *chan = weft_chan_new(1);
    ck_assert_int_eq(weft_chan_try_send(chan, value), 0);
    return chan;
}

/* Equal chances. */

static void assert_fair(const int *wins, size_t n, int rounds)
{
    for (size_t i = 0; i < n; i++) {
        double share = (double)wins[i] * (double)n / rounds;
        ck_assert_msg(share >= 0.8 && share <= 1.2, "clause %zu of %zu won %d of %d rounds", i, n,
                      wins[i], rounds);
    }
}

TEST(ready_clauses_have_equal_chances)
{
    enum { ROUNDS = 10000, CLAUSES_MAX = 10 };
    weft_chan *chans[CLAUSES_MAX];
    for (int i = 0; i < CLAUSES_MAX; i++)
        chans[i] = chan_of_one(i);
    for (size_t n = 2; n <= CLAUSES_MAX; n += 8) {
        int wins[CLAUSES_MAX] = {0};
        for (int round = 0; round < ROUNDS; round++) {
            weft_clause c[CLAUSES_MAX];
            for (size_t i = 0; i < n; i++)
                c[i] = weft_clause_recv(chans[i]);
            int i = weft_select(c, n);
            wins[i]++;
            ck_assert_int_eq(c[i].value, i);
            ck_assert_int_eq(weft_chan_try_send(chans[i], i), 0);
        }
        assert_fair(wins, n, ROUNDS);
    }
    for (int i = 0; i < CLAUSES_MAX; i++)
        weft_chan_free(chans[i]);
}

TEST(clauses_that_are_not_ready_do_not_change_the_chances_of_the_others)
{
    enum { ROUNDS = 10000 };
    weft_chan *full = chan_of_one(1), *empty = weft_chan_new(0);
    int wins[3] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        weft_clause c[] = {weft_clause_recv(empty),    weft_clause_recv(full), {0},
                           weft_clause_send(empty, 1), weft_clause_time(0),    weft_clause_time(1),
                           weft_clause_recv(full)};
        int i = weft_select(c, 7);
        ck_assert(i == 1 || i == 4 || i == 6);
        wins[i == 1 ? 0 : i == 4 ? 1 : 2]++;
        if (i != 4)
            weft_chan_try_send(full, 1);
    }
    assert_fair(wins, 3, ROUNDS);
    weft_chan_free(full);
    weft_chan_free(empty);
}

TEST(equal_times_have_equal_chances)
{
    enum { ROUNDS = 3000 };
    int wins[3] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        weft_clause c[] = {weft_clause_time(1e-9), weft_clause_time(1e-9), weft_clause_time(1),
                           weft_clause_time(1e-9)};
        int i = weft_select(c, 4);
        ck_assert(i >= 0 && i != 2);
        wins[i == 3 ? 2 : i]++;
    }
    assert_fair(wins, 3, ROUNDS);
}

/* Sellers and buyers that select on two channels. */
typedef struct market {
    weft_chan *chans[2];
    int by_chan[2];
    int by_buyer[5], by_seller[4];
    int sold; /* number of sent values */
    int total;
} market;

typedef struct trader {
    market *market;
    int index;
} trader;

static weft_value send_on_either(void *arg)
{
    const trader *t = arg;
    market *m = t->market;
    while (m->sold < m->total) {
        weft_clause c[] = {weft_clause_send(m->chans[0], 1), weft_clause_send(m->chans[1], 1)};
        int i = weft_select(c, 2);
        if (i < 0 || c[i].value < 0)
            return 0;
        m->sold++;
        m->by_seller[t->index]++;
        weft_snooze(); /* otherwise it would continue while a buyer waits */
    }
    weft_chan_close(m->chans[0]);
    weft_chan_close(m->chans[1]);
    return 0;
}

static weft_value receive_on_either(void *arg)
{
    const trader *t = arg;
    market *m = t->market;
    for (;;) {
        weft_clause c[] = {weft_clause_recv(m->chans[0]), weft_clause_recv(m->chans[1])};
        int i = weft_select(c, 2);
        if (i < 0 || c[i].value < 0)
            return 0;
        m->by_chan[i]++;
        m->by_buyer[t->index]++;
        weft_snooze();
    }
}

TEST(many_fibers_that_select_on_both_sides_share_evenly)
{
    for (size_t cap = 0; cap < 3; cap += 2) {
        market m = {.chans = {weft_chan_new(cap), weft_chan_new(cap)}, .total = 20000};
        trader traders[9];
        weft_fiber f[9];
        for (int i = 0; i < 9; i++) {
            traders[i] = (trader){&m, i < 5 ? i : i - 5};
            f[i] = weft_spin(i < 5 ? receive_on_either : send_on_either, &traders[i]);
        }
        ck_assert_int_eq(weft_await_all(f, 9, NULL), 0);
        int bought = m.by_chan[0] + m.by_chan[1];
        ck_assert_int_ge(bought, m.total);
        assert_fair(m.by_chan, 2, bought);
        assert_fair(m.by_buyer, 5, bought);
        assert_fair(m.by_seller, 4, m.sold);
        weft_chan_free(m.chans[0]);
        weft_chan_free(m.chans[1]);
    }
}

/* Selects on both sides of a channel. */

enum { EXCHANGES = 10000 };

typedef struct pipe_pair {
    weft_chan *there, *back;
} pipe_pair;

/* Send back each received value until a message arrives. */
static weft_value echo_by_select(void *arg)
{
    const pipe_pair *p = arg;
    weft_value pending = -1;
    for (;;) {
        weft_clause c[] = {pending < 0 ? weft_clause_recv(p->there) : (weft_clause){0},
                           pending >= 0 ? weft_clause_send(p->back, pending) : (weft_clause){0},
                           weft_clause_message()};
        switch (weft_select(c, 3)) {
        case 0:
            pending = c[0].value;
            break;
        case 1:
            pending = -1;
            break;
        default:
            return pending;
        }
    }
}

TEST(selects_on_both_sides_of_a_channel_meet_every_time)
{
    pipe_pair p = {weft_chan_new(0), weft_chan_new(0)};
    weft_fiber echo = weft_spin(echo_by_select, &p);
    weft_value sent = 0, received = 0;
    while (received < EXCHANGES) {
        weft_clause c[] = {sent == received ? weft_clause_send(p.there, sent) : (weft_clause){0},
                           weft_clause_recv(p.back), weft_clause_time(INFINITY)};
        switch (weft_select(c, 3)) {
        case 0:
            ck_assert_int_eq(c[0].value, 0);
            sent++;
            break;
        case 1:
            ck_assert_int_eq(c[1].value, received);
            received++;
            break;
        default:
            ck_abort();
        }
        ck_assert(sent == received || sent == received + 1);
    }
    weft_tell(echo, 1);
    ck_assert_int_eq(weft_await(echo), -1);
    weft_chan_free(p.there);
    weft_chan_free(p.back);
}

typedef struct swapper {
    weft_chan *chan;
    weft_value own;
    int sent, received;
    int64_t sum_sent, sum_received;
} swapper;

static weft_value swap_often(void *arg)
{
    swapper *s = arg;
    for (int round = 0; round < EXCHANGES; round++) {
        weft_clause c[] = {weft_clause_send(s->chan, s->own + round), weft_clause_recv(s->chan)};
        switch (weft_select(c, 2)) {
        case 0:
            s->sent++;
            s->sum_sent += s->own + round;
            break;
        case 1:
            s->received++;
            s->sum_received += c[1].value;
            break;
        default:
            return -EIO;
        }
    }
    return 0;
}

TEST(selects_in_both_directions_on_one_channel_pair_up)
{
    weft_chan *chan = weft_chan_new(0);
    swapper s[] = {{chan, 1000000, 0, 0, 0, 0}, {chan, 2000000, 0, 0, 0, 0}};
    weft_fiber f[] = {weft_spin(swap_often, &s[0]), weft_spin(swap_often, &s[1])};
    ck_assert_int_eq(weft_await_all(f, 2, NULL), 0);
    ck_assert_int_eq(s[0].sent, s[1].received);
    ck_assert_int_eq(s[1].sent, s[0].received);
    ck_assert_int_eq(s[0].sum_sent, s[1].sum_received);
    ck_assert_int_eq(s[1].sum_sent, s[0].sum_received);
    weft_chan_free(chan);
}

/* Many fibers. */

enum { LOAD_FIBERS = 1000, LOAD_CHANS = 10, LOAD_VALUES = 20000 };

typedef struct load {
    weft_chan *chans[LOAD_CHANS];
    unsigned char seen[LOAD_VALUES];
    int next;                       /* next value to send */
    weft_value unsent[LOAD_VALUES]; /* values of cancelled senders */
    int unsent_count;
    int received; /* total number */
} load;

/*
 * Select a send of *value or a receive on some of the channels. Return the result of weft_select.
 */
static int select_some_chans(load *w, bool is_sender, weft_value *value)
{
    weft_clause c[LOAD_CHANS];
    size_t n = 0;
    for (unsigned i = random_below(4); i < LOAD_CHANS; i += 1 + random_below(4))
        c[n++] = is_sender ? weft_clause_send(w->chans[i], *value) : weft_clause_recv(w->chans[i]);
    int i = weft_select(c, n);
    if (i >= 0)
        *value = c[i].value;
    return i;
}

static weft_value send_values(void *arg)
{
    load *w = arg;
    while (w->unsent_count > 0 || w->next < LOAD_VALUES) {
        weft_value value = w->unsent_count > 0 ? w->unsent[--w->unsent_count] : w->next++;
        int i = select_some_chans(w, true, &value);
        ck_assert(i < 0 || value == 0);
        if (i < 0)
            w->unsent[w->unsent_count++] = value;
        if (i == -ECANCELED)
            return i;
    }
    return 0;
}

static weft_value receive_values(void *arg)
{
    load *w = arg;
    for (;;) {
        weft_value value;
        int i = select_some_chans(w, false, &value);
        if (i == -ECANCELED)
            return i;
        if (i < 0)
            continue;
        if (value == -EPIPE)
            return 0;
        ck_assert(value >= 0 && value < LOAD_VALUES);
        ck_assert_uint_eq(w->seen[value]++, 0);
        w->received++;
    }
}

static weft_fiber spin_load_fiber(load *w, int i)
{
    return weft_spin(i % 2 ? send_values : receive_values, w);
}

/* Interrupt and cancel random fibers. Replace each cancelled fiber. */
static void disturb_fibers(load *w, weft_fiber *f)
{
    for (int i = 0; i < 20; i++)
        weft_interrupt(f[random_below(LOAD_FIBERS)], -EINTR);
    for (int i = 0; i < 5; i++) {
        int k = (int)random_below(LOAD_FIBERS);
        weft_cancel(f[k]);
        weft_await(f[k]);
        f[k] = spin_load_fiber(w, k);
    }
    weft_snooze();
}

TEST(with_many_cancelled_fibers_no_value_is_lost_or_duplicated)
{
    for (unsigned seed = 1; seed <= 3; seed++) {
        static load w;
        static weft_fiber f[LOAD_FIBERS];
        memset(&w, 0, sizeof w);
        random_state = seed;
        for (int i = 0; i < LOAD_CHANS; i++)
            w.chans[i] = weft_chan_new((size_t)i % 3);
        for (int i = 0; i < LOAD_FIBERS; i++)
            f[i] = spin_load_fiber(&w, i);
        while (w.next < LOAD_VALUES)
            disturb_fibers(&w, f);
        for (int i = 1; i < LOAD_FIBERS; i += 2)
            ck_assert_int_eq(weft_await(f[i]), 0);
        for (int i = 0; i < LOAD_CHANS; i++)
            weft_chan_close(w.chans[i]);
        for (int i = 0; i < LOAD_FIBERS; i += 2)
            ck_assert_int_eq(weft_await(f[i]), 0);
        ck_assert_int_eq(w.received, LOAD_VALUES);
        for (int i = 0; i < LOAD_CHANS; i++)
            weft_chan_free(w.chans[i]);
    }
}
