/* The folder of a web site: what is served of it, what is not, and how. */
#include "http_files_support.h"

START_TEST(a_file_is_served_with_what_there_is_to_say_about_it)
{
    files_open(NULL);
    ck_assert_get("/a.txt", 200, "0123456789");
    assert_heard("\r\nContent-Type: text/plain; charset=utf-8\r\n");
    assert_heard("\r\nContent-Length: 10\r\n");
    assert_heard("\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_heard("\r\nAccept-Ranges: bytes\r\n");
    assert_heard("\r\nX-Content-Type-Options: nosniff\r\n");
    ck_assert_ptr_nonnull(heard_header("ETag"));
    assert_not_heard("Cache-Control");
    assert_not_heard("Vary");
    ck_assert_get("/empty.bin", 200, "");
    assert_heard("\r\nContent-Length: 0\r\n");
    assert_heard("\r\nContent-Type: application/octet-stream\r\n");
    files_close();
}
END_TEST

START_TEST(copies_of_a_file_have_the_same_etag)
{
    char etag[256];
    files_open(NULL);
    ck_assert_get("/a.txt", 200, "0123456789");
    snprintf(etag, sizeof etag, "%s", heard_header("ETag"));
    ck_assert_int_eq(rename(at("root/a.txt"), at("root/old.txt")), 0); /* keeps its inode */
    make_file("root/a.txt", "0123456789");
    set_time("root/a.txt", A_TIME);
    ck_assert_get("/a.txt", 200, "0123456789");
    ck_assert_str_eq(heard_header("ETag"), etag);
    set_time("root/a.txt", A_TIME + 1);
    ck_assert_get("/a.txt", 200, "0123456789");
    ck_assert_str_ne(heard_header("ETag"), etag);
    files_close();
}
END_TEST

START_TEST(head_has_the_headers_of_get)
{
    static const char *const targets[] = {"/a.txt", "/", "/empty.bin", "/sub", "/none"};
    static char got[4096];
    files_open(NULL);
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        get(targets[i]);
        size_t bytes = (size_t)(body_of(t.heard) - t.heard);
        ck_assert_uint_lt(bytes, sizeof got);
        memcpy(got, t.heard, bytes);
        got[bytes] = '\0';
        ask_with("HEAD", targets[i], "");
        char *date = strstr(got, "\r\nDate: "); /* which may have gone on */
        memcpy(date, strstr(t.heard, "\r\nDate: "), strlen("\r\nDate: ") + 29);
        ck_assert_str_eq(t.heard, got);
    }
    files_close();
}
END_TEST

START_TEST(a_folder_is_its_index_and_has_a_slash_at_its_end)
{
    files_open(NULL);
    ck_assert_get("/", 200, "<h1>Home</h1>");
    assert_heard("\r\nContent-Type: text/html; charset=utf-8\r\n");
    ck_assert_get("/sub/", 200, "<h1>Sub</h1>");
    ck_assert_get_status("/sub", 301);
    assert_heard("\r\nLocation: /sub/\r\n");
    ck_assert_get_status("/sub?a=b&c", 301);
    assert_heard("\r\nLocation: /sub/?a=b&c\r\n");
    ck_assert_get_status("/list", 301);
    ck_assert_get_status("/list/", 404);
    ck_assert_get_status("/list/z%20folder", 301);
    assert_heard("\r\nLocation: /list/z%20folder/\r\n");
    ck_assert_get_status("/a.txt/", 404);
    files_close();
}
END_TEST

START_TEST(a_redirect_never_leads_to_another_host)
{
    static const char *const targets[] = {"//sub",      "///sub",       "/.//sub",
                                          "/x/..//sub", "http://a/sub", "http://a//sub"};
    files_open(NULL);
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        ck_assert_get_status(targets[i], 301);
        ck_assert_str_eq(heard_header("Location"), "/sub/");
    }
    files_close();
}
END_TEST

