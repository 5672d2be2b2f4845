/*
 * The properties of mailboxes: 64 actors know only each other's ids, and share nothing except
 * messages, which the receiver frees. Each message that was sent arrives once, in the order of its
 * sender, also if actors are cancelled and restarted while they send and receive.
 */
#include "support/property_suite.h"

#define ACTORS 64
#define MESSAGES_EACH (is_sim() ? 400 : 60)
#define BOUND 4

enum { BOUNDED = 1, DISTURBED = 2 }; /* variants */
enum { RUN, NOT_SENT };              /* events: an actor started; a tell failed */

struct actor {
    weft_fiber id;
    bool is_running; /* has started, and its cleanup has not run */
    int left;        /* messages to send */
    unsigned sent_to[ACTORS], next_from[ACTORS];
};

typedef struct message {
    actor *from;
    unsigned serial; /* counted for each pair of actors */
} message;

static actor actors[ACTORS];
static long messages; /* allocated and not freed */
static bool is_bounded;

static void free_message(message *m)
{
    free(m);
    messages--;
}

static void take_message(actor *me, weft_value value)
{
    message *m = (message *)value;
    REQUIRE(m->serial == me->next_from[m->from - actors]++);
    free_message(m);
}

static void do_send(actor *me)
{
    actor *to = &actors[random_below(ACTORS)];
    if (me->left == 0)
        return;
    message *m = malloc(sizeof *m);
    *m = (message){me, me->sent_to[to - actors]};
    messages++;
    int rc = -ECANCELED;
    WEFT_MOVE_ON_AFTER(is_bounded ? random_below(50) * 1e-6 : INFINITY)
        rc = weft_tell(to->id, (weft_value)m);
    REQUIRE(rc == 0 || rc == -ECANCELED || rc == -ESRCH || (rc == -EDEADLK && to == me));
    if (rc == 0) {
        me->sent_to[to - actors]++;
        me->left--;
        return;
    }
    free_message(m);
    count_event(NOT_SENT);
}

static void do_receive(actor *me)
{
    weft_value value = -ECANCELED;
    WEFT_MOVE_ON_AFTER(random_below(4) * 20e-6)
        value = weft_receive();
    if (value != -ECANCELED)
        take_message(me, value);
}

static void do_drain(actor *me)
{
    weft_value value;
    while ((value = weft_try_receive()) != -EAGAIN)
        take_message(me, value);
}

static void do_yield(actor *me)
{
    weft_snooze();
}

static const action mail_actions[] = {ACTION(do_send, 6), ACTION(do_receive, 4),
                                      ACTION(do_drain, 1), ACTION(do_yield, 2)};

/* No message is lost when the actor is cancelled. */
static void end_run(void *arg)
{
    actor *me = arg;
    do_drain(me);
    me->is_running = false;
}

static weft_value run_mail_actor(void *arg)
{
    actor *me = arg;
    count_event(RUN);
    me->is_running = true;
    weft_defer(end_run, me);
    REQUIRE(weft_mailbox_set_bound(is_bounded ? BOUND : 0) == 0);
    while (!weft_is_cancelled())
        do_random_action(me, (unsigned)(me - actors), mail_actions, COUNT_OF(mail_actions));
    return 0;
}

/* Cancel or restart an actor. One that has not started would lose the messages in its mailbox. */
static void disturb_actor(const actor *a)
{
    if (weft_state_of(a->id) == WEFT_DEAD || (a->is_running && random_below(2) == 0))
        REQUIRE(weft_restart(a->id) == 0);
    else if (a->is_running)
        REQUIRE(weft_cancel(a->id) == 0);
}

static bool is_mail_left(void)
{
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].left > 0)
            return true;
    return messages > 0;
}

static void run_mail(int variant)
{
    is_bounded = variant & BOUNDED;
    for (int i = 0; i < ACTORS; i++) {
        actors[i].left = MESSAGES_EACH;
        REQUIRE((actors[i].id = weft_spin(run_mail_actor, &actors[i])) != 0);
    }
    unsigned runs = variant & DISTURBED ? 2 * ACTORS : 0;
    while (is_mail_left() || run_report->events[RUN] < runs) {
        if (variant & DISTURBED)
            disturb_actor(&actors[random_below(ACTORS)]);
        weft_sleep(random_below(4) * 20e-6);
        for (int i = 0; i < ACTORS && random_below(8) == 0; i++)
            if (weft_state_of(actors[i].id) == WEFT_DEAD)
                REQUIRE(weft_restart(actors[i].id) == 0);
    }
    for (int i = 0; i < ACTORS; i++)
        weft_terminate(actors[i].id, 10);
    for (int i = 0; i < ACTORS * ACTORS; i++)
        REQUIRE(actors[i / ACTORS].sent_to[i % ACTORS] == actors[i % ACTORS].next_from[i / ACTORS]);
}

/* P59, P51, P30, P31 */
static const property properties[] = {
    {"every_message_arrives_once_and_in_order", run_mail, .variant = 0, .seeds = 2},
    {"with_bounded_mailboxes_every_message_arrives_once_and_in_order", run_mail, .variant = BOUNDED,
     .seeds = 2, .least = {[NOT_SENT] = 1}},
    {"while_actors_are_restarted_every_message_arrives_once_and_in_order", run_mail,
     .variant = DISTURBED, .seeds = 3, .least = {[NOT_SENT] = 1}},
    {"while_actors_with_bounded_mailboxes_are_restarted_every_message_arrives_once", run_mail,
     .variant = BOUNDED | DISTURBED, .seeds = 3, .least = {[NOT_SENT] = 1}},
};

PROPERTIES(properties)
