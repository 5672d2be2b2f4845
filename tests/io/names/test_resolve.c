/*
 * Names: what weft_resolve and weft_dial make of what a name server and the files say. The server
 * is tests/dns_server.h; without c-ares only what needs none is run.
 */
#include "dns_server.h"
#include "support.h"

#ifdef WEFT_HAS_CARES
#include "io/resolve_system.h"
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
    {.name = "slow.test", .a = "192.0.2.5", .deaf = 1},
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
    char draft[80]; /* renamed: a changed file, however coarse its clock */
    snprintf(draft, sizeof draft, "%s.new", path);
    FILE *file = fopen(draft, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(draft, path), 0);
}

/* Begin with a server, and files of the test's own. */
static void serve_with(const weft_resolver_options *more)
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
    ck_assert_int_eq(weft_resolver(&o), 0);
    settings = &o;
}

static void serve(void)
{
    serve_with(&(weft_resolver_options){.timeout_s = 10});
}

static void end_serving(void)
{
    weft_counters counters;
    ck_assert_int_eq(weft_children(weft_main(), NULL, 0), 0);
    weft_stats(&counters);
    ck_assert_uint_eq(counters.ops_pending, 0);
    dns_stop(&server);
    unlink(hosts_path);
    unlink(resolv_path);
}

/* The addresses as text, "address#port/type" each; the type is a letter of "?sdr". */
static const char *text_of(const struct addrinfo *list)
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

/* What a lookup says: the addresses as text, or the error. */
static const char *resolved(const char *host, const char *service, const struct addrinfo *hints)
{
    struct addrinfo *found = NULL;
    int rc = weft_resolve(host, service, hints, &found);
    if (rc != 0) {
        ck_assert_ptr_null(found);
        return strerror(-rc);
    }
    const char *text = text_of(found);
    weft_resolve_free(found);
    return text;
}

/* Wait until the server has been asked for it so often. */
static void wait_asked(const char *name, int times)
{
    while (dns_asked(&server, name) < times)
        weft_sleep(0.001);
}

/* It was so often and no more; the server may be behind. */
static void assert_asked(const char *name, int times)
{
    wait_asked(name, times);
    ck_assert_int_eq(dns_asked(&server, name), times);
}

static const struct addrinfo streams = {.ai_socktype = SOCK_STREAM};
static const struct addrinfo streams_4 = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
static const struct addrinfo streams_6 = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM};

/* Both of these are in it, in whatever order this machine's routes make it. */
static void assert_has(const char *text, const char *a, const char *b)
{
    ck_assert_msg(strstr(text, a) != NULL && strstr(text, b) != NULL, "%s", text);
}

START_TEST(a_name_has_the_addresses_of_both_families_that_the_server_says)
{
    serve();
    const char *text = resolved("both.test", "80", &streams);
    assert_has(text, "192.0.2.1#80/s 192.0.2.2#80/s", "2001:db8::1#80/s");
    ck_assert_str_eq(resolved("both.test", "0", &streams_4), "192.0.2.1#0/s 192.0.2.2#0/s");
    ck_assert_str_eq(resolved("BOTH.test.", NULL, &streams_6), "2001:db8::1#0/s");
    ck_assert_str_eq(resolved("six.test", "1", &streams), "2001:db8::6#1/s");
    ck_assert_int_eq(dns_asked(&server, "six.test"), 2);
    end_serving();
}
END_TEST

/* T94 */
START_TEST(without_hints_there_is_an_entry_for_each_type)
{
    serve();
    struct addrinfo *found;
    ck_assert_int_eq(weft_resolve("four.test", "7", NULL, &found), 0);
    ck_assert_str_eq(text_of(found), "192.0.2.4#7/s 192.0.2.4#7/d 192.0.2.4#7/r");
    ck_assert_int_eq(found->ai_protocol, IPPROTO_TCP);
    ck_assert_int_eq(found->ai_next->ai_protocol, IPPROTO_UDP);
    ck_assert_ptr_null(found->ai_canonname);
    weft_resolve_free(found);
    const struct addrinfo datagrams = {.ai_protocol = IPPROTO_UDP};
    ck_assert_str_eq(resolved("four.test", "7", &datagrams), "192.0.2.4#7/d");
    const struct addrinfo nonsense = {.ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_UDP};
    int rc = weft_resolve("four.test", "7", &nonsense, &found);
    ck_assert_int_eq(rc, -EINVAL);
    end_serving();
}
END_TEST

