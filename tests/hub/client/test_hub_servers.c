/* The list of servers of a hub: URLs, announced servers, delays. */
#include "hub/client/servers.h"
#include "support/suite.h"

static weft__servers servers;

static void init(const char *where)
{
    weft__list_init(&servers.list);
    servers.count = 0;
    servers.random = 1;
    ck_assert_int_eq(weft__servers_init(&servers, where), 0);
}

static void free_servers(void)
{
    if (servers.list.next != NULL)
        weft__servers_free(&servers);
}

FIXTURE(NULL, free_servers)

static weft__server *server_at(unsigned index)
{
    weft__list *node = servers.list.next;
    for (unsigned i = 0; i < index; i++)
        node = node->next;
    ck_assert_ptr_ne(node, &servers.list);
    return CONTAINER_OF(node, weft__server, node);
}

/* A URL, and its parts. */
static const struct {
    const char *url, *text, *user, *password;
    bool has_tls;
} urls[] = {
    {"nats://a", "a:4222", NULL, NULL, false},
    {"NATS://a.b-c:1/", "a.b-c:1", NULL, NULL, false},
    {"a:65535", "a:65535", NULL, NULL, false},
    {"tls://a", "a:4222", NULL, NULL, true},
    {"nats://[::1]", "[::1]:4222", NULL, NULL, false},
    {"nats://[fe80::1%eth0]:7", "[fe80::1%eth0]:7", NULL, NULL, false},
    {"nats://127.0.0.1:7", "127.0.0.1:7", NULL, NULL, false},
    {"nats://u:p@a", "a:4222", "u", "p", false},
    {"nats://u:p%3a%40%2F@a", "a:4222", "u", "p:@/", false},
    {"nats://u:@a", "a:4222", "u", "", false},
    {"nats://token@a", "a:4222", "token", NULL, false},
    {"nats://u:p@b@a", "a:4222", "u", "p@b", false},
    {"mem:", "mem:", NULL, NULL, false},
    {"mem:x y", "mem:x y", NULL, NULL, false},
};

static void assert_text(const char *text, const char *expected)
{
    ck_assert_int_eq(text == NULL, expected == NULL);
    if (text != NULL)
        ck_assert_str_eq(text, expected);
}

TEST_ROWS(a_url_has_its_parts, urls)
{
    char text[WEFT__SERVER_TEXT_BYTES];
    init(urls[_i].url);
    const weft__server *s = server_at(0);
    ck_assert_str_eq(weft__server_text(s, text), urls[_i].text);
    assert_text(s->user, urls[_i].user);
    assert_text(s->password, urls[_i].password);
    ck_assert_int_eq(s->has_tls, urls[_i].has_tls);
    ck_assert_int_eq(s->port == 0, strncmp(urls[_i].url, "mem:", 4) == 0);
}

TEST(several_urls_keep_their_order)
{
    char text[WEFT__SERVER_TEXT_BYTES];
    init("nats://a,nats://b:1,tls://c");
    ck_assert_uint_eq(servers.count, 3);
    ck_assert_str_eq(weft__server_text(server_at(0), text), "a:4222");
    ck_assert_str_eq(weft__server_text(server_at(1), text), "b:1");
    ck_assert_str_eq(weft__server_text(server_at(2), text), "c:4222");
}

TEST(a_host_that_is_too_long_is_refused)
{
    char url[400] = "nats://";
    memset(url + 7, 'a', 300);
    weft__list_init(&servers.list);
    ck_assert_fails(weft__servers_init(&servers, url), -EINVAL);
    char name[100] = "mem:";
    memset(name + 4, 'a', 65);
    ck_assert_fails(weft__servers_init(&servers, name), -EINVAL);
}

TEST(too_many_urls_are_refused)
{
    static char where[3 * 300];
    for (int i = 0; i < 257; i++)
        strcat(where, i > 0 ? ",a" : "a");
    weft__list_init(&servers.list);
    ck_assert_fails(weft__servers_init(&servers, where), -EINVAL);
}

static weft__server *find(const char *text)
{
    WEFT__LIST_FOR(node, &servers.list) {
        char own[WEFT__SERVER_TEXT_BYTES];
        weft__server *s = CONTAINER_OF(node, weft__server, node);
        if (strcmp(weft__server_text(s, own), text) == 0)
            return s;
    }
    return NULL;
}

static void announce(const char *urls_text, const weft__server *from)
{
    const char *json = format("{\"connect_urls\":%s}", urls_text);
    weft__json_doc doc = {0};
    ck_assert_int_eq(weft__json_parse(&doc, json, strlen(json)), 0);
    weft__servers_announce(&servers, &doc, from);
    weft__json_free(&doc);
}

