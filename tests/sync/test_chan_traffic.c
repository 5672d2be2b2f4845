/* Channels under load: many messages, many fibers with timeouts, and items of any size. */
#include "support/random.h"
#include "support/support.h"

#define MESSAGES 100000

static weft_chan *chan;
static weft_value messages; /* number of values to send */

static weft_value send_all(void *arg)
{
    (void)arg;
    for (weft_value i = 0; i < messages; i++) {
        int rc = weft_chan_send(chan, i);
        if (rc < 0)
            return rc;
    }
    return weft_chan_close(chan);
}

/* T71 */
START_TEST(a_hundred_thousand_messages_arrive_in_order)
{
    const size_t caps[] = {1, 0, 2, 7, 64};
    messages = MESSAGES;
    for (size_t n = 0; n < COUNT_OF(caps); n++) {
        chan = weft_chan_new(caps[n]);
        weft_fiber f = weft_spin(send_all, NULL);
        for (weft_value i = 0; i < messages; i++)
            ck_assert_int_eq(weft_chan_recv(chan), i);
        ck_assert_int_eq(weft_chan_recv(chan), -EPIPE);
        ck_assert_int_eq(weft_await(f), 0);
        weft_chan_free(chan);
    }
}
END_TEST

#define PAIRS 10
#define ROUNDS 200 /* for each pair */

/* A sender and a receiver that meet only if both wait at the same time. */
typedef struct pair {
    weft_chan *chan;
    weft_value first; /* lowest value of this pair */
    unsigned sends_missed, receives_missed;
} pair;

static void pause_randomly(void)
{
    if (random_below(2) == 0)
        weft_sleep(random_below(60) * 1e-6);
    else
        weft_snooze();
}

static weft_value send_with_timeouts(void *arg)
{
    pair *p = arg;
    for (weft_value sent = 0; sent < ROUNDS;) {
        WEFT_MOVE_ON_AFTER(random_below(60) * 1e-6) {
            int rc = weft_chan_send(p->chan, p->first + sent);
            ck_assert(rc == 0 || rc == -ECANCELED);
            sent += rc == 0;
            p->sends_missed += rc != 0;
        }
        pause_randomly();
    }
    return 0;
}

static weft_value receive_with_timeouts(void *arg)
{
    pair *p = arg;
    for (weft_value received = 0; received < ROUNDS;) {
        WEFT_MOVE_ON_AFTER(random_below(60) * 1e-6) {
            weft_value v = weft_chan_recv(p->chan);
            if (v == -ECANCELED) {
                p->receives_missed++;
                break;
            }
            ck_assert_int_eq(v, p->first + received);
            received++;
        }
        pause_randomly();
    }
    return 0;
}

/* T70 */
START_TEST(ten_pairs_with_random_timeouts_meet_two_thousand_times_and_never_mix)
{
    pair pairs[PAIRS] = {0};
    weft_fiber f[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].chan = weft_chan_new(0);
        pairs[i].first = i * 1000000;
        f[2 * i] = weft_spin(send_with_timeouts, &pairs[i]);
        f[2 * i + 1] = weft_spin(receive_with_timeouts, &pairs[i]);
    }
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    unsigned sends_missed = 0, receives_missed = 0;
    for (int i = 0; i < PAIRS; i++) {
        sends_missed += pairs[i].sends_missed;
        receives_missed += pairs[i].receives_missed;
        weft_chan_free(pairs[i].chan);
    }
    ck_assert(sends_missed > 0 && receives_missed > 0);
}
END_TEST

/* Many senders and receivers of one channel, with timeouts and interrupts. */
#define SENDERS 8
#define VALUES_EACH 200
#define TOTAL (SENDERS * VALUES_EACH)

static unsigned char arrived[TOTAL];
static int arrived_of[SENDERS]; /* number of values from each sender */
static int receivers_count;

static weft_value send_own_values(void *arg)
{
    weft_value me = (weft_value)arg;
    for (weft_value i = 0; i < VALUES_EACH;) {
        weft_value rc = 1;
        WEFT_MOVE_ON_AFTER(random_below(3) == 0 ? random_below(30) * 1e-6 : INFINITY) {
            rc = weft_chan_send(chan, me * VALUES_EACH + i);
        }
        ck_assert(rc == 0 || rc == -ECANCELED || rc == -77);
        i += rc == 0;
    }
    return 0;
}

static weft_value receive_any(void *arg)
{
    (void)arg;
    weft_value v = 0;
    while (v != -EPIPE) {
        WEFT_MOVE_ON_AFTER(random_below(3) == 0 ? random_below(30) * 1e-6 : INFINITY) {
            v = weft_chan_recv(chan);
        }
        if (v < 0)
            continue;
        ck_assert(v < TOTAL && arrived[v]++ == 0);
        if (receivers_count == 1) /* with several receivers, a later value may be handled first */
            ck_assert_int_eq(v % VALUES_EACH, arrived_of[v / VALUES_EACH]);
        arrived_of[v / VALUES_EACH]++;
        pause_randomly();
    }
    return 0;
}

