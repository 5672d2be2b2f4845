/*
 * The model of select: which clauses can happen is known from the mirrors of what they are about.
 */
#ifndef TESTS_SYNC_SELECT_H
#define TESTS_SYNC_SELECT_H

#include "sync_passages.h"

#include <poll.h>

/* Descriptors to be selected, and how many bytes are in them: never so many that a write waits. */
typedef struct pipe_model {
    int fd[2];
    int bytes;
} pipe_model;

static pipe_model pipes[2];

#define BYTES_MAX 100

/* A clause, and what the model knows of it. */
typedef struct choice {
    plan plan;
    mirror *mirror; /* NULL: a time, or the end of an actor */
    chan_model *chan;
    weft_value sent;
    parcel parcel;
    const actor *whose_end;
    bool is_fd;
    double over_s; /* when a time is over */
} choice;

static weft_clause clause_send(choice *c)
{
    c->sent = new_value();
    c->plan = plan_put(c->mirror);
    c->parcel = wrap(c->sent);
    return c->chan->is_typed ? weft_clause_send_from(c->chan->chan, &c->parcel)
                             : weft_clause_send(c->chan->chan, c->sent);
}

static weft_clause clause_recv(choice *c)
{
    c->plan = plan_take(c->mirror);
    return c->chan->is_typed ? weft_clause_recv_into(c->chan->chan, &c->parcel)
                             : weft_clause_recv(c->chan->chan);
}

static weft_clause clause_time(choice *c)
{
    double s = roll(4) == 0 ? 0 : roll(200) * 1e-6;
    c->over_s = weft_now() + s;
    c->plan.can = s == 0;
    return weft_clause_time(s);
}

static weft_clause clause_ended(choice *c, const actor *me)
{
    const actor *whose = any_actor();
    weft_info info;
    if (whose == me || weft_info_of(whose->id, &info) < 0)
        return weft__clause(WEFT_CLAUSE_NEVER);
    c->whose_end = whose;
    c->plan.can = weft_state_of(whose->id) == WEFT_DEAD;
    return weft_clause_ended(whose->id);
}

static weft_clause clause_fd(choice *c)
{
    c->is_fd = true;
    return weft_clause_fd(pipes[roll(COUNT_OF(pipes))].fd[0], POLLIN);
}

static weft_clause make_clause(choice *c, actor *me)
{
    unsigned kind = roll(18);
    *c = (choice){0};
    if (kind < 9) {
        c->chan = &chans[roll(COUNT_OF(chans))];
        c->mirror = &c->chan->mirror;
        return kind < 5 ? clause_recv(c) : clause_send(c);
    }
    if (kind < 12) {
        queue_model *q = &queues[roll(COUNT_OF(queues))];
        c->mirror = &q->mirror;
        c->plan = plan_take(c->mirror);
        return weft_clause_shift(q->queue);
    }
    if (kind < 14) {
        c->mirror = &me->mail;
        c->plan = plan_take(c->mirror);
        return weft_clause_message();
    }
    if (kind < 16)
        return clause_fd(c);
    return kind == 16 ? clause_time(c) : clause_ended(c, me);
}

/* What a clause that happened has brought. */
static weft_value value_of(const choice *c, const weft_clause *clause)
{
    if (clause->kind == WEFT_CLAUSE_RECV && c->chan->is_typed)
        return unwrap((int)clause->value, &c->parcel);
    return clause->value;
}

/* A clause has happened that could happen when the call was made. */
static void did_choose(choice *c, const weft_clause *clause)
{
    if (c->is_fd) {
        REQUIRE(clause->value == POLLIN);
        return;
    }
    REQUIRE(c->plan.can);
    if (c->whose_end != NULL) {
        REQUIRE(is_value_of_life(clause->value));
        return;
    }
    REQUIRE(value_of(c, clause) == c->plan.result);
    if (clause->kind == WEFT_CLAUSE_SEND)
        did_put(c->mirror, &c->plan, c->sent, BACK);
    else if (c->mirror != NULL)
        did_take(c->mirror, &c->plan);
}

/* One has happened after a wait: it was promised, or it is one that nobody promises. */
static void was_chosen(actor *me, choice *c, const weft_clause *clause)
{
    if (c->mirror == NULL) {
        REQUIRE(me->fate == OPEN);
        if (c->whose_end != NULL)
            REQUIRE(weft_state_of(c->whose_end->id) == WEFT_DEAD &&
                    is_value_of_life(clause->value));
        else if (c->is_fd)
            REQUIRE(clause->value == POLLIN);
        else
            REQUIRE(weft_now() >= c->over_s - 1e-9);
        return;
    }
    bool is_send = clause->kind == WEFT_CLAUSE_SEND;
    const place *p = is_send ? &c->mirror->senders : &c->mirror->receivers;
    REQUIRE(me->fate == KEPT && value_of(c, clause) == me->expected);
    REQUIRE(me->expected == -EPIPE || me->served->place == p);
}

