/*
 * Tests of weft_resolve and weft_dial with names, for given answers of a name server and given
 * system files. The server is tests/support/dns_server.h. Without c-ares, only the tests that need
 * no server run.
 */
#include "support/cases.h"
#include "support/dns_server.h"
#include "support/suite.h"

#ifdef WEFT_HAS_CARES
#include "io/names/system_files.h"
#endif

#ifdef WEFT_HAS_CARES

static const dns_entry table[] = {
    {.name = "both.test", .a = "192.0.2.1 192.0.2.2", .aaaa = "2001:db8::1"},
    {.name = "four.test", .a = "192.0.2.4"},
    {.name = "six.test", .aaaa = "2001:db8::6"},
    {.name = "alias.test", .cname = "next.test"},
    {.name = "next.test", .cname = "both.test"},
    {.name = "empty.test"},
    {.name = "slow.test", .a = "192.0.2.5", .dropped = 1},
    {.name = "silent.test", .manner = DNS_SILENT},
    {.name = "held.test", .a = "192.0.2.6", .manner = DNS_HELD},
    {.name = "failing.test", .rcode = DNS_SERVFAIL},
    {.name = "refusing.test", .rcode = DNS_REFUSED},
    {.name = "long.test",
     .a = "192.0.2.10 192.0.2.11 192.0.2.12",
     .aaaa = "2001:db8::a 2001:db8::b",
     .manner = DNS_BY_TCP},
    {.name = "hanging.test", .a = "192.0.2.13", .manner = DNS_HANGING_UP},
    {.name = "wrong-id.test", .a = "192.0.2.14", .manner = DNS_WRONG_ID},
    {.name = "noise.test", .a = "192.0.2.15", .manner = DNS_NOISE},
    {.name = "broken.test", .a = "192.0.2.16", .manner = DNS_BROKEN},
    {.name = "other.test", .a = "192.0.2.17", .manner = DNS_OTHER_NAME},
    {.name = "www.second.test", .a = "192.0.2.18"},
    {.name = "local.test", .a = "127.0.0.1", .aaaa = "100::1 ::1"},
    {.name = "half.test", .manner = DNS_ONLY_AAAA},
    {.name = "dead.test", .a = "127.0.0.1", .aaaa = "::1"},
    {.name = "a.silent.test", .a = "192.0.2.19", .manner = DNS_SILENT},
};

static dns_server server;
static weft_resolver_options settings;
static char hosts_path[64], resolv_path[64];

static void write_file(char path[64], const char *text, size_t bytes)
{
    /* Rename, so that the change is detected even with a coarse clock. */
    const char *draft = format("%s.new", path);
    FILE *file = fopen(draft, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(draft, path), 0);
}

static void write_hosts(const char *text)
{
    write_file(hosts_path, text, strlen(text));
}

static void write_resolv(const char *text)
{
    write_file(resolv_path, text, strlen(text));
}

/* Change some settings. */
static void configure(weft_resolver_options o)
{
    ck_assert_int_eq(weft_set_resolver(&o), 0);
}

static void set_tries(double timeout_s, int tries)
{
    settings.timeout_s = timeout_s;
    settings.tries = tries;
    configure(settings);
}

static void set_servers(const char *servers)
{
    weft_resolver_options o = settings;
    o.servers = servers;
    configure(o);
}

/* Start a server. Use hosts and resolv.conf files of the test. */
static void start_server(void)
{
    dns_start(&server, table, COUNT_OF(table));
    snprintf(hosts_path, 64, "/tmp/weft-resolve-%d-hosts", (int)getpid());
    snprintf(resolv_path, 64, "/tmp/weft-resolve-%d-resolv", (int)getpid());
    write_hosts("# none\n");
    write_resolv("options timeout:5\n");
    settings = (weft_resolver_options){.servers = server.address,
                                       .search = "",
                                       .hosts_path = hosts_path,
                                       .resolv_path = resolv_path,
                                       .timeout_s = 10};
    configure(settings);
}

static void stop_server(void)
{
    let_run();
    ck_assert_int_eq(weft_children(weft_main(), NULL, 0), 0);
    ck_assert_uint_eq(ops_pending(), 0);
    dns_stop(&server);
    unlink(hosts_path);
    unlink(resolv_path);
}

FIXTURE(start_server, stop_server)

