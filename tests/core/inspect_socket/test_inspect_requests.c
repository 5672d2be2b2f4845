/* Requests of the inspection socket: fibers, backtraces, profiles, and invalid clients. */
#include "core/inspect_socket/inspect_support.h"
#include "core/inspect_socket/word.h"

#include <poll.h>

static void open_socket(void)
{
    create_socket_folder();
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
}

FIXTURE(open_socket, remove_socket_folder)

static weft_mutex lock;
FIBER_DO(wait_for_lock, weft_mutex_lock(&lock), weft_mutex_unlock(&lock))

TEST(a_view_has_each_fiber_with_its_state_and_the_reason_of_its_wait)
{
    weft_mutex_lock(&lock);
    spin_named(wait_for_lock, NULL, "a name%");
    spin_named(sleep_forever, NULL, "sleeper");
    let_run();
    int fd = connect_client();
    request(fd, "view");
    ck_assert_str_eq(word_of_line("a%20name%25", WORD_STATE), "waiting");
    ck_assert_reply_has(" a%20mutex%20held%20by a%20name%25 ");
    ck_assert_reply_has(" sleep sleeper ");
    ck_assert_str_eq(word_of_line("process ", 4), "3");
    weft_mutex_unlock(&lock);
    weft_close(fd);
}

TEST(a_filter_selects_by_name_reason_and_id)
{
    weft_fiber sleeper = spin_named(sleep_forever, NULL, "Sleeper");
    spin_named(suspend, NULL, "other");
    let_run();
    int fd = connect_client();
    request(fd, "view filter=sleeper");
    ck_assert_reply_has(" Sleeper ");
    ck_assert_reply_lacks(" other ");
    request(fd, "view filter=SLEEP");
    ck_assert_reply_has(" Sleeper ");
    request(fd, format("view filter=%%23%llu", (unsigned long long)sleeper));
    ck_assert_reply_has(" Sleeper ");
    ck_assert_reply_lacks(" other ");
    weft_close(fd);
}

static weft_value busy_until_told(void *arg)
{
    volatile unsigned long sum = 0;
    atomic_bool *stop = arg;
    while (!atomic_load(stop)) {
        for (unsigned i = 0; i < 20000; i++)
            sum += i;
        weft_snooze();
    }
    return 0;
}

TEST(views_are_sorted_by_the_requested_key)
{
    atomic_bool stop = false;
    spin_named(sleep_forever, NULL, "sleeper");
    weft_fiber busy = spin_named(busy_until_told, &stop, "busy");
    int fd = connect_client();
    do /* the share grows after the first view has started to measure */
        request(fd, "view sort=cpu");
    while (strtod(word_of_line(" busy ", WORD_SHARE), NULL) < 0.1);
    ck_assert(strstr(reply, " busy ") < strstr(reply, " sleeper "));
    request(fd, "view sort=switches");
    ck_assert(strstr(reply, " busy ") < strstr(reply, " sleeper "));
    request(fd, "view sort=wait");
    ck_assert(strstr(reply, " sleeper ") < strstr(reply, " busy "));
    request(fd, "view sort=id limit=1");
    ck_assert_reply_has(" main ");
    ck_assert_reply_lacks(" busy ");
    request(fd, "view sort=id limit=1 offset=2");
    ck_assert_reply_has(" busy ");
    ck_assert_reply_lacks(" main ");
    stop = true;
    weft_await(busy);
    weft_close(fd);
}

/* Return whether weft_account is on. */
static bool is_accounting(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int rc = weft_top(fd);
    close(fd);
    return rc != -ENODATA;
}

TEST(cpu_time_is_measured_while_a_client_views)
{
    int fd = connect_client(), second = connect_client();
    request(fd, "stats");
    ck_assert(!is_accounting());
    request(fd, "view");
    request(second, "view");
    ck_assert(is_accounting());
    weft_close(fd);
    request(second, "view");
    ck_assert(is_accounting());
    weft_close(second);
    while (is_accounting())
        weft_sleep(0.001);
    weft_account(true);
    fd = connect_client();
    request(fd, "view");
    weft_close(fd);
    fd = connect_client(); /* the server has noticed the end of the first client before */
    request(fd, "stats");
    ck_assert(is_accounting());
    weft_close(fd);
}

TEST(ten_thousand_equal_fibers_are_one_row)
{
    const int count = is_sanitized() ? 1000 : 10000;
    for (int i = 0; i < count; i++)
        spin_named(sleep_forever, NULL, "connection");
    let_run();
    int fd = connect_client();
    request(fd, "view group");
    ck_assert_str_eq(word_of_line(" connection ", WORD_COUNT), format("%d", count));
    ck_assert_uint_lt(strlen(reply), 2000);
    request(fd, "view limit=50 offset=9000000");
    ck_assert_str_eq(word_of_line("process ", 6), format("%d", count + 1 - 50));
    weft_close(fd);
}

