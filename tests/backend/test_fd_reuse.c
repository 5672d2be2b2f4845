/*
 * Tests of descriptor identity across cords. A number that one cord has used and another cord has
 * closed belongs to a new file. Cached state of the old file must not apply to the new file.
 */
#include "backend/fd_support.h"
#include "support/suite.h"

static weft_cord cord; /* another cord */

static void start_cord_and_listener(void)
{
    open_listener();
    cord = start_idle_cord();
}

static void end_other_cord(void)
{
    end_cord(cord);
}

FIXTURE(start_cord_and_listener, end_other_cord)

/* The cord that uses a number before and after the close, and the cord that closes it. */
typedef struct roles {
    weft_cord user, closer;
} roles;

typedef void pair_test(const roles *r, kind before, kind after);

static void for_each_pair(pair_test *test)
{
    weft_cord third = start_idle_cord(), this_cord = weft_cord_self();
    const roles all[] = {{cord, this_cord}, {this_cord, cord}, {cord, third}};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        for (kind before = 0; before < KINDS; before++)
            for (kind after = 0; after < KINDS; after++)
                test(&all[i], before, after);
    end_cord(third);
}

/* A number beyond the initial size of all descriptor tables. */
#define HIGH 3000

static bool is_high; /* use the number HIGH */

static void close_with_weft_and_reuse(const roles *r, kind before, kind after)
{
    source old = open_source(before), new = open_source(after);
    if (is_high)
        move_source(&old, HIGH);
    use_source_in(r->user, &old);
    close_source(&old, r->closer);
    move_source(&new, old.fd);
    use_source_in(r->user, &new);
    close_source(&new, r->closer);
}

TEST_LOOP(a_low_or_high_number_closed_in_another_cord_is_a_new_file, 2)
{
    is_high = _i == 1;
    if (!is_high || raise_descriptor_limit(HIGH + 100) >= HIGH + 100)
        for_each_pair(close_with_weft_and_reuse);
}

/*
 * Close a number and reopen it with weft. Return false if another thread took the number in
 * between.
 */
static bool try_reopen(const roles *r, kind before, kind after)
{
    source old = open_source(before), new = prepare_source(after);
    use_source_in(r->user, &old);
    close(old.fd);
    open_prepared(&new);
    bool is_same = new.fd == old.fd;
    if (is_same)
        use_source_in(r->user, &new);
    close_source(&new, r->closer);
    close(old.feed);
    return is_same;
}

static void reopen_with_weft(const roles *r, kind before, kind after)
{
    while (!try_reopen(r, before, after))
        ;
}

TEST(a_number_that_weft_has_reopened_is_a_new_file_in_every_cord)
{
    for_each_pair(reopen_with_weft);
}

/*
 * close(2) does not notify weft, so programs must not use it here. The read still returns its data.
 */
TEST(a_read_of_a_file_replaced_without_weft_returns_its_data)
{
    for (kind after = PIPE; after < KINDS; after++) {
        source file = open_source(FILE_ON_DISK), next = open_source(after);
        feed_source(&file, "content");
        assert_read(weft_cord_self(), file.fd, "content");
        close(file.fd);
        move_source(&next, file.fd);
        feed_source(&next, "hello");
        assert_read(weft_cord_self(), next.fd, "hello");
        close_source(&next, weft_cord_self());
        close(file.feed);
    }
}

/* Waiters. */

static void assert_waiter_ends(kind before, kind after)
{
    source old = open_source(before), new = open_source(after);
    reader waiter;
    weft_fiber caller = spin_reader(&waiter, cord, old.fd);
    ck_assert_int_eq(weft_close(old.fd), 0);
    move_source(&new, old.fd);
    feed_source(&new, "new");
    assert_read(cord, new.fd, "new");
    ck_assert_int_eq(weft_await(caller), 0);
    ck_assert_int_eq(waiter.result, -EBADF);
    ck_assert_int_eq(weft_close(new.fd), 0);
    close(new.feed);
    close(old.feed);
}

TEST(a_waiter_in_another_cord_never_gets_the_new_files_data)
{
    for (kind before = PIPE; before < KINDS; before++)
        for (kind after = FILE_ON_DISK; after < KINDS; after++)
            assert_waiter_ends(before, after);
}

/* Two reading fibers of one cord. The second is queued behind the first. */
typedef struct two_readers {
    reader first, second;
    weft_fiber observer;
} two_readers;

static weft_value read_by_two(void *arg)
{
    two_readers *two = arg;
    weft_fiber a = weft_spin(read_some, &two->first);
    await_waiting(a);
    weft_fiber b = weft_spin(read_some, &two->second);
    await_waiting(b);
    weft_tell(two->observer, 1);
    weft_await(a);
    return weft_await(b);
}

