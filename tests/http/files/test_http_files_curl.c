/* Files over HTTP, requested by curl. */
#include "http/http_files_support.h"
#include "support/suite.h"

static test_server s;
static char site_url[64];
static const weft_http_options compressing = {.gzip_level = 6};

static void start_site(void)
{
    files_open(NULL);
    server_open(&s, weft_http_serve_files, files, &compressing);
    snprintf(site_url, sizeof site_url, "http://127.0.0.1:%d", server_port(&s));
}

static void stop_site(void)
{
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    files_close();
}

static weft_output out;

/* Return the output of curl for a target, with up to four options. NULL ends the options. */
static const char *curl(const char *target, const char *const options[4])
{
    char url[512];
    const char *argv[16] = {"curl", "-q", "-sS", "--noproxy", "*", "--max-time", "15"};
    size_t n = 7;
    snprintf(url, sizeof url, "%s%s", site_url, target);
    for (size_t i = 0; i < 4 && options[i] != NULL; i++)
        argv[n++] = options[i];
    argv[n++] = url;
    weft_output_free(&out);
    int rc = weft_run((char *const *)(uintptr_t)argv, NULL, 0, NULL, &out);
    ck_assert_msg(rc == 0, "curl failed with status %d: %.200s", rc, out.err);
    return out.out;
}

#define CURL(target, ...) curl(target, (const char *const[4]){__VA_ARGS__})
#define CODE "-w", "%{http_code}"

TEST(curl_gets_files_folders_and_redirects)
{
    start_site();
    ck_assert_str_eq(CURL("/a.txt", NULL), "0123456789");
    ck_assert_str_eq(CURL("/", "-0"), "<h1>Home</h1>");
    ck_assert_str_eq(CURL("/sub?a", "-L", "-w", " %{num_redirects}"), "<h1>Sub</h1> 1");
    ck_assert_has(CURL("/a.txt", "-I"), "Content-Length: 10\r\n");
    ck_assert_str_eq(CURL("/none", "-o", "/dev/null", CODE), "404");
    ck_assert_str_eq(CURL("/%2e%2e/secret.txt", "--path-as-is", "-o/dev/null", CODE), "400");
    ck_assert_str_eq(CURL("/a.txt", "-dx", "-o/dev/null", CODE), "405");
    stop_site();
}

TEST(curl_gets_ranges_and_resumes)
{
    start_site();
    ck_assert_str_eq(CURL("/a.txt", "-r", "2-4"), "234");
    ck_assert_str_eq(CURL("/a.txt", "-r", "-3"), "789");
    ck_assert_str_eq(CURL("/a.txt", "-C", "6"), "6789");
    const char *parts = CURL("/a.txt", "-r", "0-1,8-9");
    ck_assert_has(parts, "Content-Range: bytes 0-1/10\r\n\r\n01\r\n--",
                  "Content-Range: bytes 8-9/10\r\n\r\n89\r\n--");
    ck_assert_str_eq(CURL("/a.txt", "-r", "10-", "-o/dev/null", "-w%{http_code}"), "416");
    stop_site();
}

TEST(curl_gets_304_for_unchanged_files)
{
    start_site();
    ck_assert_str_eq(CURL("/a.txt", "-zSun, 06 Nov 1994 08:49:37 GMT", CODE), "304");
    ck_assert_str_eq(CURL("/a.txt", "-zSun, 06 Nov 1994 08:49:36 GMT", CODE), "0123456789200");
    char *save[] = {"--etag-save", NULL, "-o/dev/null", NULL};
    save[1] = (char *)(uintptr_t)tree_path("etag");
    curl("/a.txt", (const char *const *)save);
    save[0] = "--etag-compare";
    save[2] = "-w%{http_code}";
    save[1] = (char *)(uintptr_t)tree_path("etag");
    ck_assert_str_eq(curl("/a.txt", (const char *const *)save), "304");
    stop_site();
}

TEST(curl_decompresses_compressed_files)
{
    start_site();
    size_t bytes = 300000;
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + byte_at(i) % 4);
    text[bytes] = '\0';
    create_file_bytes("root/long.html", text, bytes);
    ck_assert_str_eq(CURL("/long.html", "--compressed"), text);
    ck_assert_str_eq(CURL("/long.html", NULL), text);
    ck_assert_str_eq(CURL("/long.html", "--compressed", "-0"), text);
#ifdef WEFT_HAS_GZIP
    ck_assert_has(CURL("/long.html", "--compressed", "-I"), "gzip\r\n");
#endif
    free(text);
    stop_site();
}
