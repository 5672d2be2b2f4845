/*
 * Traffic in shared channels: many threads, timed-out calls, closing. The counts and sums must
 * match.
 */
#include "sync/shared_support.h"

static weft_chan *chan;

#define CORDS 8
#define FIBERS 4
#define VALUES_EACH 400

/* The counts of one fiber. */
typedef struct tally {
    uint32_t random;
    int sender; /* index of the sender; -1: receives */
    weft_value sent, received;
    uint64_t sum_sent, sum_received;
    int next[CORDS * FIBERS]; /* for each sender, the lowest number that may arrive next */
} tally;

static tally tallies[CORDS][FIBERS];
static bool has_timeouts; /* calls have random short timeouts */

static double random_timeout_s(tally *t)
{
    return has_timeouts && next_random(&t->random) % 3 == 0 ? next_random(&t->random) % 50 * 1e-6
                                                            : 10;
}

static weft_value send_each(void *arg)
{
    tally *t = arg;
    for (int i = 0; i < VALUES_EACH;) {
        weft_value value = (weft_value)t->sender * 1000000 + i;
        int rc = -ETIMEDOUT;
        WEFT_MOVE_ON_AFTER(random_timeout_s(t))
            rc = weft_chan_send(chan, value);
        if (rc == -EPIPE)
            return 0;
        if (rc != 0)
            continue; /* not sent: try again */
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
        WEFT_MOVE_ON_AFTER(random_timeout_s(t))
            value = weft_chan_recv(chan);
        if (value == -EPIPE)
            return 0;
        if (value < 0)
            continue;
        t->received++;
        t->sum_received += (uint64_t)value;
        int sender = (int)(value / 1000000), i = (int)(value % 1000000);
        ck_assert_int_ge(i, t->next[sender]); /* values of one sender arrive in order */
        t->next[sender] = i + 1;
    }
}

static weft_value run_fibers(void *arg)
{
    tally *t = arg;
    weft_fiber f[FIBERS];
    for (int i = 0; i < FIBERS; i++)
        f[i] = weft_spin(t[i].sender >= 0 ? send_each : recv_many, &t[i]);
    return weft_await_all(f, FIBERS, NULL);
}

/* Sum up the counts of all fibers. */
static void sum_tallies(weft_value *sent, weft_value *received, uint64_t *difference)
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
    if (((const tally *)arg)->sender >= 0 && atomic_fetch_sub(&senders_left, 1) == 1)
        weft_chan_close(chan); /* the last sending cord */
    return rc;
}

static void start_traffic(weft_cord *cords)
{
    memset(tallies, 0, sizeof tallies);
    atomic_store(&senders_left, CORDS / 2);
    for (int i = 0; i < CORDS; i++) {
        for (int j = 0; j < FIBERS; j++) {
            tallies[i][j].random = (uint32_t)(i * FIBERS + j + 1) * 7919;
            tallies[i][j].sender = i % 2 == 0 ? i * FIBERS + j : -1;
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
    sum_tallies(&sent, &received, &difference);
    ck_assert_int_eq(sent, CORDS / 2 * FIBERS * VALUES_EACH);
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

START_TEST(in_traffic_with_timeouts_a_value_is_received_or_its_send_fails)
{
    has_timeouts = true;
    run_traffic(0);
    run_traffic(2);
}
END_TEST

/* The channel must be empty at the end: each sent value was received. */
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
        sum_tallies(&sent, &received, &difference);
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
        &in_traffic_with_timeouts_a_value_is_received_or_its_send_fails,
        &closing_during_traffic_loses_nothing_that_was_sent,
    };
    return run_suite("chan_shared_traffic", tests, COUNT_OF(tests));
}
