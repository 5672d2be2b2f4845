/* Names: hooked functions of the resolver of libc run in workers. */
#include "posix/posix_support.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <semaphore.h>

FIXTURE(adopt_program, NULL)

/*
 * A worker that is busy until the test ends its call. With a limit of one worker, a lookup waits in
 * the queue.
 */

static sem_t gate;

static weft_value pass_gate(void *arg)
{
    ck_assert_int_eq(sem_wait(&gate), 0);
    return 0;
}

static void block_workers(void)
{
    ck_assert_int_eq(weft_offload_set_limit(1), 0);
    ck_assert_int_eq(sem_init(&gate, 0, 0), 0);
    ck_assert_int_eq(weft_offload_go(pass_gate, NULL), 0);
}

static weft_value release_workers(void *arg)
{
    mark("release ");
    ck_assert_int_eq(sem_post(&gate), 0);
    return 0;
}

static void assert_is_loopback(const struct addrinfo *list)
{
    ck_assert_ptr_nonnull(list);
    const struct sockaddr_in *address = (const void *)list->ai_addr;
    ck_assert_int_eq(list->ai_family, AF_INET);
    ck_assert_int_eq(ntohl(address->sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_int_eq(ntohs(address->sin_port), 80);
}

static const struct addrinfo ip4_hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};

TEST(getaddrinfo_lets_other_fibers_run)
{
    struct addrinfo *list = NULL;
    block_workers();
    weft_spin(release_workers, NULL);
    ck_assert_int_eq(getaddrinfo("localhost", "80", &ip4_hints, &list), 0);
    ck_assert_trail("release ");
    assert_is_loopback(list);
    freeaddrinfo(list);
    ck_assert_uint_eq(posix_stats().offloads, 1);
}

TEST(getaddrinfo_of_an_address_needs_no_worker)
{
    struct addrinfo *list = NULL;
    weft_snooze();
    block_workers();
    ck_assert_int_eq(getaddrinfo("127.0.0.1", "80", &ip4_hints, &list), 0);
    assert_is_loopback(list);
    freeaddrinfo(list);
    ck_assert_int_eq(getaddrinfo("::1", NULL, NULL, &list), 0);
    freeaddrinfo(list);
    struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST};
    ck_assert_int_eq(getaddrinfo("localhost", NULL, &numeric, &list), EAI_NONAME);
    ck_assert_uint_eq(posix_stats().offloads, 0);
    release_workers(NULL);
}

TEST(getaddrinfo_returns_the_errors_of_libc)
{
    struct addrinfo *list = NULL;
    weft_snooze();
    struct addrinfo bad = {.ai_family = 12345};
    ck_assert_int_eq(getaddrinfo("localhost", NULL, &bad, &list), EAI_FAMILY);
    ck_assert_int_ne(getaddrinfo("localhost", "no-such-service", &ip4_hints, &list), 0);
    ck_assert_ptr_null(list);
}

static weft_value find_localhost(void *arg)
{
    struct addrinfo *list = NULL;
    int rc = getaddrinfo("localhost", "80", &ip4_hints, &list);
    if (rc == 0)
        freeaddrinfo(list);
    return rc == EAI_SYSTEM ? -errno : rc;
}

TEST(a_cancelled_getaddrinfo_fails_with_EAI_SYSTEM_and_ECANCELED)
{
    block_workers();
    weft_fiber f = weft_spin(find_localhost, NULL);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    release_workers(NULL);
    ck_assert_int_eq(find_localhost(NULL), 0);
}

static struct sockaddr_in loopback(void)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

TEST(getnameinfo_lets_other_fibers_run)
{
    struct sockaddr_in address = loopback();
    char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
    block_workers();
    weft_spin(release_workers, NULL);
    ck_assert_int_eq(getnameinfo((const struct sockaddr *)&address, sizeof address, host,
                                 sizeof host, service, sizeof service, NI_NUMERICSERV),
                     0);
    ck_assert_trail("release ");
    ck_assert_str_ne(host, "");
    ck_assert_str_eq(service, "80");
}

