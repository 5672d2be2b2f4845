/* Files over HTTP: headers, indexes, listings, links, hidden files, and changes of the root. */
#include "http/http_files_support.h"
#include "support/suite.h"

FIXTURE(files_open_default, files_close)

TEST(a_file_is_served_with_its_headers)
{
    assert_file("/a.txt", "0123456789");
    ck_assert_has(client.received, "\r\nContent-Type: text/plain; charset=utf-8\r\n",
                  "\r\nContent-Length: 10\r\n",
                  "\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                  "\r\nAccept-Ranges: bytes\r\n", "\r\nX-Content-Type-Options: nosniff\r\n");
    ck_assert_ptr_nonnull(response_header("ETag"));
    ck_assert_lacks(client.received, "Cache-Control", "Vary");
    assert_file("/empty.bin", "");
    ck_assert_has(client.received, "\r\nContent-Length: 0\r\n",
                  "\r\nContent-Type: application/octet-stream\r\n");
}

TEST(copies_of_a_file_have_the_same_etag)
{
    char etag[256];
    assert_file("/a.txt", "0123456789");
    copy_etag(etag);
    rename_entry("root/a.txt", "root/old.txt"); /* keeps its inode */
    create_file("root/a.txt", "0123456789");
    set_mtime("root/a.txt", MTIME);
    assert_file("/a.txt", "0123456789");
    ck_assert_str_eq(response_header("ETag"), etag);
    set_mtime("root/a.txt", MTIME + 1);
    assert_file("/a.txt", "0123456789");
    ck_assert_str_ne(response_header("ETag"), etag);
}

static void assert_head_like_get(const char *target)
{
    static char got[4096];
    get_target(target);
    size_t bytes = (size_t)(body_of(client.received) - client.received);
    ck_assert_uint_lt(bytes, sizeof got);
    memcpy(got, client.received, bytes);
    got[bytes] = '\0';
    request_with("HEAD", target, "");
    char *date = strstr(got, "\r\nDate: "); /* may differ by a second */
    memcpy(date, strstr(client.received, "\r\nDate: "), strlen("\r\nDate: ") + 29);
    ck_assert_str_eq(client.received, got);
}

TEST(head_has_the_headers_of_get)
{
    EACH_TEXT(assert_head_like_get, "/a.txt", "/", "/empty.bin", "/sub", "/none");
}

TEST(a_folder_serves_its_index_and_redirects_to_a_final_slash)
{
    assert_file("/", "<h1>Home</h1>");
    ck_assert_has(client.received, "\r\nContent-Type: text/html; charset=utf-8\r\n");
    assert_file("/sub/", "<h1>Sub</h1>");
    assert_code("/sub", "301");
    ck_assert_has(client.received, "\r\nLocation: /sub/\r\n");
    assert_code("/sub?a=b&c", "301");
    ck_assert_has(client.received, "\r\nLocation: /sub/?a=b&c\r\n");
    EACH_PAIR(assert_code, "/list -> 301", "/list/ -> 404", "/list/z%20folder -> 301");
    ck_assert_has(client.received, "\r\nLocation: /list/z%20folder/\r\n");
    assert_code("/a.txt/", "404");
}

static void assert_redirect_to_sub(const char *target)
{
    assert_code(target, "301");
    assert_header("Location", "/sub/");
}

TEST(a_redirect_never_leads_to_another_host)
{
    EACH_TEXT(assert_redirect_to_sub, "//sub", "///sub", "/.//sub", "/x/..//sub", "http://a/sub",
              "http://a//sub");
}

static void assert_outside(const char *target)
{
    const char *response = get_target(target);
    ck_assert_msg(response[0] != '\0', "%s: no response", target);
    int status = status_of(response);
    ck_assert_msg(status == 404 || status == 400, "%s: %d", target, status);
    ck_assert_lacks(response, "\r\n\r\nsecret");
}

TEST(no_path_leads_outside_the_folder)
{
    files_open(&(weft_http_files_options){.has_hidden = true, .has_listing = true});
    EACH_TEXT(assert_outside, "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt",
              "/%2e%2e%2fsecret.txt", "/sub/../../secret.txt", "/sub/%2e%2e/%2E%2e/secret.txt",
              "/%252e%252e/secret.txt", "/..%252fsecret.txt", "/..\\secret.txt", "/..%5csecret.txt",
              "/....//secret.txt", "/.%00./secret.txt", "/outside", "/up/secret.txt", "/absolute",
              "/up/", "/loop", "/list/outside.txt", "/sub/../outside", "/a.txt/../../secret.txt",
              "/%c0%ae%c0%ae/secret.txt", "/inside/../../secret.txt", "//../secret.txt",
              "/link-folder/../../secret.txt", "/up");
}

TEST(links_within_the_folder_are_followed)
{
    EACH_PAIR(assert_file, "/inside -> 0123456789", "/link-folder/ -> <h1>Sub</h1>",
              "/link-folder/index.html -> <h1>Sub</h1>");
}

TEST(links_to_the_outside_are_followed_if_enabled)
{
    files_open(&(weft_http_files_options){.has_outside_links = true});
    EACH_PAIR(assert_file, "/outside -> secret", "/absolute -> secret", "/up/secret.txt -> secret",
              "/up/root/a.txt -> 0123456789");
    assert_code("/%2e%2e/x", "400");
}

TEST(only_readable_regular_files_are_served)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%.60s/root/socket", tree_folder);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    EACH_PAIR(assert_code, "/fifo -> 404", "/socket -> 404");
    ck_assert_int_eq(chmod(tree_path("root/a.txt"), 0), 0);
    if (access(tree_path("root/a.txt"), R_OK) != 0) /* root may read everything */
        assert_code("/a.txt", "403");
    close(fd);
}