START_TEST(a_port_may_be_a_service_by_its_name)
{
    serve();
    ck_assert_str_eq(resolved("four.test", "http", &streams), "192.0.2.4#80/s");
    const struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    ck_assert_int_eq(weft_resolve("four.test", "http", &numeric, &found), -ENOENT);
    ck_assert_int_eq(weft_resolve("four.test", "no-such-service", &streams, &found), -ENOENT);
    ck_assert_any_words(-ENOENT);
    ck_assert_int_eq(dns_asked(&server, "four.test"), 2); /* once, for both families */
    end_serving();
}
END_TEST

START_TEST(an_alias_is_followed_to_the_canonical_name)
{
    serve();
    struct addrinfo *found;
    const struct addrinfo named = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME};
    ck_assert_int_eq(weft_resolve("alias.test", "80", &named, &found), 0);
    ck_assert_str_eq(text_of(found), "192.0.2.1#80/s 192.0.2.2#80/s");
    ck_assert_str_eq(found->ai_canonname, "both.test");
    ck_assert_ptr_null(found->ai_next->ai_canonname);
    weft_resolve_free(found);
    ck_assert_int_eq(weft_resolve("four.test", "80", &named, &found), 0);
    ck_assert_str_eq(found->ai_canonname, "four.test");
    weft_resolve_free(found);
    end_serving();
}
END_TEST

START_TEST(ipv4_addresses_are_mapped_if_that_is_asked_for)
{
    serve();
    struct addrinfo mapped = streams_6;
    mapped.ai_flags = AI_V4MAPPED;
    ck_assert_str_eq(resolved("four.test", "80", &mapped), "::ffff:192.0.2.4#80/s");
    ck_assert_str_eq(resolved("both.test", "80", &mapped), "2001:db8::1#80/s");
    mapped.ai_flags |= AI_ALL;
    assert_has(resolved("both.test", "80", &mapped), "2001:db8::1#80/s",
               "::ffff:192.0.2.1#80/s ::ffff:192.0.2.2#80/s");
    end_serving();
}
END_TEST

START_TEST(names_that_are_none_and_servers_that_fail_are_told_apart)
{
    serve();
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
        ck_assert_any_words(rc);
        ck_assert_ptr_nonnull(strstr(weft_error()->message, cases[i].name));
    }
    ck_assert_str_eq(resolved("broken.test", "80", &streams_4), strerror(EIO));
    ck_assert_int_eq(weft_dial("tcp", "empty.test:80"), -ENOENT);
    ck_assert_str_eq(resolved("four.test", "80", &streams_6), strerror(ENOENT));
    end_serving();
}
END_TEST

/* AAAA is answered, with nothing; A is not. */
START_TEST(a_name_is_not_denied_because_of_the_other_family)
{
    serve_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 2});
    ck_assert_str_eq(resolved("half.test", "80", &streams), strerror(EAGAIN));
    ck_assert_str_eq(resolved("half.test", "80", &streams_6), strerror(ENOENT));
    end_serving();
}
END_TEST

START_TEST(a_server_that_does_not_answer_is_asked_again)
{
    serve_with(&(weft_resolver_options){.timeout_s = 0.05, .tries = 8});
    ck_assert_str_eq(resolved("slow.test", "80", &streams_4), "192.0.2.5#80/s");
    ck_assert_int_ge(dns_asked(&server, "slow.test"), 2);
    end_serving();
}
END_TEST

START_TEST(no_answer_is_an_error_after_all_tries)
{
    serve_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 3});
    ck_assert_str_eq(resolved("silent.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_any_words(-EAGAIN);
    assert_asked("silent.test", 3);
    end_serving();
}
END_TEST

START_TEST(the_next_server_is_asked_when_one_is_not_there)
{
    serve_with(&(weft_resolver_options){.servers = "127.0.0.1:1", .timeout_s = 10});
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), strerror(EAGAIN));
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:1,%s", server.address);
    weft_resolver_options o = *settings;
    o.servers = servers;
    ck_assert_int_eq(weft_resolver(&o), 0);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    end_serving();
}
END_TEST

START_TEST(what_is_no_answer_to_the_question_is_not_taken_for_one)
{
    serve_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 2});
    static const char *const names[] = {"wrong-id.test", "noise.test", "other.test"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ck_assert_str_eq(resolved(names[i], "80", &streams_4), strerror(EAGAIN));
        assert_asked(names[i], 2);
    }
    end_serving();
}
END_TEST