START_TEST(nothing_outside_the_folder_can_be_had)
{
    static const char *const targets[] = {
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/sub/../../secret.txt",
        "/sub/%2e%2e/%2E%2e/secret.txt",
        "/%252e%252e/secret.txt",
        "/..%252fsecret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/....//secret.txt",
        "/.%00./secret.txt",
        "/outside",
        "/up/secret.txt",
        "/absolute",
        "/up/",
        "/loop",
        "/list/outside.txt",
        "/sub/../outside",
        "/a.txt/../../secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/inside/../../secret.txt",
        "//../secret.txt",
        "/link-folder/../../secret.txt",
    };
    files_open(&(weft_http_files_options){.has_hidden = true, .has_listing = true});
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        const char *reply = get(targets[i]);
        ck_assert_msg(reply[0] != '\0', "%s: no reply", targets[i]);
        int status = status_of(reply);
        ck_assert_msg(status == 404 || status == 400, "%s: %d", targets[i], status);
        assert_not_heard("\r\n\r\nsecret");
    }
    ck_assert_get_status("/up", 404);
    files_close();
}
END_TEST

START_TEST(links_that_stay_in_the_folder_are_followed)
{
    files_open(NULL);
    ck_assert_get("/inside", 200, "0123456789");
    ck_assert_get("/link-folder/", 200, "<h1>Sub</h1>");
    ck_assert_get("/link-folder/index.html", 200, "<h1>Sub</h1>");
    files_close();
}
END_TEST

START_TEST(links_that_lead_out_are_followed_if_that_is_wanted)
{
    files_open(&(weft_http_files_options){.has_outside_links = true});
    ck_assert_get("/outside", 200, "secret");
    ck_assert_get("/absolute", 200, "secret");
    ck_assert_get("/up/secret.txt", 200, "secret");
    ck_assert_get("/up/root/a.txt", 200, "0123456789");
    ck_assert_get_status("/%2e%2e/x", 400);
    files_close();
}
END_TEST

START_TEST(only_regular_files_are_served)
{
    files_open(NULL);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%.60s/root/socket", base);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    ck_assert_get_status("/fifo", 404);
    ck_assert_get_status("/socket", 404);
    close(fd);
    files_close();
}
END_TEST

START_TEST(names_with_a_dot_are_hidden_but_for_well_known_ones)
{
    files_open(NULL);
    ck_assert_get_status("/.hidden", 404);
    ck_assert_get_status("/%2ehidden", 404);
    ck_assert_get("/.well-known/a", 200, "known");
    ck_assert_get_status("/.well-known/.b", 404);
    weft_http_files_free(files);
    files = weft_http_files_new(at("root"), &(weft_http_files_options){.has_hidden = true});
    ck_assert_get("/.hidden", 200, "hidden");
    ck_assert_get("/.well-known/.b", 200, "hidden");
    files_close();
}
END_TEST

START_TEST(other_methods_are_405)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
    files_open(NULL);
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        ck_assert_int_eq(status_of(ask_with(methods[i], "/a.txt", "Content-Length: 0\r\n")), 405);
        assert_heard("\r\nAllow: GET, HEAD\r\n");
    }
    ck_assert_get("/a.txt", 200, "0123456789");
    files_close();
}
END_TEST

START_TEST(a_body_that_nobody_wants_is_no_excuse_for_malformed_chunks)
{
    static const char *const methods[] = {"GET", "POST"};
    files_open(NULL);
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        const char *reply = ask_with(methods[i], "/a.txt",
                                     "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n");
        ck_assert_int_eq(status_of(reply), 400);
        assert_heard("\r\nConnection: close\r\n");
    }
    files_close();
}
END_TEST

START_TEST(names_of_all_kinds_are_found)
{
    char name[300] = "root/", target[300] = "/";
    files_open(NULL);
    ck_assert_get("/list/%22%3Cb%3E&'%2541%20%c3%bc:x.txt", 200, "odd");
    memset(name + 5, 'n', 255);
    memset(target + 1, 'n', 255);
    make_file(name, "long");
    ck_assert_get(target, 200, "long");
    target[256] = 'n';
    ck_assert_get_status(target, 404);
    files_close();
}
END_TEST

START_TEST(a_path_that_is_very_deep_is_not_found)
{
    static char target[6001];
    files_open(NULL);
    for (size_t i = 0; i < sizeof target - 2; i += 2)
        memcpy(target + i, "/d", 2);
    ck_assert_get_status(target, 404);
    files_close();
}
END_TEST

START_TEST(who_may_not_read_a_file_is_told_so)
{
    files_open(NULL);
    ck_assert_int_eq(chmod(at("root/a.txt"), 0), 0);
    if (access(at("root/a.txt"), R_OK) != 0) /* root may read everything */
        ck_assert_get_status("/a.txt", 403);
    files_close();
}
END_TEST

