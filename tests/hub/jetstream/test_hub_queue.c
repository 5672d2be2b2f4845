/* Durable queues: options, ids, bounds. test_hub_work.c has the workers. */
#include "hub/hub_support.h"

static weft_hub *hub;

static void open_queue_hub(void)
{
    hub = open_hub();
}

static void close_queue_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_queue_hub, close_queue_hub)

TEST(a_queue_is_found_again_with_equal_options)
{
    const weft_hub_queue_options options = {.ack_s = 5,
                                            .dedupe_s = 60,
                                            .deliveries_max = 3,
                                            .dead_letters = "dead",
                                            .items_max = 100,
                                            .in_flight_max = 50};
    ck_assert_done(weft_hub_queue(hub, "jobs", &options));
    ck_assert_done(weft_hub_queue(hub, "jobs", &options));
    ck_assert_int_eq(weft_hub_put(hub, "dead", NULL, "x", 1), 0); /* was created, too */
}

static const struct {
    const char *field;
    weft_hub_queue_options options;
} others[] = {
    {"ack_wait", {.ack_s = 5}},
    {"duplicate_window", {.dedupe_s = 60}},
    {"description", {.deliveries_max = 3}},
    {"description", {.dead_letters = "dead"}},
    {"max_msgs", {.items_max = 10}},
    {"max_ack_pending", {.in_flight_max = 10}},
    {"storage", {.is_in_memory = true}},
};

TEST_ROWS(a_queue_with_other_options_is_refused_and_the_message_names_the_field, others)
{
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    ck_assert_fails(weft_hub_queue(hub, "jobs", &others[_i].options), -EEXIST);
    ck_assert_msg(strstr(weft_error()->message, others[_i].field) != NULL, "%s",
                  weft_error()->message);
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL)); /* nothing has changed */
}

static const weft_hub_queue_options wrong[] = {
    {.ack_s = -1},
    {.ack_s = NAN},
    {.ack_s = INFINITY},
    {.dedupe_s = -1},
    {.dedupe_s = 1e-9},
    {.dedupe_s = 0.09},
    {.replicas = 6},
    {.dead_letters = "a.b"},
    {.dead_letters = ""},
    {.dead_letters = "jobs"},
    {.in_flight_max = 2000000},
};

TEST_ROWS(a_wrong_option_is_refused, wrong)
{
    ck_assert_fails(weft_hub_queue(hub, "jobs", &wrong[_i]), -EINVAL);
    ck_assert_fails(weft_hub_put(hub, "jobs", NULL, "x", 1), -ENOENT);
}

TEST(wrong_arguments_are_refused)
{
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    ck_assert_fails(weft_hub_queue(hub, "a.b", NULL), -EINVAL);
    ck_assert_fails(weft_hub_queue(hub, NULL, NULL), -EINVAL);
    ck_assert_fails(weft_hub_put(hub, "jobs", NULL, NULL, 1), -EINVAL);
    ck_assert_fails(weft_hub_put(hub, "jobs", "", "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_put(hub, "jobs", "a b", "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_put(hub, "jobs", "a\r\nb", "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_put(hub, "jobs", "\xc3\xa4", "x", 1), -EINVAL);
    char id[130];
    memset(id, 'i', sizeof id);
    id[129] = '\0';
    ck_assert_fails(weft_hub_put(hub, "jobs", id, "x", 1), -EINVAL);
    id[128] = '\0';
    ck_assert_int_eq(weft_hub_put(hub, "jobs", id, "x", 1), 0);
}

TEST(a_second_put_with_an_id_returns_1)
{
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    ck_assert_done(weft_hub_queue(hub, "others", NULL));
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "one", "x", 1), 0);
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "one", "y", 1), 1);
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "two", "x", 1), 0);
    ck_assert_int_eq(weft_hub_put(hub, "others", "one", "x", 1), 0);
    weft_hub *other = open_hub();
    ck_assert_int_eq(weft_hub_put(other, "jobs", "two", "x", 1), 1);
    close_hub(other);
}

TEST(puts_without_an_id_are_all_stored)
{
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_hub_put(hub, "jobs", NULL, "x", 1), 0);
}

TEST(a_put_to_a_missing_queue_fails)
{
    ck_assert_fails(weft_hub_put(hub, "none", NULL, "x", 1), -ENOENT);
    ck_assert_int_eq(weft_hub_work(hub, "none", NULL, NULL, 1), -EINVAL);
}

TEST(a_put_waits_while_the_queue_is_full)
{
    ck_assert_done(weft_hub_queue(hub, "jobs", &(weft_hub_queue_options){.items_max = 2}));
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "1", "x", 1), 0);
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "2", "x", 1), 0);
    ck_assert_times_out(0.3, ck_assert_int_eq(weft_hub_put(hub, "jobs", "3", "x", 1), -ECANCELED));
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "2", "x", 1), 1); /* is in the queue */
}
