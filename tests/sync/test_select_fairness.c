/* Select among many: equal chances, selects that face each other, crowds with cancels. */
#include "support.h"

/* A channel that holds this value, and no more. */
static weft_chan *chan_of_one(weft_value value)
{
    weft_chan *chan = weft_chan_new(1);
    ck_assert_int_eq(weft_chan_try_send(chan, value), 0);
    return chan;
}

/* Chance. */

static void assert_fair(const int *wins, size_t n, int rounds)
{
    for (size_t i = 0; i < n; i++) {
        double share = (double)wins[i] * (double)n / rounds;
        ck_assert_msg(share >= 0.8 && share <= 1.2, "%zu of %zu won %d of %d", i, n, wins[i],
                      rounds);
    }
}

START_TEST(of_those_that_can_happen_each_has_the_same_chance)
{
    enum { ROUNDS = 10000, MOST = 10 };
    weft_chan *chans[MOST];
    for (int i = 0; i < MOST; i++)
        chans[i] = chan_of_one(i);
    for (size_t n = 2; n <= MOST; n += 8) {
        int wins[MOST] = {0};
        for (int round = 0; round < ROUNDS; round++) {
            weft_clause c[MOST];
            for (size_t i = 0; i < n; i++)
                c[i] = weft_clause_recv(chans[i]);
            int i = weft_select(c, n);
            wins[i]++;
            ck_assert_int_eq(c[i].value, i);
            ck_assert_int_eq(weft_chan_try_send(chans[i], i), 0);
        }
        assert_fair(wins, n, ROUNDS);
    }
    for (int i = 0; i < MOST; i++)
        weft_chan_free(chans[i]);
}
END_TEST

START_TEST(those_that_cannot_happen_do_not_spoil_the_chances_of_the_others)
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
END_TEST

START_TEST(of_equal_times_each_has_the_same_chance)
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
END_TEST

/* Crowds on both sides, each of which offers or wants on either of two channels. */
typedef struct market {
    weft_chan *chans[2];
    int by_chan[2];
    int by_buyer[5], by_seller[4];
    int sold; /* so far */
    int total;
} market;

typedef struct trader {
    market *market;
    int index;
} trader;

static weft_value sell(void *arg)
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
        weft_snooze(); /* or it would go on as long as somebody waits for it */
    }
    weft_chan_close(m->chans[0]);
    weft_chan_close(m->chans[1]);
    return 0;
}

static weft_value buy(void *arg)
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

