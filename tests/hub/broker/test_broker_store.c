/* The store of a stream, compared with an array after random steps. */
#include "hub/broker/store.h"
#include "support/random.h"
#include "support/suite.h"

#define STEPS 4000
#define SUBJECTS 5

/* The model: the subject of each sequence, or -1 if the message does not exist. */
static int subjects[STEPS + 2];
static uint64_t last_seq;
static weft__store store;

static weft__slice subject_name(int subject)
{
    return weft__slice_of(format("s.%d", subject));
}

static void append(void)
{
    int subject = (int)random_below(SUBJECTS);
    weft__publication p = {.subject = subject_name(subject), .payload = weft__slice_of("data")};
    weft__stored_msg *m = weft__store_append(&store, &p, (int64_t)last_seq);
    ck_assert_ptr_nonnull(m);
    subjects[++last_seq] = subject;
    ck_assert_uint_eq(m->seq, last_seq);
}

/* Remove a message, or all messages up to it. */
static void remove_some(void)
{
    if (last_seq == 0)
        return;
    uint64_t to = 1 + random_below((unsigned)last_seq);
    for (uint64_t seq = random_below(20) == 0 ? 1 : to; seq <= to; seq++) {
        weft__stored_msg *m = weft__store_find(&store, seq);
        ck_assert_int_eq(m != NULL, subjects[seq] >= 0);
        if (m != NULL)
            weft__store_remove(&store, m);
        subjects[seq] = -1;
    }
}

/* Return the first sequence of the model from seq on, of a subject or of all (-1). 0: none. */
static uint64_t model_next(uint64_t seq, int subject)
{
    for (; seq <= last_seq; seq++)
        if (subjects[seq] >= 0 && (subject < 0 || subjects[seq] == subject))
            return seq;
    return 0;
}

static uint64_t model_last(int subject)
{
    for (uint64_t seq = last_seq; seq > 0; seq--)
        if (subjects[seq] >= 0 && (subject < 0 || subjects[seq] == subject))
            return seq;
    return 0;
}

static uint64_t seq_of(const weft__stored_msg *m)
{
    return m == NULL ? 0 : m->seq;
}

static void check_store(void)
{
    uint64_t from = random_below((unsigned)last_seq + 2), count = 0;
    ck_assert_uint_eq(seq_of(weft__store_from(&store, from)), model_next(from > 0 ? from : 1, -1));
    ck_assert_uint_eq(seq_of(weft__store_last(&store, weft__slice_of("s.*"))), model_last(-1));
    for (int i = 0; i < SUBJECTS; i++) {
        ck_assert_uint_eq(seq_of(weft__store_last(&store, subject_name(i))), model_last(i));
        ck_assert_int_eq(weft__store_log(&store, subject_name(i)) != NULL, model_last(i) > 0);
    }
    for (uint64_t seq = 1; seq <= last_seq; seq++)
        count += subjects[seq] >= 0;
    ck_assert_uint_eq(store.count, count);
    ck_assert_uint_eq(store.bytes, count * (3 + 4 + 16));
    ck_assert_uint_eq(store.last_seq, last_seq);
}

TEST_LOOP(a_store_finds_what_an_array_finds, 20)
{
    random_state = (uint64_t)_i;
    unsigned removals = 1 + random_below(12); /* of 12 steps */
    for (int i = 0; i < STEPS; i++) {
        if (random_below(12) < removals)
            remove_some();
        else
            append();
        if (i % 16 == 0)
            check_store();
    }
    weft__store_free(&store);
}
