/*
 * Several processes of the chat that share rooms through a hub, and end. Each test starts the
 * processes. A test that waits for the end of a lease takes LEASE_S.
 */
#include "chat/conversation.h"

FIXTURE(open_cluster, close_cluster)

static void leave_alone(int owner)
{
    ck_assert(is_running(owner));
}

TEST_WITHIN(60, all_processes_show_the_same_conversation)
{
    start_processes(3);
    converse(leave_alone);
    for (int i = 0; i < VISITORS; i++)
        ck_assert_int_eq(visitors[i].connections, 1);
}

static int gone; /* the first owner */

static void kill_owner(int owner)
{
    gone = owner;
    end_process(owner, SIGKILL);
}

TEST_WITHIN(90, a_killed_owner_loses_and_repeats_no_message)
{
    start_processes(3);
    const int first[] = {0, 1, 2, 1}; /* the processes of the visitors */
    converse(kill_owner);
    ck_assert_int_ne(await_owner("lobby"), gone);
    for (int i = 0; i < VISITORS; i++) /* visitors of other processes stay connected */
        ck_assert_int_eq(visitors[i].connections, first[i] == gone ? 2 : 1);
}

static void end_owner(int owner)
{
    gone = owner;
    end_process(owner, SIGTERM);
}

TEST_WITHIN(90, a_process_that_ends_gives_its_rooms_away)
{
    start_processes(2);
    visitors[2].at = 0;
    converse(end_owner);
    ck_assert_int_ne(await_owner("lobby"), gone);
}

/* Suspend the owner until another process has taken the room over. */
static void suspend_owner(int owner)
{
    pid_t pid = cluster_of_test.processes[owner].process.pid;
    int other = (owner + 1) % PROCESSES_MAX, seen;
    gone = owner;
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    while ((seen = owner_seen_by(other, "lobby")) < 0 || seen == owner)
        weft_sleep(POLL_S);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
}

TEST_WITHIN(90, a_suspended_owner_loses_the_room_and_follows)
{
    start_processes(3);
    converse(suspend_owner);
    ck_assert_int_ne(await_owner("lobby"), gone);
}

/* Visit a process until all messages of the room have arrived. */
static void visit_process(visitor *v, int number, int goal, int messages)
{
    visitor_leave(v);
    v->at = number;
    v->goal = goal;
    visitor_stay(v, messages);
}

TEST_WITHIN(60, messages_survive_all_processes_and_repetitions_are_detected)
{
    visitor *ada = &visitors[0], *ben = &visitors[1];
    start_process(0);
    visit_process(ada, 0, 5, 5);
    end_process(0, SIGTERM);
    start_process(1);
    visit_process(ben, 1, 1, 6); /* the messages of Ada, and one */
    visit_process(ada, 1, 5, 6);
    ck_assert_int_eq(ada->repetitions, 0);
    visitor_say(ada, 5);
    while (ada->repetitions == 0)
        visitor_hears_once(ada);
    ck_assert_str_eq(ada->said[4], "Ada 5");
    visit_process(ada, 1, 6, 7);
    ck_assert_str_eq(ada->said[6], "Ada 6");
    visitor_leave(ada);
    visitor_leave(ben);
}

TEST_WITHIN(60, a_failure_of_a_room_is_told_in_all_processes)
{
    visitor *ada = &visitors[0], *ben = &visitors[1];
    start_processes(2);
    visit_process(ada, 0, 2, 2);
    visit_process(ben, 1, 1, 3);
    visitor_send(ben, "{\"t\":\"fail\",\"room\":\"lobby\"}");
    await_text(ada, "\"why\":\"Ben pressed the button\"");
    await_text(ben, "\"why\":\"Ben pressed the button\"");
    ben->goal = 2;
    visitor_say(ben, 2);
    visitor_stay(ben, 4);
    visitor_stay(ada, 4);
    ck_assert_str_eq(ada->said[3], "Ben 2");
    visitor_leave(ada);
    visitor_leave(ben);
}

TEST_WITHIN(60, people_of_a_killed_process_leave)
{
    visitor *ada = &visitors[0], *ben = &visitors[1], *cyd = &visitors[2];
    start_process(0);
    while (owner_seen_by(0, "lobby") != 0)
        weft_sleep(POLL_S);
    start_process(1);
    start_process(2);
    visit_process(ada, 0, 1, 1);
    visit_process(ben, 1, 1, 2);
    visit_process(cyd, 2, 1, 3);
    await_text(ada, "\"Cyd\"");
    end_process(1, SIGKILL);
    visitor_leave(ben);
    await_text(ada, "\"people\":[\"Ada\",\"Cyd\"]");
    visitor_leave(ada);
    visitor_leave(cyd);
}

TEST_WITHIN(60, people_and_new_rooms_are_seen_in_all_processes)
{
    visitor *ada = &visitors[0], *ben = &visitors[1];
    start_processes(2);
    ada->room = ben->room = "attic";
    visit_process(ada, 0, 1, 1);
    while (owner_seen_by(1, "attic") != 0)
        weft_sleep(POLL_S);
    visit_process(ben, 1, 0, 1);
    await_text(ada, "\"people\":[\"Ada\",\"Ben\"]");
    visitor_send(ben, "{\"t\":\"typing\",\"room\":\"attic\",\"on\":true}");
    await_text(ada, "\"t\":\"typing\",\"room\":\"attic\",\"from\":\"Ben\",\"on\":true");
    visitor_leave(ben);
    await_text(ada, "\"t\":\"here\",\"room\":\"attic\",\"people\":[\"Ada\"]");
    visitor_leave(ada);
}