START_TEST(a_change_is_seen_at_once)
{
    static const char *const texts[] = {"one", "two", "three and more", "", "five"};
    files_open(NULL);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        make_file("root/new.txt", texts[i]);
        ck_assert_get("/new.txt", 200, texts[i]);
        ck_assert_get("/new.txt", 200, texts[i]);
    }
    make_file("root/other.txt", "replaced");
    ck_assert_int_eq(rename(at("root/other.txt"), at("root/new.txt")), 0);
    ck_assert_get("/new.txt", 200, "replaced");
    ck_assert_int_eq(unlink(at("root/new.txt")), 0);
    ck_assert_get_status("/new.txt", 404);
    make_file("root/new.txt", "again");
    ck_assert_get("/new.txt", 200, "again");
    ck_assert_int_eq(rename(at("root/new.txt"), at("root/away.txt")), 0);
    ck_assert_get_status("/new.txt", 404);
    files_close();
}
END_TEST

/* Two releases of a site, current is a link to the first. */
static void open_releases(void)
{
    make_tree();
    make_folder("1");
    make_folder("2");
    make_file("1/index.html", "one");
    make_file("2/index.html", "two");
    make_link("1", "current");
    files = weft_http_files_new(at("current"), NULL);
    ck_assert_ptr_nonnull(files);
    ck_assert_get("/", 200, "one");
}

/* As deployments do it: there is no moment without a link. */
static void switch_link(const char *target)
{
    make_link(target, "next");
    ck_assert_int_eq(rename(at("next"), at("current")), 0);
}

/* The page is the old one until it is the new one. */
static void await_page(const char *old, const char *new)
{
    while (strcmp(body_of(get("/")), old) == 0)
        ck_assert_int_eq(weft_sleep(0.01), 0);
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_str_eq(body_of(t.heard), new);
}

START_TEST(a_root_whose_link_is_switched_is_found_again)
{
    open_releases();
    switch_link("2");
    await_page("one", "two");
    switch_link("1");
    await_page("two", "one");
    files_close();
}
END_TEST

START_TEST(a_root_that_is_replaced_is_found_again)
{
    static const char *const nothing = "404 Not Found\n";
    make_tree();
    make_folder("a");
    make_file("a/index.html", "one");
    files = weft_http_files_new(at("a"), NULL);
    ck_assert_get("/", 200, "one");
    ck_assert_int_eq(rename(at("a"), at("b")), 0);
    ck_assert_get("/", 200, "one"); /* there is no other */
    make_folder("c");
    make_file("c/index.html", "two");
    ck_assert_int_eq(rename(at("c"), at("a")), 0);
    await_page("one", "two");
    ck_assert_int_eq(unlink(at("a/index.html")), 0);
    ck_assert_int_eq(rmdir(at("a")), 0);
    ck_assert_get("/", 404, nothing);
    make_folder("c");
    make_file("c/index.html", "three");
    ck_assert_int_eq(rename(at("c"), at("a")), 0);
    await_page(nothing, "three");
    files_close();
}
END_TEST

START_TEST(a_root_is_opened_again_when_that_is_asked_for)
{
    open_releases();
    switch_link("2");
    ck_assert_int_eq(weft_http_files_reopen(files), 0);
    ck_assert_get("/", 200, "two");
    ck_assert_int_eq(unlink(at("current")), 0);
    ck_assert_int_eq(weft_http_files_reopen(files), -ENOENT);
    ck_assert_any_words(-ENOENT);
    ck_assert_get("/", 200, "two");
    make_link("secret.txt", "current");
    ck_assert_int_eq(weft_http_files_reopen(files), -ENOTDIR);
    ck_assert_get("/", 200, "two");
    files_close();
}
END_TEST

#define LARGE_BYTES ((size_t)4 << 20)