TEST(a_tree_has_children_after_their_parents_with_their_depth)
{
    spin_named(sleep_forever, NULL, "child");
    let_run();
    int fd = connect_client();
    request(fd, "view tree");
    ck_assert_str_eq(word_of_line(" main ", 4), "0");
    ck_assert_str_eq(word_of_line(" child ", 4), "1");
    ck_assert(strstr(reply, " main ") < strstr(reply, " child "));
    weft_close(fd);
}

TEST(a_backtrace_has_the_fiber_and_its_frames)
{
    weft_fiber f = spin_named(sleep_forever, NULL, "sleeper");
    let_run();
    int fd = connect_client();
    request(fd, format("backtrace %llu", (unsigned long long)f));
    ck_assert_str_eq(word_of_line(" sleeper ", WORD_ID), format("%llu", (unsigned long long)f));
    ck_assert_reply_has("\nframe ");
    cancel_and_await(f);
    request(fd, format("backtrace %llu", (unsigned long long)f));
    ck_assert_str_eq(reply, "error the%20fiber%20has%20ended\n.\n");
    weft_close(fd);
}

TEST(a_dump_has_the_fibers_of_all_cords)
{
    spin_named(sleep_forever, NULL, "sleeper");
    weft_cord cord = weft_cord_start(suspend, NULL, &(weft_cord_options){.name = "second"});
    let_run();
    int fd = connect_client();
    request(fd, "dump");
    ck_assert_reply_has("sleeper");
    ck_assert_reply_has("second");
    ck_assert_int_eq(strncmp(reply, "text ", 5), 0);
    weft_cord_cancel(cord);
    weft_cord_join(cord);
    weft_close(fd);
}

static const char *const invalid_requests[] = {
    "",
    "nonsense",
    "view sort=size",
    "view limit=x",
    "view what",
    "view limit=99999",
    "backtrace",
    "backtrace x",
    "backtrace 0",
    "profile",
    "profile stop",
    "profile read",
    "profile start gpu",
    "profile start hz=0",
    "profile start hz=1001",
    "view offset=-1",
    "backtrace 18446744073709551616",
};

TEST_ROWS(an_invalid_request_gets_an_error, invalid_requests)
{
    int fd = connect_client();
    request(fd, invalid_requests[_i]);
    ck_assert_msg(strncmp(reply, "error ", 6) == 0, "%s", reply);
    request(fd, "stats");
    ck_assert_reply_has("process ");
    weft_close(fd);
}

TEST(a_cut_or_invalid_escape_of_a_word_remains)
{
    static const char *const words[][2] = {
        {"a%20b%25", "a b%"}, {"%", "%"},     {"%A", "%A"},   {"%A%41", "%AA"},
        {"%g0", "%g0"},       {"%+1", "%+1"}, {"%00", "%00"}, {"", ""},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char word[16];
        snprintf(word, sizeof word, "%s%c%s", words[i][0], '\0', "rest");
        weft__word_unescape(word);
        ck_assert_str_eq(word, words[i][1]);
    }
}

TEST(a_line_that_is_too_long_ends_the_connection)
{
    char text[600];
    int fd = connect_client();
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)weft_write(fd, text, strlen(text));
    ck_assert_uint_eq(read_inspect_reply(fd), 0);
    weft_close(fd);
    fd = connect_client();
    text[511] = '\n', text[512] = '\0';
    send_raw(fd, text);
    ck_assert_uint_gt(read_inspect_reply(fd), 0);
    weft_close(fd);
}

TEST(random_bytes_do_not_harm_the_server)
{
    unsigned seed = 1;
    for (int round = 0; round < 200; round++) {
        char bytes[300];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)(rand_r(&seed) % 8 == 0 ? '\n' : rand_r(&seed));
        int fd = connect_client();
        (void)weft_write(fd, bytes, sizeof bytes);
        weft_close(fd);
    }
    int fd = connect_client();
    request(fd, "stats");
    ck_assert_reply_has("process ");
    weft_close(fd);
}

TEST(a_client_that_does_not_read_delays_no_other_client)
{
    for (int i = 0; i < 1000; i++)
        spin_named(sleep_forever, NULL, "connection");
    int slow = connect_client();
    for (int i = 0; i < 200; i++)
        if (weft_send(slow, "view limit=2000\n", 16, MSG_DONTWAIT) != 16)
            break;
    int fd = connect_client();
    for (int i = 0; i < 10; i++)
        request(fd, "stats");
    ck_assert_reply_has("process ");
    weft_close(fd);
    /* Requests that were sent without reading get their replies in order. */
    ck_assert_uint_gt(read_inspect_reply(slow), 0);
    weft_close(slow);
}