static void run_senders_and_receivers(size_t cap)
{
    memset(arrived, 0, sizeof arrived);
    memset(arrived_of, 0, sizeof arrived_of);
    chan = weft_chan_new(cap);
    weft_fiber senders[SENDERS], receivers[SENDERS];
    for (int i = 0; i < SENDERS; i++)
        senders[i] = weft_spin(send_own_values, as_arg(i));
    for (int i = 0; i < receivers_count; i++)
        receivers[i] = weft_spin(receive_any, NULL);
    for (int i = 0; i < 500; i++) {
        weft_interrupt(senders[random_below(SENDERS)], -77); /* -EBUSY if it does not wait */
        weft_interrupt(receivers[random_below((unsigned)receivers_count)], -77);
        pause_randomly();
    }
    ck_assert_int_eq(weft_await_all(senders, SENDERS, NULL), 0);
    weft_chan_close(chan);
    ck_assert_int_eq(weft_await_all(receivers, (size_t)receivers_count, NULL), 0);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(arrived_of[i], VALUES_EACH);
    weft_chan_free(chan);
}

/* T69, T70 */
START_TEST(with_many_interrupted_senders_and_receivers_no_message_is_lost_or_duplicated)
{
    for (size_t cap = 0; cap < 4; cap++) {
        receivers_count = 1;
        run_senders_and_receivers(cap);
        receivers_count = SENDERS;
        run_senders_and_receivers(cap);
    }
}
END_TEST

typedef struct three_words {
    weft_value words[3];
} three_words;

typedef struct large {
    unsigned char bytes[200];
} large;

WEFT_CHAN_OF(char_chan, char);
WEFT_CHAN_OF(words_chan, three_words);
WEFT_CHAN_OF(large_chan, large);
WEFT_CHAN_OF(number_chan, int64_t);

static three_words words_of(weft_value n)
{
    return (three_words){{n, n + 1, n + 2}};
}

static large large_of(int n)
{
    large l;
    for (size_t i = 0; i < sizeof l.bytes; i++)
        l.bytes[i] = (unsigned char)((size_t)n * 7 + i);
    return l;
}

#define ITEMS 50

/* Channels of three item sizes, used in turn. */
typedef struct sizes {
    char_chan *chars;
    words_chan *words;
    large_chan *larges;
} sizes;

static weft_value send_sizes(void *arg)
{
    sizes *s = arg;
    for (int i = 0; i < ITEMS; i++) {
        int rc = char_chan_send(s->chars, (char)('A' + i));
        rc += words_chan_send(s->words, words_of(i));
        rc += large_chan_send(s->larges, large_of(i));
        if (rc != 0)
            return rc;
    }
    return char_chan_close(s->chars);
}

static void receive_sizes(sizes *s)
{
    for (int i = 0; i < ITEMS; i++) {
        struct {
            char before, item, after;
        } c = {1, 2, 3};
        three_words w = {0};
        large l = {0};
        ck_assert_int_eq(char_chan_recv(s->chars, &c.item), 0);
        ck_assert_int_eq(words_chan_recv(s->words, &w), 0);
        ck_assert_int_eq(large_chan_recv(s->larges, &l), 0);
        ck_assert(c.before == 1 && c.item == 'A' + i && c.after == 3);
        three_words expected_words = words_of(i);
        large expected_large = large_of(i);
        ck_assert_mem_eq(&w, &expected_words, sizeof w);
        ck_assert_mem_eq(&l, &expected_large, sizeof l);
    }
}

/* API: WEFT_CHAN_OF */
START_TEST(items_of_any_size_arrive_whole_whichever_side_waits)
{
    for (size_t cap = 0; cap < 10; cap += 3) {
        for (int is_sender_first = 0; is_sender_first < 2; is_sender_first++) {
            sizes s = {char_chan_new(cap), words_chan_new(cap), large_chan_new(cap)};
            weft_fiber f = weft_spin(send_sizes, &s);
            if (is_sender_first == 1) /* let the sender wait first */
                let_run();
            receive_sizes(&s);
            ck_assert_int_eq(weft_await(f), 0);
            char c = 9;
            ck_assert_int_eq(char_chan_recv(s.chars, &c), -EPIPE);
            ck_assert_int_eq(char_chan_try_recv(s.chars, &c), -EPIPE);
            ck_assert_int_eq(char_chan_try_send(s.chars, c), -EPIPE);
            ck_assert_int_eq(char_chan_send(s.chars, c), -EPIPE);
            ck_assert_int_eq(c, 9);
            char_chan_free(s.chars);
            words_chan_free(s.words);
            large_chan_free(s.larges);
        }
    }
}
END_TEST

static weft_value fail_to_recv_words(void *arg)
{
    three_words w = words_of(50), before = w;
    int rc = words_chan_recv(arg, &w);
    ck_assert_mem_eq(&w, &before, sizeof w);
    return rc;
}

