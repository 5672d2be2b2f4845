/* Brokers whose clients are in other threads, and brokers whose thread ends. */
#include "hub/broker/raw_client.h"
#include "support/cord_support.h"

/* On sim, the threads of a broker and its client cannot be different. */
#define SKIP_ON_SIM() \
    do {              \
        if (is_sim()) \
            return;   \
    } while (0)

static void use_brokers(void)
{
    unsetenv("WEFT_HUB_URL");
}

FIXTURE(use_brokers, NULL)

/* Subscribe, publish, and get the message. */
static weft_value exchange(void *arg)
{
    raw_client *c = calloc(1, sizeof *c);
    raw_open(c);
    for (int i = 0; i < 100; i++) {
        raw_send(c, format("SUB own.%p 2\r\n", (void *)c));
        raw_publish(c, format("own.%p", (void *)c), NULL, NULL, "x");
        raw_next(c);
        ck_assert_str_eq(c->payload, "x");
        raw_send(c, "UNSUB 2\r\n");
    }
    raw_close(c);
    free(c);
    return 0;
}

TEST(hubs_of_other_threads_use_a_broker)
{
    SKIP_ON_SIM();
    weft_hub_broker *broker = weft_hub_broker_get("");
    weft_cord cords[3];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_uint_ne(cords[i] = weft_cord_start(exchange, NULL, NULL), 0);
    exchange(NULL);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    weft_hub_broker_release(broker);
}

static weft_value use_from_another_thread(void *arg)
{
    ck_assert_int_eq(weft_hub_broker_cut(arg, NULL), -EXDEV);
    ck_assert_int_eq(weft_hub_broker_isolate(arg, "x", true), -EXDEV);
    ck_assert_int_eq(weft_hub_broker_pause(arg, true), -EXDEV);
    ck_assert_int_eq(weft_hub_broker_serve(arg, 0), -EXDEV);
    weft_error_clear();
    weft_hub_broker_release(arg); /* the last reference */
    return 0;
}

TEST(another_thread_can_only_release_a_broker)
{
    weft_hub_broker *broker = weft_hub_broker_get("");
    weft_cord cord = weft_cord_start(use_from_another_thread, broker, NULL);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    broker = weft_hub_broker_get("");
    ck_assert_ptr_nonnull(broker);
    weft_hub_broker_release(broker);
}

static weft_event has_broker, may_end;

/* A thread with a broker. */
static weft_value own_broker(void *arg)
{
    weft_hub_broker **out = arg;
    *out = weft_hub_broker_get("");
    weft_event_set(&has_broker);
    return weft_event_wait(&may_end);
}

TEST(a_broker_ends_with_its_thread_and_its_name_becomes_free)
{
    SKIP_ON_SIM();
    raw_client c;
    weft_hub_broker *old;
    weft_cord cord = weft_cord_start(own_broker, &old, NULL);
    ck_assert_int_eq(weft_event_wait(&has_broker), 0);
    raw_open(&c);
    raw_sync(&c);
    weft_event_set(&may_end);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    raw_expect(&c, "end");
    raw_close(&c);
    raw_open(&c); /* the broker of this thread */
    raw_sync(&c);
    ck_assert_int_eq(weft_hub_broker_cut(old, NULL), -EXDEV);
    weft_error_clear();
    weft_hub_broker_release(old);
    raw_close(&c);
}

/* Connect, and send until the broker ends. Its thread may end at any point. */
static weft_value use_until_the_end(void *arg)
{
    for (int i = 0; i < 20; i++) {
        int fd = weft__broker_connect("");
        if (fd < 0)
            continue; /* the thread of the broker is ending */
        for (int j = 0; j < i; j++)
            if (weft_write(fd, "PING\r\n", 6) < 0)
                break;
        weft_close(fd);
    }
    return 0;
}

TEST(threads_may_connect_and_close_while_the_thread_of_the_broker_ends)
{
    SKIP_ON_SIM();
    for (int i = 0; i < 20; i++) {
        weft_hub_broker *old;
        weft_cord owner = weft_cord_start(own_broker, &old, NULL), users[2];
        ck_assert_int_eq(weft_event_wait(&has_broker), 0);
        for (size_t j = 0; j < COUNT_OF(users); j++)
            users[j] = weft_cord_start(use_until_the_end, NULL, NULL);
        weft_event_set(&may_end);
        ck_assert_int_eq(weft_cord_join(owner), 0);
        for (size_t j = 0; j < COUNT_OF(users); j++)
            ck_assert_int_eq(weft_cord_join(users[j]), 0);
        weft_hub_broker_release(old);
    }
}

TEST(on_sim_a_broker_of_another_thread_cannot_be_used)
{
    if (!is_sim())
        return;
    weft_hub_broker *old;
    weft_cord cord = weft_cord_start(own_broker, &old, NULL);
    ck_assert_int_eq(weft_event_wait(&has_broker), 0);
    ck_assert_fails(weft__broker_connect(""), -EOPNOTSUPP);
    weft_error_clear();
    weft_event_set(&may_end);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    weft_hub_broker_release(old);
}