START_TEST(an_answer_that_was_cut_off_is_asked_for_by_tcp)
{
    serve();
    const char *text = resolved("long.test", "80", &streams);
    assert_has(text, "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s", "2001:db8::a#80/s");
    ck_assert_int_eq(atomic_load(&server.asked->tcp), 2);
    ck_assert_str_eq(resolved("hanging.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    end_serving();
}
END_TEST

START_TEST(the_hosts_file_comes_first_and_is_read_again_when_it_has_changed)
{
    serve();
    write_file(hosts_path, "10.0.0.1 Four.test first # four\n"
                           "# 10.0.0.2 four.test\n"
                           "\t10.0.0.3\tother\tFOUR.TEST\n"
                           "fd00::4 four.test\nnonsense four.test\n10.0.0.5 four.test.org\n"
                           "::ffff:10.0.0.6 four.test"); /* without an end */
    ck_assert_str_eq(resolved("four.test", "80", &streams_4),
                     "10.0.0.1#80/s 10.0.0.3#80/s 10.0.0.6#80/s");
    ck_assert_str_eq(resolved("first", "80", &streams), "10.0.0.1#80/s");
    assert_has(resolved("four.test", "80", &streams), "10.0.0.1#80/s", "fd00::4#80/s");
    struct addrinfo *found;
    struct addrinfo named = streams_4;
    named.ai_flags = AI_CANONNAME;
    ck_assert_int_eq(weft_resolve("other", NULL, &named, &found), 0);
    ck_assert_str_eq(found->ai_canonname, "other");
    weft_resolve_free(found);
    ck_assert_int_eq(dns_asked(&server, "four.test"), 0);
    ck_assert_str_eq(resolved("both.test", NULL, &streams_6), "2001:db8::1#0/s");
    write_file(hosts_path, "10.0.0.7 four.test\n");
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "10.0.0.7#80/s");
    unlink(hosts_path);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    end_serving();
}
END_TEST

START_TEST(the_loopback_of_ipv6_in_the_hosts_file_is_127_0_0_1_for_ipv4)
{
    serve();
    write_file(hosts_path, "127.0.0.1 both-loops\n::1 both-loops six-loop\n127.0.0.1 both-loops\n");
    ck_assert_str_eq(resolved("six-loop", "80", &streams_4), "127.0.0.1#80/s");
    ck_assert_str_eq(resolved("both-loops", "80", &streams_4), "127.0.0.1#80/s");
    ck_assert_str_eq(resolved("six-loop", "80", &streams_6), "::1#80/s");
    end_serving();
}
END_TEST

START_TEST(a_zero_in_the_hosts_file_does_not_hide_the_lines_behind_it)
{
    serve();
    int fd = open(hosts_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    static const char text[] = "\0\0\n10.0.0.1 one.test\0\n\0 10.0.0.2 two.test\n";
    ck_assert_int_eq(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    ck_assert_str_eq(resolved("one.test", "80", &streams_4), "10.0.0.1#80/s");
    ck_assert_str_eq(resolved("two.test", "80", &streams_4), "10.0.0.2#80/s");
    end_serving();
}
END_TEST

static weft_value sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(1000);
}

START_TEST(after_a_shutdown_names_are_looked_up)
{
    serve();
    weft_go(sleep_long, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    end_serving();
}
END_TEST

START_TEST(localhost_is_this_machine_without_being_listed)
{
    serve();
    ck_assert_str_eq(resolved("localhost", "80", &streams_4), "127.0.0.1#80/s");
    ck_assert_str_eq(resolved("localhost", "80", &streams_6), "::1#80/s");
    ck_assert_int_eq(atomic_load(&server.asked->udp), 0);
    end_serving();
}
END_TEST

START_TEST(domains_are_searched_for_a_name_without_a_dot)
{
    serve_with(&(weft_resolver_options){.search = "first.test second.test"});
    struct addrinfo *found, named = streams_4;
    named.ai_flags = AI_CANONNAME;
    ck_assert_int_eq(weft_resolve("www", "80", &named, &found), 0);
    ck_assert_str_eq(text_of(found), "192.0.2.18#80/s");
    ck_assert_str_eq(found->ai_canonname, "www.second.test");
    weft_resolve_free(found);
    ck_assert_str_eq(resolved("www.", "80", &streams_4), strerror(ENOENT));
    end_serving();
}
END_TEST

START_TEST(the_options_in_resolv_conf_hold_and_are_read_again)
{
    serve();
    weft_resolver_options patient = *settings, quick = *settings;
    quick.search = patient.search = NULL;
    quick.timeout_s = 0.01;
    write_file(resolv_path, "; ours\nsearch second.test\noptions rotate attempts:1\n");
    ck_assert_int_eq(weft_resolver(&patient), 0);
    ck_assert_str_eq(resolved("www", "80", &streams_4), "192.0.2.18#80/s");
    ck_assert_int_eq(weft_resolver(&quick), 0);
    ck_assert_str_eq(resolved("silent.test.", "80", &streams_4), strerror(EAGAIN));
    assert_asked("silent.test", 1);
    write_file(resolv_path, "search silent.test\noptions attempts:3\n");
    ck_assert_str_eq(resolved("silent.test.", "80", &streams_4), strerror(EAGAIN));
    assert_asked("silent.test", 4);
    ck_assert_str_eq(resolved("a", "80", &streams_4), strerror(EAGAIN));
    assert_asked("a.silent.test", 3);
    ck_assert_int_eq(setenv("RES_OPTIONS", "attempts:2", 1), 0);
    write_file(resolv_path, "\n");
    ck_assert_str_eq(resolved("silent.test.", "80", &streams_4), strerror(EAGAIN));
    assert_asked("silent.test", 6);
    end_serving();
}
END_TEST

START_TEST(settings_that_make_no_sense_are_refused_and_change_nothing)
{
    serve();
    static const char *const wrong[] = {
        "",         "nobody",          "127.0.0.1:",  "127.0.0.1:0",  "[::1", "[::1]53",
        "1.2.3.4,", "127.0.0.1:99999", "[127.0.0.1]", "127.0.0.1:5x", "::1:", "127.0.0.1 "};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        weft_resolver_options o = {.servers = wrong[i]};
        ck_assert_msg(weft_resolver(&o) == -EINVAL, "'%s'", wrong[i]);
        ck_assert_any_words(-EINVAL);
    }
    ck_assert_int_eq(weft_resolver(&(weft_resolver_options){.timeout_s = -1}), -EINVAL);
    ck_assert_int_eq(weft_resolver(&(weft_resolver_options){.timeout_s = NAN}), -EINVAL);
    ck_assert_int_eq(weft_resolver(&(weft_resolver_options){.tries = -1}), -EINVAL);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    static const char *const right[] = {"::1", "[::1]", "[::1]:5353,127.0.0.1", "10.0.0.1:53"};
    for (size_t i = 0; i < COUNT_OF(right); i++)
        ck_assert_int_eq(weft_resolver(&(weft_resolver_options){.servers = right[i]}), 0);
    ck_assert_int_eq(weft_resolver(NULL), 0);
    ck_assert_int_eq(weft_resolver(NULL), 0);
    end_serving();
}
END_TEST

START_TEST(hints_that_only_the_c_library_knows_do_not_go_with_own_servers)
{
    serve();
    struct addrinfo *found = NULL, hints = {.ai_flags = AI_IDN};
    ck_assert_int_eq(weft_resolve("four.test", NULL, &hints, &found), -EINVAL);
    ck_assert_any_words(-EINVAL);
    hints = (struct addrinfo){.ai_family = 4711};
    ck_assert_int_eq(weft_resolve("four.test", NULL, &hints, &found), -EINVAL);
    hints = (struct addrinfo){.ai_flags = AI_NUMERICHOST};
    ck_assert_int_eq(weft_resolve("four.test", NULL, &hints, &found), -ENOENT);
    ck_assert_int_eq(atomic_load(&server.asked->udp), 0);
    end_serving();
}
END_TEST

/*
 * Many, and what strikes them.
 */

typedef struct asking {
    const char *name;
    const char *service; /* NULL: "80" */
    int rc;
    char text[128];
} asking;

static weft_value ask(void *arg)
{
    asking *a = arg;
    struct addrinfo *found = NULL;
    const char *service = a->service != NULL ? a->service : "80";
    a->rc = weft_resolve(a->name, service, &streams_4, &found);
    if (a->rc == 0 && found != NULL)
        snprintf(a->text, sizeof a->text, "%s", text_of(found));
    weft_resolve_free(found);
    return a->rc;
}

#define CROWD 500

START_TEST(five_hundred_ask_at_once_and_each_gets_its_own_answer)
{
    serve_with(&(weft_resolver_options){.timeout_s = 1, .tries = 5});
    static asking crowd[CROWD];
    static const char *const names[] = {"four.test", "both.test", "no-such.test", "long.test",
                                        "alias.test"};
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i].name = names[i % COUNT_OF(names)];
        ck_assert_uint_ne(weft_spin(ask, &crowd[i]), 0);
    }
    while (weft_await_children() != 0) /* -ENOENT, of those that asked for nothing */
        continue;
    for (size_t i = 0; i < CROWD; i++) {
        static const char *const texts[] = {"192.0.2.4#80/s", "192.0.2.1#80/s 192.0.2.2#80/s", "",
                                            "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s",
                                            "192.0.2.1#80/s 192.0.2.2#80/s"};
        const char *text = texts[i % COUNT_OF(names)];
        ck_assert_int_eq(crowd[i].rc, *text != '\0' ? 0 : -ENOENT);
        ck_assert_str_eq(crowd[i].text, text);
    }
    end_serving();
}
END_TEST

