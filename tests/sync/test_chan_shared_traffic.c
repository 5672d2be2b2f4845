/* Traffic in shared channels: many threads, calls cut short, closing, and exact accounts. */
#include "shared_support.h"

static weft_chan *chan;

#define CORDS 8
#define FIBERS 4
#define EACH 400

/* What one fiber did. */
typedef struct tally {
    uint32_t random;
    int who; /* of the senders; -1: it receives */
    weft_value sent, received;
    uint64_t sum_sent, sum_received;
    int next[CORDS * FIBERS]; /* of each sender, the least that may come next */
} tally;

static tally tallies[CORDS][FIBERS];
static bool is_rough; /* calls are cut short at random */

static double patience(tally *t)
{
    return is_rough && next_random(&t->random) % 3 == 0 ? next_random(&t->random) % 50 * 1e-6 : 10;
}

static weft_value send_many(void *arg)
{
    tally *t = arg;
    for (int i = 0; i < EACH;) {
        weft_value value = (weft_value)t->who * 1000000 + i;
        int rc = -ETIMEDOUT;
        WEFT_MOVE_ON_AFTER(patience(t))
            rc = weft_chan_send(chan, value);
        if (rc == -EPIPE)
            return 0;
        if (rc != 0)
            continue; /* not sent: once more */
        t->sent++;
        t->sum_sent += (uint64_t)value;
        i++;
    }
    return 0;
}

static weft_value recv_many(void *arg)
{
    tally *t = arg;
    for (;;) {
        weft_value value = -ETIMEDOUT;
        WEFT_MOVE_ON_AFTER(patience(t))
            value = weft_chan_recv(chan);
        if (value == -EPIPE)
            return 0;
        if (value < 0)
            continue;
        t->received++;
        t->sum_received += (uint64_t)value;
        int who = (int)(value / 1000000), i = (int)(value % 1000000);
        ck_assert_int_ge(i, t->next[who]); /* of one sender, in its order */
        t->next[who] = i + 1;
    }
}

static weft_value run_fibers(void *arg)
{
    tally *t = arg;
    weft_fiber f[FIBERS];
    for (int i = 0; i < FIBERS; i++)
        f[i] = weft_spin(t[i].who >= 0 ? send_many : recv_many, &t[i]);
    return weft_await_all(f, FIBERS, NULL);
}

/* Starts at a cord; the sum over all fibers of those. */
static void add_up(weft_value *sent, weft_value *received, uint64_t *difference)
{
    *sent = *received = 0;
    *difference = 0;
    for (int i = 0; i < CORDS; i++) {
        for (int j = 0; j < FIBERS; j++) {
            *sent += tallies[i][j].sent;
            *received += tallies[i][j].received;
            *difference += tallies[i][j].sum_sent - tallies[i][j].sum_received;
        }
    }
}

static atomic_int senders_left;

static weft_value run_and_close(void *arg)
{
    weft_value rc = run_fibers(arg);
    if (((const tally *)arg)->who >= 0 && atomic_fetch_sub(&senders_left, 1) == 1)
        weft_chan_close(chan); /* the last of those that send */
    return rc;
}

static void start_traffic(weft_cord *cords)
{
    memset(tallies, 0, sizeof tallies);
    atomic_store(&senders_left, CORDS / 2);
    for (int i = 0; i < CORDS; i++) {
        for (int j = 0; j < FIBERS; j++) {
            tallies[i][j].random = (uint32_t)(i * FIBERS + j + 1) * 7919;
            tallies[i][j].who = i % 2 == 0 ? i * FIBERS + j : -1;
        }
        cords[i] = start_cord(run_and_close, tallies[i]);
    }
}

static void run_traffic(size_t cap)
{
    weft_cord cords[CORDS];
    chan = weft_chan_new_shared(cap);
    start_traffic(cords);
    for (int i = 0; i < CORDS; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    weft_value sent, received;
    uint64_t difference;
    add_up(&sent, &received, &difference);
    ck_assert_int_eq(sent, CORDS / 2 * FIBERS * EACH);
    ck_assert_int_eq(received, sent);
    ck_assert_uint_eq(difference, 0);
    weft_chan_free(chan);
}

START_TEST(in_traffic_between_eight_threads_each_value_arrives_once_and_in_its_senders_order)
{
    run_traffic(0);
    run_traffic(3);
    run_traffic(100);
}
END_TEST

START_TEST(in_traffic_whose_calls_are_cut_short_a_value_is_received_or_its_sender_knows)
{
    is_rough = true;
    run_traffic(0);
    run_traffic(2);
}
END_TEST

/* What is in the channel at the end was sent, and received by nobody. */
START_TEST(closing_during_traffic_loses_nothing_that_was_sent)
{
    for (size_t cap = 0; cap < 9; cap += 4) {
        weft_cord cords[CORDS];
        chan = weft_chan_new_shared(cap);
        start_traffic(cords);
        for (int i = 0; i < 50; i++)
            weft_sleep(0);
        weft_chan_close(chan);
        for (int i = 0; i < CORDS; i++)
            ck_assert_int_eq(weft_cord_join(cords[i]), 0);
        weft_value sent, received;
        uint64_t difference;
        add_up(&sent, &received, &difference);
        ck_assert_int_eq(received, sent);
        ck_assert_uint_eq(difference, 0);
        weft_chan_free(chan);
    }
}
END_TEST

int main(void)
{
    const TTest *const *const tests[] = {
        &in_traffic_between_eight_threads_each_value_arrives_once_and_in_its_senders_order,
        &in_traffic_whose_calls_are_cut_short_a_value_is_received_or_its_sender_knows,
        &closing_during_traffic_loses_nothing_that_was_sent,
    };
    return run_suite("chan_shared_traffic", tests, COUNT_OF(tests));
}
