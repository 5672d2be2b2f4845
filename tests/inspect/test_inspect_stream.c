/* The event stream of the inspector: updates, their size, and the end of sampling. */
#include "inspect/inspect_support.h"

FIXTURE(open_inspector, close_inspector)

static weft_value sleep_as_guest(void *arg)
{
    return weft_sleep(INFINITY);
}

static weft_fiber spin_crowd(weft_group *group, int count)
{
    weft_fiber last = 0;
    for (int n = 0; n < count; n++) {
        last = weft_spin_with(
            sleep_as_guest, NULL,
            &(weft_spin_options){.name = format("guest %d", n), .stack_bytes = 16384});
        ck_assert_uint_ne(last, 0);
    }
    let_run();
    (void)group;
    return last;
}

TEST(an_update_has_only_rows_that_have_changed)
{
    spin_named(sleep_as_guest, NULL, "sleeper");
    let_run();
    watch_with(&client, "");
    const char *first = next_update(&client);
    assert_has(first, "\"program\":{");
    assert_has(first, "\"order\":[");
    ck_assert_ptr_nonnull(row_named(first, "sleeper"));
    for (int n = 0; n < 3; n++) {
        const char *later = next_update(&client);
        assert_lacks(later, "\"program\":{");
        assert_lacks(later, "\"order\":[");
        ck_assert_ptr_null(row_named(later, "sleeper"));
        assert_has(later, "\"points\":[{\"at\":");
    }
    spin_named(sleep_as_guest, NULL, "newcomer");
    const char *later;
    do
        later = next_update(&client);
    while (row_named(later, "newcomer") == NULL);
    assert_has(later, "\"order\":[");
    ck_assert_ptr_null(row_named(later, "sleeper"));
    stop_watching(&client);
}

TEST(sampling_ends_with_the_last_viewer)
{
    static test_client other;
    watch_with(&client, "");
    watch_with(&other, "mode=list");
    next_update(&client);
    next_update(&other);
    ck_assert_uint_eq(inspector->viewers, 2);
    stop_watching(&client);
    ck_assert_uint_eq(inspector->viewers, 1);
    next_update(&other);
    stop_watching(&other);
    ck_assert_uint_eq(inspector->viewers, 0);
    ck_assert_ptr_null(inspector->latest);
    ck_assert(!inspector->is_sampling);
    ck_assert_uint_eq(inspector->accounted_count, 0);
    weft_counters counters = stats();
    ck_assert_double_eq(counters.idle_s, 0); /* the accounting is off again */
}

TEST(viewers_share_samples)
{
    enum { VIEWERS = 5 };
    static test_client viewers[VIEWERS];
    weft_inspector_free(inspector);
    inspector = weft_inspector_new(&(weft_inspector_options){.period_s = 3600});
    for (int n = 0; n < VIEWERS; n++)
        watch_with(&viewers[n], "");
    for (int n = 0; n < VIEWERS; n++)
        next_update(&viewers[n]);
    ck_assert_uint_eq(inspector->samples, 1);
    for (int n = 0; n < VIEWERS; n++) {
        weft_cancel(viewers[n].fiber);
        (void)weft_await(viewers[n].fiber);
        weft_close(viewers[n].fd);
    }
    ck_assert_uint_eq(inspector->viewers, 0);
}

TEST(too_many_viewers_are_refused)
{
    static test_client first;
    weft_inspector_free(inspector);
    inspector = weft_inspector_new(&(weft_inspector_options){.viewers_max = 1, .period_s = 0.01});
    watch_with(&first, "");
    next_update(&first);
    ck_assert_int_eq(status_of(get_part("/events")), 503);
    stop_watching(&first);
    view_once("");
}

/* Read from a viewer until it has received this number of updates. Return the bytes. */
static size_t receive_updates(test_client *viewer, int updates)
{
    size_t bytes = 0;
    for (int n = 0; n < updates; n++)
        bytes += strlen(next_update(viewer));
    return bytes;
}

TEST(a_hundred_thousand_fibers_need_few_bytes)
{
    int count = is_sanitized() ? 5000 : 100000;
    spin_crowd(NULL, count);
    watch_with(&client, "");
    const char *update = next_update(&client);
    ck_assert_int_eq(number_in(row_named(update, "guest #"), "count"), count);
    ck_assert_uint_lt(strlen(update), 8 << 10);
    ck_assert_uint_lt(receive_updates(&client, 5), 5 * (4 << 10));
    char key[32];
    stop_watching(&client);
    sscanf(strstr(row_named(view_once(""), "guest #"), "\"key\":\"") + 7, "%16[0-9a-f]", key);
    /* An open group sends one page. */
    watch_with(&client, format("limit=200&toggled=%s", key));
    update = next_update(&client);
    ck_assert_int_ge(number_in(update, "total"), count);
    ck_assert_uint_lt(strlen(update), 60 << 10);
    ck_assert_uint_lt(receive_updates(&client, 5), 5 * (4 << 10));
    stop_watching(&client);
    /* So does a sorted list. */
    watch_with(&client, "mode=list&sort=wait&limit=100000");
    ck_assert_uint_lt(receive_updates(&client, 1), 60 << 10);
    stop_watching(&client);
}

TEST(a_viewer_that_does_not_read_delays_no_other_viewer)
{
    static test_client slow;
    spin_crowd(NULL, 300);
    watch_with(&slow, "mode=list&limit=200&sort=name");
    weft_info info;
    int after = 0; /* updates of the other viewer after the slow viewer's connection is full */
    while (after < 5) {
        watch_with(&client, "");
        next_update(&client);
        stop_watching(&client);
        ck_assert_int_eq(weft_info_of(slow.fiber, &info), 0);
        after += strcmp(info.waits_for, "write") == 0;
    }
    ck_assert_uint_eq(inspector->viewers, 1);
    weft_cancel(slow.fiber);
    (void)weft_await(slow.fiber);
    weft_close(slow.fd);
    ck_assert_uint_eq(inspector->viewers, 0);
}

TEST(the_interval_grows_with_the_cost_of_a_sample)
{
    weft_inspector_free(inspector);
    inspector =
        weft_inspector_new(&(weft_inspector_options){.period_s = 0.001, .cpu_share_max = 1e-6});
    watch_with(&client, "");
    const char *update = next_update(&client);
    ck_assert_int_ge(number_in(update, "intervalMs"), 1000);
    weft_cancel(client.fiber);
    (void)weft_await(client.fiber);
    drop_client();
}
