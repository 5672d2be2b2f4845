/* Closing a hub: the last output, fibers that wait, threads and processes that end. */
#include "hub/client/expose_support.h"

TEST(closing_sends_what_was_told)
{
    weft_hub *hub = open_hub(), *other = open_hub();
    ck_assert_done(expose(other, "a", weft_self()));
    for (int i = 0; i < 1000; i++)
        ck_assert_done(weft_hub_tell(hub, "a", "x", 1));
    close_hub(hub);
    for (int i = 0; i < 1000; i++)
        weft_hub_free(receive_msg());
    close_hub(other);
}

TEST(closing_frees_messages_and_ends_exposures)
{
    weft_hub *hub = open_hub(), *other = open_hub();
    ck_assert_done(expose(hub, "a", weft_self()));
    for (int i = 0; i < 10; i++)
        ck_assert_done(weft_hub_tell(other, "a", "x", 1));
    ck_assert_ptr_nonnull(receive_msg());
    close_hub(hub); /* with messages in the hand of the fiber, and in its mailbox */
    ck_assert_fails(weft_hub_call(other, "a", "x", 1, NULL), -EHOSTUNREACH);
    close_hub(other);
}

FIBER(take_and_wait, (weft_receive(), weft_sleep(INFINITY)))

/* Let a fiber take a call and wait. Return the fiber of the caller. */
static weft_fiber begin_call(weft_hub *hub, caller *c)
{
    weft_fiber f = weft_spin(run_caller, c);
    let_run();
    while (hub_stats(hub).received == 0)
        weft_sleep(0.001);
    return f;
}

TEST(a_call_to_a_hub_that_closes_is_eownerdead)
{
    weft_hub *hub = open_hub(), *other = open_hub();
    caller c = {other, "a"};
    spin_exposed(hub, "a", take_and_wait, NULL);
    weft_fiber f = begin_call(hub, &c);
    close_hub(hub);
    ck_assert_int_eq(caller_result(f), -EOWNERDEAD);
    close_hub(other);
}

TEST(a_call_of_a_hub_that_closes_is_ebadf)
{
    weft_hub *hub = open_hub(), *other = open_hub();
    caller c = {other, "a"};
    spin_exposed(hub, "a", take_and_wait, NULL);
    weft_fiber f = begin_call(hub, &c);
    close_hub(other);
    ck_assert_int_eq(caller_result(f), -EBADF);
    close_hub(hub);
}

/* Tell without end. */
static weft_value tell_forever(void *arg)
{
    static char data[1000];
    int rc = 0;
    while (rc == 0)
        rc = weft_hub_tell(arg, "a", data, sizeof data);
    return rc == -EBADF ? 0 : rc;
}

TEST(a_sender_that_waits_for_room_gets_ebadf)
{
    weft_hub *hub = open_hub_at(hub_where(), &(weft_hub_options){.out_bytes = 5000});
    weft_fiber f = weft_spin(tell_forever, hub);
    weft_snooze();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    int rc = weft_hub_close(hub);
    ck_assert(rc == 0 || rc == -ENOTCONN); /* the output has no end */
    ck_assert_int_eq(weft_await(f), 0);
}

FIBER(close_again, weft_hub_close(arg) == -EBADF ? 0 : 1)

TEST(a_hub_that_closes_cannot_be_closed_again)
{
    weft_hub *hub = open_hub();
    weft__hub_hold(hub);
    weft_fiber f = weft_spin(close_again, hub);
    close_hub(hub);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_hub_tell(hub, "a", "x", 1), -EBADF);
    ck_assert_int_eq(weft_hub_call(hub, "a", "x", 1, NULL), -EBADF);
    ck_assert_int_eq(weft__hub_flush(hub), -EBADF);
    ck_assert_int_eq(weft__hub_wait_connected(hub), -EBADF);
    weft__hub_release(hub);
}

/* Close the hub in a fiber that is cancelled. */
static weft_value close_when_cancelled(void *arg)
{
    int rc = weft_sleep(INFINITY);
    weft_hub_close(arg);
    return rc;
}

TEST(a_cancelled_fiber_can_close_a_hub)
{
    close_hub(open_hub()); /* the backend opens its descriptors */
    int fds = count_descriptors();
    weft_hub *hub = open_hub();
    weft_fiber f = weft_spin(close_when_cancelled, hub);
    ck_assert_done(weft_hub_tell(hub, "a", "x", 1));
    let_run();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    let_run();
    if (is_on_server())
        ck_assert_int_eq(count_descriptors(), fds);
}

CALLBACK(close_deferred, weft_hub_close(arg))

static weft_value open_and_defer(void *arg)
{
    weft_hub *hub = open_hub();
    weft_defer(close_deferred, hub);
    return weft_hub_tell(hub, "a", "x", 1);
}

TEST(a_hub_can_be_closed_by_a_deferred_call)
{
    weft_hub *other = open_hub();
    ck_assert_done(expose(other, "a", weft_self()));
    ck_assert_int_eq(weft_await(weft_spin(open_and_defer, NULL)), 0);
    weft_hub_free(receive_msg());
    close_hub(other);
}

/* A hub outlives the fiber that has opened it. */
static weft_value open_for_others(void *arg)
{
    *(weft_hub **)arg = open_hub();
    return 0;
}