/* Format the addresses, each as "address#port/type". The type is a letter of "?sdr". */
static const char *addresses_text(const struct addrinfo *list)
{
    static char text[4096];
    const char *canonical = list->ai_canonname;
    text[0] = '\0';
    for (; list != NULL; list = list->ai_next) {
        char host[64], port[16], *end = text + strlen(text);
        ck_assert_int_eq(getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof host, port,
                                     sizeof port, NI_NUMERICHOST | NI_NUMERICSERV),
                         0);
        ck_assert_int_eq(list->ai_addr->sa_family, list->ai_family);
        ck_assert(list->ai_canonname == NULL || list->ai_canonname == canonical);
        snprintf(end, sizeof text - (size_t)(end - text), "%s%s#%s/%c", end > text ? " " : "", host,
                 port, "?sdr"[list->ai_socktype]);
    }
    return canonical != NULL ? strcat(strcat(text, " = "), canonical) : text;
}

/*
 * Resolve a name. Return the addresses as text, and the canonical name if there is one. Return the
 * name of the error if the call fails.
 */
static const char *resolve_text(const char *host, const char *service, const struct addrinfo *hints)
{
    struct addrinfo *found = NULL;
    int rc = weft_resolve(host, service, hints, &found);
    if (rc != 0) {
        ck_assert_ptr_null(found);
        ck_assert_any_error(rc);
        ck_assert_has(weft_error()->message, host);
        return strerrorname_np(-rc);
    }
    const char *text = addresses_text(found);
    weft_resolve_free(found);
    return text;
}

/* Wait until the server has received this number of queries for a name. */
static void await_queries(const char *name, int times)
{
    while (dns_queries(&server, name) < times)
        weft_sleep(0.001);
}

/* Assert the number of queries for a name. Wait for queries that the server has not read yet. */
static void assert_queries(const char *name, int times)
{
    await_queries(name, times);
    ck_assert_int_eq(dns_queries(&server, name), times);
}

#define STREAMS .ai_socktype = SOCK_STREAM
#define STREAMS_4 .ai_family = AF_INET, .ai_socktype = SOCK_STREAM
#define STREAMS_6 .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM

static const struct addrinfo streams_4 = {STREAMS_4};

/* Assert the IPv4 addresses of a name at port 80, or the error. */
#define ck_assert_resolves(name, text) ck_assert_str_eq(resolve_text(name, "80", &streams_4), text)

typedef struct lookup_row {
    const char *host, *service;
    struct addrinfo hints;
    const char *text;
    const char *more; /* a second part; the order depends on the routes of the machine */
} lookup_row;

static void check_lookups(const lookup_row *rows, size_t count)
{
    for (const lookup_row *r = rows; r < rows + count; r++) {
        const char *text = resolve_text(r->host, r->service, &r->hints);
        if (r->more != NULL)
            ck_assert_has(text, r->text, r->more);
        else
            ck_assert_msg(strcmp(text, r->text) == 0, "%s %s: %s", r->host, r->service, text);
    }
}

TEST(the_server_and_the_hints_determine_the_addresses_of_a_name)
{
    static const lookup_row rows[] = {
        {"both.test", "80", {STREAMS}, "192.0.2.1#80/s 192.0.2.2#80/s", "2001:db8::1#80/s"},
        {"both.test", "0", {STREAMS_4}, "192.0.2.1#0/s 192.0.2.2#0/s"},
        {"BOTH.test.", NULL, {STREAMS_6}, "2001:db8::1#0/s"},
        {"six.test", "1", {STREAMS}, "2001:db8::6#1/s"},
        {"four.test", "7", {.ai_protocol = IPPROTO_UDP}, "192.0.2.4#7/d"},
        {"four.test", "7", {STREAMS, .ai_protocol = IPPROTO_UDP}, "EINVAL"},
        /* A port may be a service name. */
        {"four.test", "http", {STREAMS}, "192.0.2.4#80/s"},
        {"four.test", "http", {STREAMS, .ai_flags = AI_NUMERICSERV}, "ENOENT"},
        {"four.test", "no-such-service", {STREAMS}, "ENOENT"},
        /* An alias is followed to the canonical name. */
        {"alias.test",
         "80",
         {STREAMS_4, .ai_flags = AI_CANONNAME},
         "192.0.2.1#80/s 192.0.2.2#80/s = both.test"},
        {"four.test", "80", {STREAMS_4, .ai_flags = AI_CANONNAME}, "192.0.2.4#80/s = four.test"},
        /* IPv4 addresses are mapped on request. */
        {"four.test", "80", {STREAMS_6, .ai_flags = AI_V4MAPPED}, "::ffff:192.0.2.4#80/s"},
        {"both.test", "80", {STREAMS_6, .ai_flags = AI_V4MAPPED}, "2001:db8::1#80/s"},
        {"both.test",
         "80",
         {STREAMS_6, .ai_flags = AI_V4MAPPED | AI_ALL},
         "::ffff:192.0.2.1#80/s ::ffff:192.0.2.2#80/s",
         "2001:db8::1#80/s"},
        /* Unknown names and failing servers give different errors. */
        {"no-such.test", "80", {STREAMS}, "ENOENT"},
        {"empty.test", "80", {STREAMS}, "ENOENT"},
        {"four.test", "80", {STREAMS_6}, "ENOENT"},
        {"..", "80", {STREAMS}, "ENOENT"},
        {"failing.test", "80", {STREAMS}, "EAGAIN"},
        {"refusing.test", "80", {STREAMS}, "EIO"},
        {"broken.test", "80", {STREAMS_4}, "EIO"},
    };
    check_lookups(rows, COUNT_OF(rows));
    ck_assert_int_eq(dns_queries(&server, "six.test"), 2); /* one for each family */
    ck_assert_int_eq(weft_dial("tcp", "empty.test:80"), -ENOENT);
}