TEST(names_with_a_dot_are_hidden_except_well_known)
{
    EACH_PAIR(assert_code, "/.hidden -> 404", "/%2ehidden -> 404");
    assert_file("/.well-known/a", "known");
    assert_code("/.well-known/.b", "404");
    files_open(&(weft_http_files_options){.has_hidden = true});
    EACH_PAIR(assert_file, "/.hidden -> hidden", "/.well-known/.b -> hidden");
}

static void assert_405(const char *method)
{
    ck_assert_int_eq(status_of(request_with(method, "/a.txt", "Content-Length: 0\r\n")), 405);
    assert_header("Allow", "GET, HEAD");
}

static void assert_bad_chunks(const char *method)
{
    const char *chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n";
    ck_assert_int_eq(status_of(request_with(method, "/a.txt", chunks)), 400);
    assert_header("Connection", "close");
}

TEST(other_methods_are_405_and_malformed_chunks_400_although_the_body_is_not_used)
{
    ONLY_HTTP_1;
    EACH_TEXT(assert_405, "POST", "PUT", "DELETE", "OPTIONS", "PATCH");
    EACH_TEXT(assert_bad_chunks, "GET", "POST");
}

TEST(names_with_special_characters_and_long_names_are_found_and_deep_paths_are_not)
{
    static char deep[6001];
    char name[300] = "root/", target[300] = "/";
    assert_file("/list/%22%3Cb%3E&'%2541%20%c3%bc:x.txt", "odd");
    memset(name + 5, 'n', 255);
    memset(target + 1, 'n', 255);
    create_file(name, "long");
    assert_file(target, "long");
    target[256] = 'n';
    assert_code(target, "404");
    for (size_t i = 0; i < sizeof deep - 2; i += 2)
        memcpy(deep + i, "/d", 2);
    assert_code(deep, "404");
}

TEST(a_changed_file_is_served_immediately)
{
    static const char *const texts[] = {"one", "two", "three and more", "", "five"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        create_file("root/new.txt", texts[i]);
        assert_file("/new.txt", texts[i]);
        assert_file("/new.txt", texts[i]);
    }
    create_file("root/other.txt", "replaced");
    rename_entry("root/other.txt", "root/new.txt");
    assert_file("/new.txt", "replaced");
    remove_file("root/new.txt");
    assert_code("/new.txt", "404");
    create_file("root/new.txt", "again");
    assert_file("/new.txt", "again");
    rename_entry("root/new.txt", "root/away.txt");
    assert_code("/new.txt", "404");
}

/* Create two releases of a site. current is a link to the first. */
static void open_releases(void)
{
    create_folder("1");
    create_folder("2");
    create_file("1/index.html", "one");
    create_file("2/index.html", "two");
    create_link("1", "current");
    weft_http_files_free(files);
    files = weft_http_files_new(tree_path("current"), NULL);
    ck_assert_ptr_nonnull(files);
    assert_file("/", "one");
}

