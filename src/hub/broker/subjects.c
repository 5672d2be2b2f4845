/* Subscriptions, and the routing of messages to them. See subjects.h. */
#include "hub/broker/subjects.h"

#include "hub/broker/broker.h"
#include "hub/broker/conn.h"
#include "hub/text/subject.h"

#include <stdlib.h>

#define MATCHES_FIRST 16

void weft__subjects_init(weft__subjects *s)
{
    *s = (weft__subjects){0};
    weft__list_init(&s->patterns);
}

void weft__subjects_free(weft__subjects *s)
{
    weft__hash_free(&s->literals);
    free(s->matches);
}

static bool slices_are_equal(weft__slice a, weft__slice b)
{
    return a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
}

static weft__sub *sub_find(const weft__broker_conn *conn, uint64_t sid)
{
    WEFT__HASH_FOR(node, &conn->subs_by_sid, weft__hash_number(sid)) {
        weft__sub *sub = CONTAINER_OF(node, weft__sub, by_sid);
        if (sub->sid == sid)
            return sub;
    }
    return NULL;
}

static weft__sub *sub_new(weft__broker_conn *conn, weft__slice subject, weft__slice queue,
                          uint64_t sid)
{
    weft__sub *sub = calloc(1, sizeof *sub + subject.bytes + queue.bytes);
    if (sub == NULL)
        return NULL;
    sub->conn = conn;
    sub->sid = sid;
    memcpy(sub->text, subject.data, subject.bytes);
    if (queue.bytes > 0)
        memcpy(sub->text + subject.bytes, queue.data, queue.bytes);
    sub->subject = (weft__slice){sub->text, subject.bytes};
    sub->queue = (weft__slice){sub->text + subject.bytes, queue.bytes};
    sub->is_pattern = !weft__subject_is_valid(subject, false);
    return sub;
}

/* Add a subscription to the index by subject. */
static int sub_index(weft__sub *sub)
{
    weft__subjects *s = &sub->conn->broker->subjects;
    if (!sub->is_pattern)
        return weft__hash_insert(&s->literals, &sub->by_subject,
                                 weft__hash_bytes(sub->subject.data, sub->subject.bytes));
    weft__list_insert(&s->patterns, &sub->in_patterns);
    return 0;
}

int weft__subjects_add(weft__broker_conn *conn, weft__slice subject, weft__slice queue,
                       uint64_t sid)
{
    if (sub_find(conn, sid) != NULL)
        return 0;
    weft__sub *sub = sub_new(conn, subject, queue, sid);
    if (sub == NULL)
        return -ENOMEM;
    if (weft__hash_insert(&conn->subs_by_sid, &sub->by_sid, weft__hash_number(sid)) < 0)
        goto no_sid;
    if (sub_index(sub) < 0)
        goto no_subject;
    weft__list_insert(&conn->subs, &sub->in_conn);
    return 0;

no_subject:
    weft__hash_remove(&conn->subs_by_sid, &sub->by_sid);
no_sid:
    free(sub);
    return -ENOMEM;
}

static void sub_free(weft__sub *sub)
{
    if (sub->is_pattern)
        weft__list_unlink(&sub->in_patterns);
    else
        weft__hash_remove(&sub->conn->broker->subjects.literals, &sub->by_subject);
    weft__hash_remove(&sub->conn->subs_by_sid, &sub->by_sid);
    weft__list_unlink(&sub->in_conn);
    free(sub);
}

void weft__subjects_end(weft__broker_conn *conn, uint64_t sid, uint64_t messages_max)
{
    weft__sub *sub = sub_find(conn, sid);
    if (sub == NULL)
        return;
    if (messages_max == 0 || sub->delivered >= messages_max)
        sub_free(sub);
    else
        sub->messages_max = messages_max;
}

void weft__subjects_end_all(weft__broker_conn *conn)
{
    while (!weft__list_is_empty(&conn->subs))
        sub_free(CONTAINER_OF(conn->subs.next, weft__sub, in_conn));
    weft__hash_free(&conn->subs_by_sid);
}

/*
 * Choose one member of a queue group: the n-th member replaces the choice with a probability of
 * 1/n. Returns false if no member of the group was seen before.
 */
static bool group_choose(weft_hub_broker *b, weft__sub *sub)
{
    weft__subjects *s = &b->subjects;
    for (size_t i = 0; i < s->match_count; i++) {
        weft__match *m = &s->matches[i];
        if (m->sub->queue.bytes == 0 || !slices_are_equal(m->sub->queue, sub->queue))
            continue;
        if (weft__broker_random(b) % ++m->members == 0)
            m->sub = sub;
        return true;
    }
    return false;
}

static int matches_grow(weft__subjects *s)
{
    size_t capacity = s->match_capacity == 0 ? MATCHES_FIRST : 2 * s->match_capacity;
    weft__match *matches = realloc(s->matches, capacity * sizeof *matches);
    if (matches == NULL)
        return -ENOMEM;
    s->matches = matches;
    s->match_capacity = capacity;
    return 0;
}

/* A client that misses a message for lack of memory is disconnected, like one that is too slow. */
static void match_add(weft_hub_broker *b, weft__sub *sub)
{
    weft__subjects *s = &b->subjects;
    if (sub->conn->is_closed || (sub->queue.bytes > 0 && group_choose(b, sub)))
        return;
    if (s->match_count == s->match_capacity && matches_grow(s) < 0) {
        weft__broker_conn_cut(sub->conn);
        return;
    }
    s->matches[s->match_count++] = (weft__match){sub, 1};
}

/* Collect the subscriptions first: a delivery may end its subscription. */
static void matches_collect(weft_hub_broker *b, weft__slice to, const weft__broker_conn *not_to,
                            const weft__broker_conn *within)
{
    weft__subjects *s = &b->subjects;
    s->match_count = 0;
    WEFT__HASH_FOR(node, &s->literals, weft__hash_bytes(to.data, to.bytes)) {
        weft__sub *sub = CONTAINER_OF(node, weft__sub, by_subject);
        if (sub->conn != not_to && (within == NULL || sub->conn == within) &&
            slices_are_equal(sub->subject, to))
            match_add(b, sub);
    }
    WEFT__LIST_FOR(node, &s->patterns) {
        weft__sub *sub = CONTAINER_OF(node, weft__sub, in_patterns);
        if (sub->conn != not_to && (within == NULL || sub->conn == within) &&
            weft__subject_matches(sub->subject, to))
            match_add(b, sub);
    }
}

static size_t matches_deliver(weft__subjects *s, const weft__publication *p)
{
    for (size_t i = 0; i < s->match_count; i++) {
        weft__sub *sub = s->matches[i].sub;
        weft__broker_conn_deliver(sub->conn, p, sub->sid);
        if (++sub->delivered == sub->messages_max)
            sub_free(sub);
    }
    return s->match_count;
}

size_t weft__subjects_route(weft_hub_broker *b, weft__slice to, const weft__publication *p,
                            const weft__broker_conn *not_to)
{
    matches_collect(b, to, not_to, NULL);
    return matches_deliver(&b->subjects, p);
}

size_t weft__subjects_route_within(weft__broker_conn *conn, weft__slice to,
                                   const weft__publication *p)
{
    matches_collect(conn->broker, to, NULL, conn);
    return matches_deliver(&conn->broker->subjects, p);
}