/* T94 */
TEST(without_hints_there_is_an_entry_for_each_type)
{
    struct addrinfo *found;
    ck_assert_int_eq(weft_resolve("four.test", "7", NULL, &found), 0);
    ck_assert_str_eq(addresses_text(found), "192.0.2.4#7/s 192.0.2.4#7/d 192.0.2.4#7/r");
    ck_assert_int_eq(found->ai_protocol, IPPROTO_TCP);
    ck_assert_int_eq(found->ai_next->ai_protocol, IPPROTO_UDP);
    ck_assert_ptr_null(found->ai_canonname);
    weft_resolve_free(found);
}

TEST(hints_and_services_are_checked_before_the_first_query)
{
    static const lookup_row rows[] = {
        {"four.test", NULL, {.ai_flags = AI_IDN}, "EINVAL"}, /* only the C library supports this */
        {"four.test", NULL, {.ai_family = 4711}, "EINVAL"},
        {"four.test", NULL, {.ai_flags = AI_NUMERICHOST}, "ENOENT"},
        {"four.test", "no-such-service", {STREAMS}, "ENOENT"},
        /* localhost is the loopback address without being listed. */
        {"localhost", "80", {STREAMS_4}, "127.0.0.1#80/s"},
        {"localhost", "80", {STREAMS_6}, "::1#80/s"},
    };
    check_lookups(rows, COUNT_OF(rows));
    ck_assert_int_eq(atomic_load(&server.asked->udp), 0);
}

/* The server answers AAAA without records, and does not answer A. */
TEST(a_name_is_not_reported_missing_if_one_family_was_not_answered)
{
    set_tries(0.01, 2);
    static const lookup_row rows[] = {{"half.test", "80", {STREAMS}, "EAGAIN"},
                                      {"half.test", "80", {STREAMS_6}, "ENOENT"}};
    check_lookups(rows, COUNT_OF(rows));
}

TEST(a_query_is_repeated_if_the_server_does_not_answer)
{
    set_tries(0.05, 8);
    ck_assert_resolves("slow.test", "192.0.2.5#80/s");
    ck_assert_int_ge(dns_queries(&server, "slow.test"), 2);
}

/* A response that does not match the query is not an answer. */
TEST(no_answer_is_an_error_after_all_tries_and_leaves_no_descriptor_open)
{
    set_tries(0.01, 2);
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
    int files = count_descriptors();
    static const char *const names[] = {"silent.test", "wrong-id.test", "noise.test", "other.test"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ck_assert_resolves(names[i], "EAGAIN");
        assert_queries(names[i], 2);
        ck_assert_int_eq(count_descriptors(), files);
    }
}