/* Replace the link atomically, as deployments do. */
static void switch_link(const char *target)
{
    create_link(target, "next");
    rename_entry("next", "current");
}

/* Request the page until it has changed from old to new. */
static void await_page(const char *old, const char *expected)
{
    while (strcmp(body_of(get_target("/")), old) == 0)
        ck_assert_int_eq(weft_sleep(0.01), 0);
    ck_assert_int_eq(status_of(client.received), 200);
    ck_assert_str_eq(body_of(client.received), expected);
}

/* The server looks for a new root once per second. Both roots change in the same second. */
TEST(a_replaced_link_or_directory_is_the_new_root)
{
    static const char *const not_found = "404 Not Found\n";
    open_releases();
    weft_http_files *linked = files, *plain;
    create_folder("a");
    create_file("a/index.html", "one");
    files = plain = weft_http_files_new(tree_path("a"), NULL);
    assert_file("/", "one");
    rename_entry("a", "b");
    assert_file("/", "one"); /* the path no longer exists */
    create_folder("c");
    create_file("c/index.html", "two");
    rename_entry("c", "a");
    switch_link("2");
    await_page("one", "two");
    files = linked;
    await_page("one", "two");
    files = plain;
    remove_file("a/index.html");
    ck_assert_int_eq(rmdir(tree_path("a")), 0);
    ck_assert_get("/", 404, not_found);
    create_folder("c");
    create_file("c/index.html", "three");
    rename_entry("c", "a");
    await_page(not_found, "three");
    weft_http_files_free(linked);
}

TEST(reopen_switches_to_the_new_root)
{
    open_releases();
    switch_link("2");
    ck_assert_int_eq(weft_http_files_reopen(files), 0);
    assert_file("/", "two");
    remove_file("current");
    ck_assert_fails(weft_http_files_reopen(files), -ENOENT);
    assert_file("/", "two");
    create_link("secret.txt", "current");
    ck_assert_int_eq(weft_http_files_reopen(files), -ENOTDIR);
    assert_file("/", "two");
}

#define LARGE_BYTES ((size_t)4 << 20)

TEST(a_request_in_progress_continues_with_the_old_root)
{
    static char large[LARGE_BYTES];
    size_t received = 0;
    ssize_t n;
    open_releases();
    create_file_bytes("1/large", large, sizeof large);
    start_client(weft_http_serve_files, files, NULL,
                 "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client_expect(&client, "\r\n\r\n"); /* the socket buffer cannot hold the whole file */
    received = client.received_bytes - (size_t)(body_of(client.received) - client.received);
    switch_link("2");
    remove_file("1/large");
    remove_file("1/index.html");
    ck_assert_int_eq(rmdir(tree_path("1")), 0);
    ck_assert_int_eq(weft_http_files_reopen(files), 0);
    while ((n = weft_read(client.fd, client.received, sizeof client.received)) > 0)
        received += (size_t)n;
    ck_assert_uint_eq(received, LARGE_BYTES);
    client_close(&client);
    assert_file("/", "two");
}

static void assert_no_files(const char *root, const weft_http_files_options *options, int code)
{
    ck_assert_ptr_null(weft_http_files_new(tree_path(root), options));
    ck_assert_any_error(code);
}

TEST(invalid_roots_and_options_fail_with_a_message)
{
    assert_no_files("none", NULL, -ENOENT);
    assert_no_files("secret.txt", NULL, -ENOTDIR);
    assert_no_files("root", &(weft_http_files_options){.index = "a/b"}, -EINVAL);
    assert_no_files("root", &(weft_http_files_options){.cache_control = "a\r\nb"}, -EINVAL);
    assert_no_files("root", &(weft_http_files_options){.cache_control = "a\001b"}, -EINVAL);
}

TEST(options_set_the_index_and_cache_control)
{
    files_open(&(weft_http_files_options){.index = "a.txt", .cache_control = "max-age=60"});
    assert_file("/", "0123456789");
    ck_assert_has(client.received, "\r\nCache-Control: max-age=60\r\n");
    assert_code("/sub/", "404");
}

TEST(a_folder_is_listed_if_enabled)
{
    files_open(&(weft_http_files_options){.has_listing = true});
    assert_code("/list/", "200");
    ck_assert_has(
        client.received, "\r\nContent-Type: text/html; charset=utf-8\r\n",
        "<a href=\"./%22%3Cb%3E%26%27%2541%20%C3%BC%3Ax.txt\">&quot;&lt;b&gt;&amp;&#39;%41 "
        "\xc3\xbc:x.txt</a></td><td>3 B</td>");
    ck_assert_lacks(client.received, "hidden", "outside");
    const char *folder = strstr(client.received, "./z%20folder/\">z folder/</a>");
    const char *file = strstr(client.received, "./b.txt\"");
    ck_assert_ptr_nonnull(folder);
    ck_assert_ptr_nonnull(file);
    ck_assert(folder < file);
    ck_assert_has(client.received, "href=\"../\"");
    assert_file("/sub/", "<h1>Sub</h1>");
    assert_code("/list/none/", "404");
}

TEST(a_listing_contains_only_accessible_entries)
{
    files_open(&(weft_http_files_options){.has_listing = true});
    create_file("root/list/back\\slash", "");
    create_file("root/list/line\nbreak", "");
    create_file("root/list/bell\a", "");
    create_file("root/list/unreadable", "");
    create_folder("root/list/unreachable");
    ck_assert_int_eq(chmod(tree_path("root/list/unreadable"), 0), 0);
    ck_assert_int_eq(chmod(tree_path("root/list/unreachable"), 0), 0);
    ck_assert_int_eq(mkfifo(tree_path("root/list/pipe"), 0644), 0);
    create_link("../a.txt", "root/list/inside-link");
    create_link("nowhere", "root/list/broken-link");
    create_link("/etc", "root/list/absolute-link");
    assert_code("/list/", "200");
    ck_assert_has(client.received, "inside-link", "b.txt");
    ck_assert_lacks(client.received, "back", "break", "bell", "pipe", "broken-link",
                    "absolute-link");
    if (access(tree_path("root/list/unreadable"), R_OK) != 0) { /* root may read everything */
        ck_assert_lacks(client.received, "unreadable", "unreachable");
    }
    chmod(tree_path("root/list/unreachable"), 0755);
}

#define NAMES 10500

/* Create the files in an order that differs from the order of the listing. */
static void create_many_files(void)
{
    char name[32];
    create_folder("root/many");
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "root/many/n%05u", i * 7919 % NAMES);
        create_file(name, "");
    }
}

