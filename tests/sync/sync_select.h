/* The model of weft_select. The mirrors predict which clauses are ready. */
#ifndef TESTS_SYNC_SYNC_SELECT_H
#define TESTS_SYNC_SYNC_SELECT_H

#include "sync/sync_fifos.h"
#include "sync/sync_signals.h"

#include <poll.h>

/* Pipes for clauses, and their number of bytes. A pipe is never full, so writes do not wait. */
typedef struct pipe_model {
    int fd[2];
    int bytes;
} pipe_model;

static pipe_model pipes[2];

#define BYTES_MAX 100

/* A clause with its prediction. */
typedef struct choice {
    prediction prediction;
    mirror *mirror; /* NULL: the clause has no FIFO */
    sem_model *sem;
    event_model *event;
    chan_model *chan;
    weft_value sent;
    typed_item item;
    const actor *awaited;
    bool is_fd;
    double ready_at_s; /* time at which a time clause is ready */
} choice;

static weft_clause clause_send(choice *c)
{
    c->sent = new_value();
    c->prediction = predict_put(c->mirror);
    c->item = make_item(c->sent);
    return c->chan->is_typed ? weft_clause_send_from(c->chan->chan, &c->item)
                             : weft_clause_send(c->chan->chan, c->sent);
}

static weft_clause clause_recv(choice *c)
{
    c->prediction = predict_take(c->mirror);
    return c->chan->is_typed ? weft_clause_recv_into(c->chan->chan, &c->item)
                             : weft_clause_recv(c->chan->chan);
}

static weft_clause clause_time(choice *c)
{
    double s = random_below(4) == 0 ? 0 : random_below(200) * 1e-6;
    c->ready_at_s = weft_now() + s;
    c->prediction.is_ready = s == 0;
    return weft_clause_time(s);
}

static weft_clause clause_ended(choice *c, const actor *me)
{
    const actor *other = random_actor();
    weft_info info;
    if (other == me || weft_info_of(other->id, &info) < 0)
        return weft__clause(WEFT_CLAUSE_NEVER);
    c->awaited = other;
    c->prediction.is_ready = weft_state_of(other->id) == WEFT_DEAD;
    return weft_clause_ended(other->id);
}

static weft_clause clause_fd(choice *c)
{
    c->is_fd = true;
    return weft_clause_fd(pipes[random_below(COUNT_OF(pipes))].fd[0], POLLIN);
}

static weft_clause clause_sem(choice *c)
{
    c->sem = &sems[random_below(COUNT_OF(sems))];
    c->prediction.is_ready = c->sem->tokens > 0;
    return weft_clause_sem(&c->sem->sem);
}

static weft_clause clause_event(choice *c)
{
    c->event = &events[random_below(COUNT_OF(events))];
    c->prediction.is_ready = c->event->is_set;
    return weft_clause_event(&c->event->event);
}

static weft_clause make_clause(choice *c, actor *me)
{
    unsigned kind = random_below(22);
    *c = (choice){0};
    if (kind < 9) {
        c->chan = &chans[random_below(COUNT_OF(chans))];
        c->mirror = &c->chan->mirror;
        return kind < 5 ? clause_recv(c) : clause_send(c);
    }
    if (kind < 12) {
        queue_model *q = &queues[random_below(COUNT_OF(queues))];
        c->mirror = &q->mirror;
        c->prediction = predict_take(c->mirror);
        return weft_clause_shift(q->queue);
    }
    if (kind < 14) {
        c->mirror = &me->mail;
        c->prediction = predict_take(c->mirror);
        return weft_clause_message();
    }
    if (kind < 16)
        return clause_fd(c);
    if (kind >= 18)
        return kind < 20 ? clause_sem(c) : clause_event(c);
    return kind == 16 ? clause_time(c) : clause_ended(c, me);
}

/* Return the value of the chosen clause. */
static weft_value value_of(const choice *c, const weft_clause *clause)
{
    if (clause->kind == WEFT_CLAUSE_RECV && c->chan->is_typed)
        return check_item((int)clause->value, &c->item);
    return clause->value;
}

/* Check a clause that was chosen without waiting. Update its mirror. */
static void apply_choice(choice *c, const weft_clause *clause)
{
    if (c->is_fd) {
        REQUIRE(clause->value == POLLIN);
        return;
    }
    REQUIRE(c->prediction.is_ready);
    if (c->awaited != NULL) {
        REQUIRE(is_actor_value(clause->value));
        return;
    }
    REQUIRE(value_of(c, clause) == c->prediction.result);
    if (c->sem != NULL)
        c->sem->tokens--;
    if (c->event != NULL)
        c->event->is_set = false;
    if (clause->kind == WEFT_CLAUSE_SEND)
        apply_put(c->mirror, &c->prediction, c->sent, BACK);
    else if (c->mirror != NULL)
        apply_take(c->mirror, &c->prediction);
}

/* Return the wait queue of a clause, or NULL if the clause has no wait queue in the model. */
static waitq_model *waitq_of(const choice *c, const weft_clause *clause)
{
    if (c->sem != NULL)
        return &c->sem->waitq;
    if (c->event != NULL)
        return &c->event->waitq;
    if (c->mirror == NULL)
        return NULL;
    return clause->kind == WEFT_CLAUSE_SEND ? &c->mirror->senders : &c->mirror->receivers;
}