START_TEST(crowds_that_select_on_both_sides_share_evenly)
{
    for (size_t cap = 0; cap < 3; cap += 2) {
        market m = {.chans = {weft_chan_new(cap), weft_chan_new(cap)}, .total = 20000};
        trader traders[9];
        weft_fiber f[9];
        for (int i = 0; i < 9; i++) {
            traders[i] = (trader){&m, i < 5 ? i : i - 5};
            f[i] = weft_spin(i < 5 ? buy : sell, &traders[i]);
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
END_TEST

/* Selects that face each other. */

enum { EXCHANGES = 10000 };

typedef struct pipe_pair {
    weft_chan *there, *back;
} pipe_pair;

/* Sends back what it receives, until it is told to end. */
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

START_TEST(selects_that_face_each_other_meet_every_time)
{
    pipe_pair p = {weft_chan_new(0), weft_chan_new(0)};
    weft_fiber echo = weft_spin(echo_by_select, &p);
    weft_value sent = 0, heard = 0;
    while (heard < EXCHANGES) {
        weft_clause c[] = {sent == heard ? weft_clause_send(p.there, sent) : (weft_clause){0},
                           weft_clause_recv(p.back), weft_clause_time(INFINITY)};
        switch (weft_select(c, 3)) {
        case 0:
            ck_assert_int_eq(c[0].value, 0);
            sent++;
            break;
        case 1:
            ck_assert_int_eq(c[1].value, heard);
            heard++;
            break;
        default:
            ck_abort();
        }
        ck_assert(sent == heard || sent == heard + 1);
    }
    weft_tell(echo, 1);
    ck_assert_int_eq(weft_await(echo), -1);
    weft_chan_free(p.there);
    weft_chan_free(p.back);
}
END_TEST

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

START_TEST(selects_in_both_directions_on_one_channel_pair_off)
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
END_TEST

/* A crowd. */

enum { CROWD = 1000, CROWD_CHANS = 10, CROWD_VALUES = 20000 };

typedef struct crowd {
    weft_chan *chans[CROWD_CHANS];
    unsigned char seen[CROWD_VALUES];
    int next;                        /* value to send */
    weft_value unsent[CROWD_VALUES]; /* by senders that were cancelled */
    int unsent_count;
    int received; /* all in all */
    unsigned random;
} crowd;

static unsigned draw(crowd *w, unsigned below)
{
    w->random = w->random * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)w->random * below >> 32);
}

/* Some of the channels, to send this value or to receive one. What weft_select said. */
static int take_part(crowd *w, bool is_sender, weft_value *value)
{
    weft_clause c[CROWD_CHANS];
    size_t n = 0;
    for (unsigned i = draw(w, 4); i < CROWD_CHANS; i += 1 + draw(w, 4))
        c[n++] = is_sender ? weft_clause_send(w->chans[i], *value) : weft_clause_recv(w->chans[i]);
    int i = weft_select(c, n);
    if (i >= 0)
        *value = c[i].value;
    return i;
}

static weft_value send_in_crowd(void *arg)
{
    crowd *w = arg;
    while (w->unsent_count > 0 || w->next < CROWD_VALUES) {
        weft_value value = w->unsent_count > 0 ? w->unsent[--w->unsent_count] : w->next++;
        int i = take_part(w, true, &value);
        ck_assert(i < 0 || value == 0);
        if (i < 0)
            w->unsent[w->unsent_count++] = value;
        if (i == -ECANCELED)
            return i;
    }
    return 0;
}

static weft_value receive_in_crowd(void *arg)
{
    crowd *w = arg;
    for (;;) {
        weft_value value;
        int i = take_part(w, false, &value);
        if (i == -ECANCELED)
            return i;
        if (i < 0)
            continue;
        if (value == -EPIPE)
            return 0;
        ck_assert(value >= 0 && value < CROWD_VALUES);
        ck_assert_uint_eq(w->seen[value]++, 0);
        w->received++;
    }
}

static weft_fiber spin_in_crowd(crowd *w, int i)
{
    return weft_spin(i % 2 ? send_in_crowd : receive_in_crowd, w);
}

/* Another takes the place of one that is cancelled. */
static void disturb(crowd *w, weft_fiber *f)
{
    for (int i = 0; i < 20; i++)
        weft_interrupt(f[draw(w, CROWD)], -EINTR);
    for (int i = 0; i < 5; i++) {
        int k = (int)draw(w, CROWD);
        weft_cancel(f[k]);
        weft_await(f[k]);
        f[k] = spin_in_crowd(w, k);
    }
    weft_snooze();
}

START_TEST(in_a_crowd_with_cancels_no_value_is_lost_or_doubled)
{
    for (unsigned seed = 1; seed <= 3; seed++) {
        static crowd w;
        static weft_fiber f[CROWD];
        w = (crowd){.random = seed};
        for (int i = 0; i < CROWD_CHANS; i++)
            w.chans[i] = weft_chan_new((size_t)i % 3);
        for (int i = 0; i < CROWD; i++)
            f[i] = spin_in_crowd(&w, i);
        while (w.next < CROWD_VALUES)
            disturb(&w, f);
        for (int i = 1; i < CROWD; i += 2)
            ck_assert_int_eq(weft_await(f[i]), 0);
        for (int i = 0; i < CROWD_CHANS; i++)
            weft_chan_close(w.chans[i]);
        for (int i = 0; i < CROWD; i += 2)
            ck_assert_int_eq(weft_await(f[i]), 0);
        ck_assert_int_eq(w.received, CROWD_VALUES);
        for (int i = 0; i < CROWD_CHANS; i++)
            weft_chan_free(w.chans[i]);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &of_those_that_can_happen_each_has_the_same_chance,
    &those_that_cannot_happen_do_not_spoil_the_chances_of_the_others,
    &of_equal_times_each_has_the_same_chance,
    &crowds_that_select_on_both_sides_share_evenly,
    &selects_that_face_each_other_meet_every_time,
    &selects_in_both_directions_on_one_channel_pair_off,
    &in_a_crowd_with_cancels_no_value_is_lost_or_doubled,
};

int main(void)
{
    return run_suite("select_many", tests, COUNT_OF(tests));
}
