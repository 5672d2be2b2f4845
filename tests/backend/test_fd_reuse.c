/*
 * Descriptor identity across cords: a number that one cord has used and another one has closed
 * belongs to a new file. Nothing that was learned about the old file may concern the new one.
 */
#include "fd_support.h"

/* Used in one cord, closed in another one, used again in the first. */
typedef struct roles {
    weft_cord user, closer;
} roles;

typedef void pair_test(const roles *r, kind before, kind after);

static void for_each_pair(pair_test *test)
{
    open_listener();
    weft_cord a = start_serving(), b = start_serving(), here = weft_cord_self();
    const roles all[] = {{a, here}, {here, a}, {a, b}};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        for (kind before = 0; before < KINDS; before++)
            for (kind after = 0; after < KINDS; after++)
                test(&all[i], before, after);
    end_cord(a);
    end_cord(b);
}

static void close_with_weft_and_reuse(const roles *r, kind before, kind after)
{
    source old = open_source(before), new = open_source(after);
    use_in(r->user, &old);
    close_source(&old, r->closer);
    move_to(&new, old.fd);
    use_in(r->user, &new);
    close_source(&new, r->closer);
}

START_TEST(a_number_closed_in_another_cord_is_a_new_file)
{
    for_each_pair(close_with_weft_and_reuse);
}
END_TEST

/* With more descriptors than the first part of any table holds. */
#define HIGH 3000

START_TEST(a_high_number_closed_in_another_cord_is_a_new_file)
{
    if (raise_descriptor_limit(HIGH + 100) < HIGH + 100)
        return;
    open_listener();
    weft_cord cord = start_serving();
    for (kind before = 0; before < KINDS; before++)
        for (kind after = 0; after < KINDS; after++) {
            source old = open_source(before), new = open_source(after);
            move_to(&old, HIGH);
            use_in(cord, &old);
            close_source(&old, weft_cord_self());
            move_to(&new, HIGH);
            use_in(cord, &new);
            close_source(&new, weft_cord_self());
        }
    end_cord(cord);
}
END_TEST

/* Another thread may have taken the number meanwhile: true if it did not. */
static bool try_reopen(const roles *r, kind before, kind after)
{
    source old = open_source(before), new = prepare(after);
    use_in(r->user, &old);
    close(old.fd);
    open_prepared(&new);
    bool is_same = new.fd == old.fd;
    if (is_same)
        use_in(r->user, &new);
    close_source(&new, r->closer);
    close(old.feed);
    return is_same;
}

static void reopen_with_weft(const roles *r, kind before, kind after)
{
    while (!try_reopen(r, before, after))
        ;
}

START_TEST(a_number_that_weft_opened_again_is_a_new_file_in_every_cord)
{
    for_each_pair(reopen_with_weft);
}
END_TEST

/* The server that accepts in main and serves in another cord. */
START_TEST(a_connection_served_in_another_cord_does_not_spoil_the_next_one)
{
    open_listener();
    weft_cord cord = start_serving();
    for (int i = 0; i < 3; i++) {
        source conn = open_source(TCP);
        feed(&conn, "0123456789");
        assert_read(cord, conn.fd, "0123456789");
        assert_read_later(cord, &conn, "more");
        close_source(&conn, weft_cord_self());
    }
    end_cord(cord);
}
END_TEST

START_TEST(a_file_whose_number_becomes_a_socket_is_not_waited_for_in_vain)
{
    open_listener();
    weft_cord cord = start_serving();
    source file = open_source(FILE_ON_DISK), conn = open_source(TCP);
    feed(&file, "content");
    assert_read(cord, file.fd, "content");
    close_source(&file, weft_cord_self());
    move_to(&conn, file.fd);
    feed(&conn, "hello");
    assert_read(cord, conn.fd, "hello");
    close_source(&conn, weft_cord_self());
    end_cord(cord);
}
END_TEST

/* close(2) tells weft nothing. It is against the rule; but what was read is returned. */
START_TEST(a_file_replaced_without_weft_gives_what_was_read)
{
    open_listener();
    for (kind after = PIPE; after < KINDS; after++) {
        source file = open_source(FILE_ON_DISK), next = open_source(after);
        feed(&file, "content");
        assert_read(weft_cord_self(), file.fd, "content");
        close(file.fd);
        move_to(&next, file.fd);
        feed(&next, "hello");
        assert_read(weft_cord_self(), next.fd, "hello");
        close_source(&next, weft_cord_self());
        close(file.feed);
    }
}
END_TEST

