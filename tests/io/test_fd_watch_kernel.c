/*
 * Tests of watches with descriptors of the kernel: many descriptors, reused numbers, several
 * threads, and a program that closes the descriptor of weft.
 */
#include "support/net_support.h"
#include "support/suite.h"

#include <sys/eventfd.h>

#define WATCHES 20000
#define WATCHES_SLOW 2000 /* for sanitizers and Valgrind */

/* A watched eventfd(2). */
typedef struct counter {
    weft_fd_watch watch;
    int fd;
    int runs;
    int result;
} counter;

static size_t runs; /* of all counters */

static void open_counter(counter *own)
{
    *own = (counter){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    ck_assert_int_ge(own->fd, 0);
}

static void raise_counter(const counter *own)
{
    ck_assert_int_eq(eventfd_write(own->fd, 1), 0);
}

static weft_value note_counter(void *arg)
{
    counter *own = arg;
    own->runs++;
    own->result = weft_fd_watch_result(&own->watch);
    runs++;
    return 0;
}

static int watch(counter *own, double timeout_s)
{
    return weft_fd_watch_open(&own->watch, own->fd, timeout_s, NULL, note_counter, own, NULL);
}

static void await_total(size_t count)
{
    while (runs < count)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    let_run();
    ck_assert_uint_eq(runs, count);
}

static size_t watch_count(void)
{
    size_t wanted = is_sanitized() || RUNNING_ON_VALGRIND ? WATCHES_SLOW : WATCHES;
    size_t room = raise_descriptor_limit(wanted + 100) - 100;
    return room < wanted ? room : wanted;
}

TEST(twenty_thousand_watches_need_little_memory_and_all_wake)
{
    size_t count = watch_count();
    warm_up();
    int before = count_descriptors();
    counter *all = calloc(count, sizeof *all);
    size_t pages = 0;
    for (size_t i = 0; i < count; i++) {
        open_counter(&all[i]);
        if (i == 1) /* the first watch allocates what all share */
            pages = resident_pages();
        ck_assert_int_eq(watch(&all[i], 1000 + (double)(i % 7)), 0);
    }
    if (!is_sanitized() && !RUNNING_ON_VALGRIND)
        ck_assert_uint_lt((resident_pages() - pages) * (size_t)sysconf(_SC_PAGESIZE), count * 120);
    ck_assert_uint_eq(ops_pending(), 1);
    for (size_t round = 1; round <= 2; round++) {
        for (size_t i = 0; i < count; i++)
            raise_counter(&all[i]);
        await_total(round * count);
        for (size_t i = 0; i < count; i++) {
            eventfd_t value;
            ck_assert_int_eq(all[i].runs, (int)round);
            ck_assert_int_eq(all[i].result, 0);
            ck_assert_int_eq(eventfd_read(all[i].fd, &value), 0);
            if (round == 1)
                ck_assert_int_eq(watch(&all[i], 1000), 0);
        }
    }
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_close(all[i].fd), 0);
    free(all);
    assert_nothing_pending();
    ck_assert_int_eq(count_descriptors(), before);
}

TEST_PROGRAM_PRINTS(after_the_last_watch_a_deadlock_is_detected, 0, "deadlock")
{
    weft_event never = {0};
    int fd[2];
    weft_fd_watch own;
    if (weft_pipe(fd) < 0 ||
        weft_fd_watch_open(&own, fd[0], INFINITY, NULL, return_arg, NULL, NULL) < 0 ||
        weft_fd_watch_close(&own) < 0)
        return 1;
    return weft_event_wait(&never) == -EDEADLK ? 0 : 2;
}

FIBER(close_in_cord, weft_close(*(int *)arg))