/* Descriptors that are open now. */
static size_t open_files(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

START_TEST(a_deadline_before_the_answer_leaves_nothing_behind)
{
    serve();
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    size_t files = open_files();
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
        ck_assert_uint_eq(open_files(), files);
    }
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    end_serving();
}
END_TEST

START_TEST(a_lookup_that_ran_out_of_tries_leaves_no_descriptor_open)
{
    serve_with(&(weft_resolver_options){.timeout_s = 0.01, .tries = 2});
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    size_t files = open_files();
    ck_assert_str_eq(resolved("silent.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_uint_eq(open_files(), files);
    end_serving();
}
END_TEST

START_TEST(an_answer_that_comes_too_late_is_not_given_to_the_next)
{
    serve();
    asking late = {.name = "held.test"}, other = {.name = "silent.test"};
    weft_fiber f = weft_spin(ask, &late), g = weft_spin(ask, &other); /* which keeps it going */
    wait_asked("held.test", 1);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    /* Its answer comes now, before this one's. */
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    ck_assert_int_eq(late.rc, -ECANCELED);
    ck_assert_int_eq(weft_interrupt(g, -7), 0);
    ck_assert_int_eq(weft_await(g), -7);
    let_run();
    end_serving();
}
END_TEST

START_TEST(two_ask_for_the_same_and_one_of_them_leaves)
{
    serve();
    asking one = {.name = "held.test"}, two = {.name = "held.test"};
    weft_fiber f = weft_spin(ask, &one), g = weft_spin(ask, &two);
    wait_asked("held.test", 2);
    weft_stop(f, 0);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    ck_assert_int_eq(weft_await(g), 0);
    ck_assert_str_eq(two.text, "192.0.2.6#80/s");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(one.rc, -ECANCELED);
    end_serving();
}
END_TEST

START_TEST(a_lookup_is_left_at_any_moment)
{
    serve();
    for (int i = 0; i < 300; i++) {
        asking a = {.name = i % 3 == 0 ? "silent.test" : i % 3 == 1 ? "four.test" : "long.test"};
        a.service = i % 5 == 0 ? "http" : NULL; /* which takes the pool */
        weft_fiber f = weft_spin(ask, &a);
        for (int turns = i % 10; turns > 0; turns--)
            i % 2 ? weft_sleep(0) : weft_snooze();
        bool is_interrupted = i % 4 == 0 && weft_interrupt(f, -EINTR) == 0;
        if (!is_interrupted)
            weft_cancel(f);
        weft_value value = weft_await(f);
        ck_assert(value == (is_interrupted ? -EINTR : -ECANCELED) || value == 0);
    }
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    let_run();
    end_serving();
}
END_TEST

START_TEST(lookups_under_way_end_by_the_settings_that_they_were_begun_with)
{
    serve();
    asking a = {.name = "held.test"};
    weft_fiber f = weft_spin(ask, &a);
    wait_asked("held.test", 1);
    weft_resolver_options o = *settings;
    o.servers = "127.0.0.1:1";
    ck_assert_int_eq(weft_resolver(&o), 0);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), strerror(EAGAIN));
    ck_assert_int_eq(weft_resolver(settings), 0);
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(a.text, "192.0.2.6#80/s");
    end_serving();
}
END_TEST