TEST(a_hub_outlives_its_opener)
{
    weft_hub *hub = NULL;
    ck_assert_int_eq(weft_await(weft_spin(open_for_others, &hub)), 0);
    spin_exposed(hub, "echo", echo_all, NULL);
    assert_call(hub, "echo", "x", "x");
    close_hub(hub);
}

/* The watcher of a hub counts its calls. */
typedef struct watch {
    weft__hub_watcher watcher;
    weft_hub *hub;
    int closes;
} watch;

static void count_close(weft__hub_watcher *w)
{
    watch *own = CONTAINER_OF(w, watch, watcher);
    own->closes++;
    ck_assert_done(weft__hub_flush(own->hub)); /* the hub is still usable, and this call waits */
}

TEST(watchers_are_called_before_a_hub_is_closed)
{
    weft_hub *hub = open_hub();
    watch w[3] = {{.hub = hub}, {.hub = hub}, {.hub = hub}};
    for (int i = 0; i < 3; i++) {
        w[i].watcher.on_close = count_close;
        weft__hub_watch(hub, &w[i].watcher);
    }
    weft__hub_unwatch(&w[1].watcher);
    close_hub(hub);
    ck_assert_int_eq(w[0].closes + w[2].closes, 2);
    ck_assert_int_eq(w[1].closes, 0);
}

/* Fibers of the hub end before weft_hub_close returns. */
static weft_value mark_end(void *arg)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(1)
        weft_sleep(0.001);
    mark(arg);
    return -EIO; /* ignored */
}

TEST(fibers_of_a_hub_end_with_the_hub)
{
    weft_hub *hub = open_hub();
    ck_assert_uint_ne(weft__hub_spin(hub, mark_end, "a", "test"), 0);
    let_run();
    ck_assert_uint_ne(weft__hub_spin(hub, mark_end, "b", "test"), 0); /* never runs, or ends */
    close_hub(hub);
    ck_assert(trail[0] == 'a');
    ck_assert_int_eq(weft_snooze(), 0);
}

/* Threads and processes that end without closing their hubs. */

static void *leave_hub_open(void *arg)
{
    weft_hub *hub = open_hub();
    spin_exposed(hub, "a", echo_all, NULL);
    ck_assert_done(weft_hub_tell(hub, "a", "x", 1));
    assert_call(hub, "a", "x", "x");
    return NULL;
}

TEST(a_thread_can_end_without_closing_its_hub)
{
    for (int i = 0; i < 3; i++)
        join_thread(start_thread(leave_hub_open, NULL));
}

static weft_value leave_hub_of_cord_open(void *arg)
{
    leave_hub_open(arg);
    return 0;
}

TEST(a_cord_can_end_without_closing_its_hub)
{
    weft_cord cord = weft_cord_start(leave_hub_of_cord_open, NULL, NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

/* The fiber frees its message and closes the hub when the thread ends, after the root fiber. */
static weft_value keep_until_the_end(void *arg)
{
    weft_hub_msg *msg = receive_msg();
    weft_sleep(INFINITY);
    weft_snooze();
    weft_hub_free(msg);
    weft_hub_close(arg);
    return 0;
}

static void *end_with_message(void *arg)
{
    weft_hub *hub = open_hub();
    spin_exposed(hub, "a", keep_until_the_end, hub);
    ck_assert_done(weft_hub_tell(hub, "a", "x", 1));
    ck_assert_done(weft__hub_flush(hub));
    let_run();
    return NULL;
}

TEST(a_fiber_can_close_a_hub_while_its_thread_ends)
{
    join_thread(start_thread(end_with_message, NULL));
}

TEST_PROGRAM_PRINTS(a_process_can_end_without_closing_its_hub, 0, "")
{
    leave_hub_open(NULL);
    return 0;
}

TEST_PROGRAM_PRINTS(a_hub_can_be_closed_by_a_deferred_call_of_main, 0, "")
{
    weft_hub *hub = open_hub();
    weft_defer(close_deferred, hub);
    return weft_hub_tell(hub, "a", "x", 1);
}

/* Forks. The descriptors of sim do not exist in a child. */

static int use_hub_in_child(weft_hub *hub, weft_hub_msg *msg)
{
    weft_hub_counters c;
    bool is_refused = weft_hub_tell(hub, "a", "x", 1) == -EOWNERDEAD &&
                      weft_hub_call(hub, "a", "x", 1, NULL) == -EOWNERDEAD &&
                      weft_hub_reply(msg, "x", 1) == -EOWNERDEAD &&
                      weft_hub_stats(hub, &c) == -EOWNERDEAD;
    weft_hub_free(msg);
    return is_refused && weft_hub_close(hub) == 0 ? 0 : 1;
}

TEST(a_child_of_weft_fork_cannot_use_the_hub)
{
    if (is_sim())
        return;
    weft_hub *hub = open_hub(), *other = open_hub();
    caller c = {other, "a"};
    int status;
    ck_assert_done(expose(hub, "a", weft_self()));
    weft_fiber f = begin_call(hub, &c);
    weft_hub_msg *msg = receive_msg();
    pid_t pid = weft_fork();
    if (pid == 0)
        _exit(use_hub_in_child(hub, msg));
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_done(weft_hub_reply(msg, "x", 1)); /* the parent continues */
    ck_assert_int_eq(caller_result(f), 0);
    weft_hub_free(msg);
    close_hub(hub);
    close_hub(other);
}