static bool has_ended;

static int serve_files_and_set_flag(weft_http_request *r, void *ctx)
{
    int rc = weft_http_serve_files(r, ctx);
    has_ended = true;
    return rc;
}

/*
 * Read everything without blocking. Return how often this fiber ran between the first byte and the
 * end of the handler.
 */
static unsigned receive_without_waiting(char *received, size_t room)
{
    unsigned runs = 0;
    size_t bytes = 0;
    ssize_t n = 1;
    for (; n != 0; weft_snooze()) {
        n = recv(client.fd, received + bytes, room - 1 - bytes, MSG_DONTWAIT);
        ck_assert(n >= 0 || errno == EAGAIN);
        bytes += n > 0 ? (size_t)n : 0;
        runs += bytes > 0 && !has_ended;
    }
    received[bytes] = '\0';
    return runs;
}

static char long_page[4 << 20];

/* Does not use strstr: under ASan each call scans the rest of the page. */
static size_t count_links(const char *page)
{
    size_t links = 0;
    for (const char *at = page; *at != '\0'; at++)
        links += at[0] == '"' && at[1] == '.' && at[2] == '/' && at[3] == 'n';
    return links;
}

TEST(a_long_listing_yields_to_other_fibers_and_is_truncated)
{
    ONLY_HTTP_1;
    const weft_http_options o = {.gzip_level = 9};
    files_open(&(weft_http_files_options){.has_listing = true});
    create_many_files();
    for (int is_compressed = 0; is_compressed <= 1; is_compressed++) {
        has_ended = false;
        start_client(serve_files_and_set_flag, files, &o,
                     is_compressed ? "GET /many/ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: "
                                     "gzip\r\nConnection: close\r\n\r\n"
                                   : "GET /many/ HTTP/1.0\r\n\r\n");
        ck_assert_uint_gt(receive_without_waiting(long_page, sizeof long_page), 50);
        client_close(&client);
        if (is_compressed)
            break;
        ck_assert_has(long_page, ">n00000<", ">n09999<");
        ck_assert_lacks(long_page, ">n10000<");
        ck_assert_uint_eq(count_links(long_page), 10000);
        ck_assert_has(long_page, "the first 10000 of 10500 names");
    }
}

