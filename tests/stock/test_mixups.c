/*
 * State of the thread that fibers could mix up: errno, the locale of uselocale, the error queue of
 * OpenSSL. A switch mixes up the state in a program that has adopted nothing.
 */
#include "stock/stock_support.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <langinfo.h>
#include <locale.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

/* Wait, so that other fibers run. */
static int (*wait_for_others)(void);

static int wait_by_usleep(void)
{
    return usleep(1000);
}

/* Each of these fibers returns whether its state is its own after a wait. */

static weft_value keep_errno(void *arg)
{
    errno = EIO;
    wait_for_others();
    return errno == EIO;
}

static weft_value change_errno(void *arg)
{
    errno = ENOMSG;
    return 0;
}

static weft_value keep_locale(void *arg)
{
    wait_for_others();
    return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

static weft_value change_locale(void *arg)
{
    locale_t own = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    ck_assert_ptr_ne(own, (locale_t)0);
    uselocale(own);
    ck_assert_str_eq(nl_langinfo(CODESET), "UTF-8");
    return 0;
}

static int connect_to_https(void)
{
    const char *port = strrchr(server_address("STOCK_HTTPS"), ':') + 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Return a connection whose server has replied and has ended the connection. */
static SSL *open_ended_connection(void)
{
    static const char request[] = "GET /0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char reply[4096];
    SSL *ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
    ck_assert_int_eq(SSL_set_fd(ssl, connect_to_https()), 1);
    ck_assert_int_eq(SSL_connect(ssl), 1);
    ck_assert_int_eq(SSL_write(ssl, request, (int)strlen(request)), (int)strlen(request));
    ck_assert_int_gt(SSL_read(ssl, reply, sizeof reply), 0);
    return ssl;
}

/* A clean end of TLS is an error of the fiber if the error queue contains another fiber's error. */
static weft_value keep_error_queue(void *arg)
{
    char byte;
    SSL *ssl = open_ended_connection();
    wait_for_others();
    int n;
    do
        n = SSL_read(ssl, &byte, 1);
    while (n > 0);
    return SSL_get_error(ssl, n) == SSL_ERROR_ZERO_RETURN;
}

static weft_value change_error_queue(void *arg)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    ck_assert_int_ne(SSL_CTX_use_certificate_file(context, "/missing", SSL_FILETYPE_PEM), 1);
    weft_snooze();
    return 0;
}

static const struct {
    weft_fn *keep, *change;
} states[] = {
    {keep_errno, change_errno},
    {keep_locale, change_locale},
    {keep_error_queue, change_error_queue},
};

/* Change a state of the thread while a fiber waits. Return whether the fiber keeps its own. */
static weft_value is_kept(int state, int (*wait)(void))
{
    wait_for_others = wait;
    weft_fiber fibers[] = {spin_stock(states[state].keep, NULL),
                           spin_stock(states[state].change, NULL)};
    weft_value values[COUNT_OF(fibers)];
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), values), 0);
    return values[0];
}

TEST_ROWS(without_adoption_fibers_mix_up_states_of_the_thread, states)
{
    if (!is_preloaded())
        ck_assert_int_eq(is_kept(_i, weft_snooze), false);
}

TEST_ROWS(each_fiber_has_its_own_states_of_the_thread, states)
{
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt("", NULL), 0);
    ck_assert_int_eq(is_kept(_i, weft_snooze), true);
}

TEST_ROWS(each_fiber_has_its_own_states_over_a_hooked_call, states)
{
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt("", NULL), 0);
    ck_assert_int_eq(is_kept(_i, wait_by_usleep), true);
    ck_assert_uint_gt(posix_stats().waits, 0);
}

/*
 * A callback of a library that calls weft directly.
 */

static size_t set_sleep_and_check(char *data, size_t size, size_t n, void *arg)
{
    int number = *(int *)arg;
    locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(own);
    ERR_raise(ERR_LIB_USER, ERR_R_FATAL + number);
    errno = number;
    ck_assert_int_eq(weft_sleep(0.002 * (5 - number)), 0);
    ck_assert_int_eq(errno, number);
    ck_assert_ptr_eq(uselocale(before), own);
    ck_assert_int_eq(ERR_GET_REASON(ERR_get_error()), ERR_R_FATAL + number);
    ck_assert_uint_eq(ERR_get_error(), 0);
    freelocale(own);
    return size * n;
}

static weft_value fetch_with_callback(void *arg)
{
    char url[128];
    CURL *curl = curl_easy_init();
    snprintf(url, sizeof url, "%s/0.05", server_address("STOCK_HTTPS"));
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CAINFO, server_address("STOCK_CA"));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, set_sleep_and_check);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, arg);
    CURLcode rc = curl_easy_perform(curl);
    ck_assert_msg(rc == CURLE_OK, "%s", curl_easy_strerror(rc));
    curl_easy_cleanup(curl);
    return 0;
}

TEST(a_callback_that_sleeps_has_its_own_states_of_the_thread)
{
    int numbers[] = {1, 2, 3, 4};
    weft_fiber fibers[COUNT_OF(numbers)];
    adopt_library_of("curl_easy_perform");
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        fibers[i] = spin_stock(fetch_with_callback, &numbers[i]);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
}
