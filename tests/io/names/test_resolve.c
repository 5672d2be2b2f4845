/*
 * Tests of weft_resolve and weft_dial with names, for given answers of a name server and given
 * system files. The server is tests/support/dns_server.h. Without c-ares, only the tests that need
 * no server run.
 */
#include "support/dns_server.h"
#include "support/suite.h"

#ifdef WEFT_HAS_CARES
#include "io/names/system_files.h"
#endif

#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>

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
static const weft_resolver_options *settings;
static char hosts_path[64], resolv_path[64];

static void write_file(char path[64], const char *text)
{
    if (path[0] == '\0')
        snprintf(path, 64, "/tmp/weft-resolve-%d-%s", (int)getpid(),
                 path == hosts_path ? "hosts" : "resolv");
    char draft[80]; /* rename, so that the change is detected even with a coarse clock */
    snprintf(draft, sizeof draft, "%s.new", path);
    FILE *file = fopen(draft, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(draft, path), 0);
}

/* Start a server. Use hosts and resolv.conf files of the test. */
static void start_server_with(const weft_resolver_options *more)
{
    static weft_resolver_options o;
    dns_start(&server, table, COUNT_OF(table));
    write_file(hosts_path, "# none\n");
    write_file(resolv_path, "options timeout:5\n");
    o = *more;
    if (o.servers == NULL)
        o.servers = server.address;
    if (o.search == NULL)
        o.search = "";
    o.hosts_path = hosts_path;
    o.resolv_path = resolv_path;
    ck_assert_int_eq(weft_set_resolver(&o), 0);
    settings = &o;
}

static void start_server(void)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 10});
}

static void stop_server(void)
{
    weft_counters counters;
    ck_assert_int_eq(weft_children(weft_main(), NULL, 0), 0);
    weft_stats(&counters);
    ck_assert_uint_eq(counters.ops_pending, 0);
    dns_stop(&server);
    unlink(hosts_path);
    unlink(resolv_path);
}

/* Format the addresses, each as "address#port/type". The type is a letter of "?sdr". */
static const char *addresses_text(const struct addrinfo *list)
{
    static char text[4096];
    text[0] = '\0';
    for (; list != NULL; list = list->ai_next) {
        char host[64], port[16], *end = text + strlen(text);
        ck_assert_int_eq(getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof host, port,
                                     sizeof port, NI_NUMERICHOST | NI_NUMERICSERV),
                         0);
        ck_assert_int_eq(list->ai_addr->sa_family, list->ai_family);
        snprintf(end, sizeof text - (size_t)(end - text), "%s%s#%s/%c", end > text ? " " : "", host,
                 port, "?sdr"[list->ai_socktype]);
    }
    return text;
}

