/* Names with one owner: acquire, release, lose. */
#include "hub/names/names_support.h"

static weft_hub *a, *b;

static void open_two(void)
{
    a = open_hub_at(hub_where(), &(weft_hub_options){.name = "a"});
    b = open_hub_at(hub_where(), &(weft_hub_options){.name = "b"});
}

static void close_two(void)
{
    close_hub(a);
    close_hub(b);
}

FIXTURE(open_two, close_two)

TEST(an_owned_name_has_one_owner)
{
    weft_fiber f = spin_server("first"), g = spin_server("second");
    uint64_t token = 0, other = 7;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_uint_gt(token, 0);
    ck_assert_fails(weft_hub_expose(b, "room", g, &other), -EEXIST);
    ck_assert_fails(weft_hub_expose(a, "room", g, &other), -EEXIST);
    ck_assert_uint_eq(other, 7);
    assert_answer(b, "room", "first");
    assert_answer(a, "room", "first");
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(a_withdrawn_name_is_free_at_once_and_tokens_grow)
{
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t last = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t token = 0;
        weft_hub *owner = i % 2 == 0 ? a : b;
        ck_assert_done(weft_hub_expose(owner, "room", i % 2 == 0 ? f : g, &token));
        ck_assert_uint_gt(token, last);
        last = token;
        assert_answer(a, "room", i % 2 == 0 ? "a" : "b");
        ck_assert_done(weft_hub_withdraw(owner, "room"));
        ck_assert_int_eq(weft_hub_call(b, "room", "", 0, NULL), -EHOSTUNREACH);
    }
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(the_end_of_the_fiber_frees_its_names)
{
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room.1", f, &token));
    ck_assert_done(weft_hub_expose(a, "room.2", f, &token));
    cancel_and_await(f);
    ck_assert_uint_gt(own_when_free(b, "room.1", g), token);
    ck_assert_uint_gt(own_when_free(b, "room.2", g), token);
    assert_answer(a, "room.1", "b");
    ck_assert_int_eq(weft_hub_withdraw(a, "room.1"), -ENOENT);
    cancel_and_await(g);
}

TEST(closing_the_hub_frees_its_names)
{
    weft_hub *c = open_hub();
    weft_fiber f = spin_server("c"), g = spin_server("b");
    uint64_t token;
    ck_assert_done(weft_hub_expose(c, "room", f, &token));
    close_hub(c);
    ck_assert_uint_gt(own_when_free(b, "room", g), token);
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(a_name_is_renewed_and_stays_with_its_owner)
{
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t token, other;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    weft_sleep(is_sim() ? 100 : 4); /* a lease is 15 s, and its first renewal is due after 3 s */
    ck_assert_fails(weft_hub_expose(b, "room", g, &other), -EEXIST);
    assert_answer(b, "room", "a");
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(a_hub_with_another_lease_cannot_own_names)
{
    weft_hub *c = open_hub_at(hub_where(), &(weft_hub_options){.lease_s = 20});
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_fails(weft_hub_expose(c, "other", f, &token), -EEXIST);
    ck_assert_done(weft_hub_expose(c, "other", f, NULL)); /* shared */
    close_hub(c);
    cancel_and_await(f);
}

TEST(a_cancelled_expose_leaves_no_owner)
{
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "other", f, &token)); /* the bucket exists */
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_hub_expose(a, "room", f, &token), -ECANCELED);
    }
    own_when_free(b, "room", g);
    assert_answer(a, "room", "b");
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(of_many_fibers_that_expose_a_name_one_owns_it)
{
    weft_fiber f = spin_server("x");
    uint64_t token;
    for (int i = 0; i < 5; i++) {
        int owners = (weft_hub_expose(a, format("n%d", i), f, &token) == 0) +
                     (weft_hub_expose(b, format("n%d", i), f, &token) == 0);
        ck_assert_int_eq(owners, 1);
    }
    weft_error_clear();
    cancel_and_await(f);
}

TEST(wrong_arguments_are_refused)
{
    uint64_t token;
    weft_fiber f = spin_server("a");
    ck_assert_fails(weft_hub_expose(a, "a.*", f, &token), -EINVAL);
    ck_assert_fails(weft_hub_expose(a, NULL, f, NULL), -EINVAL);
    ck_assert_fails(weft_hub_withdraw(a, "a..b"), -EINVAL);
    ck_assert_fails(weft_hub_withdraw(a, "room"), -ENOENT);
    cancel_and_await(f);
    ck_assert_int_eq(weft_hub_expose(a, "room", f, &token), -ESRCH);
    ck_assert_int_eq(weft_hub_expose(a, "room", f, NULL), -ESRCH);
}
