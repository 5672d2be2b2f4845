/*
 * Between threads: nanoseconds of real time for a message and its answer, for a message of a
 * stream, for a call, a fiber made there, and a cord started and joined; against plain threads
 * (threads.h). Ratios are to weft, the first of each list: above 1, the other takes longer.
 *
 * Where one thread answers the other, each has a processor of its own. Awake, they find each other
 * without a system call; how long it takes when everyone sleeps before it is woken, as it is where
 * there is other work, or where processors are busy, is measured apart.
 *
 * On a machine that has other things to do, the two hardly ever run at once, and that is what is
 * measured then. As root, `chrt -f 10 build/bench/cords` puts them before the others.
 *
 * NUMBER: messages a round.
 */
#define BENCH_ROUNDS 21

#include "rounds.h"
#include "threads.h"

#include "core/linger.h"

#include <weft.h>

#define SENDERS 4

/* What takes longer is done so many times less often. */
#define WAKES_PART 100
#define CALLS_PART 20
#define STARTS_PART 500

/* How the cords of a case are. */
typedef struct manner {
    const char *backend;
    bool is_woken; /* they go to sleep at once */
    unsigned senders;
} manner;

static size_t exchanged; /* messages there and back, in all */

static weft_cord start_on(const manner *m, weft_fn *fn, void *arg, int cpu)
{
    weft_cord cord =
        weft_cord_start(fn, arg, &(weft_cord_options){.cpu = cpu, .backend = m->backend});
    bench_require(cord != 0, "no cord");
    return cord;
}

/* A message and its answer. */

typedef struct talk {
    weft_fiber other;
    size_t n;
    double took;
} talk;

static weft_value answer(void *arg)
{
    (void)arg;
    weft_fiber asker = (weft_fiber)weft_receive();
    weft_value value;
    while ((value = weft_receive()) > 0)
        weft_tell(asker, value);
    return value;
}

/* Returns how many: n, unless that would take too long. */
static size_t exchange(const talk *t, size_t n, double began)
{
    size_t done = 0;
    while (done < n && !is_enough(began, done + 1)) {
        weft_value i = (weft_value)++done;
        bench_require(weft_tell(t->other, i) == 0 && weft_receive() == i, "a message was lost");
    }
    return done;
}

static weft_value ask(void *arg)
{
    talk *t = arg;
    weft_tell(t->other, (weft_value)weft_self());
    exchange(t, WARM_UP, now_ns());
    double began = now_ns();
    t->n = exchange(t, t->n, began);
    t->took = now_ns() - began;
    return weft_tell(t->other, 0);
}

static double tell_round_trip(void *arg, size_t n)
{
    const manner *m = arg;
    weft__linger_is_off = m->is_woken;
    talk t = {.n = n};
    t.other = start_on(m, answer, NULL, cpu_at(1));
    weft_cord asker = start_on(m, ask, &t, cpu_at(0));
    bench_require(weft_cord_join(asker) == 0 && weft_cord_join(t.other) == 0, "a message was lost");
    exchanged += t.n;
    return t.took / (double)t.n;
}

/* A stream of them. */

typedef struct stream {
    start start;
    weft_fiber reader;
    unsigned count;
    size_t n; /* of each */
    weft_value sum;
    double took;
} stream;

static weft_value send_all(void *arg)
{
    stream *s = arg;
    int rc = 0;
    start_wait(&s->start);
    for (size_t i = 1; i <= s->n && rc == 0; i++)
        rc = weft_tell(s->reader, (weft_value)i);
    return rc;
}

static weft_value read_all(void *arg)
{
    stream *s = arg;
    s->reader = weft_self();
    double began = start_wait(&s->start);
    for (size_t left = s->n * s->count; left > 0; left--)
        s->sum += weft_receive();
    s->took = now_ns() - began;
    return 0;
}

static double tell_stream(void *arg, size_t n)
{
    const manner *m = arg;
    weft__linger_is_off = m->is_woken;
    stream s = {.count = m->senders, .n = n / m->senders};
    bool is_pinned = s.count == 1;
    weft_cord senders[SENDERS];
    start_init(&s.start, s.count + 1);
    for (unsigned i = 0; i < s.count; i++)
        senders[i] = start_on(m, send_all, &s, is_pinned ? cpu_at(1) : 0);
    bench_require(weft_cord_join(start_on(m, read_all, &s, is_pinned ? cpu_at(0) : 0)) == 0,
                  "a message was not read");
    for (unsigned i = 0; i < s.count; i++)
        bench_require(weft_cord_join(senders[i]) == 0, "a message was not sent");
    start_destroy(&s.start);
    bench_require(s.sum == (weft_value)(s.count * (s.n * (s.n + 1) / 2)), "a message was lost");
    return s.took / (double)(s.n * s.count);
}

/* Functions there. */

static weft_value count_up(void *arg)
{
    ++*(size_t *)arg;
    return 0;
}

static weft_value call_all(void *arg)
{
    talk *t = arg;
    size_t count = 0;
    for (size_t i = 0; i < WARM_UP; i++)
        weft_cord_call(t->other, count_up, &count);
    double began = now_ns();
    size_t done = 0;
    for (; done < t->n && !is_enough(began, done + 1); done++)
        weft_cord_call(t->other, count_up, &count);
    t->took = now_ns() - began;
    t->n = done;
    return count == done + WARM_UP ? 0 : -1;
}