/* Resolve a name. Return the addresses as text, or the error. */
static const char *resolve_text(const char *host, const char *service, const struct addrinfo *hints)
{
    struct addrinfo *found = NULL;
    int rc = weft_resolve(host, service, hints, &found);
    if (rc != 0) {
        ck_assert_ptr_null(found);
        return strerror(-rc);
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

static const struct addrinfo streams = {.ai_socktype = SOCK_STREAM};
static const struct addrinfo streams_4 = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
static const struct addrinfo streams_6 = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM};

/* Assert that text contains a and b. Their order depends on the routes of the machine. */
static void assert_has_both(const char *text, const char *a, const char *b)
{
    ck_assert_msg(strstr(text, a) != NULL && strstr(text, b) != NULL, "%s", text);
}

TEST(a_name_has_the_addresses_of_both_families_from_the_server)
{
    start_server();
    const char *text = resolve_text("both.test", "80", &streams);
    assert_has_both(text, "192.0.2.1#80/s 192.0.2.2#80/s", "2001:db8::1#80/s");
    ck_assert_str_eq(resolve_text("both.test", "0", &streams_4), "192.0.2.1#0/s 192.0.2.2#0/s");
    ck_assert_str_eq(resolve_text("BOTH.test.", NULL, &streams_6), "2001:db8::1#0/s");
    ck_assert_str_eq(resolve_text("six.test", "1", &streams), "2001:db8::6#1/s");
    ck_assert_int_eq(dns_queries(&server, "six.test"), 2);
    stop_server();
}

/* T94 */
TEST(without_hints_there_is_an_entry_for_each_type)
{
    start_server();
    struct addrinfo *found;
    ck_assert_int_eq(weft_resolve("four.test", "7", NULL, &found), 0);
    ck_assert_str_eq(addresses_text(found), "192.0.2.4#7/s 192.0.2.4#7/d 192.0.2.4#7/r");
    ck_assert_int_eq(found->ai_protocol, IPPROTO_TCP);
    ck_assert_int_eq(found->ai_next->ai_protocol, IPPROTO_UDP);
    ck_assert_ptr_null(found->ai_canonname);
    weft_resolve_free(found);
    const struct addrinfo datagrams = {.ai_protocol = IPPROTO_UDP};
    ck_assert_str_eq(resolve_text("four.test", "7", &datagrams), "192.0.2.4#7/d");
    const struct addrinfo nonsense = {.ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_UDP};
    int rc = weft_resolve("four.test", "7", &nonsense, &found);
    ck_assert_int_eq(rc, -EINVAL);
    stop_server();
}

TEST(a_port_may_be_a_service_name)
{
    start_server();
    ck_assert_str_eq(resolve_text("four.test", "http", &streams), "192.0.2.4#80/s");
    const struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    ck_assert_int_eq(weft_resolve("four.test", "http", &numeric, &found), -ENOENT);
    ck_assert_int_eq(weft_resolve("four.test", "no-such-service", &streams, &found), -ENOENT);
    ck_assert_any_error(-ENOENT);
    ck_assert_int_eq(dns_queries(&server, "four.test"), 2); /* once, for both families */
    stop_server();
}

TEST(an_alias_is_followed_to_the_canonical_name)
{
    start_server();
    struct addrinfo *found;
    const struct addrinfo named = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME};
    ck_assert_int_eq(weft_resolve("alias.test", "80", &named, &found), 0);
    ck_assert_str_eq(addresses_text(found), "192.0.2.1#80/s 192.0.2.2#80/s");
    ck_assert_str_eq(found->ai_canonname, "both.test");
    ck_assert_ptr_null(found->ai_next->ai_canonname);
    weft_resolve_free(found);
    ck_assert_int_eq(weft_resolve("four.test", "80", &named, &found), 0);
    ck_assert_str_eq(found->ai_canonname, "four.test");
    weft_resolve_free(found);
    stop_server();
}

TEST(ipv4_addresses_are_mapped_on_request)
{
    start_server();
    struct addrinfo mapped = streams_6;
    mapped.ai_flags = AI_V4MAPPED;
    ck_assert_str_eq(resolve_text("four.test", "80", &mapped), "::ffff:192.0.2.4#80/s");
    ck_assert_str_eq(resolve_text("both.test", "80", &mapped), "2001:db8::1#80/s");
    mapped.ai_flags |= AI_ALL;
    assert_has_both(resolve_text("both.test", "80", &mapped), "2001:db8::1#80/s",
                    "::ffff:192.0.2.1#80/s ::ffff:192.0.2.2#80/s");
    stop_server();
}

TEST(unknown_names_and_failing_servers_give_different_errors)
{
    start_server();
    static const struct {
        const char *name;
        int code;
    } cases[] = {
        {"no-such.test", -ENOENT}, {"empty.test", -ENOENT}, {"failing.test", -EAGAIN},
        {"refusing.test", -EIO},   {"..", -ENOENT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct addrinfo *found = NULL;
        int rc = weft_resolve(cases[i].name, "80", &streams, &found);
        ck_assert_msg(rc == cases[i].code, "%s: %d", cases[i].name, rc);
        ck_assert_ptr_null(found);
        ck_assert_any_error(rc);
        ck_assert_ptr_nonnull(strstr(weft_error()->message, cases[i].name));
    }
    ck_assert_str_eq(resolve_text("broken.test", "80", &streams_4), strerror(EIO));
    ck_assert_int_eq(weft_dial("tcp", "empty.test:80"), -ENOENT);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_6), strerror(ENOENT));
    stop_server();
}