/* A duplicate keeps the old file open. The first reader may get its data. */
TEST(a_queued_reader_never_gets_the_new_files_data)
{
    for (kind after = FILE_ON_DISK; after < KINDS; after++) {
        source old = open_source(UNIX), new = open_source(after);
        two_readers two = {{.fd = old.fd}, {.fd = old.fd}, weft_self()};
        int duplicate = dup(old.fd);
        weft_fiber caller = spin_remote_call(&(remote_call){cord, read_by_two, &two});
        ck_assert_int_eq(weft_close(old.fd), 0);
        move_source(&new, old.fd);
        feed_source(&new, "new");
        feed_source(&old, "old");
        assert_read(cord, new.fd, "new");
        ck_assert_int_eq(weft_await(caller), 0);
        if (two.first.result != -EBADF)
            ck_assert_str_eq(two.first.data, "old");
        ck_assert_int_eq(two.second.result, -EBADF);
        ck_assert_int_eq(weft_close(new.fd), 0);
        close(new.feed);
        close(old.feed);
        close(duplicate);
    }
}

/*
 * A cord that computes without polling. Its submitted read reaches the kernel after the number was
 * reused.
 */
typedef struct busy_cord {
    reader early, late;
    weft_fiber observer;
    atomic_bool is_reused;
} busy_cord;

static weft_value submit_and_compute(void *arg)
{
    busy_cord *b = arg;
    weft_fiber f = weft_spin(read_some, &b->early);
    while (weft_state_of(f) != WEFT_WAITING)
        weft_snooze();
    weft_tell(b->observer, 1);
    while (!atomic_load(&b->is_reused))
        ;
    read_some(&b->late);
    return weft_await(f);
}

TEST(an_operation_submitted_before_a_close_never_reads_the_new_file)
{
    for (kind after = PIPE; after < KINDS; after++) {
        source old = open_source(UNIX), new = open_source(after);
        feed_source(&old, "old");
        assert_read(cord, old.fd, "old");
        busy_cord b = {.early = {.fd = old.fd}, .late = {.fd = old.fd}, .observer = weft_self()};
        weft_fiber caller = spin_remote_call(&(remote_call){cord, submit_and_compute, &b});
        close_source(&old, weft_cord_self());
        move_source(&new, old.fd);
        feed_source(&new, "new");
        atomic_store(&b.is_reused, true);
        ck_assert_int_eq(weft_await(caller), 0);
        ck_assert_int_le(b.early.result, 0); /* -EBADF, or the end of the old file */
        ck_assert_str_eq(b.late.data, "new");
        close_source(&new, weft_cord_self());
    }
}

/* A fiber that waits in weft_splice for input. */
typedef struct splicer {
    int from, to;
    weft_fiber observer;
    ssize_t result;
} splicer;

static weft_value splice_some(void *arg)
{
    splicer *m = arg;
    m->result = weft_splice(m->from, NULL, m->to, NULL, 100, 0);
    return 0;
}

static weft_value splice_and_tell(void *arg)
{
    splicer *m = arg;
    weft_fiber child = weft_spin(splice_some, m);
    await_waiting(child);
    weft_tell(m->observer, 1);
    return weft_await(child);
}

TEST(a_splice_in_another_cord_never_writes_to_the_new_file)
{
    int in[2], old[2], new[2];
    char byte;
    ck_assert_int_eq(weft_pipe(in), 0);
    ck_assert_int_eq(weft_socketpair(old), 0);
    ck_assert_int_eq(weft_socketpair(new), 0);
    splicer m = {.from = in[0], .to = old[0], .observer = weft_self()};
    weft_fiber caller = spin_remote_call(&(remote_call){cord, splice_and_tell, &m});
    ck_assert_int_eq(weft_close(old[0]), 0);
    ck_assert_int_eq(fcntl(new[0], F_DUPFD_CLOEXEC, old[0]), old[0]);
    ck_assert_int_eq(write(in[1], "x", 1), 1);
    ck_assert_int_eq(weft_await(caller), 0);
    ck_assert_int_eq(m.result, -EBADF);
    ck_assert_int_eq(recv(new[1], &byte, 1, MSG_DONTWAIT), -1);
}

/* Loops. */

typedef struct replacement {
    source old, new;
    unsigned calls;
} replacement;

static void replace_file(replacement *r)
{
    ck_assert_int_eq(weft_close(r->old.fd), 0);
    move_source(&r->new, r->old.fd);
    feed_source(&r->new, "new");
}

static int replace_on_data(const void *data, size_t bytes, void *ctx)
{
    replacement *r = ctx;
    ck_assert_mem_eq(data, "old", bytes);
    ck_assert_uint_eq(++r->calls, 1);
    replace_file(r);
    return 0;
}

TEST(a_receive_loop_does_not_continue_on_a_new_file_with_its_number)
{
    for (kind before = PIPE; before < KINDS; before++)
        for (kind after = FILE_ON_DISK; after < KINDS; after++) {
            replacement r = {open_source(before), open_source(after), 0};
            feed_source(&r.old, "old");
            ck_assert_int_eq(weft_recv_loop(r.old.fd, replace_on_data, &r), -EBADF);
            assert_read(weft_cord_self(), r.new.fd, "new");
            close_source(&r.new, weft_cord_self());
            close(r.old.feed);
        }
}