TEST(the_next_server_is_queried_if_one_is_unreachable)
{
    set_servers("127.0.0.1:1");
    ck_assert_resolves("four.test", "EAGAIN");
    set_servers(format("127.0.0.1:1,%s", server.address));
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(a_truncated_answer_is_requested_over_tcp)
{
    static const lookup_row rows[] = {
        {"long.test",
         "80",
         {STREAMS},
         "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s",
         "2001:db8::a#80/s"},
    };
    check_lookups(rows, 1);
    ck_assert_int_eq(atomic_load(&server.asked->tcp), 2);
    ck_assert_resolves("hanging.test", "EAGAIN");
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(the_hosts_file_has_priority_and_is_reread_after_a_change)
{
    static const lookup_row rows[] = {
        {"four.test", "80", {STREAMS_4}, "10.0.0.1#80/s 10.0.0.3#80/s 10.0.0.6#80/s"},
        {"four.test", "80", {STREAMS}, "10.0.0.1#80/s", "fd00::4#80/s"},
        {"first", "80", {STREAMS}, "10.0.0.1#80/s"},
        {"other", "80", {STREAMS_4, .ai_flags = AI_CANONNAME}, "10.0.0.3#80/s = other"},
        {"both.test", NULL, {STREAMS_6}, "2001:db8::1#0/s"},
        /* For IPv4, ::1 is 127.0.0.1. */
        {"six-loop", "80", {STREAMS_4}, "127.0.0.1#80/s"},
        {"both-loops", "80", {STREAMS_4}, "127.0.0.1#80/s"},
        {"six-loop", "80", {STREAMS_6}, "::1#80/s"},
    };
    write_hosts("10.0.0.1 Four.test first # four\n"
                "# 10.0.0.2 four.test\n"
                "127.0.0.1 both-loops\n::1 both-loops six-loop\n127.0.0.1 both-loops\n"
                "\t10.0.0.3\tother\tFOUR.TEST\n"
                "fd00::4 four.test\nnonsense four.test\n10.0.0.5 four.test.org\n"
                "::ffff:10.0.0.6 four.test"); /* no final newline */
    check_lookups(rows, COUNT_OF(rows));
    ck_assert_int_eq(dns_queries(&server, "four.test"), 0);
    write_hosts("10.0.0.7 four.test\n");
    ck_assert_resolves("four.test", "10.0.0.7#80/s");
    unlink(hosts_path);
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(a_nul_byte_in_the_hosts_file_does_not_hide_the_following_lines)
{
    static const char text[] = "\0\0\n10.0.0.1 one.test\0\n\0 10.0.0.2 two.test\n";
    write_file(hosts_path, text, sizeof text - 1);
    ck_assert_resolves("one.test", "10.0.0.1#80/s");
    ck_assert_resolves("two.test", "10.0.0.2#80/s");
}

TEST(names_can_be_resolved_after_a_shutdown)
{
    weft_go(sleep_forever, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(search_domains_apply_to_a_name_without_a_dot)
{
    settings.search = "first.test second.test";
    configure(settings);
    static const lookup_row rows[] = {
        {"www", "80", {STREAMS_4, .ai_flags = AI_CANONNAME}, "192.0.2.18#80/s = www.second.test"},
        {"www.", "80", {STREAMS_4}, "ENOENT"}};
    check_lookups(rows, COUNT_OF(rows));
}

TEST(the_options_in_resolv_conf_apply_and_are_reread)
{
    settings.search = NULL;
    write_resolv("; ours\nsearch second.test\noptions rotate attempts:1\n");
    configure(settings);
    ck_assert_resolves("www", "192.0.2.18#80/s");
    set_tries(0.01, 0);
    ck_assert_resolves("silent.test.", "EAGAIN");
    assert_queries("silent.test", 1);
    write_resolv("search silent.test\noptions attempts:3\n");
    ck_assert_resolves("silent.test.", "EAGAIN");
    assert_queries("silent.test", 4);
    ck_assert_resolves("a", "EAGAIN");
    assert_queries("a.silent.test", 3);
    ck_assert_int_eq(setenv("RES_OPTIONS", "attempts:2", 1), 0);
    write_resolv("\n");
    ck_assert_resolves("silent.test.", "EAGAIN");
    assert_queries("silent.test", 6);
}

static void check_wrong_servers(const char *servers)
{
    ck_assert_msg(weft_set_resolver(&(weft_resolver_options){.servers = servers}) == -EINVAL,
                  "'%s'", servers);
    ck_assert_any_error(-EINVAL);
}

TEST(invalid_settings_are_refused_and_change_nothing)
{
    EACH_TEXT(check_wrong_servers, "", "nobody", "127.0.0.1:", "127.0.0.1:0", "[::1", "[::1]53",
              "1.2.3.4,", "127.0.0.1:99999", "[127.0.0.1]", "127.0.0.1:5x", "::1:", "127.0.0.1 ");
    ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.timeout_s = -1}), -EINVAL);
    ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.timeout_s = NAN}), -EINVAL);
    ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.tries = -1}), -EINVAL);
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
    EACH_TEXT(set_servers, "::1", "[::1]", "[::1]:5353,127.0.0.1", "10.0.0.1:53");
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
}

/* Concurrent and interrupted lookups. */

typedef struct lookup {
    const char *name;
    const char *service; /* NULL: "80" */
    int rc;
    char text[128];
} lookup;

static weft_value run_lookup(void *arg)
{
    lookup *a = arg;
    struct addrinfo *found = NULL;
    a->rc = weft_resolve(a->name, a->service != NULL ? a->service : "80", &streams_4, &found);
    if (a->rc == 0 && found != NULL)
        snprintf(a->text, sizeof a->text, "%s", addresses_text(found));
    weft_resolve_free(found);
    return a->rc;
}

/* Start a lookup. Wait until the server has received its query. */
static weft_fiber spin_lookup(lookup *a)
{
    int before = dns_queries(&server, a->name);
    weft_fiber f = weft_spin(run_lookup, a);
    await_queries(a->name, before + 1);
    return f;
}