TEST(getnameinfo_of_numbers_needs_no_worker_and_a_small_buffer_overflows)
{
    struct sockaddr_in address = loopback();
    char host[NI_MAXHOST], small[2];
    weft_snooze();
    ck_assert_int_eq(getnameinfo((const struct sockaddr *)&address, sizeof address, host,
                                 sizeof host, NULL, 0, NI_NUMERICHOST),
                     0);
    ck_assert_str_eq(host, "127.0.0.1");
    ck_assert_uint_eq(posix_stats().offloads, 0);
    ck_assert_int_eq(getnameinfo((const struct sockaddr *)&address, sizeof address, small,
                                 sizeof small, NULL, 0, 0),
                     EAI_OVERFLOW);
}

static void assert_is_loopback_host(const struct hostent *host)
{
    ck_assert_ptr_nonnull(host);
    ck_assert_int_eq(host->h_addrtype, AF_INET);
    ck_assert_int_eq(host->h_length, 4);
    ck_assert_ptr_nonnull(host->h_addr_list[0]);
    struct in_addr address;
    memcpy(&address, host->h_addr_list[0], sizeof address);
    ck_assert_int_eq(ntohl(address.s_addr), INADDR_LOOPBACK);
}

TEST(gethostbyname_r_copies_its_result_to_the_buffer_of_the_caller)
{
    char buffer[1025];
    block_workers();
    weft_spin(release_workers, NULL);
    for (int shift = 0; shift < 2; shift++) {
        struct hostent host, *found = NULL;
        int error = -1;
        ck_assert_int_eq(gethostbyname_r("localhost", &host, buffer + shift, 1024, &found, &error),
                         0);
        ck_assert_ptr_eq(found, &host);
        assert_is_loopback_host(found);
        ck_assert_str_eq(host.h_name, "localhost");
        ck_assert(host.h_name >= buffer && host.h_name < buffer + sizeof buffer);
        for (char **alias = host.h_aliases; *alias != NULL; alias++)
            ck_assert(*alias >= buffer && *alias < buffer + sizeof buffer);
    }
    ck_assert_trail("release ");
}

TEST(gethostbyname_r_reports_a_small_buffer)
{
    char buffer[8];
    struct hostent host, *found = &host;
    int error;
    weft_snooze();
    ck_assert_int_eq(gethostbyname_r("localhost", &host, buffer, sizeof buffer, &found, &error),
                     ERANGE);
    ck_assert_ptr_null(found);
    ck_assert_int_eq(
        gethostbyname2_r("localhost", AF_INET, &host, buffer, sizeof buffer, &found, &error),
        ERANGE);
}

/* Keep the result of gethostbyname over the lookups of other fibers. */
static weft_value keep_host(void *arg)
{
    const struct hostent *host = gethostbyname(arg);
    assert_is_loopback_host(host);
    for (int i = 0; i < 3; i++)
        weft_snooze();
    ck_assert_int_eq(weft_sleep(0.001), 0);
    assert_is_loopback_host(host);
    ck_assert_str_eq(host->h_name, arg);
    return (weft_value)(intptr_t)host;
}

TEST(each_fiber_has_its_own_result_of_gethostbyname)
{
    weft_fiber a = weft_spin(keep_host, "localhost"), b = weft_spin(keep_host, "localhost");
    weft_fiber c = weft_spin(keep_host, "127.0.0.1");
    weft_value first = weft_await(a), second = weft_await(b), third = weft_await(c);
    ck_assert(first != second && first != third && second != third);
}

TEST(the_next_gethostbyname_of_a_fiber_replaces_its_result)
{
    weft_snooze();
    for (int i = 0; i < 3; i++) {
        assert_is_loopback_host(gethostbyname("localhost"));
        assert_is_loopback_host(gethostbyname2("localhost", AF_INET));
    }
    struct in_addr address = {htonl(INADDR_LOOPBACK)};
    assert_is_loopback_host(gethostbyaddr(&address, sizeof address, AF_INET));
    char buffer[1024];
    struct hostent host, *found;
    int error;
    ck_assert_int_eq(gethostbyaddr_r(&address, sizeof address, AF_INET, &host, buffer,
                                     sizeof buffer, &found, &error),
                     0);
    assert_is_loopback_host(found);
}

static weft_value find_host(void *arg)
{
    return gethostbyname("localhost") == NULL && h_errno == NETDB_INTERNAL ? -errno : 0;
}

TEST(a_cancelled_gethostbyname_fails_with_ECANCELED)
{
    block_workers();
    weft_fiber f = weft_spin(find_host, NULL);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    release_workers(NULL);
}
