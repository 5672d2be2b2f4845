/*
 * libcurl with easy handles: each fiber has a handle and a connection, and requests two pages. The
 * write callback of libcurl may call weft, too.
 *
 * usage: curl URL CA-FILE
 */
#include <weft.h>
#include <weft/posix.h>

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FIBERS 20

static const char *url, *ca_file;
static int good; /* fibers that got both pages */

static size_t take_body(char *data, size_t size, size_t n, void *bytes)
{
    (void)data;
    weft_snooze(); /* let other fibers run */
    *(size_t *)bytes += size * n;
    return size * n;
}

/* Request a page on the connection of the handle. Return the status, or an error. */
static int fetch(CURL *curl)
{
    long status = 0;
    CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK)
        return weft_fail(-EIO, "%s: %s", url, curl_easy_strerror(code));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static weft_value fetch_twice(void *bytes)
{
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        return -ENOMEM;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, bytes);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L); /* no SIGALRM: weft has its own deadlines */
    int status = fetch(curl);
    if (status == 200)
        status = fetch(curl);
    good += status == 200;
    curl_easy_cleanup(curl);
    return status;
}

int main(int argc, char **argv)
{
    char late[256];
    snprintf(late, sizeof late, "%s/0.1", argc > 2 ? argv[1] : getenv("STOCK_HTTPS"));
    url = late;
    ca_file = argc > 2 ? argv[2] : getenv("STOCK_CA");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    size_t bytes = 0;
    if (weft_adopt("libcurl.so", NULL) < 0)
        return 1;
    for (int i = 0; i < FIBERS; i++)
        weft_go_with(fetch_twice, &bytes, &(weft_spin_options){.stack_bytes = 256 * 1024});
    if (weft_await_children() < 0)
        return 1;
    printf("%d fibers got status 200 twice, %zu bytes\n", good, bytes);
    curl_global_cleanup();
}