/* The server answers AAAA without records, and does not answer A. */
TEST(a_name_is_not_reported_missing_if_one_family_was_not_answered)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 2});
    ck_assert_str_eq(resolve_text("half.test", "80", &streams), strerror(EAGAIN));
    ck_assert_str_eq(resolve_text("half.test", "80", &streams_6), strerror(ENOENT));
    stop_server();
}

TEST(a_query_is_repeated_if_the_server_does_not_answer)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 0.05, .tries = 8});
    ck_assert_str_eq(resolve_text("slow.test", "80", &streams_4), "192.0.2.5#80/s");
    ck_assert_int_ge(dns_queries(&server, "slow.test"), 2);
    stop_server();
}

TEST(no_answer_is_an_error_after_all_tries)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 3});
    ck_assert_str_eq(resolve_text("silent.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_any_error(-EAGAIN);
    assert_queries("silent.test", 3);
    stop_server();
}

TEST(the_next_server_is_queried_if_one_is_unreachable)
{
    start_server_with(&(weft_resolver_options){.servers = "127.0.0.1:1", .timeout_s = 10});
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), strerror(EAGAIN));
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:1,%s", server.address);
    weft_resolver_options o = *settings;
    o.servers = servers;
    ck_assert_int_eq(weft_set_resolver(&o), 0);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    stop_server();
}

TEST(a_response_that_does_not_match_the_query_is_ignored)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 2});
    static const char *const names[] = {"wrong-id.test", "noise.test", "other.test"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ck_assert_str_eq(resolve_text(names[i], "80", &streams_4), strerror(EAGAIN));
        assert_queries(names[i], 2);
    }
    stop_server();
}

TEST(a_truncated_answer_is_requested_over_tcp)
{
    start_server();
    const char *text = resolve_text("long.test", "80", &streams);
    assert_has_both(text, "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s", "2001:db8::a#80/s");
    ck_assert_int_eq(atomic_load(&server.asked->tcp), 2);
    ck_assert_str_eq(resolve_text("hanging.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    stop_server();
}

TEST(the_hosts_file_has_priority_and_is_reread_after_a_change)
{
    start_server();
    write_file(hosts_path, "10.0.0.1 Four.test first # four\n"
                           "# 10.0.0.2 four.test\n"
                           "\t10.0.0.3\tother\tFOUR.TEST\n"
                           "fd00::4 four.test\nnonsense four.test\n10.0.0.5 four.test.org\n"
                           "::ffff:10.0.0.6 four.test"); /* no final newline */
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4),
                     "10.0.0.1#80/s 10.0.0.3#80/s 10.0.0.6#80/s");
    ck_assert_str_eq(resolve_text("first", "80", &streams), "10.0.0.1#80/s");
    assert_has_both(resolve_text("four.test", "80", &streams), "10.0.0.1#80/s", "fd00::4#80/s");
    struct addrinfo *found;
    struct addrinfo named = streams_4;
    named.ai_flags = AI_CANONNAME;
    ck_assert_int_eq(weft_resolve("other", NULL, &named, &found), 0);
    ck_assert_str_eq(found->ai_canonname, "other");
    weft_resolve_free(found);
    ck_assert_int_eq(dns_queries(&server, "four.test"), 0);
    ck_assert_str_eq(resolve_text("both.test", NULL, &streams_6), "2001:db8::1#0/s");
    write_file(hosts_path, "10.0.0.7 four.test\n");
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "10.0.0.7#80/s");
    unlink(hosts_path);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    stop_server();
}

