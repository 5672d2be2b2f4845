/*
 * Storms: fibers that read and write while deadlines, cancels, interrupts and raised errors strike
 * them at random moments. What a call reported must be what has happened: every byte arrives once
 * and in its place, and a call that was cut short has moved nothing and written to no buffer.
 */
#ifndef TESTS_STORM_H
#define TESTS_STORM_H

#include "net_support.h"

#define INTERRUPTED (-EBADE) /* no call fails with it by itself */
#define RAISED (-EPROTO)
#define UNTOUCHED 0xA5

/* The calls that do the same; pipes have only the first two. */
typedef enum call_kind { PLAIN, VECTOR, PACKET, MESSAGE, CALL_KINDS } call_kind;
#define PIPE_CALLS 2

/* How often calls were cut short, by what. */
typedef struct cuts {
    unsigned by_cancel; /* of the fiber, or its deadline */
    unsigned by_interrupt;
    unsigned by_error;
} cuts;

static inline void note_cut(cuts *c, weft_value result)
{
    if (result == -ECANCELED)
        c->by_cancel++;
    else if (result == INTERRUPTED)
        c->by_interrupt++;
    else if (result == RAISED)
        c->by_error++;
    else
        ck_abort_msg("a call returned %ld", (long)result);
}

/* Has it struck so often, and in each of its ways? How soon depends on the machine. */
static inline bool has_struck(const cuts *c, unsigned wanted)
{
    const unsigned each = wanted / 20;
    return c->by_cancel >= each && c->by_interrupt >= each && c->by_error >= each &&
           c->by_cancel + c->by_interrupt + c->by_error >= wanted;
}

static inline bool is_missing(ssize_t result)
{
    return result == -ENOSYS || result == -EOPNOTSUPP;
}

/* How many of the calls the backend has for sockets, or for pipes: sim may lack some. */
static inline unsigned calls_for(bool is_socket)
{
    struct iovec nothing = {NULL, 0};
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    bool has_vectors = !is_missing(weft_writev(fd[1], &nothing, 1));
    bool has_packets = !is_missing(weft_send(fd[1], NULL, 0, 0));
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert((has_vectors && has_packets) || is_in_memory());
    if (!has_vectors)
        return PLAIN + 1;
    return is_socket && has_packets ? CALL_KINDS : PIPE_CALLS;
}

