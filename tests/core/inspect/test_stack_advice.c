/* Tests of the stack advisor: living fibers, ended fibers, and the report at exit. */
#include "support/cases.h"

#include "support/suite.h"

#include <weft/snapshot.h>

#define DEEP_BYTES (24 << 10)

/* Touch the stack down to DEEP_BYTES. */
static __attribute__((noinline)) void use_stack(void)
{
    volatile char bytes[DEEP_BYTES];
    for (size_t i = 0; i < sizeof bytes; i += 512)
        bytes[i] = 1;
}

static weft_value go_deep(void *arg)
{
    use_stack();
    return weft_suspend();
}

static weft_value go_deep_and_end(void *arg)
{
    use_stack();
    return 0;
}

FIBER_DO(stay_flat, weft_snooze(), 0)

static const weft_stack_use *use_of(const weft_stack_use *uses, int count, weft_fn *fn)
{
    for (int i = 0; i < count; i++)
        if (uses[i].fn == fn)
            return &uses[i];
    return NULL;
}

TEST(living_fibers_are_measured_by_their_site)
{
    for (int i = 0; i < 5; i++)
        weft_spin(go_deep, NULL);
    weft_spin_with(suspend, NULL, &(weft_spin_options){.stack_bytes = 256 << 10});
    let_run();
    weft_snapshot *s;
    ck_assert_int_eq(weft_snapshot_take(NULL, &s), 0);
    weft_stack_use uses[8];
    ck_assert_int_eq(weft_stack_advice(s, uses, 8), 2);
    const weft_stack_use *deep = use_of(uses, 2, go_deep), *flat = use_of(uses, 2, suspend);
    ck_assert_ptr_nonnull(deep);
    ck_assert_ptr_nonnull(flat);
    ck_assert_uint_eq(deep->fibers, 5);
    ck_assert_uint_ge(deep->used_max, DEEP_BYTES);
    ck_assert_uint_ge(deep->suggested_bytes, deep->used_max + deep->used_max / 2);
    ck_assert_ptr_nonnull(deep->spun_at);
    ck_assert_ptr_ne(deep->spun_at, flat->spun_at);
    ck_assert_uint_eq(flat->stack_bytes, 256 << 10);
    ck_assert_uint_lt(flat->suggested_bytes, flat->stack_bytes);
    ck_assert_int_eq(weft_stack_advice(s, uses, 0), 2);
    weft_snapshot_free(s);
    ck_assert_int_eq(weft_stack_advice(NULL, uses, 8), 0); /* ended fibers are not measured */
}

TEST(ended_fibers_are_measured_alone_while_the_advisor_is_on)
{
    setenv("WEFT_STACK_ADVICE", "1", 1);
    for (int i = 0; i < 20; i++) {
        weft_await(weft_spin(go_deep_and_end, NULL));
        weft_await(weft_spin(stay_flat, NULL)); /* on the same stack */
    }
    weft_stack_use uses[8];
    ck_assert_int_eq(weft_stack_advice(NULL, uses, 8), 2);
    const weft_stack_use *deep = use_of(uses, 2, go_deep_and_end);
    const weft_stack_use *flat = use_of(uses, 2, stay_flat);
    ck_assert_ptr_nonnull(deep);
    ck_assert_ptr_nonnull(flat);
    ck_assert_uint_eq(deep->fibers, 20);
    ck_assert_uint_eq(flat->fibers, 20);
    ck_assert_uint_ge(deep->used_max, DEEP_BYTES);
    ck_assert_uint_lt(flat->used_max, DEEP_BYTES);
    unsetenv("WEFT_STACK_ADVICE");
}

TEST_PROGRAM_PRINTS(the_advice_is_printed_at_exit, 0, "deepest use of the stacks of ended fibers",
                    "stack of 3 fibers: ", " KiB suffice; function go_deep_and_end")
{
    setenv("WEFT_STACK_ADVICE", "1", 1);
    for (int i = 0; i < 3; i++)
        weft_await(weft_spin(go_deep_and_end, NULL));
    return 0;
}