/* Close the descriptor of old in another thread. Open a new descriptor with the same number. */
static void replace_counter(const counter *old, counter *new)
{
    int fd = old->fd;
    ck_assert_int_eq(weft_cord_join(weft_cord_start(close_in_cord, &fd, NULL)), 0);
    open_counter(new);
    if (new->fd == fd)
        return;
    ck_assert_int_eq(dup2(new->fd, fd), fd);
    ck_assert_int_eq(weft_close(new->fd), 0);
    new->fd = fd;
}

TEST(a_number_that_another_thread_has_closed_ends_the_old_watch_when_it_is_watched_again)
{
    counter old, new;
    open_counter(&old);
    ck_assert_int_eq(watch(&old, INFINITY), 0);
    replace_counter(&old, &new);
    ck_assert_int_eq(watch(&new, INFINITY), 0);
    await_total(1);
    ck_assert_int_eq(old.result, -EBADF);
    raise_counter(&new);
    await_total(2);
    ck_assert_int_eq(new.result, 0);
    ck_assert_int_eq(weft_close(new.fd), 0);
    assert_nothing_pending();
}

TEST(an_event_of_a_file_whose_number_was_closed_does_not_reach_another_watch)
{
    counter old, new, other;
    open_counter(&old);
    open_counter(&other); /* keeps the registrations of the thread alive */
    int copy = dup(old.fd);
    ck_assert_int_eq(watch(&old, INFINITY), 0);
    ck_assert_int_eq(watch(&other, INFINITY), 0);
    replace_counter(&old, &new); /* the old file remains registered, because it has a copy */
    ck_assert_int_eq(watch(&new, INFINITY), 0);
    ck_assert_int_eq(eventfd_write(copy, 1), 0);
    raise_counter(&other); /* the events are in order, so the first event is handled too */
    await_total(2);
    ck_assert_int_eq(old.result, -EBADF);
    ck_assert_int_eq(other.runs, 1);
    ck_assert_int_eq(new.runs, 0);
    ck_assert_int_eq(weft_close(new.fd), 0);
    await_total(3);
    ck_assert_int_eq(new.result, -EBADF);
    close(copy);
    ck_assert_int_eq(weft_close(other.fd), 0);
    assert_nothing_pending();
}

TEST(an_event_of_a_descriptor_that_another_thread_has_closed_is_not_input)
{
    counter own;
    open_counter(&own);
    int copy = dup(own.fd);
    ck_assert_int_eq(watch(&own, INFINITY), 0);
    ck_assert_int_eq(weft_cord_join(weft_cord_start(close_in_cord, &own.fd, NULL)), 0);
    ck_assert_int_eq(eventfd_write(copy, 1), 0);
    await_total(1);
    ck_assert_int_eq(own.result, -EBADF);
    close(copy);
    assert_nothing_pending();
}

/* Write to a counter after a while. As a daemon, the fiber does not count for weft_suspend. */
static weft_value raise_later(void *arg)
{
    weft_sleep(0.003);
    raise_counter(arg);
    return 0;
}

TEST(weft_suspend_waits_for_a_watch_without_a_time_limit)
{
    counter own;
    open_counter(&own);
    ck_assert_int_eq(watch(&own, INFINITY), 0);
    ck_assert_int_eq(weft_go_with(raise_later, &own, &(weft_spin_options){.is_daemon = true}), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(own.runs, 1);
    ck_assert_int_eq(weft_close(own.fd), 0);
}

/* Return the epoll descriptor that weft has opened for watches: the one with the highest number. */
static int find_epoll_descriptor(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int found = -1;
    while ((entry = readdir(folder)) != NULL) {
        char to[64] = "";
        int fd = atoi(entry->d_name);
        if (readlinkat(dirfd(folder), entry->d_name, to, sizeof to - 1) > 0 && fd > found &&
            strstr(to, "[eventpoll]") != NULL)
            found = fd;
    }
    closedir(folder);
    ck_assert_int_ge(found, 0);
    return found;
}

TEST(watches_continue_after_the_program_has_closed_the_descriptor_of_weft)
{
    counter all[3];
    for (size_t i = 0; i < 3; i++)
        open_counter(&all[i]);
    ck_assert_int_eq(watch(&all[0], INFINITY), 0);
    weft_sleep(0);
    close(find_epoll_descriptor());
    ck_assert_int_eq(watch(&all[1], INFINITY), 0); /* finds the loss */
    raise_counter(&all[0]);
    raise_counter(&all[1]);
    await_total(2);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(all[i].runs, i < 2);
        ck_assert_int_eq(weft_close(all[i].fd), 0);
    }
    assert_nothing_pending();
}