/* Both take the bytes in two pieces, cut somewhere, if the call has pieces. */
static inline ssize_t receive_by(call_kind how, int fd, void *data, size_t bytes)
{
    size_t cut = random_below((unsigned)bytes + 1);
    struct iovec pieces[2] = {{data, cut}, {(char *)data + cut, bytes - cut}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    switch (how) {
    case PLAIN:
        return weft_read(fd, data, bytes);
    case VECTOR:
        return weft_readv(fd, pieces, 2);
    case PACKET:
        return weft_recv(fd, data, bytes, 0);
    default:
        return weft_recvmsg(fd, &message, 0);
    }
}

static inline ssize_t send_by(call_kind how, int fd, void *data, size_t bytes)
{
    size_t cut = random_below((unsigned)bytes + 1);
    struct iovec pieces[2] = {{data, cut}, {(char *)data + cut, bytes - cut}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    switch (how) {
    case PLAIN:
        return weft_write(fd, data, bytes);
    case VECTOR:
        return weft_writev(fd, pieces, 2);
    case PACKET:
        return weft_send(fd, data, bytes, 0);
    default:
        return weft_sendmsg(fd, &message, 0);
    }
}

/* Let something happen meanwhile, or not. */
static inline void rest(void)
{
    unsigned how = random_below(4);
    if (how == 0)
        weft_snooze();
    else if (how == 1)
        weft_sleep(random_below(100) * 1e-6);
}

/* How long a call may take. */
static inline double patience(void)
{
    return random_below(2) == 0 ? INFINITY : random_below(150) * 1e-6;
}

/* Strike a fiber, if it is there to be struck. */
static inline void strike(weft_fiber victim)
{
    switch (random_below(4)) {
    case 0:
        weft_cancel(victim);
        break;
    case 1:
        weft_interrupt(victim, INTERRUPTED);
        break;
    case 2:
        weft_raise(victim, RAISED, "struck");
        break;
    default: /* and twice in one turn */
        weft_interrupt(victim, INTERRUPTED);
        if (random_below(2) == 0)
            weft_cancel(victim);
        else
            weft_raise(victim, RAISED, "struck");
    }
}

/* A stream of bytes that say their place. */
typedef struct flow {
    int fd[2]; /* read from the first */
    unsigned calls;
    size_t sent; /* bytes, as the calls reported them */
    size_t got;
    bool is_gushing; /* the writer is faster than the reader, or slower */
    bool is_over;    /* nothing more is written */
    bool is_closed;
    bool is_at_end;
    cuts read_cuts;
    cuts write_cuts;
    weft_fiber reader;
    weft_fiber writer;
    weft_fiber keepers[2];
} flow;

static inline void read_once(flow *s)
{
    unsigned char data[2048];
    size_t bytes = 1 + random_below(s->is_gushing ? 256 : sizeof data);
    memset(data, UNTOUCHED, sizeof data);
    ssize_t n = receive_by(random_below(s->calls), s->fd[0], data, bytes);
    if (n < 0 || n > (ssize_t)bytes) {
        note_cut(&s->read_cuts, n);
        n = 0;
    } else if (n == 0) {
        ck_assert(s->is_closed);
        s->is_at_end = true;
    }
    assert_bytes_at(data, (size_t)n, s->got);
    assert_all(data + n, sizeof data - (size_t)n, UNTOUCHED);
    s->got += (size_t)n;
}

static inline weft_value read_on(void *arg)
{
    flow *s = arg;
    while (!s->is_at_end && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(patience()) {
            read_once(s);
        }
        if (s->is_gushing)
            rest();
    }
    return 0;
}

static inline void write_once(flow *s)
{
    unsigned char data[8192];
    size_t bytes = 1 + random_below(s->is_gushing ? sizeof data : 8);
    fill_from(data, bytes, s->sent);
    ssize_t n = send_by(random_below(s->calls), s->fd[1], data, bytes);
    if (n <= 0 || n > (ssize_t)bytes)
        note_cut(&s->write_cuts, n);
    else
        s->sent += (size_t)n;
}

static inline weft_value write_on(void *arg)
{
    flow *s = arg;
    while (!s->is_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(patience()) {
            write_once(s);
        }
        if (!s->is_gushing)
            rest();
    }
    return 0;
}

/* There is always a reader, and one only: those that are cancelled have successors. */
static inline weft_value keep_reading(void *arg)
{
    flow *s = arg;
    while (!s->is_at_end) {
        s->reader = weft_spin(read_on, s);
        weft_await(s->reader);
    }
    return 0;
}

static inline weft_value keep_writing(void *arg)
{
    flow *s = arg;
    while (!s->is_over) {
        s->writer = weft_spin(write_on, s);
        weft_await(s->writer);
    }
    s->is_closed = true;
    ck_assert_int_eq(weft_close(s->fd[1]), 0);
    return 0;
}

static inline void flow_begin(flow *s)
{
    s->keepers[0] = weft_spin(keep_reading, s);
    s->keepers[1] = weft_spin(keep_writing, s);
}

static inline void flow_end(flow *s)
{
    s->is_over = true;
    strike(s->writer); /* it may wait for room */
    ck_assert_int_eq(weft_await(s->keepers[1]), 0);
    ck_assert_int_eq(weft_await(s->keepers[0]), 0);
    ck_assert_int_eq(weft_close(s->fd[0]), 0);
    ck_assert_uint_gt(s->got, 0);
    ck_assert_uint_eq(s->got, s->sent);
}

static inline void add_cuts(cuts *sum, const cuts *c)
{
    sum->by_cancel += c->by_cancel;
    sum->by_interrupt += c->by_interrupt;
    sum->by_error += c->by_error;
}

#define READ_CUTS_WANTED 2000
#define WRITE_CUTS_WANTED 200

static inline bool flows_were_struck(const flow *flows, unsigned count)
{
    cuts of_reads = {0}, of_writes = {0};
    for (unsigned i = 0; i < count; i++) {
        add_cuts(&of_reads, &flows[i].read_cuts);
        add_cuts(&of_writes, &flows[i].write_cuts);
    }
    return has_struck(&of_reads, READ_CUTS_WANTED) && has_struck(&of_writes, WRITE_CUTS_WANTED);
}

/* Strike some flows, whose descriptors are open, often enough, and see that all adds up. */
static inline void storm_flows(flow *flows, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        flow_begin(&flows[i]);
    while (!flows_were_struck(flows, count)) {
        flow *s = &flows[random_below(count)];
        if (random_below(100) == 0)
            s->is_gushing = !s->is_gushing;
        strike(random_below(2) == 0 ? s->reader : s->writer);
        rest();
    }
    for (unsigned i = 0; i < count; i++)
        flow_end(&flows[i]);
    assert_nothing_pending();
}

/* Records, each in one call: several may read and write the same descriptor. */
#define RECORD_BYTES 64
#define RECORDS_MAX (1 << 20)
#define CROWD 3 /* readers, and as many writers */

typedef struct records {
    int fd[2];
    unsigned calls;
    unsigned next[CROWD]; /* the number that each writer writes next: every third is its own */
    unsigned char seen[RECORDS_MAX];
    bool is_gushing; /* the writers are faster than the readers, or slower */
    bool is_over;
    unsigned at_end; /* readers */
    cuts cut;
    weft_fiber readers[CROWD];
    weft_fiber writers[CROWD];
    weft_fiber keepers[2 * CROWD];
} records;

/* What a fiber of the storm is. */
typedef struct role {
    records *all;
    unsigned index;
} role;

static inline bool take_record(records *all)
{
    uint32_t record[RECORD_BYTES / sizeof(uint32_t)] = {0};
    ssize_t n = receive_by(random_below(all->calls), all->fd[0], record, sizeof record);
    if (n == 0)
        return false;
    if (n != sizeof record) {
        note_cut(&all->cut, n);
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(record); i++)
        if (record[0] >= RECORDS_MAX || record[i] != record[0])
            ck_abort_msg("record %u has %u in it", record[0], record[i]);
    all->seen[record[0]]++;
    return true;
}

static inline weft_value take_records(void *arg)
{
    role *r = arg;
    bool is_at_end = false;
    while (!is_at_end && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(patience()) {
            is_at_end = !take_record(r->all);
        }
        if (r->all->is_gushing)
            rest();
    }
    r->all->at_end += is_at_end;
    return is_at_end;
}

static inline void put_record(role *r)
{
    records *all = r->all;
    uint32_t record[RECORD_BYTES / sizeof(uint32_t)];
    unsigned number = all->next[r->index];
    if (number >= RECORDS_MAX)
        ck_abort_msg("there is no room for more records");
    for (size_t i = 0; i < COUNT_OF(record); i++)
        record[i] = number;
    ssize_t n = send_by(random_below(all->calls), all->fd[1], record, sizeof record);
    if (n == sizeof record)
        all->next[r->index] += CROWD;
    else
        note_cut(&all->cut, n);
}

static inline weft_value put_records(void *arg)
{
    role *r = arg;
    while (!r->all->is_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(patience()) {
            put_record(r);
        }
        if (!r->all->is_gushing)
            rest();
    }
    return 0;
}

/* Its value is not known when it was cancelled: then there is another. */
static inline weft_value keep_taking(void *arg)
{
    role *r = arg;
    unsigned before;
    do {
        before = r->all->at_end;
        r->all->readers[r->index] = weft_spin(take_records, r);
    } while (weft_await(r->all->readers[r->index]) != 1 || r->all->at_end == before);
    return 0;
}

static inline weft_value keep_putting(void *arg)
{
    role *r = arg;
    while (!r->all->is_over) {
        r->all->writers[r->index] = weft_spin(put_records, r);
        weft_await(r->all->writers[r->index]);
    }
    return 0;
}

static inline void records_begin(records *all, role *roles)
{
    for (unsigned i = 0; i < CROWD; i++) {
        roles[i] = (role){all, i};
        all->next[i] = i;
        all->keepers[i] = weft_spin(keep_taking, &roles[i]);
        all->keepers[CROWD + i] = weft_spin(keep_putting, &roles[i]);
    }
}

static inline void records_end(records *all)
{
    all->is_over = true;
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert_int_eq(weft_await(all->keepers[CROWD + i]), 0);
    ck_assert_int_eq(weft_close(all->fd[1]), 0);
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert_int_eq(weft_await(all->keepers[i]), 0);
    ck_assert_int_eq(weft_close(all->fd[0]), 0);
    for (unsigned i = 0; i < RECORDS_MAX; i++)
        if (all->seen[i] != (i < all->next[i % CROWD]))
            ck_abort_msg("record %u came %u times", i, all->seen[i]);
}

static inline void storm_records(records *all)
{
    role roles[CROWD];
    records_begin(all, roles);
    while (!has_struck(&all->cut, READ_CUTS_WANTED)) {
        unsigned index = random_below(CROWD);
        if (random_below(32) == 0)
            all->is_gushing = !all->is_gushing;
        strike(random_below(2) == 0 ? all->readers[index] : all->writers[index]);
        rest();
    }
    records_end(all);
    assert_nothing_pending();
}

#endif
