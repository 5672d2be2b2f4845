/* Keys: compare and set, deletion, and two hubs that write at the same time. */
#include "hub/hub_support.h"

static weft_hub *hub;

static void open_keys_hub(void)
{
    hub = open_hub();
}

static void close_keys_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_keys_hub, close_keys_hub)

static int set_text(weft_hub *h, const char *key, const char *text, uint64_t *revision)
{
    return weft_hub_set(h, key, text, strlen(text), revision);
}

/* Assert the value of a key, and return its revision. */
static uint64_t assert_value(weft_hub *h, const char *key, const char *text)
{
    weft_hub_msg *msg = NULL;
    uint64_t revision = 0;
    ck_assert_done(weft_hub_get(h, key, &msg, &revision));
    ck_assert_str_eq(msg->data, text);
    ck_assert_uint_eq(msg->bytes, strlen(text));
    ck_assert_str_eq(msg->to, key);
    ck_assert_str_eq(msg->id, "");
    ck_assert_uint_eq(msg->number, revision);
    ck_assert(!msg->is_call);
    weft_hub_free(msg);
    return revision;
}

TEST(a_key_has_the_value_and_the_revision_of_the_last_set)
{
    uint64_t revision = WEFT_HUB_ANY_REVISION;
    ck_assert_done(set_text(hub, "a.b", "one", &revision));
    ck_assert_uint_eq(assert_value(hub, "a.b", "one"), revision);
    ck_assert_done(set_text(hub, "a.b", "", NULL));
    ck_assert_uint_gt(assert_value(hub, "a.b", ""), revision);
    ck_assert_done(weft_hub_get(hub, "a.b", NULL, NULL));
}

TEST(a_value_may_have_any_bytes)
{
    static unsigned char data[70000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    ck_assert_done(weft_hub_set(hub, "k", data, sizeof data, NULL));
    weft_hub_msg *msg;
    ck_assert_done(weft_hub_get(hub, "k", &msg, NULL));
    ck_assert_uint_eq(msg->bytes, sizeof data);
    ck_assert_mem_eq(msg->data, data, sizeof data);
    weft_hub_free(msg);
}

TEST(a_missing_key_is_not_found)
{
    weft_hub_msg *msg;
    ck_assert_fails(weft_hub_get(hub, "nothing", &msg, NULL), -ENOENT); /* also without a bucket */
    ck_assert_done(set_text(hub, "something", "1", NULL));
    ck_assert_fails(weft_hub_get(hub, "nothing", &msg, NULL), -ENOENT);
}

TEST(a_set_with_revision_0_creates_a_key_only_once)
{
    uint64_t revision = 0;
    ck_assert_done(set_text(hub, "k", "first", &revision));
    uint64_t second = 0;
    ck_assert_fails(set_text(hub, "k", "second", &second), -ESTALE);
    ck_assert_uint_eq(second, 0);
    ck_assert_uint_eq(assert_value(hub, "k", "first"), revision);
}

TEST(a_set_with_an_old_revision_is_stale)
{
    uint64_t revision = 0;
    ck_assert_done(set_text(hub, "k", "1", &revision));
    uint64_t old = revision;
    ck_assert_done(set_text(hub, "k", "2", &revision));
    ck_assert_uint_gt(revision, old);
    ck_assert_fails(set_text(hub, "k", "3", &old), -ESTALE);
    ck_assert_uint_eq(assert_value(hub, "k", "2"), revision);
}

TEST(a_revision_is_larger_than_the_revisions_of_all_keys)
{
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t revision = 0;
        ck_assert_done(set_text(hub, format("k%d", i), "x", &revision));
        ck_assert_uint_gt(revision, last);
        last = revision;
    }
}

TEST(a_deleted_key_does_not_exist_and_can_be_created_again)
{
    uint64_t revision = 0;
    ck_assert_done(set_text(hub, "k", "1", &revision));
    ck_assert_done(weft_hub_delete(hub, "k", &revision));
    weft_hub_msg *msg;
    ck_assert_fails(weft_hub_get(hub, "k", &msg, NULL), -ENOENT);
    uint64_t old = revision;
    ck_assert_fails(set_text(hub, "k", "2", &old), -ESTALE);
    uint64_t again = 0;
    ck_assert_done(set_text(hub, "k", "3", &again));
    ck_assert_uint_gt(again, revision);
    ck_assert_uint_eq(assert_value(hub, "k", "3"), again);
}

