/* Tests of the parser of textual addresses. */
#include "io/names/address.h"
#include "support/suite.h"

static weft__address parsed;

/*
 * Parse an address into parsed, after overwriting the previous result. Return NULL, or an error
 * message.
 */
static const char *parse_address(const char *net, const char *addr)
{
    memset(&parsed, 0x5a, sizeof parsed);
    return weft__address_parse(net, addr, &parsed);
}

TEST(the_network_determines_family_and_type)
{
    static const struct {
        const char *net, *addr;
        int family, type;
    } cases[] = {
        {"tcp", "a:1", AF_UNSPEC, SOCK_STREAM}, {"tcp4", "a:1", AF_INET, SOCK_STREAM},
        {"tcp6", "a:1", AF_INET6, SOCK_STREAM}, {"udp", "a:1", AF_UNSPEC, SOCK_DGRAM},
        {"udp4", "a:1", AF_INET, SOCK_DGRAM},   {"udp6", "a:1", AF_INET6, SOCK_DGRAM},
        {"unix", "/a", AF_UNIX, SOCK_STREAM},   {"unixgram", "/a", AF_UNIX, SOCK_DGRAM},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_ptr_null(parse_address(cases[i].net, cases[i].addr));
        ck_assert_int_eq(parsed.family, cases[i].family);
        ck_assert_int_eq(parsed.type, cases[i].type);
    }
    static const char *const none[] = {"", "tcp5", "TCP", "tc", "unixpacket", "tcp "};
    for (size_t i = 0; i < COUNT_OF(none); i++)
        ck_assert_ptr_nonnull(parse_address(none[i], "a:1"));
    ck_assert_ptr_nonnull(parse_address(NULL, "a:1"));
    ck_assert_ptr_nonnull(parse_address("tcp", NULL));
    ck_assert_ptr_nonnull(parse_address("unix", NULL));
}

TEST(the_last_colon_separates_host_and_port)
{
    static const struct {
        const char *addr, *host, *service;
    } cases[] = {
        {"localhost:80", "localhost", "80"},
        {"127.0.0.1:0", "127.0.0.1", "0"},
        {":65535", "", "65535"},
        {":00080", "", "00080"},
        {"[::1]:443", "::1", "443"},
        {"[fe80::1%eth0]:1", "fe80::1%eth0", "1"},
        {"[127.0.0.1]:1", "127.0.0.1", "1"},
        {"example.org.:http", "example.org.", "http"},
        {"a:iso-tsap", "a", "iso-tsap"},
        {"a:3com-tsmux", "a", "3com-tsmux"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_ptr_null(parse_address("tcp", cases[i].addr));
        ck_assert_str_eq(parsed.host, cases[i].host);
        ck_assert_str_eq(parsed.service, cases[i].service);
    }
}

TEST(an_invalid_host_and_port_is_refused)
{
    static const char *const cases[] = {"",
                                        "localhost",
                                        "localhost:",
                                        ":",
                                        "::1",
                                        "::1:80",
                                        "a:b:80",
                                        "[::1]",
                                        "[::1]80",
                                        "[::1",
                                        "[]:80",
                                        "[::1]:",
                                        "]:80:",
                                        "a:65536",
                                        "a:-1",
                                        "a:+1",
                                        "a: 1",
                                        "a:1 ",
                                        "a:1.5",
                                        "a:-",
                                        "a:1-2",
                                        "a:99999999999999999999",
                                        "a:4294967376",
                                        "a:b_c",
                                        "a:\xc3\xa4"};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_msg(parse_address("tcp", cases[i]) != NULL, "'%s' was accepted", cases[i]);
}

TEST(hosts_and_services_have_a_maximum_length)
{
    char addr[512];
    char host[257];
    memset(host, 'h', sizeof host);
    snprintf(addr, sizeof addr, "%.255s:80", host);
    ck_assert_ptr_null(parse_address("tcp", addr));
    ck_assert_uint_eq(strlen(parsed.host), 255);
    snprintf(addr, sizeof addr, "%.256s:80", host);
    ck_assert_ptr_nonnull(parse_address("tcp", addr));
    snprintf(addr, sizeof addr, "[%.256s]:80", host);
    ck_assert_ptr_nonnull(parse_address("tcp", addr));
    snprintf(addr, sizeof addr, "a:%.31s", host);
    ck_assert_ptr_null(parse_address("tcp", addr));
    snprintf(addr, sizeof addr, "a:%.32s", host);
    ck_assert_ptr_nonnull(parse_address("tcp", addr));
}

TEST(a_path_may_be_as_long_as_the_kernel_allows_and_ends_with_a_nul)
{
    const size_t head = offsetof(struct sockaddr_un, sun_path);
    ck_assert_ptr_null(parse_address("unix", "/run/a:1"));
    ck_assert_int_eq(parsed.path.sun_family, AF_UNIX);
    ck_assert_str_eq(parsed.path.sun_path, "/run/a:1");
    ck_assert_uint_eq(parsed.path_bytes, head + sizeof "/run/a:1");
    ck_assert(weft__address_has_file(&parsed));
    char path[109];
    memset(path, 'p', sizeof path);
    path[107] = '\0';
    ck_assert_ptr_null(parse_address("unixgram", path));
    ck_assert_str_eq(parsed.path.sun_path, path);
    path[107] = 'p';
    path[108] = '\0';
    ck_assert_ptr_nonnull(parse_address("unixgram", path));
    ck_assert_ptr_nonnull(parse_address("unix", ""));
}

TEST(an_abstract_name_starts_with_a_nul_and_does_not_end_with_one)
{
    const size_t head = offsetof(struct sockaddr_un, sun_path);
    ck_assert_ptr_null(parse_address("unix", "@weft"));
    ck_assert_mem_eq(parsed.path.sun_path, "\0weft", 5);
    ck_assert_uint_eq(parsed.path_bytes, head + 5);
    ck_assert(!weft__address_has_file(&parsed));
    ck_assert_ptr_nonnull(parse_address("unix", "@"));
}