TEST(the_loopback_of_ipv6_in_the_hosts_file_is_127_0_0_1_for_ipv4)
{
    start_server();
    write_file(hosts_path, "127.0.0.1 both-loops\n::1 both-loops six-loop\n127.0.0.1 both-loops\n");
    ck_assert_str_eq(resolve_text("six-loop", "80", &streams_4), "127.0.0.1#80/s");
    ck_assert_str_eq(resolve_text("both-loops", "80", &streams_4), "127.0.0.1#80/s");
    ck_assert_str_eq(resolve_text("six-loop", "80", &streams_6), "::1#80/s");
    stop_server();
}

TEST(a_nul_byte_in_the_hosts_file_does_not_hide_the_following_lines)
{
    start_server();
    int fd = open(hosts_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    static const char text[] = "\0\0\n10.0.0.1 one.test\0\n\0 10.0.0.2 two.test\n";
    ck_assert_int_eq(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    ck_assert_str_eq(resolve_text("one.test", "80", &streams_4), "10.0.0.1#80/s");
    ck_assert_str_eq(resolve_text("two.test", "80", &streams_4), "10.0.0.2#80/s");
    stop_server();
}

static weft_value sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(1000);
}

TEST(names_can_be_resolved_after_a_shutdown)
{
    start_server();
    weft_go(sleep_long, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    stop_server();
}

TEST(localhost_is_the_loopback_address_without_being_listed)
{
    start_server();
    ck_assert_str_eq(resolve_text("localhost", "80", &streams_4), "127.0.0.1#80/s");
    ck_assert_str_eq(resolve_text("localhost", "80", &streams_6), "::1#80/s");
    ck_assert_int_eq(atomic_load(&server.asked->udp), 0);
    stop_server();
}

TEST(search_domains_apply_to_a_name_without_a_dot)
{
    start_server_with(&(weft_resolver_options){.search = "first.test second.test"});
    struct addrinfo *found, named = streams_4;
    named.ai_flags = AI_CANONNAME;
    ck_assert_int_eq(weft_resolve("www", "80", &named, &found), 0);
    ck_assert_str_eq(addresses_text(found), "192.0.2.18#80/s");
    ck_assert_str_eq(found->ai_canonname, "www.second.test");
    weft_resolve_free(found);
    ck_assert_str_eq(resolve_text("www.", "80", &streams_4), strerror(ENOENT));
    stop_server();
}

TEST(the_options_in_resolv_conf_apply_and_are_reread)
{
    start_server();
    weft_resolver_options long_timeout = *settings, short_timeout = *settings;
    short_timeout.search = long_timeout.search = NULL;
    short_timeout.timeout_s = 0.01;
    write_file(resolv_path, "; ours\nsearch second.test\noptions rotate attempts:1\n");
    ck_assert_int_eq(weft_set_resolver(&long_timeout), 0);
    ck_assert_str_eq(resolve_text("www", "80", &streams_4), "192.0.2.18#80/s");
    ck_assert_int_eq(weft_set_resolver(&short_timeout), 0);
    ck_assert_str_eq(resolve_text("silent.test.", "80", &streams_4), strerror(EAGAIN));
    assert_queries("silent.test", 1);
    write_file(resolv_path, "search silent.test\noptions attempts:3\n");
    ck_assert_str_eq(resolve_text("silent.test.", "80", &streams_4), strerror(EAGAIN));
    assert_queries("silent.test", 4);
    ck_assert_str_eq(resolve_text("a", "80", &streams_4), strerror(EAGAIN));
    assert_queries("a.silent.test", 3);
    ck_assert_int_eq(setenv("RES_OPTIONS", "attempts:2", 1), 0);
    write_file(resolv_path, "\n");
    ck_assert_str_eq(resolve_text("silent.test.", "80", &streams_4), strerror(EAGAIN));
    assert_queries("silent.test", 6);
    stop_server();
}

TEST(invalid_settings_are_refused_and_change_nothing)
{
    start_server();
    static const char *const wrong[] = {
        "",         "nobody",          "127.0.0.1:",  "127.0.0.1:0",  "[::1", "[::1]53",
        "1.2.3.4,", "127.0.0.1:99999", "[127.0.0.1]", "127.0.0.1:5x", "::1:", "127.0.0.1 "};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        weft_resolver_options o = {.servers = wrong[i]};
        ck_assert_msg(weft_set_resolver(&o) == -EINVAL, "'%s'", wrong[i]);
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.timeout_s = -1}), -EINVAL);
    ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.timeout_s = NAN}), -EINVAL);
    ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.tries = -1}), -EINVAL);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    static const char *const right[] = {"::1", "[::1]", "[::1]:5353,127.0.0.1", "10.0.0.1:53"};
    for (size_t i = 0; i < COUNT_OF(right); i++)
        ck_assert_int_eq(weft_set_resolver(&(weft_resolver_options){.servers = right[i]}), 0);
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
    stop_server();
}