/* Check a clause that was chosen after a wait. Without a wait queue no value is expected. */
static void check_late_choice(actor *me, choice *c, const weft_clause *clause)
{
    const waitq_model *p = waitq_of(c, clause);
    if (p == NULL) {
        REQUIRE(me->expectation == UNDECIDED);
        if (c->awaited != NULL)
            REQUIRE(weft_state_of(c->awaited->id) == WEFT_DEAD && is_actor_value(clause->value));
        else if (c->is_fd)
            REQUIRE(clause->value == POLLIN);
        else
            REQUIRE(weft_now() >= c->ready_at_s - 1e-9);
        return;
    }
    REQUIRE(me->expectation == EXPECT_VALUE && value_of(c, clause) == me->expected);
    REQUIRE(me->expected == -EPIPE || me->woken_entry->waitq == p);
}

static void enter_clause_waitqs(actor *me, choice *choices, const weft_clause *clauses, size_t n)
{
    static waitq_model unmodelled; /* clauses with wait queues outside of the model */
    for (size_t i = 0; i < n; i++) {
        waitq_model *p = waitq_of(&choices[i], &clauses[i]);
        bool is_send = clauses[i].kind == WEFT_CLAUSE_SEND;
        enter_waitq(me, p != NULL ? p : &unmodelled, is_send ? BACK : 0, choices[i].sent);
    }
}

static void check_choices(const choice *choices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (choices[i].chan != NULL)
            check_chan(choices[i].chan);
        if (choices[i].sem != NULL)
            check_sem(choices[i].sem);
        if (choices[i].event != NULL)
            REQUIRE(weft_event_is_set(&choices[i].event->event) == choices[i].event->is_set);
    }
}

/* Return the token that a select has taken, if any. rc is the result of the select. */
static void return_token(actor *me, const choice *choices, int rc)
{
    if (rc < 0 || choices[rc].sem == NULL)
        return;
    run_ops_while_holding(me);
    give_token(choices[rc].sem);
}

static int select_and_wait(actor *me, choice *choices, weft_clause *clauses, size_t n, bool has_fd)
{
    enter_clause_waitqs(me, choices, clauses, n);
    me->has_fd = has_fd;
    int rc = weft_select(clauses, n);
    bool has_happened = rc >= 0 && rc < (int)n;
    if (has_happened)
        check_late_choice(me, &choices[rc], &clauses[rc]);
    REQUIRE(has_happened || me->expectation != EXPECT_VALUE);
    if (has_happened) /* check_late_choice has checked the value */
        me->expected = rc;
    check_result(me, rc, true);
    return rc;
}

/* Select without waiting: a clause is ready, or the call is weft_try_select. */
static int select_at_once(choice *choices, weft_clause *clauses, size_t n, int otherwise)
{
    bool is_try = otherwise < 0;
    unsigned at = run_report->steps;
    int rc = (is_try ? weft_try_select : weft_select)(clauses, n);
    bool is_chosen = rc >= 0 && rc < (int)n;
    REQUIRE(is_chosen || rc == otherwise);
    if (is_chosen)
        apply_choice(&choices[rc], &clauses[rc]);
    REQUIRE(run_report->steps == at || (is_chosen && choices[rc].is_fd));
    run_report->steps++;
    return rc;
}

static void do_select(actor *me)
{
    choice choices[CLAUSES_MAX];
    weft_clause clauses[CLAUSES_MAX];
    size_t n = random_below(CLAUSES_MAX - 1) + 2;
    bool is_ready = false, has_fd = false, has_clause = false;
    for (size_t i = 0; i < n; i++) {
        clauses[i] = make_clause(&choices[i], me);
        is_ready |= choices[i].prediction.is_ready;
        has_fd |= choices[i].is_fd;
        has_clause |= clauses[i].kind != WEFT_CLAUSE_NEVER;
    }
    int rc = -EINVAL;
    if (!has_clause)
        REQUIRE(weft_select(clauses, n) == rc);
    else if (random_below(4) == 0)
        rc = select_at_once(choices, clauses, n, is_ready ? -ENOTSUP : -EAGAIN);
    else if (is_ready)
        rc = select_at_once(choices, clauses, n, 0);
    else
        rc = select_and_wait(me, choices, clauses, n, has_fd);
    check_choices(choices, n);
    return_token(me, choices, rc);
}

/* Change the readiness of a pipe. */
static void do_pipe(actor *me)
{
    pipe_model *p = &pipes[random_below(COUNT_OF(pipes))];
    bool is_read = p->bytes > 0 && random_below(5) < 3;
    char byte = 'x';
    if (!is_read && p->bytes >= BYTES_MAX)
        return;
    p->bytes += !is_read; /* count pending writes too */
    ssize_t rc = is_read ? weft_read(p->fd[0], &byte, 1) : weft_write(p->fd[1], &byte, 1);
    p->bytes -= is_read ? rc == 1 : rc != 1;
    check_other_call(me, rc == 1 ? 0 : rc);
}

static weft_value select_forever(void *arg)
{
    weft_clause c[] = {weft_clause_recv(arg), weft_clause_message()};
    return weft_select(c, COUNT_OF(c));
}

static void open_selects(void)
{
    for (size_t i = 0; i < COUNT_OF(pipes); i++)
        REQUIRE(weft_pipe(pipes[i].fd) == 0);
    record_wait_reason(select_reason, select_forever, chans[0].chan);
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