#define LOOKUPS 500

TEST(five_hundred_concurrent_lookups_each_get_their_own_answer)
{
    static lookup lookups[LOOKUPS];
    static const char *const cases[][2] = {
        {"four.test", "192.0.2.4#80/s"},
        {"both.test", "192.0.2.1#80/s 192.0.2.2#80/s"},
        {"no-such.test", ""},
        {"long.test", "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s"},
        {"alias.test", "192.0.2.1#80/s 192.0.2.2#80/s"}};
    set_tries(1, 5);
    for (size_t i = 0; i < LOOKUPS; i++) {
        lookups[i].name = cases[i % COUNT_OF(cases)][0];
        ck_assert_uint_ne(weft_spin(run_lookup, &lookups[i]), 0);
    }
    while (weft_await_children() != 0) /* -ENOENT of the lookups of unknown names */
        weft_error_clear();
    for (size_t i = 0; i < LOOKUPS; i++) {
        const char *text = cases[i % COUNT_OF(cases)][1];
        ck_assert_int_eq(lookups[i].rc, *text != '\0' ? 0 : -ENOENT);
        ck_assert_str_eq(lookups[i].text, text);
    }
}

TEST(a_deadline_before_the_answer_leaks_nothing)
{
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
    int files = count_descriptors();
    for (int i = 0; i < 5; i++) { /* T94 */
        struct addrinfo *found = NULL;
        int rc = 1;
        WEFT_CANCEL_AFTER(i == 0 ? 0 : 0.002, rc)
            ck_assert_int_eq(weft_resolve("silent.test", "80", NULL, &found), -ECANCELED);
        ck_assert_int_eq(rc, -ETIMEDOUT);
        WEFT_CANCEL_AFTER(i == 0 ? 0 : 0.002, rc)
            ck_assert_int_eq(weft_dial("tcp", "silent.test:80"), -ECANCELED);
        ck_assert_int_eq(rc, -ETIMEDOUT);
        ck_assert_ptr_null(found);
        let_run();
        ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
        ck_assert_int_eq(count_descriptors(), files);
    }
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(a_late_answer_is_not_given_to_the_next_lookup)
{
    lookup late = {.name = "held.test"}, other = {.name = "silent.test"};
    weft_fiber f = spin_lookup(&late), g = spin_lookup(&other); /* keeps the resolver active */
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    /* The server now sends the answer for held.test, then the answer for four.test. */
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
    ck_assert_int_eq(late.rc, -ECANCELED);
    ck_assert_int_eq(weft_interrupt(g, -7), 0);
    ck_assert_int_eq(weft_await(g), -7);
}

TEST(of_two_lookups_of_one_name_one_can_be_cancelled)
{
    lookup one = {.name = "held.test"}, two = {.name = "held.test"};
    weft_fiber f = spin_lookup(&one), g = spin_lookup(&two);
    weft_stop(f, 0);
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
    ck_assert_int_eq(weft_await(g), 0);
    ck_assert_str_eq(two.text, "192.0.2.6#80/s");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(one.rc, -ECANCELED);
}

TEST(a_lookup_can_be_interrupted_at_any_time)
{
    for (int i = 0; i < 300; i++) {
        lookup a = {.name = i % 3 == 0 ? "silent.test" : i % 3 == 1 ? "four.test" : "long.test"};
        a.service = i % 5 == 0 ? "http" : NULL; /* a service name needs a worker */
        weft_fiber f = weft_spin(run_lookup, &a);
        for (int ticks = i % 10; ticks > 0; ticks--)
            i % 2 ? weft_sleep(0) : weft_snooze();
        bool is_interrupted = i % 4 == 0 && weft_interrupt(f, -EINTR) == 0;
        if (!is_interrupted)
            weft_cancel(f);
        weft_value value = weft_await(f);
        ck_assert(value == (is_interrupted ? -EINTR : -ECANCELED) || value == 0);
    }
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(lookups_in_progress_keep_the_settings_they_started_with)
{
    lookup a = {.name = "held.test"};
    weft_fiber f = spin_lookup(&a);
    set_servers("127.0.0.1:1");
    ck_assert_resolves("four.test", "EAGAIN");
    configure(settings);
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(a.text, "192.0.2.6#80/s");
}

static weft_value run_shielded_lookup(void *arg)
{
    WEFT_SHIELD(INFINITY)
        run_lookup(arg);
    return 0;
}

/* The fiber that runs the lookups is a child of main too. */
TEST(a_lookup_in_a_shield_survives_the_end_of_all_children)
{
    set_tries(0.05, 8);
    lookup a = {.name = "slow.test"};
    weft_spin(run_shielded_lookup, &a);
    await_queries("slow.test", 1);
    ck_assert_int_eq(weft_terminate_children(10), 0);
    ck_assert_int_eq(a.rc, 0);
    ck_assert_str_eq(a.text, "192.0.2.5#80/s");
}

TEST(main_waits_for_a_lookup_but_not_for_a_lookup_of_a_daemon)
{
    lookup a = {.name = "four.test"}, b = {.name = "silent.test"};
    weft_fiber daemon =
        weft_spin_with(run_lookup, &b, &(weft_spin_options){.is_daemon = true, .name = "daemon"});
    ck_assert_int_eq(weft_go(run_lookup, &a), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_str_eq(a.text, "192.0.2.4#80/s");
    ck_assert_int_eq(weft_state_of(daemon), WEFT_WAITING);
    ck_assert_int_eq(cancel_and_await(daemon), -ECANCELED);
}

TEST(a_fiber_with_the_smallest_stack_can_resolve_a_name)
{
    lookup a = {.name = "long.test"};
    weft_fiber f = weft_spin_with(run_lookup, &a, &(weft_spin_options){.stack_bytes = 16 << 10});
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(a.text, "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s");
}

static void *resolve_and_end_thread(void *arg)
{
    static lookup done = {.name = "four.test"}, open = {.name = "silent.test"};
    if (weft_set_resolver(&settings) != 0 || run_lookup(&done) != 0)
        return "the lookup failed";
    spin_lookup(&open);
    return NULL;
}

TEST(a_thread_may_end_during_a_lookup)
{
    int files = 0;
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_null(join_thread(start_thread(resolve_and_end_thread, NULL)));
        if (i == 0)
            files = count_descriptors();
        ck_assert_int_eq(count_descriptors(), files);
    }
    ck_assert_resolves("four.test", "192.0.2.4#80/s");
}

TEST(a_process_may_end_during_a_lookup)
{
    static lookup open = {.name = "silent.test"};
    int status;
    pid_t pid = weft_fork();
    if (pid == 0) {
        spin_lookup(&open);
        exit(5);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

/* T95: the IPv6 address is refused or has no route, the IPv4 address works */
TEST(a_dial_tries_the_addresses_of_a_name_until_one_works)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int listener = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    static const char *const names[] = {"local.test", "dead.test"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        int client = weft_dial("tcp", format("%s:%d", names[i], ntohs(at.sin_port)));
        ck_assert_msg(client >= 0, "%s", weft_error() != NULL ? weft_error()->message : "?");
        close_fd_pair((int[]){client, weft_accept(listener, NULL, NULL)});
    }
    ck_assert_int_eq(weft_dial("tcp", "no-such.test:80"), -ENOENT);
    ck_assert_int_eq(weft_dial("tcp", "four.test:no-such-service"), -ENOENT);
    weft_close(listener);
}

/* Internal functions. */

/* True if weft looks for a name itself, with these lines of nsswitch.conf. */
static bool is_searched_with(const char *nsswitch, const char *name)
{
    weft__sources s = weft__sources_read(nsswitch, NULL, NULL);
    return weft__sources_suffice(&s, name);
}

TEXT_CHECK(check_own_source, is_searched_with(text, "www.example.org"))
TEXT_CHECK(check_foreign_source, !is_searched_with(text, "www.example.org"))

static void check_foreign_name(const char *name, const char *sources)
{
    const char *nsswitch = format("hosts: files %s dns\n", sources);
    ck_assert_msg(!is_searched_with(nsswitch, name), "%s", name);
}

TEST(names_go_to_the_c_library_if_sources_other_than_files_and_dns_are_configured)
{
    EACH_TEXT(check_own_source, "hosts: files dns\n", "# hosts: nis\nhosts:\tfiles  dns # nis\n",
              "passwd: nis\n", "", "hosts:files mdns4_minimal [NOTFOUND=return] dns\n",
              "hosts: files mymachines myhostname dns");
    EACH_TEXT(check_foreign_source, "hosts: files resolve [!UNAVAIL=return] dns\n",
              "hosts: dns files\n", "hosts: files\n", "hosts: files [NOTFOUND=return] dns\n",
              "hosts: nis dns\n", "hosts: mdns4 dns\n");
    EACH_PAIR(check_foreign_name, "printer.local -> mdns4_minimal [NOTFOUND=return]",
              "Printer.Local. -> mdns4_minimal [NOTFOUND=return]", "box -> mymachines",
              "_gateway -> myhostname", "a.localhost -> myhostname");
    ck_assert(is_searched_with("hosts: files mdns4_minimal [NOTFOUND=return] dns\n", "local.org"));
    char own[256] = "";
    ck_assert_int_eq(gethostname(own, sizeof own - 1), 0);
    check_foreign_name(own, "myhostname");
    static const char *const files[][2] = {
        {"# label\n\n", "nameserver fe80::1\n"},
        {"# x\nprecedence ::ffff:0:0/96  100\n", NULL},
        {NULL, "search a\n nameserver fe80::1%eth0\n"},
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        weft__sources s = weft__sources_read(NULL, files[i][0], files[i][1]);
        ck_assert_int_eq(weft__sources_suffice(&s, "a.org"), i == 0);
    }
}

TEST(options_of_resolv_conf_are_read_within_their_limits)
{
    static const struct {
        const char *text;
        int timeout_ms, tries;
        bool uses_tcp;
    } rows[] = {
        {NULL, 5000, 2},
        {"options timeout:2 attempts:3\n", 2000, 3},
        {"options timeout:2\n options use-vc attempts:4 # timeout:9\n", 2000, 4, true},
        {"options timeout:0 attempts:99999999999\n", 1000, 5},
        {"options timeout: attempts:x\n;options timeout:3\n", 5000, 2},
    };
    unsetenv("RES_OPTIONS");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft__resolv_options p = weft__resolv_options_read(rows[i].text);
        ck_assert_int_eq(p.timeout_ms, rows[i].timeout_ms);
        ck_assert_int_eq(p.tries, rows[i].tries);
        ck_assert_int_eq(p.uses_tcp, rows[i].uses_tcp);
    }
}

/* Format the search domains, each with a comma, then ndots. */
static const char *search_text(const char *own, const char *resolv)
{
    static char text[256];
    weft__search s;
    ck_assert_int_eq(weft__search_read(&s, own, resolv), 0);
    text[0] = '\0';
    for (int i = 0; i < s.count; i++)
        strcat(strcat(text, weft__search_domain(&s, i)), ",");
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d", s.ndots);
    weft__search_free(&s);
    return text;
}

PAIR_CHECK(check_search, search_text(NULL, input))

TEST(search_domains_are_those_of_the_last_search_or_domain_line)
{
    unsetenv("RES_OPTIONS");
    unsetenv("LOCALDOMAIN");
    EACH_PAIR(check_search, "search a.org  b.org # c\n -> a.org,b.org,1",
              "search a.org b.org\ndomain c.org d.org\n -> c.org,1",
              "domain c.org\nsearch a.org\tb.org -> a.org,b.org,1",
              "search a.org\noptions ndots:0\n -> a.org,0");
    ck_assert_str_eq(search_text("", "search a.org\noptions ndots:99\n"), "15");
    ck_assert_str_eq(search_text(" x.org, y.org ", "search a.org\n"), "x.org,y.org,1");
    ck_assert_int_eq(setenv("LOCALDOMAIN", "z.org", 1), 0);
    ck_assert_str_eq(search_text(NULL, "search a.org\n"), "z.org,1");
}

static const char *sorted_text(const char *const *addresses, size_t count)
{
    static char text[256];
    weft__ip_addrs ips = {0};
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[16];
        int family = strchr(addresses[i], ':') != NULL ? AF_INET6 : AF_INET;
        ck_assert_int_eq(inet_pton(family, addresses[i], bytes), 1);
        ck_assert(weft__ip_addrs_add(&ips, family, bytes));
    }
    weft__ip_addrs_order(&ips);
    for (size_t i = 0; i < ips.count; i++) {
        char one[64];
        const weft__ip_addr *ip = &ips.list[i];
        const void *at =
            ip->any.sa_family == AF_INET ? (void *)&ip->v4.sin_addr : (void *)&ip->v6.sin6_addr;
        strcat(text, i > 0 ? " " : "");
        strcat(text, inet_ntop(ip->any.sa_family, at, one, sizeof one));
    }
    weft__ip_addrs_free(&ips);
    return text;
}

TEST(reachable_addresses_are_sorted_first_and_equal_ones_keep_their_order)
{
    /* A broadcast address, which cannot be connected to, and a loopback address. */
    static const char *const mixed[] = {"255.255.255.255", "127.0.0.1"};
    ck_assert_str_eq(sorted_text(mixed, 2), "127.0.0.1 255.255.255.255");
    static const char *const equal[] = {"127.0.0.3", "127.0.0.1", "127.0.0.2"};
    ck_assert_str_eq(sorted_text(equal, 3), "127.0.0.3 127.0.0.1 127.0.0.2");
    int fd = weft_listen("tcp6", "[::1]:0");
    if (fd < 0)
        return;
    weft_close(fd);
    static const char *const both[] = {"127.0.0.1", "::1"};
    ck_assert_str_eq(sorted_text(both, 2), "::1 127.0.0.1");
}

#endif

static bool is_same_entry(const struct addrinfo *a, const struct addrinfo *b)
{
    return a->ai_socktype == b->ai_socktype && a->ai_protocol == b->ai_protocol &&
           a->ai_addrlen == b->ai_addrlen && memcmp(a->ai_addr, b->ai_addr, a->ai_addrlen) == 0;
}

/*
 * Return the next entry that is not a duplicate. For IPv4, the C library reads ::1 in the hosts
 * file as 127.0.0.1 and lists it twice.
 */
static const struct addrinfo *next_unique(const struct addrinfo *list, const struct addrinfo *at)
{
    for (at = at->ai_next; at != NULL; at = at->ai_next) {
        const struct addrinfo *before = list;
        while (before != at && !is_same_entry(before, at))
            before = before->ai_next;
        if (before == at)
            break;
    }
    return at;
}

static void assert_same_as_libc(const char *host, const char *service, const struct addrinfo *hints)
{
    struct addrinfo *theirs, *ours = NULL;
    int code = getaddrinfo(host, service, hints, &theirs);
    int rc = weft_resolve(host, service, hints, &ours);
    ck_assert_msg((code == 0) == (rc == 0), "%s: %d and %d", host, code, rc);
    if (code != 0)
        return;
    const struct addrinfo *a = theirs, *b = ours;
    for (; a != NULL && b != NULL; a = next_unique(theirs, a), b = b->ai_next) {
        ck_assert_int_eq(a->ai_flags, b->ai_flags);
        ck_assert_int_eq(a->ai_family, b->ai_family);
        ck_assert_int_eq(a->ai_socktype, b->ai_socktype);
        ck_assert_int_eq(a->ai_protocol, b->ai_protocol);
        ck_assert_uint_eq(a->ai_addrlen, b->ai_addrlen);
        ck_assert_mem_eq(a->ai_addr, b->ai_addr, a->ai_addrlen);
        ck_assert_int_eq(a->ai_canonname == NULL, b->ai_canonname == NULL);
        if (a->ai_canonname != NULL)
            ck_assert_str_eq(a->ai_canonname, b->ai_canonname);
    }
    ck_assert_ptr_eq(a, b); /* NULL */
    freeaddrinfo(theirs);
    weft_resolve_free(ours);
}

/* T94 */
TEST(localhost_resolves_as_with_getaddrinfo)
{
    static const struct addrinfo hints[] = {
        {.ai_family = AF_INET},
        {.ai_socktype = SOCK_STREAM},
        {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_PASSIVE},
        {.ai_flags = AI_CANONNAME},
        {.ai_flags = AI_ADDRCONFIG},
        {.ai_family = AF_INET6, .ai_flags = AI_V4MAPPED | AI_ALL},
        {.ai_socktype = SOCK_STREAM, .ai_flags = AI_IDN},
        {.ai_socktype = SOCK_RAW},
        {.ai_socktype = SOCK_RAW, .ai_protocol = IPPROTO_TCP},
        {.ai_family = 4711},
        {.ai_flags = 1 << 30},
    };
    static const char *const services[] = {NULL, "80", "http", "0", "no-such-service"};
    struct addrinfo *known;
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
    bool is_known = getaddrinfo("localhost", NULL, NULL, &known) == 0;
    if (is_known)
        freeaddrinfo(known);
    for (size_t s = 0; is_known && s < COUNT_OF(services); s++) {
        assert_same_as_libc("localhost", services[s], NULL);
        for (size_t i = 0; i < COUNT_OF(hints); i++)
            assert_same_as_libc("localhost", services[s], &hints[i]);
    }
    assert_same_as_libc("127.1", "80", NULL);
    assert_same_as_libc("", "80", NULL);
    assert_same_as_libc("::ffff:127.0.0.1", "80", &hints[1]);
}

TEST(localhost_is_found_if_the_hosts_file_does_not_list_it)
{
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
    /* AI_IDN selects the C library, with and without c-ares. */
    static const struct addrinfo hints = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME | AI_IDN};
    const struct sockaddr_in loopback = {
        .sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct addrinfo *found;
    ck_assert_int_eq(weft_resolve("localhost", "80", &hints, &found), 0);
    ck_assert_mem_eq(found->ai_addr, &loopback, sizeof loopback);
    ck_assert_str_eq(found->ai_canonname, "localhost");
    weft_resolve_free(found);
}

TEST(custom_resolver_settings_need_c_ares)
{
    const weft_resolver_options o = {.servers = "127.0.0.1:1"};
#ifdef WEFT_HAS_CARES
    ck_assert_int_eq(weft_set_resolver(&o), 0);
#else
    ck_assert_fails(weft_set_resolver(&o), -EOPNOTSUPP);
#endif
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
}