TEST(hints_that_only_the_c_library_supports_are_refused_with_custom_servers)
{
    start_server();
    struct addrinfo *found = NULL, hints = {.ai_flags = AI_IDN};
    ck_assert_int_eq(weft_resolve("four.test", NULL, &hints, &found), -EINVAL);
    ck_assert_any_error(-EINVAL);
    hints = (struct addrinfo){.ai_family = 4711};
    ck_assert_int_eq(weft_resolve("four.test", NULL, &hints, &found), -EINVAL);
    hints = (struct addrinfo){.ai_flags = AI_NUMERICHOST};
    ck_assert_int_eq(weft_resolve("four.test", NULL, &hints, &found), -ENOENT);
    ck_assert_int_eq(atomic_load(&server.asked->udp), 0);
    stop_server();
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
    const char *service = a->service != NULL ? a->service : "80";
    a->rc = weft_resolve(a->name, service, &streams_4, &found);
    if (a->rc == 0 && found != NULL)
        snprintf(a->text, sizeof a->text, "%s", addresses_text(found));
    weft_resolve_free(found);
    return a->rc;
}

#define LOOKUPS 500

TEST(five_hundred_concurrent_lookups_each_get_their_own_answer)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 1, .tries = 5});
    static lookup lookups[LOOKUPS];
    static const char *const names[] = {"four.test", "both.test", "no-such.test", "long.test",
                                        "alias.test"};
    for (size_t i = 0; i < LOOKUPS; i++) {
        lookups[i].name = names[i % COUNT_OF(names)];
        ck_assert_uint_ne(weft_spin(run_lookup, &lookups[i]), 0);
    }
    while (weft_await_children() != 0) /* -ENOENT of the lookups of unknown names */
        continue;
    for (size_t i = 0; i < LOOKUPS; i++) {
        static const char *const texts[] = {"192.0.2.4#80/s", "192.0.2.1#80/s 192.0.2.2#80/s", "",
                                            "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s",
                                            "192.0.2.1#80/s 192.0.2.2#80/s"};
        const char *text = texts[i % COUNT_OF(names)];
        ck_assert_int_eq(lookups[i].rc, *text != '\0' ? 0 : -ENOENT);
        ck_assert_str_eq(lookups[i].text, text);
    }
    stop_server();
}