static weft_value ask_shielded(void *arg)
{
    WEFT_SHIELD(INFINITY) {
        ask(arg);
    }
    return 0;
}

/* Who drives the lookups is main's child as well. */
START_TEST(a_lookup_in_a_shield_survives_the_end_of_all_children)
{
    serve_with(&(weft_resolver_options){.timeout_s = 0.05, .tries = 8});
    asking a = {.name = "slow.test"};
    weft_spin(ask_shielded, &a);
    wait_asked("slow.test", 1);
    ck_assert_int_eq(weft_terminate_children(10), 0);
    ck_assert_int_eq(a.rc, 0);
    ck_assert_str_eq(a.text, "192.0.2.5#80/s");
    end_serving();
}
END_TEST

START_TEST(main_waits_for_a_lookup_but_not_for_that_of_a_daemon)
{
    serve();
    asking a = {.name = "four.test"}, b = {.name = "silent.test"};
    weft_fiber daemon =
        weft_spin_with(ask, &b, &(weft_spin_options){.is_daemon = true, .name = "daemon"});
    ck_assert_int_eq(weft_go(ask, &a), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_str_eq(a.text, "192.0.2.4#80/s");
    ck_assert_int_eq(weft_state_of(daemon), WEFT_WAITING);
    weft_cancel(daemon);
    ck_assert_int_eq(weft_await(daemon), -ECANCELED);
    let_run();
    end_serving();
}
END_TEST

START_TEST(a_fiber_with_the_smallest_stack_can_ask)
{
    serve();
    asking a = {.name = "long.test"};
    weft_fiber f = weft_spin_with(ask, &a, &(weft_spin_options){.stack_bytes = 16 << 10});
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(a.text, "192.0.2.10#80/s 192.0.2.11#80/s 192.0.2.12#80/s");
    end_serving();
}
END_TEST

static void *ask_and_end(void *arg)
{
    static asking done = {.name = "four.test"}, open = {.name = "silent.test"};
    (void)arg;
    if (weft_resolver(settings) != 0 || ask(&done) != 0)
        return "it could not ask";
    int before = dns_asked(&server, "silent.test");
    weft_spin(ask, &open);
    wait_asked("silent.test", before + 1);
    return NULL;
}

START_TEST(a_thread_may_end_with_a_lookup_under_way)
{
    serve();
    size_t files = 0;
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        void *wrong;
        ck_assert_int_eq(pthread_create(&thread, NULL, ask_and_end, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, &wrong), 0);
        ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
        if (i == 0)
            files = open_files();
        ck_assert_uint_eq(open_files(), files);
    }
    ck_assert_str_eq(resolved("four.test", "80", &streams_4), "192.0.2.4#80/s");
    end_serving();
}
END_TEST

