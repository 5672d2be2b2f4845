/*
 * Tests of the printer: reasons, descriptors, holders, origins, names in backtraces, groups of
 * equal fibers, cycles, several cords at once, and reports that use the printer.
 */
#include "support/cases.h"
#include "support/cord_support.h"

#include "support/suite.h"

#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/socket.h>

#if defined(WEFT_UCONTEXT) || !defined(WEFT_HAS_BACKTRACE)
#define HAS_BACKTRACES false
#else
#define HAS_BACKTRACES true
#endif

static char text[1 << 20];

/* Return the text of a dump. */
static const char *dump(void)
{
    FILE *file = tmpfile();
    ck_assert_int_eq(weft_dump(fileno(file)), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Return the text from the line that contains a part, to the next fiber. */
static const char *paragraph(const char *all, const char *part)
{
    static char found[4096];
    const char *at = strstr(all, part);
    ck_assert_msg(at != NULL, "'%s' is not in:\n%s", part, all);
    while (at > all && at[-1] != '\n')
        at--;
    size_t bytes = strcspn(at, "\n") + 1;
    while (strncmp(at + bytes, "    ", 4) == 0)
        bytes += strcspn(at + bytes, "\n") + 1;
    snprintf(found, sizeof found, "%.*s", (int)bytes, at);
    return found;
}

static weft_mutex mutex;

static __attribute__((noinline)) weft_value hold_mutex(void *arg)
{
    weft_mutex_lock(&mutex);
    weft_value rc = weft_suspend();
    __asm__ volatile("" : "+r"(rc)); /* prevents a tail call */
    return rc;
}

static __attribute__((noinline)) weft_value want_mutex(void *arg)
{
    weft_value rc = weft_mutex_lock(&mutex);
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

static __attribute__((noinline)) weft_fiber spin_in_helper(weft_fn *fn, const char *name)
{
    weft_fiber f = spin_named(fn, NULL, name);
    __asm__ volatile("" : "+r"(f));
    return f;
}

TEST(a_wait_for_a_mutex_names_the_mutex_and_its_holder_and_the_backtrace_names_functions)
{
    weft_fiber holder = spin_in_helper(hold_mutex, "holder");
    weft_fiber waiter = spin_in_helper(want_mutex, "waiter");
    let_run();
    weft_info i = info_of(waiter);
    ck_assert_ptr_eq(i.waits_on, &mutex);
    ck_assert_uint_eq(i.waits_for_fiber, holder);
    ck_assert_ptr_nonnull(i.spun_at);
    char expected[128];
    snprintf(expected, sizeof expected, "'waiter' waiting for a mutex %p held by #%llu 'holder', ",
             (void *)&mutex, (unsigned long long)holder);
    const char *p = paragraph(dump(), "'waiter'");
    ck_assert_has(p, expected, "stack ", " switches");
    ck_assert_has(p, "function want_mutex", "test_dump.c:", "created in spin");
    if (HAS_BACKTRACES)
        ck_assert_has(p, " want_mutex at ");
    ck_assert_lacks(p, "weft__");
    p = paragraph(text, "'holder'");
    ck_assert_has(p, "waiting for weft_schedule", "function hold_mutex");
}

FIBER(receive_from, weft_chan_recv(arg))

FIBER(sleep_an_hour, weft_sleep(3600))

TEST(a_deadline_and_a_channel_are_shown)
{
    weft_chan *chan = weft_chan_new(0);
    weft_fiber f = weft_spin(receive_from, chan);
    let_run();
    char expected[128];
    snprintf(expected, sizeof expected, "waiting for an item from a channel %p, ", (void *)chan);
    ck_assert_ptr_eq(info_of(f).waits_on, chan);
    ck_assert_has(paragraph(dump(), "a channel"), expected);
    cancel_and_await(f);
    f = spin_named(sleep_an_hour, NULL, "sleeper");
    let_run();
    ck_assert_double_le(info_of(f).deadline_s, 3600);
    ck_assert_double_gt(info_of(f).deadline_s, 3000);
    ck_assert_has(paragraph(dump(), "'sleeper'"), "waiting for sleep, ", " s left");
    ck_assert(isinf(info_of(weft_main()).deadline_s));
    cancel_and_await(f);
    weft_chan_free(chan);
}

/* Connect two sockets of 127.0.0.1. */
static void connect_pair(int *listener, int *client, int *server)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof a;
    *listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(*listener, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(*listener, 1), 0);
    getsockname(*listener, (struct sockaddr *)&a, &bytes);
    *client = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(*client, (struct sockaddr *)&a, sizeof a), 0);
    *server = accept(*listener, NULL, NULL);
    ck_assert_int_ge(*server, 0);
    fcntl(*server, F_SETFL, O_NONBLOCK);
}

static unsigned port_of(int fd)
{
    struct sockaddr_in a;
    socklen_t bytes = sizeof a;
    getsockname(fd, (struct sockaddr *)&a, &bytes);
    return ntohs(a.sin_port);
}

TEST(a_wait_for_a_socket_shows_the_descriptor_and_both_addresses)
{
    if (runs_on("sim"))
        return; /* there, descriptors of the kernel block the thread */
    int listener, client, server;
    connect_pair(&listener, &client, &server);
    weft_fiber f = weft_spin_with(read_byte, &server, &(weft_spin_options){.name = "conn"});
    while (info_of(f).state != WEFT_WAITING)
        weft_snooze();
    ck_assert_int_eq(info_of(f).fd, server);
    char expected[128];
    snprintf(expected, sizeof expected,
             "'conn' waiting for read of descriptor %d (127.0.0.1:%u, peer 127.0.0.1:%u), ", server,
             port_of(server), port_of(client));
    ck_assert_has(dump(), expected);
    close(client);
    weft_await(f);
    weft_close(server);
    close(listener);
}

static __attribute__((noinline)) weft_value be_idle(void *arg)
{
    weft_value rc = weft_sleep(3600);
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

TEST(ten_thousand_equal_fibers_are_one_paragraph)
{
    weft_fiber first = 0, last = 0;
    for (int i = 0; i < MANY_FIBERS; i++) {
        last = spin_named(be_idle, NULL, "conn");
        if (i == 0)
            first = last;
    }
    spin_named(want_mutex, NULL, "other");
    let_run();
    const char *all = dump();
    char expected[128];
    snprintf(expected, sizeof expected, "%d fibers 'conn' #%llu .. #%llu waiting for sleep, ",
             MANY_FIBERS, (unsigned long long)first, (unsigned long long)last);
    if (!HAS_BACKTRACES || !IS_SLOW)
        ck_assert_has(paragraph(all, "fibers 'conn'"), expected, " s to ", "function be_idle");
    ck_assert_uint_lt(strlen(all), 6000);
    ck_assert_uint_le(count_in(all, "function be_idle"), 6);
}

TEST(a_few_equal_fibers_have_a_line_each_and_one_backtrace)
{
    spin_named(be_idle, NULL, "one");
    spin_named(be_idle, NULL, "two");
    let_run();
    const char *all = dump();
    ck_assert_has(all, "'one' waiting for sleep", "'two' waiting for sleep");
    if (HAS_BACKTRACES)
        ck_assert_uint_eq(count_in(all, "#0 weft_sleep") + count_in(all, "#0 be_idle"), 1);
}

/* Cycles. */

static weft_mutex first_lock, second_lock;

static weft_value lock_in_order(void *arg)
{
    weft_mutex *order[] = {&first_lock, &second_lock};
    size_t begin = (size_t)(uintptr_t)arg;
    weft_mutex_lock(order[begin]);
    weft_snooze();
    return weft_mutex_lock(order[!begin]);
}

TEST_PROGRAM_PRINTS(a_deadlock_report_names_the_cycle, 0, "deadlock: every fiber waits",
                    "cycle of 2 fibers:\n", "'left' waits for a mutex 0x", " held by #",
                    "'right' waits for a mutex 0x", "function lock_in_order")
{
    weft_fiber left = spin_named(lock_in_order, as_arg(0), "left");
    spin_named(lock_in_order, as_arg(1), "right");
    ck_assert_int_eq(weft_await(left), -EDEADLK);
    weft_error_clear();
    _exit(0);
}

FIBER(want_first_lock, weft_mutex_lock(&first_lock))

TEST_PROGRAM_PRINTS(a_cycle_may_have_a_lock_and_an_await, 0, "cycle of 2 fibers:\n",
                    "'main' waits for the end of #", "'child' waits for a mutex 0x",
                    " held by #4294967296 'main'")
{
    weft_mutex_lock(&first_lock);
    ck_assert_int_eq(weft_await(spin_named(want_first_lock, NULL, "child")), -EDEADLK);
    weft_error_clear();
    _exit(0);
}

static weft_cord joined;

FIBER(join_cord, weft_cord_join(joined))
FIBER(call_main, weft_cord_call(arg_id(arg), join_cord, NULL))

static int deadlock_two_cords(void)
{
    weft_fiber self = weft_self();
    joined = weft_cord_start(call_main, id_arg(self), &(weft_cord_options){.name = "caller"});
    ck_assert_int_eq(weft_receive(), -EDEADLK);
    _exit(0);
}

TEST(a_cycle_may_lead_through_two_cords)
{
    if (!HAS_ONLY_OWN_THREADS)
        return;
    static const char *const report[] = {
        "cycle of 2 fibers:\n", "' waits for the end of a thread, in #",
        "'caller' waits for a call in another thread, in #", "'caller': 0 fibers and main", NULL};
    assert_prints(run_apart(deadlock_two_cords), 0, report);
}

/* Several cords. */

static weft_value dump_many(void *arg)
{
    int fd = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(weft_dump(fd), 0);
    close(fd);
    return 0;
}

TEST(cords_that_dump_at_the_same_time_do_not_wait_for_each_other)
{
    weft_cord cords[3];
    for (size_t i = 0; i < 3; i++)
        cords[i] = weft_cord_start(dump_many, NULL, NULL);
    dump_many(NULL);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

static sem_t blocked, resume;

static __attribute__((noinline)) weft_value block_thread(void *arg)
{
    sem_post(&blocked);
    while (sem_wait(&resume) != 0)
        continue;
    return 0;
}

TEST(a_dump_shows_all_cords_and_the_running_fiber_of_a_stalled_cord)
{
    sem_init(&blocked, 0, 0);
    sem_init(&resume, 0, 0);
    weft_cord idle = weft_cord_start(NULL, NULL, &(weft_cord_options){.name = "idle"});
    weft_cord stalled = weft_cord_start(NULL, NULL, &(weft_cord_options){.name = "stalled"});
    weft_cord_call(idle, return_arg, NULL);
    weft_cord_spin_with(stalled, block_thread, NULL, &(weft_spin_options){.name = "blocker"});
    while (sem_wait(&blocked) != 0)
        continue;
    const char *all = dump();
    ck_assert_has(all, "'idle': 0 fibers and main", "'stalled': ", "has not switched for ",
                  "'blocker' running");
#ifdef WEFT_HAS_BACKTRACE
    ck_assert_has(paragraph(all, "'blocker'"), " block_thread at ");
#endif
    sem_post(&resume);
    weft_cord_cancel(idle);
    weft_cord_cancel(stalled);
    weft_cord_join(idle);
    weft_cord_join(stalled);
}

TEST(a_dump_does_not_switch)
{
    int count = 0;
    weft_fiber f = weft_spin(increment_int, &count);
    int fd = open("/dev/null", O_WRONLY);
    weft_no_switch_begin();
    ck_assert_int_eq(weft_dump(fd), 0);
    weft_no_switch_end();
    ck_assert_int_eq(count, 0);
    weft_await(f);
    ck_assert_int_eq(count, 1);
    close(fd);
}

/* The watchdog by the environment. */

TEST_PROGRAM_PRINTS(the_environment_turns_the_watchdog_on, 0, "'main' of thread",
                    "blocks its thread in the system call clock_nanosleep")
{
    setenv("WEFT_WATCHDOG", "0.02", 1);
    weft_self();
    struct timespec left = {2, 0};
    while (nanosleep(&left, &left) != 0)
        continue;
    return 0;
}

TEST_PROGRAM_PRINTS(a_watchdog_time_that_is_not_a_number_is_ignored, 0,
                    "WEFT_WATCHDOG is ignored, because 'soon' is not a number")
{
    setenv("WEFT_WATCHDOG", "soon", 1);
    weft_self();
    return 0;
}