/* Count the open descriptors. */
static size_t count_open_files(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(a_deadline_before_the_answer_leaks_nothing)
{
    start_server();
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    size_t files = count_open_files();
    for (int i = 0; i < 5; i++) { /* T94 */
        struct addrinfo *found = NULL;
        int rc = 1;
        WEFT_CANCEL_AFTER(i == 0 ? 0 : 0.002, rc) {
            ck_assert_int_eq(weft_resolve("silent.test", "80", NULL, &found), -ECANCELED);
        }
        ck_assert_int_eq(rc, -ETIMEDOUT);
        ck_assert_ptr_null(found);
        let_run();
        ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
        ck_assert_uint_eq(count_open_files(), files);
    }
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    stop_server();
}

TEST(a_lookup_that_ran_out_of_tries_leaves_no_descriptor_open)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 2});
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    size_t files = count_open_files();
    ck_assert_str_eq(resolve_text("silent.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_uint_eq(count_open_files(), files);
    stop_server();
}

TEST(a_late_answer_is_not_given_to_the_next_lookup)
{
    start_server();
    lookup late = {.name = "held.test"}, other = {.name = "silent.test"};
    weft_fiber f = weft_spin(run_lookup, &late),
               g = weft_spin(run_lookup, &other); /* keeps the resolver active */
    await_queries("held.test", 1);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    /* The server now sends the answer for held.test, then the answer for four.test. */
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    ck_assert_int_eq(late.rc, -ECANCELED);
    ck_assert_int_eq(weft_interrupt(g, -7), 0);
    ck_assert_int_eq(weft_await(g), -7);
    let_run();
    stop_server();
}

TEST(of_two_lookups_of_one_name_one_can_be_cancelled)
{
    start_server();
    lookup one = {.name = "held.test"}, two = {.name = "held.test"};
    weft_fiber f = weft_spin(run_lookup, &one), g = weft_spin(run_lookup, &two);
    await_queries("held.test", 2);
    weft_stop(f, 0);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    ck_assert_int_eq(weft_await(g), 0);
    ck_assert_str_eq(two.text, "192.0.2.6#80/s");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(one.rc, -ECANCELED);
    stop_server();
}

TEST(a_lookup_can_be_interrupted_at_any_time)
{
    start_server();
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
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    let_run();
    stop_server();
}

TEST(lookups_in_progress_keep_the_settings_they_started_with)
{
    start_server();
    lookup a = {.name = "held.test"};
    weft_fiber f = weft_spin(run_lookup, &a);
    await_queries("held.test", 1);
    weft_resolver_options o = *settings;
    o.servers = "127.0.0.1:1";
    ck_assert_int_eq(weft_set_resolver(&o), 0);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_int_eq(weft_set_resolver(settings), 0);
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(a.text, "192.0.2.6#80/s");
    stop_server();
}

static weft_value run_shielded_lookup(void *arg)
{
    WEFT_SHIELD(INFINITY) {
        run_lookup(arg);
    }
    return 0;
}

/* The fiber that runs the lookups is a child of main too. */
TEST(a_lookup_in_a_shield_survives_the_end_of_all_children)
{
    start_server_with(&(weft_resolver_options){.timeout_s = 0.05, .tries = 8});
    lookup a = {.name = "slow.test"};
    weft_spin(run_shielded_lookup, &a);
    await_queries("slow.test", 1);
    ck_assert_int_eq(weft_terminate_children(10), 0);
    ck_assert_int_eq(a.rc, 0);
    ck_assert_str_eq(a.text, "192.0.2.5#80/s");
    stop_server();
}

TEST(main_waits_for_a_lookup_but_not_for_a_lookup_of_a_daemon)
{
    start_server();
    lookup a = {.name = "four.test"}, b = {.name = "silent.test"};
    weft_fiber daemon =
        weft_spin_with(run_lookup, &b, &(weft_spin_options){.is_daemon = true, .name = "daemon"});
    ck_assert_int_eq(weft_go(run_lookup, &a), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_str_eq(a.text, "192.0.2.4#80/s");
    ck_assert_int_eq(weft_state_of(daemon), WEFT_WAITING);
    weft_cancel(daemon);
    ck_assert_int_eq(weft_await(daemon), -ECANCELED);
    let_run();
    stop_server();
}

TEST(a_fiber_with_the_smallest_stack_can_resolve_a_name)
{
    start_server();
    lookup a = {.name = "long.test"};
    weft_fiber f = weft_spin_with(run_lookup, &a, &(weft_spin_options){.stack_bytes = 16 << 10});
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(a.text, "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s");
    stop_server();
}

static void *resolve_and_end_thread(void *arg)
{
    static lookup done = {.name = "four.test"}, open = {.name = "silent.test"};
    (void)arg;
    if (weft_set_resolver(settings) != 0 || run_lookup(&done) != 0)
        return "the lookup failed";
    int before = dns_queries(&server, "silent.test");
    weft_spin(run_lookup, &open);
    await_queries("silent.test", before + 1);
    return NULL;
}

TEST(a_thread_may_end_during_a_lookup)
{
    start_server();
    size_t files = 0;
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        void *wrong;
        ck_assert_int_eq(pthread_create(&thread, NULL, resolve_and_end_thread, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, &wrong), 0);
        ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
        if (i == 0)
            files = count_open_files();
        ck_assert_uint_eq(count_open_files(), files);
    }
    ck_assert_str_eq(resolve_text("four.test", "80", &streams_4), "192.0.2.4#80/s");
    stop_server();
}

static int return_during_a_lookup(void)
{
    static lookup open = {.name = "silent.test"};
    if (weft_set_resolver(settings) != 0)
        return 3;
    weft_spin(run_lookup, &open);
    await_queries("silent.test", 1);
    return 5;
}

TEST(a_process_may_end_during_a_lookup)
{
    static weft_resolver_options o;
    dns_start(&server, table, COUNT_OF(table));
    o = (weft_resolver_options){.servers = server.address, .timeout_s = 10};
    settings = &o;
    ck_assert_quiet(run_apart(return_during_a_lookup), 5);
    dns_stop(&server);
}

/*
 * Dialling.
 */

static int listen_at(const char *addr, int *port)
{
    int fd = weft_listen("tcp", addr);
    struct sockaddr_in6 at;
    socklen_t bytes = sizeof at;
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &bytes) < 0)
        return -1;
    *port = ntohs(at.sin6_port); /* at the same offset for IPv4 */
    return fd;
}

