/* Thread states: every fiber has its own value of a registered thread-local variable. */
#include "support/cord_support.h"
#include "support/suite.h"

static __thread int setting; /* the state of the thread; the default is 0 */
static int saves, resets, restores;

static void setting_save(void *to)
{
    saves++;
    *(int *)to = setting;
}

static void setting_reset(void)
{
    resets++;
    setting = 0;
}

static void setting_restore(void *from)
{
    restores++;
    setting = *(int *)from;
}

static const weft_thread_state setting_state = {sizeof(int), setting_save, setting_reset,
                                                setting_restore};

static void register_setting(void)
{
    ck_assert_int_eq(weft_thread_state_add(&setting_state), 0);
}

FIXTURE(register_setting, NULL)

/* Set the state to arg. Return an error if a wait of any kind changes it. */
static weft_value keep_setting(void *arg)
{
    if (setting != 0)
        return -EEXIST;
    setting = (int)(intptr_t)arg;
    for (int i = 0; i < 5; i++) {
        int rc = i % 2 == 0 ? weft_snooze() : weft_sleep(0.001);
        if (rc < 0 || setting != (int)(intptr_t)arg)
            return rc < 0 ? rc : -EBADMSG;
    }
    return setting;
}

TEST(each_fiber_keeps_its_own_state_over_waits)
{
    setting = 99;
    weft_fiber fibers[10];
    for (intptr_t i = 0; i < 10; i++)
        fibers[i] = weft_spin(keep_setting, (void *)(i + 1));
    for (intptr_t i = 0; i < 10; i++)
        ck_assert_int_eq(weft_await(fibers[i]), i + 1);
    ck_assert_int_eq(setting, 99);
}

static weft_value leave_setting(void *arg)
{
    setting = 7;
    return 0;
}

static weft_value read_setting(void *arg)
{
    return setting;
}

TEST(a_new_fiber_starts_with_the_default_even_after_a_fiber_that_ended)
{
    ck_assert_int_eq(weft_await(weft_spin(leave_setting, NULL)), 0);
    weft_fiber first = weft_spin(leave_setting, NULL), second = weft_spin(read_setting, NULL);
    ck_assert_int_eq(weft_await(second), 0);
    ck_assert_int_eq(weft_await(first), 0);
    ck_assert_int_eq(setting, 0);
}

TEST(start_and_transfer_keep_the_state_of_the_caller)
{
    setting = 3;
    weft_fiber f = weft_new(keep_setting, (void *)4);
    weft_start(f);
    ck_assert_int_eq(setting, 3);
    ck_assert_int_eq(weft_await(f), 4);
    ck_assert_int_eq(setting, 3);
}

TEST(every_save_is_followed_by_a_restore_of_a_living_fiber)
{
    ck_assert_int_eq(weft_await(weft_spin(keep_setting, (void *)1)), 1);
    ck_assert_int_gt(saves, 0);
    ck_assert_int_eq(saves, restores);
    ck_assert_int_eq(resets, saves + 1); /* and once at the end of the fiber */
}

static void save_nothing(void *to)
{
}

static void reset_nothing(void)
{
}

TEST(invalid_states_and_too_many_bytes_are_refused)
{
    static const weft_thread_state no_save = {8, NULL, setting_reset, setting_restore};
    static const weft_thread_state huge = {WEFT_THREAD_STATE_BYTES_MAX, setting_save, setting_reset,
                                           setting_restore};
    ck_assert_int_eq(weft_thread_state_add(NULL), -EINVAL);
    ck_assert_int_eq(weft_thread_state_add(&no_save), -EINVAL);
    ck_assert_int_eq(weft_thread_state_add(&huge), -ENOSPC);
    ck_assert_int_eq(weft_thread_state_add(&setting_state), 0); /* again: no effect */
    static weft_thread_state empty[WEFT_THREAD_STATES_MAX];
    for (int i = 0; i < WEFT_THREAD_STATES_MAX; i++) {
        empty[i] = (weft_thread_state){0, save_nothing, reset_nothing, save_nothing};
        int rc = i < WEFT_THREAD_STATES_MAX - 1 ? 0 : -ENOSPC;
        ck_assert_int_eq(weft_thread_state_add(&empty[i]), rc);
    }
}

static weft_value run_in_cord(void *arg)
{
    setting = 5;
    weft_fiber f = weft_spin(keep_setting, (void *)6);
    weft_value value = weft_await(f);
    return setting == 5 ? value : -EBADMSG;
}

TEST(a_cord_that_starts_later_has_its_own_state)
{
    setting = 1;
    weft_cord c = weft_cord_start(run_in_cord, NULL, NULL);
    ck_assert_int_eq(weft_cord_join(c), 6);
    ck_assert_int_eq(setting, 1);
}
