/*
 * Storms: fibers read and write while deadlines, cancellations, interrupts and raised errors
 * interrupt them at random times. The result of each call must match its effect. Each byte arrives
 * once and in order. An interrupted call moves no bytes and writes to no buffer.
 */
#ifndef TESTS_BACKEND_STORM_H
#define TESTS_BACKEND_STORM_H

#include "support/net_support.h"

#define INTERRUPTED (-EBADE) /* no call returns this code by itself */
#define RAISED (-EPROTO)
#define UNTOUCHED 0xA5

/* The kinds of calls that move bytes. Pipes support only the first two. */
typedef enum call_kind { PLAIN, VECTOR, PACKET, MESSAGE, CALL_KINDS } call_kind;
#define PIPE_CALLS 2

/* The number of interrupted calls, by cause. */
typedef struct interrupt_counts {
    unsigned by_cancel; /* the fiber was cancelled, or its deadline passed */
    unsigned by_interrupt;
    unsigned by_error;
} interrupt_counts;

static inline void count_interrupt(interrupt_counts *c, weft_value result)
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

/*
 * True after the wanted number of interrupts, with at least 5 % of each kind. The time until then
 * depends on the machine.
 */
static inline bool has_enough_interrupts(const interrupt_counts *c, unsigned wanted)
{
    const unsigned each = wanted / 20;
    return c->by_cancel >= each && c->by_interrupt >= each && c->by_error >= each &&
           c->by_cancel + c->by_interrupt + c->by_error >= wanted;
}

static inline bool is_unsupported(ssize_t result)
{
    return result == -ENOSYS || result == -EOPNOTSUPP;
}

/*
 * Return the number of call kinds that the backend supports for sockets, or for pipes. The sim
 * backend may lack some.
 */
static inline unsigned calls_for(bool is_socket)
{
    struct iovec nothing = {NULL, 0};
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    bool has_vectors = !is_unsupported(weft_writev(fd[1], &nothing, 1));
    bool has_packets = !is_unsupported(weft_send(fd[1], NULL, 0, 0));
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert((has_vectors && has_packets) || is_sim());
    if (!has_vectors)
        return PLAIN + 1;
    return is_socket && has_packets ? CALL_KINDS : PIPE_CALLS;
}

/* Split the buffer at a random offset if the call takes an array of buffers. So does send_by. */
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

/* Snooze, sleep briefly, or do nothing. */
static inline void random_pause(void)
{
    unsigned how = random_below(4);
    if (how == 0)
        weft_snooze();
    else if (how == 1)
        weft_sleep(random_below(100) * 1e-6);
}

/* Return a random timeout in seconds. */
static inline double random_timeout(void)
{
    return random_below(2) == 0 ? INFINITY : random_below(150) * 1e-6;
}

/* Cancel or interrupt a fiber, or raise an error in it. Do nothing if the fiber has ended. */
static inline void interrupt_randomly(weft_fiber target)
{
    switch (random_below(4)) {
    case 0:
        weft_cancel(target);
        break;
    case 1:
        weft_interrupt(target, INTERRUPTED);
        break;
    case 2:
        weft_raise(target, RAISED, "raised");
        break;
    default: /* twice in one tick */
        weft_interrupt(target, INTERRUPTED);
        if (random_below(2) == 0)
            weft_cancel(target);
        else
            weft_raise(target, RAISED, "raised");
    }
}

/* A stream in which the value of each byte depends on its offset. */
typedef struct flow {
    int fd[2]; /* fd[0] is the read end */
    unsigned calls;
    size_t sent; /* bytes, as reported by the calls */
    size_t got;
    bool is_writer_fast; /* else the writer is slower than the reader */
    bool is_over;        /* the writer stops */
    bool is_closed;
    bool is_at_end;
    interrupt_counts read_interrupts;
    interrupt_counts write_interrupts;
    weft_fiber reader;
    weft_fiber writer;
    weft_fiber respawners[2];
} flow;

static inline void read_once(flow *s)
{
    unsigned char data[2048];
    size_t bytes = 1 + random_below(s->is_writer_fast ? 256 : sizeof data);
    memset(data, UNTOUCHED, sizeof data);
    ssize_t n = receive_by(random_below(s->calls), s->fd[0], data, bytes);
    if (n < 0 || n > (ssize_t)bytes) {
        count_interrupt(&s->read_interrupts, n);
        n = 0;
    } else if (n == 0) {
        ck_assert(s->is_closed);
        s->is_at_end = true;
    }
    assert_bytes_at(data, (size_t)n, s->got);
    assert_all(data + n, sizeof data - (size_t)n, UNTOUCHED);
    s->got += (size_t)n;
}