TEST(announced_servers_get_the_credentials_of_the_announcing_one)
{
    init("tls://u:p@host.example");
    announce("[\"10.0.0.1:1\",\"other.example:2\",\"[::1]:3\"]", server_at(0));
    ck_assert_uint_eq(servers.count, 4);
    weft__server *address = find("10.0.0.1:1"), *name = find("other.example:2");
    ck_assert_str_eq(address->user, "u");
    ck_assert_str_eq(address->password, "p");
    ck_assert(address->has_tls && address->is_announced);
    ck_assert_str_eq(address->tls_name, "host.example"); /* an address is not in a certificate */
    ck_assert_str_eq(name->tls_name, "other.example");
    ck_assert_str_eq(find("[::1]:3")->tls_name, "host.example");
}

TEST(servers_that_are_not_announced_any_more_are_removed)
{
    init("nats://a");
    announce("[\"b:1\",\"c:2\",\"A:4222\"]", find("a:4222"));
    ck_assert_uint_eq(servers.count, 3);
    announce("[\"c:2\"]", find("a:4222"));
    ck_assert_uint_eq(servers.count, 2);
    ck_assert_ptr_null(find("b:1"));
    ck_assert_ptr_nonnull(find("a:4222")); /* of weft_hub_open */
    announce("null", find("a:4222"));
    ck_assert_uint_eq(servers.count, 2);
    announce("[]", find("c:2")); /* the announcing server remains */
    ck_assert_uint_eq(servers.count, 2);
}

TEST(wrong_announcements_are_ignored)
{
    init("nats://a");
    announce("[\"\",\":\",\"b c:1\",\"b:0\",\"b:65536\",\"b\\n:1\",1,{},[\"d:1\"],\"[::1\"]",
             find("a:4222"));
    ck_assert_uint_eq(servers.count, 1);
}

TEST(the_number_of_announced_servers_is_limited)
{
    static char text[20000] = "[";
    weft__json_doc doc = {0};
    init("nats://a");
    for (int i = 1; i <= 1000; i++)
        strcat(text, format("%s\"b:%d\"", i > 1 ? "," : "", i));
    strcat(text, "]");
    char *json = malloc(sizeof text + 100);
    int bytes = sprintf(json, "{\"connect_urls\":%s}", text);
    ck_assert_int_eq(weft__json_parse(&doc, json, (size_t)bytes), 0);
    weft__servers_announce(&servers, &doc, server_at(0));
    weft__json_free(&doc);
    free(json);
    ck_assert_uint_eq(servers.count, WEFT__SERVERS_MAX);
}

TEST(the_next_server_is_the_one_that_was_not_tried)
{
    double wait_s;
    init("nats://a,nats://b");
    weft__server *a = server_at(0), *b = server_at(1);
    ck_assert_ptr_eq(weft__servers_next(&servers, 100, &wait_s), a);
    weft__server_failed(&servers, a, -ECONNREFUSED, 100);
    ck_assert_ptr_eq(weft__servers_next(&servers, 100, &wait_s), b);
    weft__server_failed(&servers, b, -ECONNREFUSED, 100);
    ck_assert_ptr_null(weft__servers_next(&servers, 100, &wait_s));
    ck_assert(wait_s > 0 && wait_s <= 0.05);
    ck_assert_ptr_nonnull(weft__servers_next(&servers, 100 + wait_s, &wait_s));
}

TEST(delays_grow_up_to_a_limit)
{
    init("nats://a");
    weft__server *a = server_at(0);
    for (int i = 0; i < 40; i++) {
        double limit = i < 7 ? 0.05 * (1 << i) : 4.0;
        weft__server_failed(&servers, a, -ECONNREFUSED, 0);
        ck_assert(a->retry_at >= limit / 2 - 1e-9 && a->retry_at <= limit + 1e-9);
    }
}

TEST(a_long_connection_resets_the_delay_and_a_short_one_does_not)
{
    init("nats://a,nats://b");
    weft__server *a = server_at(0);
    for (int i = 0; i < 5; i++)
        weft__server_lost(&servers, a, 0.5, 0);
    ck_assert(a->retry_at >= 0.4);
    weft__server_lost(&servers, a, 60, 7);
    ck_assert(a->retry_at <= 7);
    ck_assert_ptr_eq(server_at(1), a); /* the other server is tried first */
}

TEST(a_server_that_rejects_the_credentials_twice_waits_longer)
{
    init("nats://a");
    weft__server *a = server_at(0);
    weft__server_failed(&servers, a, -EACCES, 0);
    ck_assert(a->retry_at <= 0.05);
    weft__server_failed(&servers, a, -EACCES, 0);
    ck_assert(a->retry_at >= 1 && a->retry_at <= 2);
    for (int i = 0; i < 10; i++)
        weft__server_failed(&servers, a, -EACCES, 0);
    ck_assert(a->retry_at >= 30 && a->retry_at <= 60);
}
