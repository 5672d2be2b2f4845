/* Tests of the ids of ended fibers: none of them ever names another fiber. */
#include "core/cord/cord.h"
#include "support/suite.h"

static weft__fiber *record_of(weft_fiber id)
{
    return weft__record_at(weft__cord_self, weft__fiber_slot(id));
}

/* Set the serial of a slot so that at most this many serials remain. */
static void exhaust_serials(weft__fiber *record, uint32_t left)
{
    if (record->last_id >> 32 < UINT32_MAX - left)
        record->last_id = (weft_fiber)(UINT32_MAX - left) << 32 | (uint32_t)record->last_id;
}

static weft_fiber spin_and_await(void)
{
    weft_fiber f = weft_spin(return_arg, as_arg(5));
    ck_assert_uint_ne(f, 0);
    ck_assert_int_eq(weft_await(f), 5);
    return f;
}

TEST(an_id_is_not_reused_when_its_slot_has_used_all_serials)
{
    weft_fiber stale = spin_and_await();
    weft__fiber *record = record_of(stale);
    exhaust_serials(record, 1);
    weft_fiber last = spin_and_await();
    ck_assert_ptr_eq(record_of(last), record);
    for (int i = 0; i < 3000; i++) {
        weft_fiber f = spin_and_await();
        ck_assert_ptr_ne(record_of(f), record);
        ck_assert_int_eq(weft_await(stale), -ESRCH);
        ck_assert_int_eq(weft_await(last), -ESRCH);
        ck_assert_int_eq(weft_cancel(stale), -ESRCH);
    }
}

TEST(many_fibers_with_exhausted_slots_continue_in_others)
{
    enum { COUNT = 2000 };
    static weft_fiber first[COUNT], second[COUNT];
    for (int i = 0; i < COUNT; i++)
        first[i] = weft_spin(return_arg, as_arg(i));
    for (int i = 0; i < COUNT; i++)
        exhaust_serials(record_of(first[i]), 0);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(first[i]), i);
    for (int i = 0; i < COUNT; i++) {
        second[i] = weft_spin(return_arg, as_arg(i));
        ck_assert_uint_ne(second[i], 0);
        ck_assert_int_eq(weft_state_of(first[i]), WEFT_DEAD);
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(second[i]), i);
    ck_assert_uint_eq(stats().fibers, 0);
}

TEST(fibers_spun_in_another_cord_do_not_reuse_ids_either)
{
    static weft_fiber ids[1000];
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        ids[i] = weft_cord_spin(weft_main(), return_arg, NULL);
        ck_assert_uint_ne(ids[i], 0);
        exhaust_serials(record_of(ids[i]), (uint32_t)(i % 2));
        ck_assert_int_eq(weft_await_children(), 0);
        for (size_t j = 0; j < i; j++)
            if (ids[i] == ids[j])
                ck_abort_msg("%zu and %zu", i, j);
    }
}

FIBER_DO(store_id, *(weft_fiber *)arg = spin_and_await(), 0)

TEST(a_cord_does_not_reuse_the_ids_of_a_previous_cord)
{
    weft_fiber ids[20];
    weft_cord cords[COUNT_OF(ids)];
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        cords[i] = weft_cord_start(store_id, &ids[i], NULL);
        weft_cord id = cords[i];
        ck_assert_int_eq(weft_cord_join(id), 0);
        for (size_t j = 0; j < i; j++) {
            ck_assert_uint_ne(ids[i], ids[j]);
            ck_assert_uint_ne(cords[i], cords[j]);
        }
    }
}