static inline weft_value read_until_cancelled(void *arg)
{
    flow *s = arg;
    while (!s->is_at_end && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(random_timeout()) {
            read_once(s);
        }
        if (s->is_writer_fast)
            random_pause();
    }
    return 0;
}

static inline void write_once(flow *s)
{
    unsigned char data[8192];
    size_t bytes = 1 + random_below(s->is_writer_fast ? sizeof data : 8);
    fill_from(data, bytes, s->sent);
    ssize_t n = send_by(random_below(s->calls), s->fd[1], data, bytes);
    if (n <= 0 || n > (ssize_t)bytes)
        count_interrupt(&s->write_interrupts, n);
    else
        s->sent += (size_t)n;
}

static inline weft_value write_until_cancelled(void *arg)
{
    flow *s = arg;
    while (!s->is_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(random_timeout()) {
            write_once(s);
        }
        if (!s->is_writer_fast)
            random_pause();
    }
    return 0;
}

/* Keep exactly one reader running. Replace each reader that is cancelled. */
static inline weft_value respawn_reader(void *arg)
{
    flow *s = arg;
    while (!s->is_at_end) {
        s->reader = weft_spin(read_until_cancelled, s);
        weft_await(s->reader);
    }
    return 0;
}

static inline weft_value respawn_writer(void *arg)
{
    flow *s = arg;
    while (!s->is_over) {
        s->writer = weft_spin(write_until_cancelled, s);
        weft_await(s->writer);
    }
    s->is_closed = true;
    ck_assert_int_eq(weft_close(s->fd[1]), 0);
    return 0;
}

static inline void flow_begin(flow *s)
{
    s->respawners[0] = weft_spin(respawn_reader, s);
    s->respawners[1] = weft_spin(respawn_writer, s);
}

static inline void flow_end(flow *s)
{
    s->is_over = true;
    interrupt_randomly(s->writer); /* the writer may wait for room */
    ck_assert_int_eq(weft_await(s->respawners[1]), 0);
    ck_assert_int_eq(weft_await(s->respawners[0]), 0);
    ck_assert_int_eq(weft_close(s->fd[0]), 0);
    ck_assert_uint_gt(s->got, 0);
    ck_assert_uint_eq(s->got, s->sent);
}

static inline void add_interrupt_counts(interrupt_counts *sum, const interrupt_counts *c)
{
    sum->by_cancel += c->by_cancel;
    sum->by_interrupt += c->by_interrupt;
    sum->by_error += c->by_error;
}

#define READ_INTERRUPTS_WANTED 2000
#define WRITE_INTERRUPTS_WANTED 200

static inline bool flows_have_enough_interrupts(const flow *flows, unsigned count)
{
    interrupt_counts of_reads = {0}, of_writes = {0};
    for (unsigned i = 0; i < count; i++) {
        add_interrupt_counts(&of_reads, &flows[i].read_interrupts);
        add_interrupt_counts(&of_writes, &flows[i].write_interrupts);
    }
    return has_enough_interrupts(&of_reads, READ_INTERRUPTS_WANTED) &&
           has_enough_interrupts(&of_writes, WRITE_INTERRUPTS_WANTED);
}

/*
 * Interrupt flows with open descriptors until all wanted counts are reached. Assert that no byte is
 * lost.
 */
static inline void storm_flows(flow *flows, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        flow_begin(&flows[i]);
    while (!flows_have_enough_interrupts(flows, count)) {
        flow *s = &flows[random_below(count)];
        if (random_below(100) == 0)
            s->is_writer_fast = !s->is_writer_fast;
        interrupt_randomly(random_below(2) == 0 ? s->reader : s->writer);
        random_pause();
    }
    for (unsigned i = 0; i < count; i++)
        flow_end(&flows[i]);
    assert_nothing_pending();
}

/* Records of fixed size. Each call moves one record, so several fibers can share a descriptor. */
#define RECORD_BYTES 64
#define RECORDS_MAX (1 << 20)
#define FIBERS_PER_SIDE 3 /* number of readers, and number of writers */

typedef struct records {
    int fd[2];
    unsigned calls;
    /* the next number of each writer; writer i sends i, i + 3, i + 6 ... */
    unsigned next[FIBERS_PER_SIDE];
    unsigned char seen[RECORDS_MAX];
    bool is_writer_fast; /* else the writers are slower than the readers */
    bool is_over;
    unsigned at_end; /* number of readers that have reached the end */
    interrupt_counts interrupts;
    weft_fiber readers[FIBERS_PER_SIDE];
    weft_fiber writers[FIBERS_PER_SIDE];
    weft_fiber respawners[2 * FIBERS_PER_SIDE];
} records;

