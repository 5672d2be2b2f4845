/*
 * Tests of the timer wheel: which timers fire, when, and in which order. The model covers arming,
 * disarming and firing, also in callbacks. Fixed cases cover the limits.
 */
#include "core/sched/timer.h"

#include "support/random.h"

#include "support/suite.h"

#define FIRED_MAX 64

static weft__wheel wheel;
static weft__timer *fired[FIRED_MAX];
static int fired_count;

static void record_firing(weft__timer *timer)
{
    ck_assert(!weft__timer_is_armed(timer));
    ck_assert_int_lt(fired_count, FIRED_MAX);
    fired[fired_count++] = timer;
}

static void reset_wheel(int64_t now_ns)
{
    weft__wheel_init(&wheel, now_ns);
    fired_count = 0;
}

static void arm_new(weft__timer *timer, int64_t deadline_ns)
{
    weft__timer_init(timer, record_firing);
    weft__timer_arm(&wheel, timer, deadline_ns);
}

TEST(timers_at_any_distance_fire_in_the_order_of_their_deadlines)
{
    static const int64_t deadlines[] = {INT64_MAX - 1, 5, (int64_t)1 << 60, 64, 4096, 63, 4095, 65};
    static const int order[] = {1, 5, 3, 7, 6, 4, 2, 0};
    weft__timer timers[8];
    reset_wheel(0);
    for (int i = 0; i < 8; i++)
        arm_new(&timers[i], deadlines[i]);
    weft__wheel_expire(&wheel, INT64_MAX - 1);
    ck_assert_int_eq(fired_count, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_ptr_eq(fired[i], &timers[order[i]]);
}

TEST(expiring_at_an_early_bound_improves_the_bound)
{
    reset_wheel(0);
    weft__timer a, b;
    int64_t base = (int64_t)3 << 30; /* both in one slot of level 5, but in different slots below */
    arm_new(&a, base + 1);
    arm_new(&b, base + 999999);
    weft__timer_disarm(&wheel, &a);
    int steps = 0;
    while (fired_count == 0) {
        ck_assert_int_lt(steps++, WEFT__WHEEL_LEVELS);
        ck_assert_int_le(weft__wheel_next(&wheel), base + 999999);
        weft__wheel_expire(&wheel, weft__wheel_next(&wheel));
    }
    ck_assert_ptr_eq(fired[0], &b);
}

TEST(a_timer_for_never_is_not_armed)
{
    reset_wheel(0);
    weft__timer timer;
    arm_new(&timer, WEFT__NEVER);
    ck_assert(!weft__timer_is_armed(&timer));
    ck_assert_uint_eq(wheel.count, 0);
    weft__wheel_expire(&wheel, INT64_MAX);
    ck_assert_int_eq(fired_count, 0);
}

TEST(time_that_goes_backwards_is_ignored)
{
    reset_wheel(1000);
    weft__timer timer, due;
    arm_new(&timer, 2000);
    weft__wheel_expire(&wheel, 10);
    ck_assert_int_eq(wheel.now_ns, 1000);
    arm_new(&due, 1000);
    weft__wheel_expire(&wheel, 10);
    ck_assert_int_eq(fired_count, 1);
    weft__wheel_expire(&wheel, 2000);
    ck_assert_int_eq(fired_count, 2);
}

TEST(timers_due_before_a_time_are_counted)
{
    weft__timer timers[5];
    reset_wheel(1000000);
    for (int i = 0; i < 4; i++) /* in slots of different levels */
        arm_new(&timers[i], 1000100 + (int64_t)i * i * i * 30000);
    arm_new(&timers[4], 3000000000);
    int64_t last = timers[3].deadline_ns;
    ck_assert_int_eq(weft__wheel_next(&wheel), 1000100);
    ck_assert(weft__wheel_has_due(&wheel, last, 4));
    ck_assert(!weft__wheel_has_due(&wheel, last - 1, 4));
    ck_assert(!weft__wheel_has_due(&wheel, last + 1000000, 5));
    ck_assert(weft__wheel_has_due(&wheel, 1000100, 1));
    ck_assert(!weft__wheel_has_due(&wheel, 1000099, 1));
}

/* The model: an array that is searched. */
#define MODEL_TIMERS 200

static struct model {
    weft__timer timer;
    bool is_armed;
    int64_t deadline_ns; /* a deadline in the past counts as the time of arming */
    uint64_t arm_order;  /* orders timers with equal deadlines */
    unsigned batch;      /* the expire call at which it is due; 0: not yet */
} models[MODEL_TIMERS];

static uint64_t arm_count;
static unsigned batches;
static unsigned long firing_count;

/* Near and far deadlines, before and after now, and often equal to others. */
static int64_t random_deadline(void)
{
    int64_t distance = (int64_t)(random_bits() >> (2 + random_bits() % 62));
    if (random_bits() % 4 == 0)
        distance &= ~(int64_t)0xff;
    return random_bits() % 16 == 0 ? wheel.now_ns - distance % 1000 : wheel.now_ns + distance;
}

static void change_at_random(void)
{
    struct model *m = &models[random_bits() % MODEL_TIMERS];
    ck_assert_int_eq(m->is_armed, weft__timer_is_armed(&m->timer));
    if (m->is_armed) {
        weft__timer_disarm(&wheel, &m->timer);
        m->is_armed = false;
        return;
    }
    int64_t deadline = random_deadline();
    if (deadline < 0)
        return; /* the clock would have overflowed */
    weft__timer_arm(&wheel, &m->timer, deadline);
    m->is_armed = true;
    m->deadline_ns = deadline < wheel.now_ns ? wheel.now_ns : deadline;
    m->arm_order = ++arm_count;
    m->batch = 0;
}

static bool is_before(const struct model *a, const struct model *b)
{
    if (a->deadline_ns != b->deadline_ns)
        return a->deadline_ns < b->deadline_ns;
    return a->arm_order < b->arm_order;
}

/* Return the first armed timer of this batch, or of all timers if batch is 0. */
static struct model *model_first(unsigned batch)
{
    struct model *first = NULL;
    for (struct model *m = models; m < models + MODEL_TIMERS; m++)
        if (m->is_armed && (batch == 0 || m->batch == batch) &&
            (first == NULL || is_before(m, first)))
            first = m;
    return first;
}

static void compare_firing(weft__timer *timer)
{
    struct model *m = CONTAINER_OF(timer, struct model, timer);
    ck_assert_ptr_eq(m, model_first(batches));
    m->is_armed = false;
    firing_count++;
    for (unsigned changes = random_bits() % 3; changes > 0; changes--)
        change_at_random();
}

static size_t model_count(void)
{
    size_t count = 0;
    for (int i = 0; i < MODEL_TIMERS; i++)
        count += models[i].is_armed;
    return count;
}

static void expire_and_compare(int64_t now_ns)
{
    batches++;
    for (struct model *m = models; m < models + MODEL_TIMERS; m++)
        if (m->is_armed && m->deadline_ns <= now_ns)
            m->batch = batches;
    weft__wheel_expire(&wheel, now_ns);
    ck_assert_ptr_null(model_first(batches));
}

static void check_next(void)
{
    struct model *first = model_first(0);
    int64_t next = weft__wheel_next(&wheel);
    ck_assert_uint_eq(wheel.count, model_count());
    if (first == NULL)
        ck_assert_int_eq(next, WEFT__NEVER);
    else
        ck_assert_int_le(next, first->deadline_ns);
}

TEST(random_operations_fire_the_same_timers_as_the_model)
{
    weft__wheel_init(&wheel, 1);
    for (int i = 0; i < MODEL_TIMERS; i++)
        weft__timer_init(&models[i].timer, compare_firing);
    for (int round = 0; round < 20000; round++) {
        if (wheel.now_ns > (int64_t)1 << 61) { /* start over before the clock ends */
            for (int i = 0; i < MODEL_TIMERS; i++) {
                weft__timer_disarm(&wheel, &models[i].timer);
                models[i].is_armed = false;
            }
            weft__wheel_init(&wheel, (int64_t)(random_bits() >> 20));
        }
        for (unsigned changes = random_bits() % 8; changes > 0; changes--)
            change_at_random();
        check_next();
        int64_t next = weft__wheel_next(&wheel);
        int64_t step = (int64_t)(random_bits() >> (24 + random_bits() % 40));
        bool is_exact = random_bits() % 2 == 0 && next != WEFT__NEVER;
        expire_and_compare(is_exact ? next : wheel.now_ns + step);
        check_next();
    }
    ck_assert_uint_gt(firing_count, 10000);
}
