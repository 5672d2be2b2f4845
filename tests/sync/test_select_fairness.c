/* Fairness of select: equal chances of clauses, and of fibers that select on both sides. */
#include "support/suite.h"

/* Return a full channel with this one value. */
static weft_chan *chan_of_one(weft_value value)
{
    weft_chan *chan = weft_chan_new(1);
    ck_assert_int_eq(weft_chan_try_send(chan, value), 0);
    return chan;
}

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