TEST(an_event_finds_that_the_program_has_closed_the_descriptor_of_weft)
{
    counter own;
    if (!runs_on("io_uring")) /* on others, nothing reports events of a closed epoll descriptor */
        return;
    open_counter(&own);
    ck_assert_int_eq(watch(&own, INFINITY), 0);
    weft_sleep(0);
    close(find_epoll_descriptor());
    raise_counter(&own);
    await_total(1);
    ck_assert_int_eq(own.result, 0);
    ck_assert_int_eq(weft_close(own.fd), 0);
    assert_nothing_pending();
}

/* Each cord watches its own descriptors, and wakes those of the other. */
typedef struct ring_cord {
    counter own[50];
    int total;
} ring_cord;

static ring_cord ring_cords[2];

static weft_value rest_again(void *arg)
{
    counter *own = arg;
    eventfd_t value;
    own->runs++;
    if (eventfd_read(own->fd, &value) < 0)
        return 0;
    size_t cord = own >= ring_cords[1].own && own < ring_cords[1].own + 50;
    ring_cords[cord].total++;
    if (own->runs == 20)
        return 0;
    int rc = weft_fd_watch_open(&own->watch, own->fd, 1000, NULL, rest_again, own, NULL);
    ring_cord *other = &ring_cords[!cord];
    raise_counter(&other->own[own - ring_cords[cord].own]);
    return rc;
}

static weft_value run_ring(void *arg)
{
    ring_cord *r = arg;
    for (size_t i = 0; i < COUNT_OF(r->own); i++) {
        counter *own = &r->own[i];
        int rc = weft_fd_watch_open(&own->watch, own->fd, 1000, NULL, rest_again, own, NULL);
        if (rc < 0)
            return rc;
    }
    if (r == &ring_cords[0])
        for (size_t i = 0; i < COUNT_OF(r->own); i++)
            raise_counter(&r->own[i]);
    while (r->total < (int)COUNT_OF(r->own) * 19) /* the last event of the second cord is missing */
        if (weft_sleep(0.001) < 0)
            return -1;
    for (size_t i = 0; i < COUNT_OF(r->own); i++)
        (void)weft_fd_watch_close(&r->own[i].watch);
    return 0;
}

TEST(two_threads_watch_and_wake_each_other)
{
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < COUNT_OF(ring_cords[i].own); j++)
            open_counter(&ring_cords[i].own[j]);
    weft_cord cords[2];
    for (size_t i = 0; i < 2; i++)
        cords[i] = weft_cord_start(run_ring, &ring_cords[i], NULL);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

static weft_value touch_foreign_watch(void *arg)
{
    counter *own = arg;
    return weft_fd_watch_close(&own->watch) == -EXDEV &&
                   weft_fd_watch_interrupt(&own->watch, -EINTR) == -EXDEV
               ? 0
               : -1;
}

TEST(a_watch_of_another_thread_is_refused)
{
    counter own;
    open_counter(&own);
    ck_assert_int_eq(watch(&own, 1000), 0);
    ck_assert_int_eq(weft_cord_join(weft_cord_start(touch_foreign_watch, &own, NULL)), 0);
    ck_assert_int_eq(weft_fd_watch_close(&own.watch), 0);
    ck_assert_int_eq(weft_close(own.fd), 0);
}