static int end_with_a_lookup(void)
{
    static asking open = {.name = "silent.test"};
    if (weft_resolver(settings) != 0)
        return 3;
    weft_spin(ask, &open);
    wait_asked("silent.test", 1);
    return 5;
}

START_TEST(a_process_may_end_with_a_lookup_under_way)
{
    static weft_resolver_options o;
    dns_start(&server, table, COUNT_OF(table));
    o = (weft_resolver_options){.servers = server.address, .timeout_s = 10};
    settings = &o;
    ck_assert_quiet(run_apart(end_with_a_lookup), 5);
    dns_stop(&server);
}
END_TEST

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
    *port = ntohs(at.sin6_port); /* at the same place for IPv4 */
    return fd;
}

/* T95: refused or without a route on IPv6, there on IPv4. */
START_TEST(a_name_is_dialled_at_its_address_that_lives)
{
    serve();
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
    end_serving();
}
END_TEST

START_TEST(a_dial_is_left_while_its_name_is_looked_up)
{
    serve();
    int rc = 1;
    WEFT_CANCEL_AFTER(0.01, rc) {
        ck_assert_int_eq(weft_dial("tcp", "silent.test:80"), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    let_run();
    end_serving();
}
END_TEST

/*
 * The parts.
 */

static bool is_ours(const char *nsswitch, const char *gai, const char *resolv, const char *name)
{
    weft__sources s = weft__sources_read(nsswitch, gai, resolv);
    return weft__sources_are_enough(&s, name);
}

START_TEST(names_go_to_the_c_library_where_more_than_files_and_servers_are_asked)
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
        ck_assert_msg(is_ours(ours[i], NULL, NULL, "www.example.org"), "%s", ours[i]);
    static const char *const theirs[] = {
        "hosts: files resolve [!UNAVAIL=return] dns\n", "hosts: dns files\n", "hosts: files\n",
        "hosts: files [NOTFOUND=return] dns\n",         "hosts: nis dns\n",   "hosts: mdns4 dns\n",
    };
    for (size_t i = 0; i < COUNT_OF(theirs); i++)
        ck_assert_msg(!is_ours(theirs[i], NULL, NULL, "www.example.org"), "%s", theirs[i]);
    const char *debian = "hosts: files mdns4_minimal [NOTFOUND=return] dns\n";
    ck_assert(!is_ours(debian, NULL, NULL, "printer.local"));
    ck_assert(!is_ours(debian, NULL, NULL, "Printer.Local."));
    ck_assert(is_ours(debian, NULL, NULL, "local.org"));
    ck_assert(!is_ours("hosts: files mymachines dns", NULL, NULL, "box"));
    char own[256] = "";
    ck_assert_int_eq(gethostname(own, sizeof own - 1), 0);
    ck_assert(!is_ours("hosts: files myhostname dns", NULL, NULL, own));
    ck_assert(!is_ours("hosts: files myhostname dns", NULL, NULL, "_gateway"));
    ck_assert(!is_ours("hosts: files myhostname dns", NULL, NULL, "a.localhost"));
    ck_assert(is_ours(NULL, "# label\n\n", "nameserver fe80::1\n", "a.org"));
    ck_assert(!is_ours(NULL, "# x\nprecedence ::ffff:0:0/96  100\n", NULL, "a.org"));
    ck_assert(!is_ours(NULL, NULL, "search a\n nameserver fe80::1%eth0\n", "a.org"));
}
END_TEST

static void assert_patience(const char *text, int timeout_ms, int tries, bool is_by_tcp)
{
    weft__patience p = weft__patience_read(text);
    ck_assert_int_eq(p.timeout_ms, timeout_ms);
    ck_assert_int_eq(p.tries, tries);
    ck_assert_int_eq(p.is_by_tcp, is_by_tcp);
}

START_TEST(options_of_resolv_conf_are_read_within_their_limits)
{
    unsetenv("RES_OPTIONS");
    assert_patience(NULL, 5000, 2, false);
    assert_patience("options timeout:2 attempts:3\n", 2000, 3, false);
    assert_patience("options timeout:2\n options use-vc attempts:4 # timeout:9\n", 2000, 4, true);
    assert_patience("options timeout:0 attempts:99999999999\n", 1000, 5, false);
    assert_patience("options timeout: attempts:x\n;options timeout:3\n", 5000, 2, false);
}
END_TEST

/* The domains with commas between them, and behind them ndots. */
static const char *search_of(const char *own, const char *resolv)
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

START_TEST(domains_are_those_of_the_last_search_or_domain_line)
{
    unsetenv("RES_OPTIONS");
    unsetenv("LOCALDOMAIN");
    ck_assert_str_eq(search_of(NULL, "search a.org  b.org # c\n"), "a.org,b.org,1");
    ck_assert_str_eq(search_of(NULL, "search a.org b.org\ndomain c.org d.org\n"), "c.org,1");
    ck_assert_str_eq(search_of(NULL, "domain c.org\nsearch a.org\tb.org"), "a.org,b.org,1");
    ck_assert_str_eq(search_of(NULL, "search a.org\noptions ndots:0\n"), "a.org,0");
    ck_assert_str_eq(search_of("", "search a.org\noptions ndots:99\n"), "15");
    ck_assert_str_eq(search_of(" x.org, y.org ", "search a.org\n"), "x.org,y.org,1");
    ck_assert_int_eq(setenv("LOCALDOMAIN", "z.org", 1), 0);
    ck_assert_str_eq(search_of(NULL, "search a.org\n"), "z.org,1");
}
END_TEST

static const char *in_order(const char *const *addresses, size_t count)
{
    static char text[256];
    weft__ips ips = {0};
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[16];
        int family = strchr(addresses[i], ':') != NULL ? AF_INET6 : AF_INET;
        ck_assert_int_eq(inet_pton(family, addresses[i], bytes), 1);
        ck_assert(weft__ips_add(&ips, family, bytes));
    }
    weft__ips_order(&ips);
    for (size_t i = 0; i < ips.count; i++) {
        char one[64];
        const weft__ip *ip = &ips.of[i];
        const void *at =
            ip->any.sa_family == AF_INET ? (void *)&ip->v4.sin_addr : (void *)&ip->v6.sin6_addr;
        strcat(text, i > 0 ? " " : "");
        strcat(text, inet_ntop(ip->any.sa_family, at, one, sizeof one));
    }
    weft__ips_free(&ips);
    return text;
}

