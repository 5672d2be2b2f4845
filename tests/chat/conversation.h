/* A conversation of several visitors that a test disturbs. */
#ifndef TESTS_CHAT_CONVERSATION_H
#define TESTS_CHAT_CONVERSATION_H

#include "chat/visitor.h"

#define VISITORS 4
#define GOAL 30 /* messages of a visitor; more than the burst that the chat permits */

/* The visitors are at three processes. */
static visitor visitors[VISITORS] = {
    {.name = "Ada", .room = "lobby", .at = 0, .goal = GOAL},
    {.name = "Ben", .room = "lobby", .at = 1, .goal = GOAL},
    {.name = "Cyd", .room = "lobby", .at = 2, .goal = GOAL},
    {.name = "Dan", .room = "lobby", .at = 1, .goal = GOAL},
};

static inline weft_value visit(void *arg)
{
    visitor_stay(arg, VISITORS * GOAL);
    return 0;
}

static inline int confirmed_by_all(void)
{
    int sum = 0;
    for (int i = 0; i < VISITORS; i++)
        sum += visitors[i].confirmed;
    return sum;
}

/* Let all visitors talk. In the middle of the conversation, do something to the owner. */
static inline void converse(void (*disturb)(int owner))
{
    int rc;
    WEFT_GROUP(fibers, rc) {
        for (int i = 0; i < VISITORS; i++)
            weft_group_spin(&fibers, visit, &visitors[i]);
        while (confirmed_by_all() < VISITORS * GOAL / 3)
            weft_sleep(POLL_S);
        disturb(await_owner("lobby"));
    }
    ck_assert_int_eq(rc, 0);
    assert_same_conversation(visitors, VISITORS);
    for (int i = 0; i < VISITORS; i++)
        visitor_leave(&visitors[i]);
}

#endif