/* Waiters. */

static void assert_waiter_ends(weft_cord cord, kind before, kind after)
{
    source old = open_source(before), new = open_source(after);
    reader waiter;
    weft_fiber caller = spin_reader(&waiter, cord, old.fd);
    ck_assert_int_eq(weft_close(old.fd), 0);
    move_to(&new, old.fd);
    feed(&new, "new");
    assert_read(cord, new.fd, "new");
    ck_assert_int_eq(weft_await(caller), 0);
    ck_assert_int_eq(waiter.result, -EBADF);
    ck_assert_int_eq(weft_close(new.fd), 0);
    close(new.feed);
    close(old.feed);
}

START_TEST(a_waiter_in_another_cord_never_gets_the_new_files_data)
{
    open_listener();
    weft_cord cord = start_serving();
    for (kind before = PIPE; before < KINDS; before++)
        for (kind after = FILE_ON_DISK; after < KINDS; after++)
            assert_waiter_ends(cord, before, after);
    end_cord(cord);
}
END_TEST

/* Two fibers of one cord that read; the second waits for its turn. */
typedef struct two_readers {
    reader first, second;
    weft_fiber told;
} two_readers;

static weft_value read_by_two(void *arg)
{
    two_readers *two = arg;
    weft_fiber a = weft_spin(read_some, &two->first);
    await_waiting(a);
    weft_fiber b = weft_spin(read_some, &two->second);
    await_waiting(b);
    weft_tell(two->told, 1);
    weft_await(a);
    return weft_await(b);
}

static weft_value call_read_by_two(void *arg)
{
    void **args = arg;
    return weft_cord_call(arg_id(args[0]), read_by_two, args[1]);
}

/* The old file is still open elsewhere, and gives the first its data, or not. */
START_TEST(a_reader_behind_another_one_never_gets_the_new_files_data)
{
    open_listener();
    weft_cord cord = start_serving();
    for (kind after = FILE_ON_DISK; after < KINDS; after++) {
        source old = open_source(UNIX), new = open_source(after);
        two_readers two = {{.fd = old.fd}, {.fd = old.fd}, weft_self()};
        void *args[] = {id_arg(cord), &two};
        int open_elsewhere = dup(old.fd);
        weft_fiber caller = weft_spin(call_read_by_two, args);
        ck_assert_int_eq(weft_receive(), 1);
        ck_assert_int_eq(weft_close(old.fd), 0);
        move_to(&new, old.fd);
        feed(&new, "new");
        feed(&old, "old");
        assert_read(cord, new.fd, "new");
        ck_assert_int_eq(weft_await(caller), 0);
        if (two.first.result != -EBADF)
            ck_assert_str_eq(two.first.data, "old");
        ck_assert_int_eq(two.second.result, -EBADF);
        ck_assert_int_eq(weft_close(new.fd), 0);
        close(new.feed);
        close(old.feed);
        close(open_elsewhere);
    }
    end_cord(cord);
}
END_TEST

/* A cord that computes: what it has submitted goes to the kernel after the number was reused. */
typedef struct busy {
    reader early, late;
    weft_fiber told;
    atomic_bool is_reused;
} busy;

static weft_value submit_and_compute(void *arg)
{
    busy *b = arg;
    weft_fiber f = weft_spin(read_some, &b->early);
    while (weft_state_of(f) != WEFT_WAITING)
        weft_snooze();
    weft_tell(b->told, 1);
    while (!atomic_load(&b->is_reused))
        ;
    read_some(&b->late);
    return weft_await(f);
}

static weft_value call_submit_and_compute(void *arg)
{
    void **args = arg;
    return weft_cord_call(arg_id(args[0]), submit_and_compute, args[1]);
}