TEST(a_deletion_with_an_old_revision_is_stale)
{
    uint64_t revision = 0;
    ck_assert_done(set_text(hub, "k", "1", &revision));
    uint64_t old = revision;
    ck_assert_done(set_text(hub, "k", "2", &revision));
    ck_assert_fails(weft_hub_delete(hub, "k", &old), -ESTALE);
    assert_value(hub, "k", "2");
}

TEST(the_deletion_of_a_missing_key_succeeds_with_any_revision)
{
    ck_assert_done(weft_hub_delete(hub, "k", NULL)); /* also without a bucket */
    uint64_t revision = 5;
    ck_assert_fails(weft_hub_delete(hub, "k", &revision), -ESTALE);
    ck_assert_done(set_text(hub, "other", "1", NULL));
    ck_assert_done(weft_hub_delete(hub, "k", NULL));
    ck_assert_fails(weft_hub_delete(hub, "k", &(uint64_t){5}), -ESTALE);
}

TEST(wrong_arguments_are_refused)
{
    static const char *const names[] = {NULL, "", ".", "a..b", "a b", "a.*", ">", "weft.x", "a."};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ck_assert_fails(weft_hub_set(hub, names[i], "x", 1, NULL), -EINVAL);
        ck_assert_fails(weft_hub_get(hub, names[i], NULL, NULL), -EINVAL);
        ck_assert_fails(weft_hub_delete(hub, names[i], NULL), -EINVAL);
    }
    ck_assert_int_eq(weft_hub_set(NULL, "k", "x", 1, NULL), -EINVAL);
    ck_assert_fails(weft_hub_set(hub, "k", NULL, 1, NULL), -EINVAL);
    ck_assert_fails(weft_hub_delete(hub, "k", &(uint64_t){0}), -EINVAL);
}

TEST(a_value_that_is_too_large_for_the_server_is_refused)
{
    size_t bytes = 9 * 1024 * 1024;
    char *data = calloc(1, bytes);
    ck_assert_int_eq(weft_hub_set(hub, "k", data, bytes, NULL), -EMSGSIZE);
    free(data);
}

/* A fiber that increments a counter 50 times, by compare and set. */
typedef struct incrementer {
    weft_hub *hub;
    int stale;
} incrementer;

#define INCREMENTS 50

static weft_value increment_key(void *arg)
{
    incrementer *self = arg;
    for (int done = 0; done < INCREMENTS;) {
        weft_hub_msg *msg;
        uint64_t revision;
        ck_assert_done(weft_hub_get(self->hub, "count", &msg, &revision));
        int count = atoi(msg->data);
        weft_hub_free(msg);
        int rc = set_text(self->hub, "count", format("%d", count + 1), &revision);
        ck_assert(rc == 0 || rc == -ESTALE);
        done += rc == 0;
        self->stale += rc < 0;
    }
    return 0;
}

TEST(of_two_writers_with_one_revision_only_one_succeeds)
{
    incrementer all[] = {{hub}, {open_hub()}, {open_hub()}};
    weft_fiber f[COUNT_OF(all)];
    ck_assert_done(set_text(hub, "count", "0", NULL));
    for (size_t i = 0; i < COUNT_OF(all); i++)
        f[i] = weft_spin(increment_key, &all[i]);
    ck_assert_done(weft_await_all(f, COUNT_OF(all), NULL));
    assert_value(hub, "count", format("%zu", COUNT_OF(all) * INCREMENTS));
    close_hub(all[1].hub);
    close_hub(all[2].hub);
}

/* Return 1 if this fiber has created the key. */
static weft_value create_key(void *arg)
{
    uint64_t revision = 0;
    int rc = set_text(arg, "once", "x", &revision);
    ck_assert(rc == 0 || rc == -ESTALE || rc == -EBADF);
    return rc == 0;
}

TEST(of_many_creators_of_a_key_one_succeeds)
{
    weft_hub *other = open_hub();
    weft_fiber f[16];
    weft_value created = 0;
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(create_key, i % 2 == 0 ? hub : other);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        created += weft_await(f[i]);
    ck_assert_int_eq(created, 1);
    close_hub(other);
}

TEST(closing_the_hub_ends_a_call)
{
    weft_hub *other = open_hub();
    weft_fiber f = weft_spin(create_key, other);
    weft_snooze();
    close_hub(other);
    ck_assert_int_ge(weft_await(f), 0); /* the reply may come first */
}