START_TEST(a_request_that_has_begun_goes_on_with_the_old_root)
{
    static char large[LARGE_BYTES];
    size_t heard = 0;
    ssize_t n;
    open_releases();
    make_bytes("1/large", large, sizeof large);
    talk_open(&t, weft_http_serve_files, files, NULL);
    talk_send(&t, "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    talk_hear(&t, "\r\n\r\n"); /* there is no room for all of it yet */
    heard = t.heard_bytes - (size_t)(body_of(t.heard) - t.heard);
    switch_link("2");
    ck_assert_int_eq(unlink(at("1/large")), 0);
    ck_assert_int_eq(unlink(at("1/index.html")), 0);
    ck_assert_int_eq(rmdir(at("1")), 0);
    ck_assert_int_eq(weft_http_files_reopen(files), 0);
    while ((n = weft_read(t.fd, t.heard, sizeof t.heard)) > 0)
        heard += (size_t)n;
    ck_assert_uint_eq(heard, LARGE_BYTES);
    talk_close(&t);
    ck_assert_get("/", 200, "two");
    files_close();
}
END_TEST

START_TEST(what_cannot_be_served_is_said_when_it_is_opened)
{
    make_tree();
    ck_assert_ptr_null(weft_http_files_new(at("none"), NULL));
    ck_assert_any_words(-ENOENT);
    ck_assert_ptr_null(weft_http_files_new(at("secret.txt"), NULL));
    ck_assert_any_words(-ENOTDIR);
    ck_assert_ptr_null(weft_http_files_new(at("root"), &(weft_http_files_options){.index = "a/b"}));
    ck_assert_any_words(-EINVAL);
    ck_assert_ptr_null(
        weft_http_files_new(at("root"), &(weft_http_files_options){.cache_control = "a\r\nb"}));
    ck_assert_any_words(-EINVAL);
    ck_assert_ptr_null(
        weft_http_files_new(at("root"), &(weft_http_files_options){.cache_control = "a\001b"}));
    ck_assert_any_words(-EINVAL);
    remove_tree();
}
END_TEST

START_TEST(options_say_what_the_index_is_and_how_long_it_may_be_kept)
{
    files_open(&(weft_http_files_options){.index = "a.txt", .cache_control = "max-age=60"});
    ck_assert_get("/", 200, "0123456789");
    assert_heard("\r\nCache-Control: max-age=60\r\n");
    ck_assert_get_status("/sub/", 404);
    files_close();
}
END_TEST

START_TEST(a_folder_is_listed_if_that_is_wanted)
{
    files_open(&(weft_http_files_options){.has_listing = true});
    ck_assert_get_status("/list/", 200);
    assert_heard("\r\nContent-Type: text/html; charset=utf-8\r\n");
    assert_heard(
        "<a href=\"./%22%3Cb%3E%26%27%2541%20%C3%BC%3Ax.txt\">&quot;&lt;b&gt;&amp;&#39;%41 "
        "\xc3\xbc:x.txt</a></td><td>3 B</td>");
    assert_not_heard("hidden");
    assert_not_heard("outside");
    const char *folder = strstr(t.heard, "./z%20folder/\">z folder/</a>");
    const char *file = strstr(t.heard, "./b.txt\"");
    ck_assert_ptr_nonnull(folder);
    ck_assert_ptr_nonnull(file);
    ck_assert(folder < file);
    assert_heard("href=\"../\"");
    ck_assert_get("/sub/", 200, "<h1>Sub</h1>");
    ck_assert_get_status("/list/none/", 404);
    files_close();
}
END_TEST

START_TEST(only_what_can_be_had_is_listed)
{
    files_open(&(weft_http_files_options){.has_listing = true});
    make_file("root/list/back\\slash", "");
    make_file("root/list/line\nbreak", "");
    make_file("root/list/bell\a", "");
    make_file("root/list/unreadable", "");
    make_folder("root/list/unreachable");
    ck_assert_int_eq(chmod(at("root/list/unreadable"), 0), 0);
    ck_assert_int_eq(chmod(at("root/list/unreachable"), 0), 0);
    ck_assert_int_eq(mkfifo(at("root/list/pipe"), 0644), 0);
    make_link("../a.txt", "root/list/inside-link");
    make_link("nowhere", "root/list/broken-link");
    make_link("/etc", "root/list/absolute-link");
    ck_assert_get_status("/list/", 200);
    assert_heard("inside-link");
    assert_heard("b.txt");
    assert_not_heard("back");
    assert_not_heard("break");
    assert_not_heard("bell");
    assert_not_heard("pipe");
    assert_not_heard("broken-link");
    assert_not_heard("absolute-link");
    if (access(at("root/list/unreadable"), R_OK) != 0) { /* root may read everything */
        assert_not_heard("unreadable");
        assert_not_heard("unreachable");
    }
    chmod(at("root/list/unreachable"), 0755);
    files_close();
}
END_TEST

#define NAMES 10500

/* Names in an order that is not that of the page. */
static void make_names(void)
{
    char name[32];
    make_folder("root/many");
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "root/many/n%05u", i * 7919 % NAMES);
        make_file(name, "");
    }
}