START_TEST(addresses_that_can_be_reached_come_first_and_equal_ones_stay)
{
    /* Multicast and broadcast without a route or a right to them, and this machine. */
    static const char *const mixed[] = {"255.255.255.255", "127.0.0.1"};
    ck_assert_str_eq(in_order(mixed, 2), "127.0.0.1 255.255.255.255");
    static const char *const equal[] = {"127.0.0.3", "127.0.0.1", "127.0.0.2"};
    ck_assert_str_eq(in_order(equal, 3), "127.0.0.3 127.0.0.1 127.0.0.2");
    int fd = weft_listen("tcp6", "[::1]:0");
    if (fd < 0)
        return;
    weft_close(fd);
    static const char *const both[] = {"127.0.0.1", "::1"};
    ck_assert_str_eq(in_order(both, 2), "::1 127.0.0.1");
}
END_TEST

#endif

static bool is_same_entry(const struct addrinfo *a, const struct addrinfo *b)
{
    return a->ai_socktype == b->ai_socktype && a->ai_protocol == b->ai_protocol &&
           a->ai_addrlen == b->ai_addrlen && memcmp(a->ai_addr, b->ai_addr, a->ai_addrlen) == 0;
}

/*
 * The next entry that is not listed before. The C library reads ::1 in the hosts file as 127.0.0.1
 * when it is asked for IPv4, and lists that twice.
 */
