/*
 * IP addresses, lists of address ranges, and forwarding headers of trusted proxies. Also the limits
 * per peer: conn_limit.c and handshake_limit.c.
 */
#include "http/server/conn_limit.h"
#include "http/server/forwarded_field.h"
#include "http/server/handshake_limit.h"
#include "http/url/ip.h"
#include "support/cases.h"
#include "support/suite.h"

#include <arpa/inet.h>
#include <sys/un.h>

/* Return a socket address. "unix" is an address of a unix socket. */
static const struct sockaddr *address_of(const char *text)
{
    static struct sockaddr_storage storage;
    memset(&storage, 0, sizeof storage);
    struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;
    if (strcmp(text, "unix") == 0) {
        storage.ss_family = AF_UNIX;
    } else if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(1234);
    } else {
        ck_assert_int_eq(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(1234);
    }
    return (const struct sockaddr *)&storage;
}

static void assert_address(const char *text, const char *written)
{
    weft__ip ip;
    char out[WEFT__IP_TEXT_BYTES];
    ck_assert_msg(weft__ip_parse(&ip, text, strlen(text)), "%s", text);
    weft__ip_write(&ip, out);
    ck_assert_str_eq(out, written);
    weft__ip_write_peer(address_of(text), out);
    ck_assert_str_eq(out, written);
}

static void assert_no_address(const char *text)
{
    weft__ip ip;
    ck_assert_msg(!weft__ip_parse(&ip, text, strlen(text)), "%s", text);
}

TEST(an_address_is_parsed_and_written)
{
    weft__ip ip;
    char out[WEFT__IP_TEXT_BYTES];
    EACH_PAIR(
        assert_address, "1.2.3.4 -> 1.2.3.4", "0.0.0.0 -> 0.0.0.0",
        "255.255.255.255 -> 255.255.255.255", "::1 -> ::1",
        ":: -> ::", "2001:DB8:0:0:0:0:0:1 -> 2001:db8::1", "::ffff:1.2.3.4 -> 1.2.3.4",
        "::FFFF:0102:0304 -> 1.2.3.4", "::1.2.3.4 -> ::1.2.3.4",
        "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255 -> ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    EACH_TEXT(assert_no_address, "", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "0x1.2.3.4",
              " 1.2.3.4", "1.2.3.4 ", "1.2.3.4:80", "[::1]", "::1%lo", "a", "unix", "1:2:3:4:5:6:7",
              "1:2:3:4:5:6:7:8:9", "00000000000000000000000000000000000000000000000000000000001");
    ck_assert(!weft__ip_parse(&ip, "1.2.3.4\0", 8));
    ck_assert(weft__ip_parse(&ip, "1.2.3.45", 7));
    weft__ip_write_peer(address_of("unix"), out);
    ck_assert_str_eq(out, "unix");
}