static weft_http_router *routes;

static void assert_routed(const char *target, const char *expected)
{
    const char *text = format("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
    ck_assert_has(client_exchange(&client, weft_http_serve_routes, routes, NULL, text), expected);
}

TEST(with_a_route_the_path_is_the_value_of_its_parameter)
{
    routes = weft_http_router_new();
    ck_assert_int_eq(weft_http_route(routes, NULL, "/x/{path...}", weft_http_serve_files, files),
                     0);
    EACH_PAIR(assert_routed, "/x/a.txt -> HTTP/1.1 200", "/x/ -> HTTP/1.1 200",
              "/a.txt -> HTTP/1.1 404", "/x -> \r\nLocation: /x/\r\n",
              "/x/sub -> Location: /x/sub/\r\n", "/x/../a.txt -> HTTP/1.1 404",
              "/x/%2e%2e/%2e%2e/secret.txt -> HTTP/1.1 400");
    weft_http_router_free(routes);
}

static int serve_files_or_app(weft_http_request *r, void *ctx)
{
    int rc = weft_http_serve_files(r, ctx);
    return rc == -ENOENT ? weft_http_reply_text(r, 200, "app") : rc;
}

TEST(a_handler_can_reply_when_there_is_no_file)
{
    client_exchange(&client, serve_files_or_app, files, NULL,
                    "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_str_eq(body_of(client.received), "app");
}

TEST(no_descriptor_stays_open)
{
    warm_up();
    files_close();
    size_t before = count_descriptors();
    files_open(&(weft_http_files_options){.has_listing = true});
    create_file("root/a.txt.gz", "not really");
    static const char *const targets[] = {"/", "/a.txt", "/list/", "/sub", "/none", "/fifo", "/up"};
    for (size_t i = 0; i < 2 * COUNT_OF(targets); i++)
        get_target(targets[i % COUNT_OF(targets)]);
    files_close();
    ck_assert_uint_eq(count_descriptors(), before);
}

/* Several threads */

#define CORDS 4
#define ROUNDS 60

static weft_value request_repeatedly(void *arg)
{
    test_client *client_of_cord = calloc(1, sizeof *client_of_cord);
    for (int i = 0; i < ROUNDS; i++) {
        int n = (i + (int)(intptr_t)arg) % 5;
        const char *text = format("GET /%d.txt HTTP/1.1\r\nHost: a\r\n\r\n", n);
        const char *response =
            client_exchange(client_of_cord, weft_http_serve_files, files, NULL, text);
        ck_assert_int_eq(status_of(response), 200);
        const char *body = body_of(response);
        ck_assert_uint_eq(strspn(body, (char[]){body[0], '\0'}), strlen(body));
        ck_assert(n != 0 || strlen(body) == (size_t)(body[0] - 'a' + 1));
    }
    free(client_of_cord);
    return 0;
}

/* One file changes all the time. Each response contains exactly one version. */
TEST(threads_that_share_a_folder_get_consistent_files)
{
    weft_cord cords[CORDS];
    char name[32], text[32] = "a";
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "root/%d.txt", i);
        create_file(name, "a");
    }
    for (int i = 0; i < CORDS; i++)
        cords[i] = weft_cord_start(request_repeatedly, as_arg(i), NULL);
    for (int i = 0; i < 200; i++) {
        int version = i % 20;
        memset(text, 'a' + version, (size_t)version + 1);
        text[version + 1] = '\0';
        create_file("root/next", text);
        rename_entry("root/next", "root/0.txt");
        weft_snooze();
    }
    for (int i = 0; i < CORDS; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

/* The worker that lists the folder continues after the cancellation. Its memory must stay valid. */
TEST(a_cancelled_lookup_is_harmless)
{
    files_open(&(weft_http_files_options){.has_listing = true});
    for (int i = 0; i < 300; i++) {
        create_file(format("root/list/%d", i), "");
    }
    for (int i = 0; i < 5; i++) {
        start_client(weft_http_serve_files, files, NULL, "GET /list/ HTTP/1.1\r\nHost: a\r\n\r\n");
        for (int j = 0; j < i; j++)
            weft_snooze();
        weft_fiber server = client.fiber;
        weft_cancel(server);
        drop_client();
        weft_await(server);
    }
}