static const struct addrinfo *next_new(const struct addrinfo *list, const struct addrinfo *at)
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
    for (; a != NULL && b != NULL; a = next_new(theirs, a), b = b->ai_next) {
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
START_TEST(this_machines_name_is_what_getaddrinfo_says)
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
END_TEST

START_TEST(localhost_is_found_where_the_hosts_file_does_not_list_it)
{
    /* AI_IDN: the C library is asked, with and without c-ares. */
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
END_TEST

START_TEST(a_resolver_of_its_own_needs_c_ares)
{
    const weft_resolver_options o = {.servers = "127.0.0.1:1"};
#ifdef WEFT_HAS_CARES
    ck_assert_int_eq(weft_resolver(&o), 0);
#else
    ck_assert_int_eq(weft_resolver(&o), -EOPNOTSUPP);
    ck_assert_any_words(-EOPNOTSUPP);
#endif
    ck_assert_int_eq(weft_resolver(NULL), 0);
}
END_TEST

static const TTest *const *const tests[] = {
    &this_machines_name_is_what_getaddrinfo_says,
    &localhost_is_found_where_the_hosts_file_does_not_list_it,
    &a_resolver_of_its_own_needs_c_ares,
#ifdef WEFT_HAS_CARES
    &a_name_has_the_addresses_of_both_families_that_the_server_says,
    &without_hints_there_is_an_entry_for_each_type,
    &a_port_may_be_a_service_by_its_name,
    &an_alias_is_followed_to_the_canonical_name,
    &ipv4_addresses_are_mapped_if_that_is_asked_for,
    &names_that_are_none_and_servers_that_fail_are_told_apart,
    &a_name_is_not_denied_because_of_the_other_family,
    &a_server_that_does_not_answer_is_asked_again,
    &no_answer_is_an_error_after_all_tries,
    &the_next_server_is_asked_when_one_is_not_there,
    &what_is_no_answer_to_the_question_is_not_taken_for_one,
    &an_answer_that_was_cut_off_is_asked_for_by_tcp,
    &the_hosts_file_comes_first_and_is_read_again_when_it_has_changed,
    &the_loopback_of_ipv6_in_the_hosts_file_is_127_0_0_1_for_ipv4,
    &a_zero_in_the_hosts_file_does_not_hide_the_lines_behind_it,
    &after_a_shutdown_names_are_looked_up,
    &localhost_is_this_machine_without_being_listed,
    &domains_are_searched_for_a_name_without_a_dot,
    &the_options_in_resolv_conf_hold_and_are_read_again,
    &settings_that_make_no_sense_are_refused_and_change_nothing,
    &hints_that_only_the_c_library_knows_do_not_go_with_own_servers,
    &five_hundred_ask_at_once_and_each_gets_its_own_answer,
    &a_deadline_before_the_answer_leaves_nothing_behind,
    &a_lookup_that_ran_out_of_tries_leaves_no_descriptor_open,
    &an_answer_that_comes_too_late_is_not_given_to_the_next,
    &two_ask_for_the_same_and_one_of_them_leaves,
    &a_lookup_is_left_at_any_moment,
    &lookups_under_way_end_by_the_settings_that_they_were_begun_with,
    &a_lookup_in_a_shield_survives_the_end_of_all_children,
    &main_waits_for_a_lookup_but_not_for_that_of_a_daemon,
    &a_fiber_with_the_smallest_stack_can_ask,
    &a_thread_may_end_with_a_lookup_under_way,
    &a_process_may_end_with_a_lookup_under_way,
    &a_name_is_dialled_at_its_address_that_lives,
    &a_dial_is_left_while_its_name_is_looked_up,
    &names_go_to_the_c_library_where_more_than_files_and_servers_are_asked,
    &options_of_resolv_conf_are_read_within_their_limits,
    &domains_are_those_of_the_last_search_or_domain_line,
    &addresses_that_can_be_reached_come_first_and_equal_ones_stay,
#endif
};

int main(void)
{
    return run_suite("resolve", tests, COUNT_OF(tests));
}
