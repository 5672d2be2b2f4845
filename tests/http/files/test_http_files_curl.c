/* Files over HTTP, asked for by curl. */
#include "http_files_support.h"

static site s;
static char site_url[64];
static const weft_http_options compressing = {.gzip_level = 6};

static void open_site(void)
{
    files_open(NULL);
    site_open(&s, weft_http_serve_files, files, &compressing);
    snprintf(site_url, sizeof site_url, "http://127.0.0.1:%d", site_port(&s));
}

static void close_site(void)
{
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    files_close();
}

static weft_output out;

/* What curl writes for a target with these options, at most four, and NULLs. */
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
    ck_assert_msg(rc == 0, "curl ended with %d: %.200s", rc, out.err);
    return out.out;
}

#define CURL(target, ...) curl(target, (const char *const[4]){__VA_ARGS__})
#define CODE "-w", "%{http_code}"

START_TEST(curl_gets_files_folders_and_redirects)
{
    open_site();
    ck_assert_str_eq(CURL("/a.txt", NULL), "0123456789");
    ck_assert_str_eq(CURL("/", "-0"), "<h1>Home</h1>");
    ck_assert_str_eq(CURL("/sub?a", "-L", "-w", " %{num_redirects}"), "<h1>Sub</h1> 1");
    ck_assert_ptr_nonnull(strstr(CURL("/a.txt", "-I"), "Content-Length: 10\r\n"));
    ck_assert_str_eq(CURL("/none", "-o", "/dev/null", CODE), "404");
    ck_assert_str_eq(CURL("/%2e%2e/secret.txt", "--path-as-is", "-o/dev/null", CODE), "400");
    ck_assert_str_eq(CURL("/a.txt", "-dx", "-o/dev/null", CODE), "405");
    close_site();
}
END_TEST

START_TEST(curl_gets_parts_and_resumes)
{
    open_site();
    ck_assert_str_eq(CURL("/a.txt", "-r", "2-4"), "234");
    ck_assert_str_eq(CURL("/a.txt", "-r", "-3"), "789");
    ck_assert_str_eq(CURL("/a.txt", "-C", "6"), "6789");
    const char *parts = CURL("/a.txt", "-r", "0-1,8-9");
    ck_assert_ptr_nonnull(strstr(parts, "Content-Range: bytes 0-1/10\r\n\r\n01\r\n--"));
    ck_assert_ptr_nonnull(strstr(parts, "Content-Range: bytes 8-9/10\r\n\r\n89\r\n--"));
    ck_assert_str_eq(CURL("/a.txt", "-r", "10-", "-o/dev/null", "-w%{http_code}"), "416");
    close_site();
}
END_TEST

START_TEST(curl_is_told_what_has_not_changed)
{
    open_site();
    ck_assert_str_eq(CURL("/a.txt", "-zSun, 06 Nov 1994 08:49:37 GMT", CODE), "304");
    ck_assert_str_eq(CURL("/a.txt", "-zSun, 06 Nov 1994 08:49:36 GMT", CODE), "0123456789200");
    char *save[] = {"--etag-save", NULL, "-o/dev/null", NULL};
    save[1] = (char *)(uintptr_t)at("etag");
    curl("/a.txt", (const char *const *)save);
    save[0] = "--etag-compare";
    save[2] = "-w%{http_code}";
    save[1] = (char *)(uintptr_t)at("etag");
    ck_assert_str_eq(curl("/a.txt", (const char *const *)save), "304");
    close_site();
}
END_TEST

START_TEST(curl_unpacks_what_comes_compressed)
{
    open_site();
    size_t bytes = 300000;
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + byte_at(i) % 4);
    text[bytes] = '\0';
    make_bytes("root/long.html", text, bytes);
    ck_assert_str_eq(CURL("/long.html", "--compressed"), text);
    ck_assert_str_eq(CURL("/long.html", NULL), text);
    ck_assert_str_eq(CURL("/long.html", "--compressed", "-0"), text);
#ifdef WEFT_HAS_GZIP
    ck_assert_ptr_nonnull(strstr(CURL("/long.html", "--compressed", "-I"), "gzip\r\n"));
#endif
    free(text);
    close_site();
}
END_TEST

static const TTest *const *const tests[] = {
    &curl_gets_files_folders_and_redirects,
    &curl_gets_parts_and_resumes,
    &curl_is_told_what_has_not_changed,
    &curl_unpacks_what_comes_compressed,
};

int main(void)
{
    return run_suite("http_files_curl", tests, COUNT_OF(tests));
}