/* They run in their order: a call that ends has them all behind it. */
static void make_fibers(const talk *t, size_t *count)
{
    size_t calls = 0;
    for (size_t i = 0; i < t->n; i++)
        weft_cord_spin(t->other, count_up, count);
    weft_cord_call(t->other, count_up, &calls);
}

static weft_value spin_all(void *arg)
{
    talk *t = arg;
    size_t count = 0;
    make_fibers(t, &count); /* as many stacks as they take */
    double began = now_ns();
    make_fibers(t, &count);
    t->took = now_ns() - began;
    return count == 2 * t->n ? 0 : -1;
}

static double run_there(const manner *m, weft_fn *fn, size_t n)
{
    weft__linger_is_off = m->is_woken;
    talk t = {.n = n};
    t.other = start_on(m, NULL, NULL, cpu_at(1));
    bench_require(weft_cord_join(start_on(m, fn, &t, cpu_at(0))) == 0, "a function was not run");
    weft_cord_cancel(t.other);
    weft_cord_join(t.other);
    return t.took / (double)t.n;
}

static double call_round_trip(void *arg, size_t n)
{
    return run_there(arg, call_all, n);
}

static double spin_stream(void *arg, size_t n)
{
    return run_there(arg, spin_all, n);
}

/* Cords themselves. */

static weft_value end_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static double start_and_join(void *arg, size_t n)
{
    double began = now_ns();
    for (size_t i = 0; i < n; i++)
        bench_require(weft_cord_join(start_on(arg, end_at_once, NULL, 0)) == 0, "no end");
    return (now_ns() - began) / (double)n;
}

static weft_value is_uring(void *arg)
{
    (void)arg;
    return strcmp(weft_backend_name(), "io_uring") == 0;
}

/* Where it is forbidden, cords have another one, and its name is not to stand there. */
static const char *choose_uring(void)
{
    weft_cord cord = weft_cord_start(is_uring, NULL, &(weft_cord_options){.backend = "io_uring"});
    if (cord != 0 && weft_cord_join(cord) == 1)
        return "io_uring";
    fprintf(stderr, "%s: no io_uring here: what is said of it is epoll\n", bench_name);
    return "epoll";
}

int main(int argc, char **argv)
{
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    size_t n = bench_start(argc, argv, 23000);
    sched_setaffinity(0, sizeof all, &all);

    const char *uring = choose_uring();
    manner on_uring = {uring, false, 1}, on_epoll = {"epoll", false, 1};
    manner on_uring_woken = {uring, true, 1}, on_epoll_woken = {"epoll", true, 1};
    manner many_uring = {uring, false, SENDERS}, many_epoll = {"epoll", false, SENDERS};
    unsigned one = 1, many = SENDERS, part = WAKES_PART, call_part = WAKES_PART / CALLS_PART;

    const bench_case awake[] = {
        {"round trip, io_uring cords", tell_round_trip, &on_uring},
        {"round trip, epoll cords", tell_round_trip, &on_epoll},
        {"round trip, threads, eventfd", eventfd_round_trip, &part},
        {"round trip, threads, condition", cond_round_trip, &part},
    };
    const bench_case woken[] = {
        {"woken, io_uring cords", tell_round_trip, &on_uring_woken},
        {"woken, epoll cords", tell_round_trip, &on_epoll_woken},
        {"woken, threads, eventfd", eventfd_round_trip, &one},
        {"woken, threads, condition", cond_round_trip, &one},
    };
    const bench_case stream_of_one[] = {
        {"stream, io_uring cords", tell_stream, &on_uring},
        {"stream, epoll cords", tell_stream, &on_epoll},
        {"stream, threads, condition", cond_stream, &one},
        {"stream, threads, eventfd", eventfd_stream, &one},
        {"stream, threads, bare ring", ring_stream, NULL},
    };
    const bench_case stream_of_many[] = {
        {"4 streams, io_uring cords", tell_stream, &many_uring},
        {"4 streams, epoll cords", tell_stream, &many_epoll},
        {"4 streams, threads, condition", cond_stream, &many},
        {"4 streams, threads, eventfd", eventfd_stream, &many},
    };
    const bench_case calls[] = {
        {"call, io_uring cords", call_round_trip, &on_uring},
        {"call, epoll cords", call_round_trip, &on_epoll},
        {"call, threads, condition", cond_round_trip, &call_part},
    };
    const bench_case fibers[] = {
        {"fiber made there, io_uring cords", spin_stream, &on_uring},
        {"fiber made there, epoll cords", spin_stream, &on_epoll},
        {"message, threads, condition", cond_stream, &one},
    };
    const bench_case starts[] = {
        {"start and join, io_uring cord", start_and_join, &on_uring},
        {"start and join, epoll cord", start_and_join, &on_epoll},
        {"start and join, thread", create_and_join, NULL},
    };
    BENCH_RUN(awake, n);
    BENCH_RUN(woken, n / WAKES_PART);
    BENCH_RUN(stream_of_one, n * 2);
    BENCH_RUN(stream_of_many, n * 2);
    BENCH_RUN(calls, n / CALLS_PART);
    BENCH_RUN(fibers, n / CALLS_PART);
    BENCH_RUN(starts, n / STARTS_PART);
    if (bench_only == NULL)
        bench_print_one("messages there and back, none lost", "", (double)exchanged);
    return 0;
}