TEST(only_some_clients_are_served_at_a_time)
{
    int fds[8];
    char byte;
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = connect_client();
    int more = weft_dial("unix", socket_path);
    ck_assert_int_ge(more, 0);
    ck_assert_int_eq(weft_read(more, &byte, 1), 0);
    weft_close(more);
    request(fds[7], "stats");
    weft_close(fds[0]);
    request(fds[7], "stats"); /* the server notices the end of a client before or with a request */
    request(fds[7], "stats");
    weft_close(connect_client());
    for (size_t i = 1; i < COUNT_OF(fds); i++)
        weft_close(fds[i]);
}

/* Count the real-time signals that have a handler. */
static int count_handlers(void)
{
    int count = 0;
    for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++) {
        struct sigaction found;
        count += sigaction(sig, NULL, &found) == 0 && found.sa_handler != SIG_DFL;
    }
    return count;
}

/* Compute until a profile has a number of samples of CPU time. */
static uint64_t read_samples(int fd)
{
    request(fd, "profile read");
    return strtoull(word_of_line("profile ", 3), NULL, 10);
}

TEST(a_profile_has_the_cpu_time_and_the_waits_of_fibers)
{
    atomic_bool stop = false;
    uint64_t samples = 0;
    int before = count_handlers(), fd = connect_client();
    spin_named(sleep_forever, NULL, "sleeper");
    weft_fiber busy = spin_named(busy_until_told, &stop, "busy");
    request(fd, "profile start hz=1000");
    ck_assert_str_eq(reply, ".\n");
    ck_assert_int_eq(count_handlers(), before + 1);
    bool has_busy = false, has_sleeper = false;
    while (samples < 20 || !has_busy || !has_sleeper) {
        samples += read_samples(fd);
        has_busy |= strstr(reply, " busy - ") != NULL;
        has_sleeper |= strstr(reply, " sleeper sleep") != NULL;
        weft_sleep(0.01);
    }
    request(fd, "profile stop");
    ck_assert_int_eq(count_handlers(), before);
    request(fd, "profile stop");
    ck_assert_reply_has("error ");
    stop = true;
    weft_await(busy);
    weft_close(fd);
}

TEST(one_profile_runs_at_a_time_and_ends_with_its_client)
{
    int before = count_handlers(), fd = connect_client(), second = connect_client();
    request(fd, "profile start cpu");
    request(second, "profile start cpu");
    ck_assert_reply_has("error another%20profile");
    weft_close(fd);
    do
        request(second, "profile start cpu");
    while (strcmp(reply, ".\n") != 0);
    request(second, "profile stop");
    ck_assert_reply_lacks("wait ");
    ck_assert_int_eq(count_handlers(), before);
    weft_close(second);
}

/* Exchange bytes with a socket until told. Return the first error. */
static weft_value echo_until_told(void *arg)
{
    int pair[2];
    char byte = 0;
    ssize_t rc = weft_socketpair(pair);
    while (rc >= 0 && !atomic_load((atomic_bool *)arg)) {
        rc = weft_write(pair[0], &byte, 1);
        if (rc >= 0)
            rc = weft_read(pair[1], &byte, 1);
        if (rc >= 0)
            rc = weft_sleep(0);
    }
    close_fd_pair(pair);
    return rc < 0 ? rc : 0;
}

TEST(calls_of_weft_are_not_interrupted_by_a_profile)
{
    atomic_bool stop = false;
    uint64_t samples = 0;
    int fd = connect_client();
    weft_fiber echo = spin_named(echo_until_told, &stop, "echo");
    request(fd, "profile start cpu hz=1000");
    while (samples < 50)
        samples += read_samples(fd);
    stop = true;
    ck_assert_int_eq(weft_await(echo), 0);
    request(fd, "profile stop");
    weft_close(fd);
}

TEST(a_profile_includes_cords_that_start_later)
{
    atomic_bool stop = false;
    int fd = connect_client();
    request(fd, "profile start cpu hz=1000");
    weft_cord cord = weft_cord_start(busy_until_told, &stop, &(weft_cord_options){.name = "late"});
    ck_assert(cord != 0);
    do
        read_samples(fd);
    while (strstr(reply, " late late - ") == NULL);
    stop = true;
    weft_cord_join(cord);
    request(fd, "profile stop");
    weft_close(fd);
}