START_TEST(an_interrupted_typed_call_writes_nothing_and_sends_nothing)
{
    words_chan *c = words_chan_new(1);
    three_words w;
    ck_assert_int_eq(words_chan_try_recv(c, &w), -EAGAIN);
    weft_fiber f = weft_spin(fail_to_recv_words, c);
    let_run();
    weft_interrupt(f, -3);
    ck_assert_int_eq(words_chan_send(c, words_of(1)), 0); /* not to the interrupted receiver */
    ck_assert_int_eq(weft_await(f), -3);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(words_chan_send(c, words_of(2)), -ECANCELED);
        ck_assert_int_eq(words_chan_try_send(c, words_of(2)), -EAGAIN);
    }
    ck_assert_uint_eq(weft_chan_count(words_chan_chan(c)), 1);
    ck_assert_int_eq(words_chan_try_recv(c, &w), 0);
    ck_assert_int_eq(w.words[2], 3);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(words_chan_recv(c, &w), -ECANCELED);
    }
    f = weft_spin(fail_to_recv_words, c);
    let_run();
    words_chan_free(c);
    ck_assert_int_eq(weft_await(f), -EPIPE);
}
END_TEST

static weft_value recv_number(void *arg)
{
    int64_t n = 0;
    ck_assert_int_eq(number_chan_recv(arg, &n), 0);
    return n == -EIO;
}

/* API: WEFT_CHAN_OF */
START_TEST(an_item_may_have_the_bytes_of_an_error_code)
{
    number_chan *c = number_chan_new(1);
    int64_t n;
    weft_fiber f = weft_spin(recv_number, c);
    let_run();
    ck_assert_int_eq(number_chan_send(c, -EIO), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(number_chan_send(c, -EPERM), 0);
    ck_assert_int_eq(number_chan_recv(c, &n), 0);
    ck_assert_int_eq(n, -EPERM);
    ck_assert_int_eq(weft_chan_send(number_chan_chan(c), -EPERM), -EINVAL);
    number_chan_free(c);
}
END_TEST

START_TEST(a_channel_of_structs_is_not_mistaken_for_one_of_values)
{
    large_chan *c = large_chan_new(2);
    weft_chan *plain = large_chan_chan(c);
    ck_assert_int_eq(large_chan_send(c, large_of(1)), 0);
    ck_assert_int_eq(weft_chan_send(plain, 1), -EINVAL);
    ck_assert_error(-EINVAL, "weft_chan: the items have 200 bytes and are not values");
    ck_assert_int_eq(weft_chan_try_send(plain, 1), -EINVAL);
    ck_assert_int_eq(weft_chan_recv(plain), -EINVAL);
    ck_assert_int_eq(weft_chan_try_recv(plain), -EINVAL);
    ck_assert_uint_eq(weft_chan_count(plain), 1);
    large_chan_free(c);
}
END_TEST

START_TEST(items_of_zero_bytes_are_counted)
{
    weft_chan *c = weft__chan_new_of(0, 100);
    char nothing;
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft__chan_try_send_item(c, &nothing), 0);
    ck_assert_int_eq(weft__chan_try_send_item(c, &nothing), -EAGAIN);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft__chan_try_recv_item(c, &nothing), 0);
    ck_assert_int_eq(weft__chan_try_recv_item(c, &nothing), -EAGAIN);
    weft_chan_free(c);
}
END_TEST

static weft_value recv_forever(void *arg)
{
    (void)arg;
    return weft_chan_recv(chan);
}

static int exit_with_waiting_receivers(void)
{
    chan = weft_chan_new(1);
    weft_go(recv_forever, NULL);
    weft_go(recv_forever, NULL);
    weft_snooze();
    return weft_chan_has_receivers(chan) ? 0 : 1;
}

/* T35 */
START_TEST(the_process_may_end_while_fibers_wait_on_a_channel)
{
    ck_assert_quiet(run_apart(exit_with_waiting_receivers), 0);
}
END_TEST

static int recv_without_sender(void)
{
    chan = weft_chan_new(1);
    weft_value v = weft_chan_recv(chan);
    return v == -EDEADLK && !weft_chan_has_receivers(chan) && weft_chan_send(chan, 5) == 0 &&
                   weft_chan_recv(chan) == 5
               ? 0
               : 1;
}

START_TEST(a_main_fiber_that_no_fiber_can_send_to_gets_edeadlk)
{
    const outcome *o = run_apart(recv_without_sender);
    ck_assert_int_eq(o->status, 0);
    if (!is_sanitized())
        assert_printed(o, "an item from a channel");
}
END_TEST

static const TTest *const *const tests[] = {
    &a_hundred_thousand_messages_arrive_in_order,
    &ten_pairs_with_random_timeouts_meet_two_thousand_times_and_never_mix,
    &with_many_interrupted_senders_and_receivers_no_message_is_lost_or_duplicated,
    &items_of_any_size_arrive_whole_whichever_side_waits,
    &an_interrupted_typed_call_writes_nothing_and_sends_nothing,
    &an_item_may_have_the_bytes_of_an_error_code,
    &a_channel_of_structs_is_not_mistaken_for_one_of_values,
    &items_of_zero_bytes_are_counted,
    &the_process_may_end_while_fibers_wait_on_a_channel,
    &a_main_fiber_that_no_fiber_can_send_to_gets_edeadlk,
};

int main(void)
{
    return run_suite("chan_traffic", tests, COUNT_OF(tests));
}