/* T95: the IPv6 address is refused or has no route, the IPv4 address works */
TEST(a_dial_tries_the_addresses_of_a_name_until_one_works)
{
    start_server();
    int port, listener = listen_at("127.0.0.1:0", &port);
    char addr[64];
    ck_assert_int_ge(listener, 0);
    static const char *const names[] = {"local.test", "dead.test"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(addr, sizeof addr, "%s:%d", names[i], port);
        int client = weft_dial("tcp", addr);
        ck_assert_msg(client >= 0, "%s", weft_error() != NULL ? weft_error()->message : "?");
        int conn = weft_accept(listener, NULL, NULL);
        ck_assert_int_ge(conn, 0);
        weft_close(client);
        weft_close(conn);
    }
    snprintf(addr, sizeof addr, "no-such.test:%d", port);
    ck_assert_int_eq(weft_dial("tcp", addr), -ENOENT);
    ck_assert_int_eq(weft_dial("tcp", "four.test:no-such-service"), -ENOENT);
    weft_close(listener);
    stop_server();
}

TEST(a_dial_can_be_cancelled_during_its_lookup)
{
    start_server();
    int rc = 1;
    WEFT_CANCEL_AFTER(0.01, rc) {
        ck_assert_int_eq(weft_dial("tcp", "silent.test:80"), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    let_run();
    stop_server();
}

/* Internal functions. */

static bool is_resolved_by_weft(const char *nsswitch, const char *gai, const char *resolv,
                                const char *name)
{
    weft__sources s = weft__sources_read(nsswitch, gai, resolv);
    return weft__sources_suffice(&s, name);
}

TEST(names_go_to_the_c_library_if_sources_other_than_files_and_dns_are_configured)
{
    static const char *const ours[] = {
        "hosts: files dns\n",
        "# hosts: nis\nhosts:\tfiles  dns # nis\n",
        "passwd: nis\n",
        "",
        "hosts:files mdns4_minimal [NOTFOUND=return] dns\n",
        "hosts: files mymachines myhostname dns",
    };
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        ck_assert_msg(is_resolved_by_weft(ours[i], NULL, NULL, "www.example.org"), "%s", ours[i]);
    static const char *const theirs[] = {
        "hosts: files resolve [!UNAVAIL=return] dns\n", "hosts: dns files\n", "hosts: files\n",
        "hosts: files [NOTFOUND=return] dns\n",         "hosts: nis dns\n",   "hosts: mdns4 dns\n",
    };
    for (size_t i = 0; i < COUNT_OF(theirs); i++)
        ck_assert_msg(!is_resolved_by_weft(theirs[i], NULL, NULL, "www.example.org"), "%s",
                      theirs[i]);
    const char *debian = "hosts: files mdns4_minimal [NOTFOUND=return] dns\n";
    ck_assert(!is_resolved_by_weft(debian, NULL, NULL, "printer.local"));
    ck_assert(!is_resolved_by_weft(debian, NULL, NULL, "Printer.Local."));
    ck_assert(is_resolved_by_weft(debian, NULL, NULL, "local.org"));
    ck_assert(!is_resolved_by_weft("hosts: files mymachines dns", NULL, NULL, "box"));
    char own[256] = "";
    ck_assert_int_eq(gethostname(own, sizeof own - 1), 0);
    ck_assert(!is_resolved_by_weft("hosts: files myhostname dns", NULL, NULL, own));
    ck_assert(!is_resolved_by_weft("hosts: files myhostname dns", NULL, NULL, "_gateway"));
    ck_assert(!is_resolved_by_weft("hosts: files myhostname dns", NULL, NULL, "a.localhost"));
    ck_assert(is_resolved_by_weft(NULL, "# label\n\n", "nameserver fe80::1\n", "a.org"));
    ck_assert(!is_resolved_by_weft(NULL, "# x\nprecedence ::ffff:0:0/96  100\n", NULL, "a.org"));
    ck_assert(!is_resolved_by_weft(NULL, NULL, "search a\n nameserver fe80::1%eth0\n", "a.org"));
}

static void assert_resolv_options(const char *text, int timeout_ms, int tries, bool uses_tcp)
{
    weft__resolv_options p = weft__resolv_options_read(text);
    ck_assert_int_eq(p.timeout_ms, timeout_ms);
    ck_assert_int_eq(p.tries, tries);
    ck_assert_int_eq(p.uses_tcp, uses_tcp);
}

TEST(options_of_resolv_conf_are_read_within_their_limits)
{
    unsetenv("RES_OPTIONS");
    assert_resolv_options(NULL, 5000, 2, false);
    assert_resolv_options("options timeout:2 attempts:3\n", 2000, 3, false);
    assert_resolv_options("options timeout:2\n options use-vc attempts:4 # timeout:9\n", 2000, 4,
                          true);
    assert_resolv_options("options timeout:0 attempts:99999999999\n", 1000, 5, false);
    assert_resolv_options("options timeout: attempts:x\n;options timeout:3\n", 5000, 2, false);
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

TEST(search_domains_are_those_of_the_last_search_or_domain_line)
{
    unsetenv("RES_OPTIONS");
    unsetenv("LOCALDOMAIN");
    ck_assert_str_eq(search_text(NULL, "search a.org  b.org # c\n"), "a.org,b.org,1");
    ck_assert_str_eq(search_text(NULL, "search a.org b.org\ndomain c.org d.org\n"), "c.org,1");
    ck_assert_str_eq(search_text(NULL, "domain c.org\nsearch a.org\tb.org"), "a.org,b.org,1");
    ck_assert_str_eq(search_text(NULL, "search a.org\noptions ndots:0\n"), "a.org,0");
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
    ck_assert_int_eq(weft_set_resolver(&o), -EOPNOTSUPP);
    ck_assert_any_error(-EOPNOTSUPP);
#endif
    ck_assert_int_eq(weft_set_resolver(NULL), 0);
}