static void enter_all(actor *me, choice *choices, const weft_clause *clauses, size_t n)
{
    static place nowhere; /* for clauses in whose lines nobody is looked for */
    for (size_t i = 0; i < n; i++) {
        mirror *m = choices[i].mirror;
        if (m == NULL)
            enter(me, &nowhere, 0, 0);
        else if (clauses[i].kind == WEFT_CLAUSE_SEND)
            enter(me, &m->senders, BACK, choices[i].sent);
        else
            enter(me, &m->receivers, 0, 0);
    }
}

static void check_choices(const choice *choices, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (choices[i].chan != NULL)
            check_chan(choices[i].chan);
}

static void wait_for_choice(actor *me, choice *choices, weft_clause *clauses, size_t n, bool has_fd)
{
    enter_all(me, choices, clauses, n);
    me->has_fd = has_fd;
    int rc = weft_select(clauses, n);
    bool has_happened = rc >= 0 && rc < (int)n;
    if (has_happened)
        was_chosen(me, &choices[rc], &clauses[rc]);
    REQUIRE(has_happened || me->fate != KEPT);
    if (has_happened) /* judged already */
        me->expected = rc;
    judge(me, rc, true);
}

/* One of them can happen, or none is waited for. */
static void choose_at_once(choice *choices, weft_clause *clauses, size_t n, int otherwise)
{
    bool is_try = otherwise < 0;
    unsigned at = told->steps;
    int rc = (is_try ? weft_try_select : weft_select)(clauses, n);
    bool is_chosen = rc >= 0 && rc < (int)n;
    REQUIRE(is_chosen || rc == otherwise);
    if (is_chosen)
        did_choose(&choices[rc], &clauses[rc]);
    REQUIRE(told->steps == at || (is_chosen && choices[rc].is_fd));
    told->steps++;
}

static void do_select(actor *me)
{
    choice choices[CLAUSES_MAX];
    weft_clause clauses[CLAUSES_MAX];
    size_t n = roll(CLAUSES_MAX - 1) + 2;
    bool can = false, has_fd = false, is_something = false;
    for (size_t i = 0; i < n; i++) {
        clauses[i] = make_clause(&choices[i], me);
        can |= choices[i].plan.can;
        has_fd |= choices[i].is_fd;
        is_something |= clauses[i].kind != WEFT_CLAUSE_NEVER;
    }
    if (!is_something)
        REQUIRE(weft_select(clauses, n) == -EINVAL);
    else if (roll(4) == 0)
        choose_at_once(choices, clauses, n, can ? -ENOTSUP : -EAGAIN);
    else if (can)
        choose_at_once(choices, clauses, n, 0);
    else
        wait_for_choice(me, choices, clauses, n, has_fd);
    check_choices(choices, n);
}

/* Let a descriptor become ready, or not be it any more. */
static void do_pipe(actor *me)
{
    pipe_model *p = &pipes[roll(COUNT_OF(pipes))];
    bool is_read = p->bytes > 0 && roll(5) < 3;
    char byte = 'x';
    if (!is_read && p->bytes >= BYTES_MAX)
        return;
    p->bytes += !is_read; /* those who are not done yet count too */
    ssize_t rc = is_read ? weft_read(p->fd[0], &byte, 1) : weft_write(p->fd[1], &byte, 1);
    p->bytes -= is_read ? rc == 1 : rc != 1;
    note(me, rc == 1 ? 0 : rc);
}

static weft_value select_for_good(void *arg)
{
    weft_clause c[] = {weft_clause_recv(arg), weft_clause_message()};
    return weft_select(c, COUNT_OF(c));
}

static void open_selects(void)
{
    for (size_t i = 0; i < COUNT_OF(pipes); i++)
        REQUIRE(weft_pipe(pipes[i].fd) == 0);
    learn_reason(select_reason, select_for_good, chans[0].chan);
}

static void close_selects(void)
{
    for (size_t i = 0; i < COUNT_OF(pipes); i++) {
        char bytes[BYTES_MAX];
        if (pipes[i].bytes > 0)
            REQUIRE(weft_read(pipes[i].fd[0], bytes, BYTES_MAX) == pipes[i].bytes);
        REQUIRE(weft_close(pipes[i].fd[0]) == 0 && weft_close(pipes[i].fd[1]) == 0);
    }
}

#endif
