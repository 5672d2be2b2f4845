/* libcurl on fibers: easy handles, HTTPS. */
#include "stock/stock_support.h"

#include <curl/curl.h>

static void adopt_libcurl(void)
{
    adopt_library_of("curl_easy_perform");
    ck_assert_int_eq(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK);
}

FIXTURE(adopt_libcurl, NULL)

static size_t count_bytes(char *data, size_t size, size_t n, void *count)
{
    *(size_t *)count += size * n;
    return size * n;
}

/* Create a handle for STOCK_HTTPS/delay. */
static CURL *open_transfer(const char *delay, size_t *count)
{
    char url[128];
    snprintf(url, sizeof url, "%s/%s", server_address("STOCK_HTTPS"), delay);
    CURL *curl = curl_easy_init();
    ck_assert_ptr_nonnull(curl);
    *count = 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CAINFO, server_address("STOCK_CA"));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, count);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    return curl;
}

/* Perform a transfer. Return the number of connections that it opened. */
static long perform(CURL *curl)
{
    long opened = -1;
    CURLcode rc = curl_easy_perform(curl);
    ck_assert_msg(rc == CURLE_OK, "%s", curl_easy_strerror(rc));
    curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &opened);
    return opened;
}

static weft_value fetch_twice(void *arg)
{
    size_t count;
    CURL *curl = open_transfer("1", &count);
    call_begin();
    ck_assert_int_eq(perform(curl), 1);
    ck_assert_int_eq(perform(curl), 0);
    call_end();
    ck_assert_uint_eq(count, 2 * strlen("after 1 s\n"));
    curl_easy_cleanup(curl);
    return 0;
}

TEST(the_transfers_of_a_hundred_fibers_overlap_and_keep_their_connections)
{
    assert_calls_overlap(fetch_twice, NULL, STOCK_FIBERS);
}

TEST(a_transfer_fails_at_the_deadline_of_a_scope)
{
    size_t count;
    CURL *curl = open_transfer("5", &count);
    int rc = 0;
    CURLcode code = CURLE_OK;
    WEFT_CANCEL_AFTER(0.3, rc) {
        code = curl_easy_perform(curl);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_ne(code, CURLE_OK);
    curl_easy_cleanup(curl);
    curl = open_transfer("0", &count);
    ck_assert_int_eq(perform(curl), 1);
    curl_easy_cleanup(curl);
}

TEST(the_timeout_of_a_transfer_ends_the_transfer)
{
    size_t count;
    CURL *curl = open_transfer("5", &count);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 100L);
    ck_assert_int_eq(curl_easy_perform(curl), CURLE_OPERATION_TIMEDOUT);
    curl_easy_cleanup(curl);
}

/* A connection that fails does not disturb others. */
static weft_value fetch_refused(void *arg)
{
    size_t count;
    CURL *curl = open_transfer("0", &count);
    curl_easy_setopt(curl, CURLOPT_URL, "http://127.0.0.1:1/");
    ck_assert_int_eq(curl_easy_perform(curl), CURLE_COULDNT_CONNECT);
    curl_easy_cleanup(curl);
    return 0;
}

TEST(a_refused_connection_fails_in_its_fiber_only)
{
    size_t count;
    weft_fiber f = spin_stock(fetch_refused, NULL);
    CURL *curl = open_transfer("0.1", &count);
    ck_assert_int_eq(perform(curl), 1);
    ck_assert_int_eq(weft_await(f), 0);
    curl_easy_cleanup(curl);
}

/* Locks of a share, which transfers in several fibers use. */
static pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];

static void share_lock(CURL *curl, curl_lock_data data, curl_lock_access access, void *arg)
{
    pthread_mutex_lock(&share_locks[data]);
}

static void share_unlock(CURL *curl, curl_lock_data data, void *arg)
{
    pthread_mutex_unlock(&share_locks[data]);
}

static CURLSH *open_share(void)
{
    CURLSH *share = curl_share_init();
    for (int i = 0; i < CURL_LOCK_DATA_LAST; i++)
        pthread_mutex_init(&share_locks[i], NULL);
    curl_share_setopt(share, CURLSHOPT_LOCKFUNC, share_lock);
    curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, share_unlock);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
    return share;
}

static weft_value fetch_shared(void *share)
{
    size_t count;
    CURL *curl = open_transfer("0.1", &count);
    curl_easy_setopt(curl, CURLOPT_SHARE, share);
    ck_assert_int_eq(perform(curl), 1);
    ck_assert_int_eq(perform(curl), 0);
    curl_easy_cleanup(curl);
    return 0;
}

TEST(fibers_share_names_sessions_and_cookies)
{
    CURLSH *share = open_share();
    weft_fiber fibers[10];
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt("", &(weft_adopt_options){.is_alone = true}), 0);
    for (size_t i = 0; i < COUNT_OF(fibers); i++)
        fibers[i] = spin_stock(fetch_shared, share);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
    ck_assert_int_eq(curl_share_cleanup(share), CURLSHE_OK);
}