START_TEST(what_a_cord_submitted_before_a_close_never_reads_the_new_file)
{
    open_listener();
    weft_cord cord = start_serving();
    for (kind after = PIPE; after < KINDS; after++) {
        source old = open_source(UNIX), new = open_source(after);
        feed(&old, "old");
        assert_read(cord, old.fd, "old");
        busy b = {.early = {.fd = old.fd}, .late = {.fd = old.fd}, .told = weft_self()};
        void *args[] = {id_arg(cord), &b};
        weft_fiber caller = weft_spin(call_submit_and_compute, args);
        ck_assert_int_eq(weft_receive(), 1);
        close_source(&old, weft_cord_self());
        move_to(&new, old.fd);
        feed(&new, "new");
        atomic_store(&b.is_reused, true);
        ck_assert_int_eq(weft_await(caller), 0);
        ck_assert_int_le(b.early.result, 0); /* -EBADF, or the end of the old one */
        ck_assert_str_eq(b.late.data, "new");
        close_source(&new, weft_cord_self());
    }
    end_cord(cord);
}
END_TEST

/* A splice waits for its input. */
typedef struct mover {
    int from, to;
    weft_cord cord;
    weft_fiber told;
    ssize_t result;
} mover;

static weft_value move_some(void *arg)
{
    mover *m = arg;
    m->result = weft_splice(m->from, NULL, m->to, NULL, 100, 0);
    return 0;
}

static weft_value move_and_tell(void *arg)
{
    mover *m = arg;
    weft_fiber child = weft_spin(move_some, m);
    await_waiting(child);
    weft_tell(m->told, 1);
    return weft_await(child);
}

static weft_value call_move_and_tell(void *arg)
{
    mover *m = arg;
    return weft_cord_call(m->cord, move_and_tell, m);
}

START_TEST(a_splice_in_another_cord_never_writes_to_the_new_file)
{
    weft_cord cord = start_serving();
    int in[2], old[2], new[2];
    char byte;
    ck_assert_int_eq(weft_pipe(in), 0);
    ck_assert_int_eq(weft_socketpair(old), 0);
    ck_assert_int_eq(weft_socketpair(new), 0);
    mover m = {.from = in[0], .to = old[0], .cord = cord, .told = weft_self()};
    weft_fiber caller = weft_spin(call_move_and_tell, &m);
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_close(old[0]), 0);
    ck_assert_int_eq(fcntl(new[0], F_DUPFD_CLOEXEC, old[0]), old[0]);
    ck_assert_int_eq(write(in[1], "x", 1), 1);
    ck_assert_int_eq(weft_await(caller), 0);
    ck_assert_int_eq(m.result, -EBADF);
    ck_assert_int_eq(recv(new[1], &byte, 1, MSG_DONTWAIT), -1);
    end_cord(cord);
}
END_TEST

/* Loops. */

typedef struct replaced {
    source old, new;
    unsigned calls;
} replaced;

static void replace(replaced *r)
{
    ck_assert_int_eq(weft_close(r->old.fd), 0);
    move_to(&r->new, r->old.fd);
    feed(&r->new, "new");
}

static int replace_on_data(const void *data, size_t bytes, void *ctx)
{
    replaced *r = ctx;
    ck_assert_mem_eq(data, "old", bytes);
    ck_assert_uint_eq(++r->calls, 1);
    replace(r);
    return 0;
}

START_TEST(a_loop_does_not_go_on_with_the_next_file_that_has_its_number)
{
    open_listener();
    for (kind before = PIPE; before < KINDS; before++)
        for (kind after = FILE_ON_DISK; after < KINDS; after++) {
            replaced r = {open_source(before), open_source(after), 0};
            feed(&r.old, "old");
            ck_assert_int_eq(weft_recv_loop(r.old.fd, replace_on_data, &r), -EBADF);
            assert_read(weft_cord_self(), r.new.fd, "new");
            close_source(&r.new, weft_cord_self());
            close(r.old.feed);
        }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_number_closed_in_another_cord_is_a_new_file,
    &a_high_number_closed_in_another_cord_is_a_new_file,
    &a_number_that_weft_opened_again_is_a_new_file_in_every_cord,
    &a_connection_served_in_another_cord_does_not_spoil_the_next_one,
    &a_file_whose_number_becomes_a_socket_is_not_waited_for_in_vain,
    &a_file_replaced_without_weft_gives_what_was_read,
    &a_waiter_in_another_cord_never_gets_the_new_files_data,
    &a_reader_behind_another_one_never_gets_the_new_files_data,
    &what_a_cord_submitted_before_a_close_never_reads_the_new_file,
    &a_splice_in_another_cord_never_writes_to_the_new_file,
    &a_loop_does_not_go_on_with_the_next_file_that_has_its_number,
};

int main(void)
{
    return run_suite("fd_reuse", tests, COUNT_OF(tests));
}