static bool has_ended;

static int serve_files_and_note(weft_http_request *r, void *ctx)
{
    int rc = weft_http_serve_files(r, ctx);
    has_ended = true;
    return rc;
}

/* All that comes, without ever waiting for it: how often others could run while it came. */
static unsigned hear_all_at_once(char *heard, size_t room)
{
    unsigned turns = 0;
    size_t bytes = 0;
    ssize_t n = 1;
    for (; n != 0; weft_snooze()) {
        n = recv(t.fd, heard + bytes, room - 1 - bytes, MSG_DONTWAIT);
        ck_assert(n >= 0 || errno == EAGAIN);
        bytes += n > 0 ? (size_t)n : 0;
        turns += bytes > 0 && !has_ended;
    }
    heard[bytes] = '\0';
    return turns;
}

static char long_page[4 << 20];

/* Not by strstr: under ASan each call looks at all of a page. */
static size_t count_links(const char *page)
{
    size_t links = 0;
    for (const char *at = page; *at != '\0'; at++)
        links += at[0] == '"' && at[1] == '.' && at[2] == '/' && at[3] == 'n';
    return links;
}

START_TEST(a_long_listing_lets_others_run_and_has_the_first_names)
{
    const weft_http_options o = {.gzip_level = 9};
    files_open(&(weft_http_files_options){.has_listing = true});
    make_names();
    for (int is_packed = 0; is_packed <= 1; is_packed++) {
        has_ended = false;
        talk_open(&t, serve_files_and_note, files, &o);
        talk_send(&t, is_packed ? "GET /many/ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: "
                                  "gzip\r\nConnection: close\r\n\r\n"
                                : "GET /many/ HTTP/1.0\r\n\r\n");
        ck_assert_uint_gt(hear_all_at_once(long_page, sizeof long_page), 50);
        talk_close(&t);
        if (is_packed)
            break;
        ck_assert_ptr_nonnull(strstr(long_page, ">n00000<"));
        ck_assert_ptr_nonnull(strstr(long_page, ">n09999<"));
        ck_assert_ptr_null(strstr(long_page, ">n10000<"));
        ck_assert_uint_eq(count_links(long_page), 10000);
        ck_assert_ptr_nonnull(strstr(long_page, "the first 10000 of 10500 names"));
    }
    files_close();
}
END_TEST

START_TEST(behind_a_route_the_path_is_what_its_name_stands_for)
{
    files_open(NULL);
    weft_http_router *routes = weft_http_router_new();
    ck_assert_int_eq(weft_http_route(routes, NULL, "/x/{path...}", weft_http_serve_files, files),
                     0);
    static const struct {
        const char *target, *answer;
    } cases[] = {
        {"/x/a.txt", "HTTP/1.1 200"},
        {"/x/", "HTTP/1.1 200"},
        {"/a.txt", "HTTP/1.1 404"},
        {"/x", "\r\nLocation: /x/\r\n"},
        {"/x/sub", "Location: /x/sub/\r\n"},
        {"/x/../a.txt", "HTTP/1.1 404"},
        {"/x/%2e%2e/%2e%2e/secret.txt", "HTTP/1.1 400"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].target);
        talk_once(&t, weft_http_serve_routes, routes, NULL, text);
        assert_heard(cases[i].answer);
    }
    weft_http_router_free(routes);
    files_close();
}
END_TEST

static int fall_back(weft_http_request *r, void *ctx)
{
    int rc = weft_http_serve_files(r, ctx);
    return rc == -ENOENT ? weft_http_reply_text(r, 200, "app") : rc;
}

