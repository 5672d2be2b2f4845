/* Logs: entries of keys in their order, bounds, and compare and append. */
#include "hub/hub_support.h"

static weft_hub *hub;

static void open_with_log(void)
{
    hub = open_hub();
    ck_assert_done(weft_hub_log(hub, "log", NULL));
}

static void close_log_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_with_log, close_log_hub)

static int append_text(const char *key, const char *text, uint64_t *last)
{
    return weft_hub_append(hub, "log", key, text, strlen(text), last);
}

/* Mark the entries of a key, from the first to the last. */
static void mark_entries(const char *log, const char *key)
{
    uint64_t after = 0;
    weft_hub_msg *entry;
    int rc;
    while ((rc = weft_hub_next(hub, log, key, after, &entry)) == 0) {
        ck_assert_uint_gt(entry->number, after);
        ck_assert_str_eq(entry->to, key);
        mark(entry->data);
        after = entry->number;
        weft_hub_free(entry);
    }
    ck_assert_int_eq(rc, -ENOENT);
}

TEST(entries_of_a_key_are_read_in_the_order_of_appending)
{
    ck_assert_done(append_text("a", "1", NULL));
    ck_assert_done(append_text("b.c", "x", NULL));
    ck_assert_done(append_text("a", "2", NULL));
    ck_assert_done(append_text("b.c", "y", NULL));
    ck_assert_done(append_text("a", "3", NULL));
    mark_entries("log", "a");
    ck_take_trail("123");
    mark_entries("log", "b.c");
    ck_take_trail("xy");
    mark_entries("log", "nothing");
    ck_take_trail("");
}

TEST(an_append_with_the_number_of_an_older_entry_is_stale)
{
    uint64_t last = 0;
    ck_assert_done(append_text("a", "1", &last));
    uint64_t first = last;
    ck_assert_done(append_text("b", "x", NULL)); /* another key does not matter */
    ck_assert_done(append_text("a", "2", &last));
    ck_assert_uint_gt(last, first);
    uint64_t old = first;
    ck_assert_fails(append_text("a", "3", &old), -ESTALE);
    ck_assert_uint_eq(old, first);
    ck_assert_fails(append_text("a", "3", &(uint64_t){0}), -ESTALE);
    uint64_t any = WEFT_HUB_ANY_REVISION;
    ck_assert_done(append_text("a", "4", &any));
    ck_assert_uint_gt(any, last);
    mark_entries("log", "a");
    ck_assert_trail("124");
}

TEST(a_key_has_at_most_entries_max_entries)
{
    ck_assert_done(weft_hub_log(hub, "short", &(weft_hub_log_options){.entries_max = 3}));
    for (int i = 0; i < 7; i++) {
        ck_assert_done(weft_hub_append(hub, "short", "a", format("%d", i), 1, NULL));
        ck_assert_done(weft_hub_append(hub, "short", "b", "b", 1, NULL));
    }
    mark_entries("short", "a");
    ck_take_trail("456");
    mark_entries("short", "b");
    ck_take_trail("bbb");
}

TEST(a_log_is_found_again_with_equal_options_and_refused_with_others)
{
    const weft_hub_log_options options = {.entries_max = 5, .age_max_s = 3600};
    ck_assert_done(weft_hub_log(hub, "kept", &options));
    ck_assert_done(weft_hub_append(hub, "kept", "a", "1", 1, NULL));
    ck_assert_done(weft_hub_log(hub, "kept", &options));
    mark_entries("kept", "a");
    ck_assert_trail("1");
    ck_assert_fails(weft_hub_log(hub, "kept", NULL), -EEXIST);
    ck_assert_fails(
        weft_hub_log(hub, "kept", &(weft_hub_log_options){.entries_max = 5, .age_max_s = 60}),
        -EEXIST);
    ck_assert_ptr_nonnull(strstr(weft_error()->message, "max_age"));
}

TEST(a_missing_log_is_not_found)
{
    weft_hub_msg *entry;
    ck_assert_fails(weft_hub_append(hub, "none", "a", "1", 1, NULL), -ENOENT);
    ck_assert_int_eq(weft_hub_next(hub, "none", "a", 0, &entry), -ENOENT);
    ck_assert_int_eq(weft_hub_next(hub, "log", "a", UINT64_MAX, &entry), -ENOENT);
}

TEST(wrong_arguments_are_refused)
{
    weft_hub_msg *entry;
    ck_assert_fails(weft_hub_log(hub, "a.b", NULL), -EINVAL);
    ck_assert_fails(weft_hub_log(hub, "a", &(weft_hub_log_options){.replicas = 6}), -EINVAL);
    ck_assert_fails(weft_hub_log(hub, "a", &(weft_hub_log_options){.age_max_s = -1}), -EINVAL);
    ck_assert_fails(weft_hub_log(hub, "a", &(weft_hub_log_options){.age_max_s = NAN}), -EINVAL);
    ck_assert_fails(weft_hub_append(hub, "log", "*", "1", 1, NULL), -EINVAL);
    ck_assert_fails(weft_hub_append(hub, "log", "a", NULL, 1, NULL), -EINVAL);
    ck_assert_fails(weft_hub_next(hub, "log", "a", 0, NULL), -EINVAL);
    ck_assert_fails(weft_hub_next(hub, "log", ">", 0, &entry), -EINVAL);
}

static weft_value append_ten(void *arg)
{
    weft_hub *own = arg;
    for (int done = 0; done < 10;) {
        weft_hub_msg *entry;
        uint64_t last = 0;
        while (weft_hub_next(own, "log", "race", last, &entry) == 0) {
            last = entry->number;
            weft_hub_free(entry);
        }
        int rc = weft_hub_append(own, "log", "race", "+", 1, &last);
        ck_assert(rc == 0 || rc == -ESTALE);
        done += rc == 0;
    }
    return 0;
}

TEST(two_writers_never_append_after_the_same_entry)
{
    weft_hub *other = open_hub();
    weft_fiber f[] = {weft_spin(append_ten, hub), weft_spin(append_ten, other)};
    ck_assert_done(weft_await_all(f, COUNT_OF(f), NULL));
    mark_entries("log", "race");
    ck_assert_trail("++++++++++++++++++++");
    close_hub(other);
}