TEST(a_list_contains_exactly_its_ranges)
{
    static const struct {
        const char *list, *in, *out; /* addresses separated by spaces */
    } cases[] = {
        {NULL, "", "1.2.3.4 :: unix"},
        {"", "", "1.2.3.4 :: unix"},
        {" , ", "", "1.2.3.4 :: unix"},
        {"1.2.3.4", "1.2.3.4 ::ffff:1.2.3.4", "1.2.3.5 1.2.3.0 ::1.2.3.4 :: unix"},
        {"1.2.3.4/32", "1.2.3.4", "1.2.3.5"},
        {"1.2.3.4/31", "1.2.3.4 1.2.3.5", "1.2.3.6 1.2.3.3"},
        {"10.0.0.0/8", "10.0.0.0 10.255.255.255 ::ffff:10.1.1.1", "11.0.0.0 9.255.255.255"},
        {"10.9.8.7/8", "10.0.0.0 10.255.255.255", "11.0.0.0"},
        {"172.16.0.0/12", "172.16.0.1 172.31.255.255", "172.32.0.0 172.15.255.255"},
        {"192.168.128.0/17", "192.168.128.0 192.168.255.255", "192.168.127.255 192.169.0.0"},
        {"0.0.0.0/0", "0.0.0.0 255.255.255.255 ::ffff:1.1.1.1", "::1 :: 2001:db8::1 unix"},
        {"128.0.0.0/1", "128.0.0.0 255.0.0.0", "127.255.255.255 0.0.0.0"},
        {"::1", "::1", "::2 :: 0.0.0.1 127.0.0.1"},
        {"::1/128", "::1", "::2"},
        {"2001:db8::/32", "2001:db8:: 2001:db8:ffff::1", "2001:db9:: 2001:db7:ffff::"},
        {"2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"},
        {"fe80::/10", "fe80::1 febf::1", "fec0::1 fe7f::1"},
        {"::/0", "::1 2001:db8::1 :: ffff::", "1.2.3.4 ::ffff:1.2.3.4 unix"},
        {"::/80", "::1", "1.2.3.4"},
        {"::ffff:0:0/96", "1.2.3.4 ::ffff:5.6.7.8", "::1"},
        {"::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"},
        {"unix", "unix", "1.2.3.4 ::1"},
        {"UNIX", "unix", ""},
        {"127.0.0.1, 10.0.0.0/8, ::1, unix", "127.0.0.1 10.3.2.1 ::1 unix", "127.0.0.2 ::2"},
        {"127.0.0.1,10.0.0.0/8,\t::1,,unix,", "127.0.0.1 10.3.2.1 ::1 unix", "127.0.0.2 ::2"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft__cidr_list list;
        ck_assert_int_eq(weft__cidr_parse(&list, cases[i].list), 0);
        for (int is_in = 0; is_in < 2; is_in++) {
            char copy[256], *rest = copy, *address;
            strcpy(copy, is_in ? cases[i].in : cases[i].out);
            while ((address = strtok_r(rest, " ", &rest)) != NULL)
                ck_assert_msg(weft__cidr_has(&list, address_of(address)) == is_in, "%s in %s",
                              address, cases[i].list);
        }
        weft__cidr_close(&list);
    }
}

static void assert_bad_list(const char *text)
{
    weft__cidr_list list;
    weft_error_clear();
    ck_assert_msg(weft__cidr_parse(&list, text) == -EINVAL, "%s", text);
    ck_assert_any_error(-EINVAL);
    ck_assert_ptr_null(list.ranges);
}

TEST(a_list_with_a_bad_range_is_refused_with_a_message)
{
    EACH_TEXT(assert_bad_list, "a", "localhost", "1.2.3", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/-1",
              "1.2.3.4/+1", "1.2.3.4/8x", "1.2.3.4/ 8", "1.2.3.4 /8", "1.2.3.4/0008", "1.2.3.4/8/8",
              "1.2.3.4/255.0.0.0", "1.2.3.4:80", "[::1]", "::1/129", "::1/999", "::1/4294967296",
              "/8", "unix/8", "1.2.3.4 5.6.7.8", "1.2.3.4; ::1", "1.2.3.4, x", "*",
              "::1, 10.0.0.0/99 , unix");
    ck_assert_error(-EINVAL,
                    "trusted_peers: 10.0.0.0/99 is not an address, a range of addresses or unix");
}

/* Return the client according to X-Forwarded-For. */
static const char *client_of(const char *list, const char *peer, const char *value)
{
    static char client[WEFT__IP_TEXT_BYTES];
    weft__cidr_list trusted;
    ck_assert_int_eq(weft__cidr_parse(&trusted, list), 0);
    weft__x_forwarded_for_read(client, value, &trusted, address_of(peer));
    weft__cidr_close(&trusted);
    return client;
}

PAIR_CHECK(assert_client_behind_10, client_of("10.0.0.0/8", "10.0.0.1", input))

/* An entry that is not an address ends the search. */
TEST(the_client_is_the_rightmost_untrusted_address)
{
    static const struct {
        const char *trusted, *peer, *value, *client;
    } cases[] = {
        {NULL, "9.9.9.9", NULL, "9.9.9.9"},
        {NULL, "9.9.9.9", "1.1.1.1", "9.9.9.9"},
        {"10.0.0.0/8", "9.9.9.9", "1.1.1.1", "9.9.9.9"},
        {"10.0.0.0/8", "10.0.0.1", NULL, "10.0.0.1"},
        {"10.0.0.0/8", "::ffff:10.0.0.1", "1.1.1.1", "1.1.1.1"},
        {"unix", "unix", NULL, "unix"},
        {"unix", "unix", "1.1.1.1", "1.1.1.1"},
        {"10.0.0.0/8", "unix", "1.1.1.1", "unix"},
        {"unix, ::1", "unix", "1.1.1.1, ::1", "1.1.1.1"},
        {"0.0.0.0/0", "10.0.0.1", "1.1.1.1, 2.2.2.2", "1.1.1.1"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_str_eq(client_of(cases[i].trusted, cases[i].peer, cases[i].value),
                         cases[i].client);
    EACH_PAIR(assert_client_behind_10, " -> 10.0.0.1", "1.1.1.1 -> 1.1.1.1",
              "2.2.2.2, 1.1.1.1 -> 1.1.1.1", "1.1.1.1, 10.0.0.2 -> 1.1.1.1",
              "2.2.2.2,1.1.1.1,10.0.0.3,10.0.0.2 -> 1.1.1.1", "10.0.0.3, 10.0.0.2 -> 10.0.0.3",
              "10.0.0.9, 1.1.1.1, 10.0.0.2 -> 1.1.1.1", " 1.1.1.1  -> 1.1.1.1",
              "1.1.1.1, -> 1.1.1.1", "1.1.1.1,, 10.0.0.2 ,  -> 1.1.1.1", ", -> 10.0.0.1",
              ",10.0.0.2 -> 10.0.0.2", "1.1.1.1:80 -> 1.1.1.1", "1.1.1.1, 10.0.0.2:81 -> 1.1.1.1",
              "2001:DB8::1 -> 2001:db8::1", "[2001:db8::1] -> 2001:db8::1",
              "[2001:db8::1]:80 -> 2001:db8::1", "::ffff:1.1.1.1 -> 1.1.1.1",
              "1.1.1.1, ::ffff:10.0.0.2 -> 1.1.1.1", "unknown -> 10.0.0.1", "unix -> 10.0.0.1",
              "1.1.1.1, unknown -> 10.0.0.1", "1.1.1.1, unknown, 10.0.0.2 -> 10.0.0.2",
              "1.1.1.1: -> 10.0.0.1", "1.1.1.1:x -> 10.0.0.1", "1.1.1.1:123456 -> 10.0.0.1",
              "1.1.1.1 2.2.2.2 -> 10.0.0.1", "[1.1.1.1] -> 10.0.0.1", "[::1 -> 10.0.0.1",
              "::1] -> 10.0.0.1", "[::1]x -> 10.0.0.1", "[] -> 10.0.0.1", "[ -> 10.0.0.1",
              ": -> 10.0.0.1", "<script> -> 10.0.0.1", "\"1.1.1.1\" -> 10.0.0.1",
              "fe80::1%eth0 -> 10.0.0.1");
}

/* Return client, host and proto according to Forwarded. Peers in 10.0.0.0/8 are trusted. */
static const char *forwarded_of(const char *peer, const char *value)
{
    static char out[128];
    char copy[128];
    weft__forwarded f;
    weft__cidr_list trusted;
    const weft__span none = {"-", 1};
    strcpy(copy, value);
    ck_assert_int_eq(weft__cidr_parse(&trusted, "10.0.0.0/8"), 0);
    weft__forwarded_field_read(&f, copy, &trusted, address_of(peer));
    weft__span host = f.host.at != NULL ? f.host : none,
               proto = f.proto.at != NULL ? f.proto : none;
    snprintf(out, sizeof out, "%s %.*s %.*s", f.peer, (int)host.bytes, host.at, (int)proto.bytes,
             proto.at);
    weft__cidr_close(&trusted);
    return out;
}

PAIR_CHECK(assert_forwarded, forwarded_of("10.0.0.1", input))
TEXT_CHECK(assert_not_forwarded, strcmp(forwarded_of("10.0.0.1", text), "10.0.0.1 - -") == 0)

/*
 * A hidden client or a malformed element ends the search. The other parameters of a trusted proxy
 * count. An unclosed quote does not hide later elements.
 */
TEST(forwarded_is_read_from_the_right_while_peers_are_trusted)
{
    ck_assert_str_eq(forwarded_of("9.9.9.9", "for=1.1.1.1;host=a;proto=https"), "9.9.9.9 - -");
    EACH_PAIR(
        assert_forwarded, "for=1.1.1.1 -> 1.1.1.1 - -",
        "For=1.1.1.1;HOST=a;Proto=https;by=10.0.0.1 -> 1.1.1.1 a https",
        "for=1.1.1.1; host=a ;proto=https -> 1.1.1.1 a https", ";for=1.1.1.1;; -> 1.1.1.1 - -",
        "for=\"1.1.1.1:80\" -> 1.1.1.1 - -", "for=\"1.1.1.1:_x\" -> 1.1.1.1 - -",
        "for=\"[2001:DB8::1]\" -> 2001:db8::1 - -",
        "for=\"[2001:db8::1]:4711\";host=\"a:81\" -> 2001:db8::1 a:81 -",
        "for=\"\\1.1.1\\.1\" -> 1.1.1.1 - -", "ext=\"a,b;c=d\\\",\";for=1.1.1.1 -> 1.1.1.1 - -",
        "for=2.2.2.2;host=b, for=1.1.1.1;host=a -> 1.1.1.1 a -",
        "for=1.1.1.1;host=a;proto=https, for=10.0.0.2;host=b -> 1.1.1.1 a https",
        "for=2.2.2.2, for=1.1.1.1, for=10.0.0.3,for=10.0.0.2 -> 1.1.1.1 - -",
        "for=1.1.1.1,, for=10.0.0.2 , -> 1.1.1.1 - -", "for=10.0.0.2;proto=http -> 10.0.0.2 - http",
        "for=unknown;host=a -> 10.0.0.1 a -", "for=_hidden;proto=https -> 10.0.0.1 - https",
        "for=1.1.1.1, for=_x, for=10.0.0.2 -> 10.0.0.2 - -",
        "for=1.1.1.1, proto=https -> 10.0.0.1 - https", "bad, for=1.1.1.1 -> 1.1.1.1 - -",
        "for=\"2.2.2.2, for=1.1.1.1 -> 1.1.1.1 - -", "for=\"2.2.2.2\\, for=\"[::2]\" -> ::2 - -",
        "bad\", for=10.0.0.2 -> 10.0.0.2 - -");
    EACH_TEXT(assert_not_forwarded, "", ",", "for=1.1.1.1, bad", "for=1.1.1.1;for=2.2.2.2",
              "for=1.1.1.1;host=a;Host=b", "for =1.1.1.1", "for= 1.1.1.1", "for=1.1.1.1:80",
              "for=[::1]", "for=", "=1.1.1.1", "for=\"1.1.1.1", "for=\"1.1.1.1\\",
              "for=1.1.1.1 host=a", "for=\"\"", "for=\":_x\"");
}

/* Return a peer with an address in 10.20.0.0/16. */
static weft__peer neighbour(unsigned number)
{
    weft__peer p = {.is_unix = false};
    const char *text = format("10.20.%u.%u", number >> 8 & 255, number & 255);
    ck_assert(weft__ip_parse(&p.ip, text, strlen(text)));
    return p;
}

/* If the hashes of neighbours collided, this test would exceed its time limit. */
TEST(many_neighbouring_peers_are_counted_separately)
{
    enum { NEIGHBOURS = 32768 };
    weft__conn_limit peers = {0};
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        weft__peer p = neighbour(i);
        ck_assert_int_eq(weft__conn_limit_enter(&peers, &p, 2), 0);
        ck_assert_int_eq(weft__conn_limit_enter(&peers, &p, 2), 0);
        ck_assert_int_eq(weft__conn_limit_enter(&peers, &p, 2), -EBUSY);
    }
    ck_assert_uint_eq(peers.used, NEIGHBOURS);
    for (unsigned i = 0; i < 2 * NEIGHBOURS; i++) {
        weft__peer p = neighbour(i % NEIGHBOURS);
        weft__conn_limit_leave(&peers, &p);
    }
    ck_assert_uint_eq(peers.used, 0);
    weft__conn_limit_close(&peers);
}

TEST(each_peer_has_its_own_handshake_rate)
{
    weft__handshake_limit limit = {0};
    weft__peer first = neighbour(1), second = neighbour(2), local = {.is_unix = true};
    for (int i = 0; i < 10; i++) /* a burst of the number allowed per second */
        ck_assert_double_eq(weft__handshake_limit_enter(&limit, &first, 100, 10, 1), 0);
    double wait_s = 0;
    for (int i = 1; i <= 10; i++) {
        wait_s = weft__handshake_limit_enter(&limit, &first, 100, 10, 1.05);
        ck_assert_double_eq_tol(wait_s, i / 10.0, 1e-6);
    }
    ck_assert_double_eq(weft__handshake_limit_enter(&limit, &first, 100, 10, 1), -EAGAIN);
    ck_assert_double_eq(weft__handshake_limit_enter(&limit, &second, 100, 10, 1), 0);
    ck_assert_double_eq(weft__handshake_limit_enter(&limit, &local, 100, 10, 1), 0);
    ck_assert_double_eq(weft__handshake_limit_enter(&limit, &first, 100, INFINITY, 1), 0);
    ck_assert_double_eq_tol(weft__handshake_limit_enter(&limit, &first, 101, 10, 1), 0.1, 1e-6);
    ck_assert_double_eq(weft__handshake_limit_enter(&limit, &first, 110, 10, 1), 0);
    weft__handshake_limit_close(&limit);
}

TEST(many_peers_do_not_evict_a_busy_peer)
{
    weft__handshake_limit limit = {0};
    weft__peer busy = neighbour(0);
    for (int i = 0; i < 1000; i++)
        (void)weft__handshake_limit_enter(&limit, &busy, 100, 10, INFINITY);
    for (unsigned i = 1; i < 60000; i++) {
        weft__peer other = neighbour(i);
        ck_assert_double_eq(weft__handshake_limit_enter(&limit, &other, 100, 10, 1), 0);
    }
    ck_assert_double_eq(weft__handshake_limit_enter(&limit, &busy, 100, 10, 1), -EAGAIN);
    weft__handshake_limit_close(&limit);
}

TEST(a_peer_without_an_address_is_not_a_unix_peer)
{
    int pair[2], unconnected = socket(AF_INET, SOCK_STREAM, 0);
    weft__peer p;
    weft__peer_of_fd(&p, unconnected); /* getpeername fails as for a reset connection */
    ck_assert(!p.is_unix);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    weft__peer_of_fd(&p, pair[0]);
    ck_assert(p.is_unix);
    close(unconnected);
    close(pair[0]);
    close(pair[1]);
}