/* A reader or a writer of records. */
typedef struct role {
    records *all;
    unsigned index;
} role;

static inline bool read_record(records *all)
{
    uint32_t record[RECORD_BYTES / sizeof(uint32_t)] = {0};
    ssize_t n = receive_by(random_below(all->calls), all->fd[0], record, sizeof record);
    if (n == 0)
        return false;
    if (n != sizeof record) {
        count_interrupt(&all->interrupts, n);
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(record); i++)
        if (record[0] >= RECORDS_MAX || record[i] != record[0])
            ck_abort_msg("record %u has %u in it", record[0], record[i]);
    all->seen[record[0]]++;
    return true;
}

static inline weft_value read_records(void *arg)
{
    role *r = arg;
    bool is_at_end = false;
    while (!is_at_end && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(random_timeout()) {
            is_at_end = !read_record(r->all);
        }
        if (r->all->is_writer_fast)
            random_pause();
    }
    r->all->at_end += is_at_end;
    return is_at_end;
}

static inline void write_record(role *r)
{
    records *all = r->all;
    uint32_t record[RECORD_BYTES / sizeof(uint32_t)];
    unsigned number = all->next[r->index];
    if (number >= RECORDS_MAX)
        ck_abort_msg("no room for more records");
    for (size_t i = 0; i < COUNT_OF(record); i++)
        record[i] = number;
    ssize_t n = send_by(random_below(all->calls), all->fd[1], record, sizeof record);
    if (n == sizeof record)
        all->next[r->index] += FIBERS_PER_SIDE;
    else
        count_interrupt(&all->interrupts, n);
}

static inline weft_value write_records(void *arg)
{
    role *r = arg;
    while (!r->all->is_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(random_timeout()) {
            write_record(r);
        }
        if (!r->all->is_writer_fast)
            random_pause();
    }
    return 0;
}

/*
 * Keep one reader running until it reaches the end. The value of a cancelled reader is not
 * reliable, so check at_end too.
 */
static inline weft_value respawn_record_reader(void *arg)
{
    role *r = arg;
    unsigned before;
    do {
        before = r->all->at_end;
        r->all->readers[r->index] = weft_spin(read_records, r);
    } while (weft_await(r->all->readers[r->index]) != 1 || r->all->at_end == before);
    return 0;
}

static inline weft_value respawn_record_writer(void *arg)
{
    role *r = arg;
    while (!r->all->is_over) {
        r->all->writers[r->index] = weft_spin(write_records, r);
        weft_await(r->all->writers[r->index]);
    }
    return 0;
}

static inline void records_begin(records *all, role *roles)
{
    for (unsigned i = 0; i < FIBERS_PER_SIDE; i++) {
        roles[i] = (role){all, i};
        all->next[i] = i;
        all->respawners[i] = weft_spin(respawn_record_reader, &roles[i]);
        all->respawners[FIBERS_PER_SIDE + i] = weft_spin(respawn_record_writer, &roles[i]);
    }
}

static inline void records_end(records *all)
{
    all->is_over = true;
    for (unsigned i = 0; i < FIBERS_PER_SIDE; i++)
        ck_assert_int_eq(weft_await(all->respawners[FIBERS_PER_SIDE + i]), 0);
    ck_assert_int_eq(weft_close(all->fd[1]), 0);
    for (unsigned i = 0; i < FIBERS_PER_SIDE; i++)
        ck_assert_int_eq(weft_await(all->respawners[i]), 0);
    ck_assert_int_eq(weft_close(all->fd[0]), 0);
    for (unsigned i = 0; i < RECORDS_MAX; i++)
        if (all->seen[i] != (i < all->next[i % FIBERS_PER_SIDE]))
            ck_abort_msg("record %u arrived %u times", i, all->seen[i]);
}

static inline void storm_records(records *all)
{
    role roles[FIBERS_PER_SIDE];
    records_begin(all, roles);
    while (!has_enough_interrupts(&all->interrupts, READ_INTERRUPTS_WANTED)) {
        unsigned index = random_below(FIBERS_PER_SIDE);
        if (random_below(32) == 0)
            all->is_writer_fast = !all->is_writer_fast;
        interrupt_randomly(random_below(2) == 0 ? all->readers[index] : all->writers[index]);
        random_pause();
    }
    records_end(all);
    assert_nothing_pending();
}

#endif