START_TEST(a_handler_can_answer_where_there_is_no_file)
{
    files_open(NULL);
    talk_once(&t, fall_back, files, NULL, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_str_eq(body_of(t.heard), "app");
    files_close();
}
END_TEST

START_TEST(nothing_stays_open)
{
    warm_up();
    size_t before = count_descriptors();
    files_open(&(weft_http_files_options){.has_listing = true});
    make_file("root/a.txt.gz", "not really");
    static const char *const targets[] = {"/", "/a.txt", "/list/", "/sub", "/none", "/fifo", "/up"};
    for (size_t i = 0; i < 2 * COUNT_OF(targets); i++)
        get(targets[i % COUNT_OF(targets)]);
    files_close();
    ck_assert_uint_eq(count_descriptors(), before);
}
END_TEST

/*
 * Several threads.
 */

#define CORDS 4
#define ROUNDS 60

static weft_value ask_many(void *arg)
{
    talk *own = calloc(1, sizeof *own);
    for (int i = 0; i < ROUNDS; i++) {
        char text[128];
        int n = (i + (int)(intptr_t)arg) % 5;
        snprintf(text, sizeof text, "GET /%d.txt HTTP/1.1\r\nHost: a\r\n\r\n", n);
        const char *reply = talk_once(own, weft_http_serve_files, files, NULL, text);
        ck_assert_int_eq(status_of(reply), 200);
        const char *body = body_of(reply);
        ck_assert_uint_eq(strspn(body, (char[]){body[0], '\0'}), strlen(body));
        ck_assert(n != 0 || strlen(body) == (size_t)(body[0] - 'a' + 1));
    }
    free(own);
    return 0;
}

/* One file changes all the time: each reply is of one version of it. */
START_TEST(threads_that_share_a_folder_see_it_whole)
{
    weft_cord cords[CORDS];
    char name[32], text[32] = "a";
    files_open(NULL);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "root/%d.txt", i);
        make_file(name, "a");
    }
    for (int i = 0; i < CORDS; i++)
        cords[i] = weft_cord_start(ask_many, as_arg(i), NULL);
    for (int i = 0; i < 200; i++) {
        int version = i % 20;
        memset(text, 'a' + version, (size_t)version + 1);
        text[version + 1] = '\0';
        make_file("root/next", text);
        ck_assert_int_eq(rename(at("root/next"), at("root/0.txt")), 0);
        weft_snooze();
    }
    for (int i = 0; i < CORDS; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    files_close();
}
END_TEST

/* The thread that lists the folder goes on without it, and what it works on is there. */
START_TEST(a_look_up_that_is_left_does_no_harm)
{
    files_open(&(weft_http_files_options){.has_listing = true});
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof name, "root/list/%d", i);
        make_file(name, "");
    }
    for (int i = 0; i < 5; i++) {
        talk_open(&t, weft_http_serve_files, files, NULL);
        talk_send(&t, "GET /list/ HTTP/1.1\r\nHost: a\r\n\r\n");
        for (int j = 0; j < i; j++)
            weft_snooze();
        weft_cancel(t.server);
        weft_close(t.fd);
        weft_await(t.server);
    }
    files_close();
}
END_TEST

static const TTest *const *const tests[] = {
    &a_file_is_served_with_what_there_is_to_say_about_it,
    &copies_of_a_file_have_the_same_etag,
    &head_has_the_headers_of_get,
    &a_folder_is_its_index_and_has_a_slash_at_its_end,
    &a_redirect_never_leads_to_another_host,
    &nothing_outside_the_folder_can_be_had,
    &links_that_stay_in_the_folder_are_followed,
    &links_that_lead_out_are_followed_if_that_is_wanted,
    &only_regular_files_are_served,
    &names_with_a_dot_are_hidden_but_for_well_known_ones,
    &other_methods_are_405,
    &a_body_that_nobody_wants_is_no_excuse_for_malformed_chunks,
    &names_of_all_kinds_are_found,
    &a_path_that_is_very_deep_is_not_found,
    &who_may_not_read_a_file_is_told_so,
    &a_change_is_seen_at_once,
    &a_root_whose_link_is_switched_is_found_again,
    &a_root_that_is_replaced_is_found_again,
    &a_root_is_opened_again_when_that_is_asked_for,
    &a_request_that_has_begun_goes_on_with_the_old_root,
    &what_cannot_be_served_is_said_when_it_is_opened,
    &options_say_what_the_index_is_and_how_long_it_may_be_kept,
    &a_folder_is_listed_if_that_is_wanted,
    &only_what_can_be_had_is_listed,
    &a_long_listing_lets_others_run_and_has_the_first_names,
    &behind_a_route_the_path_is_what_its_name_stands_for,
    &a_handler_can_answer_where_there_is_no_file,
    &nothing_stays_open,
    &threads_that_share_a_folder_see_it_whole,
    &a_look_up_that_is_left_does_no_harm,
};

int main(void)
{
    return run_suite("http_files", tests, COUNT_OF(tests));
}
