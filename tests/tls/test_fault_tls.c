/*
 * TLS with faults: the n-th call fails, as in test_fault.c. Memory is freed, descriptors are
 * closed, and a failed send returns an error. Allocations of OpenSSL do not fail.
 */
#include "support/fault.h"
#include "support/suite.h"
#include "tls/tls_certs.h"

/* Created once, before the attempts are forked. */
static const test_cert *identity;

static void create_identity(void)
{
    identity = issue_cert(
        (cert_options){.subject = "localhost", .names = "DNS:localhost", .is_authority = true});
}

/* Both ends of a connection. */
typedef struct tls_ends {
    weft_tls *client_tls, *server_tls;
    weft_stream client, server;
    int fd[2];
    int server_rc;
} tls_ends;

/* Return whether a call succeeded. Require that a fault explains an error or an alert. */
static bool require_or_alert(long result)
{
    if (result == -EPROTO || result == -EACCES)
        return atomic_load(&fault.injected) > 0;
    return REQUIRE_OR_PEER_FAULT(result);
}

static weft_tls *require_tls(weft_tls *tls)
{
    (void)require_object(tls);
    return tls;
}

static weft_value accept_end(void *arg)
{
    tls_ends *s = arg;
    s->server_rc = weft_tls_accept(&s->server, s->fd[1], s->server_tls);
    return 0;
}

static bool send_line(weft_stream *from, weft_stream *to)
{
    static const char text[] = "a line\n";
    struct iovec pieces[] = {{(char *)(uintptr_t)text, 2}, {(char *)(uintptr_t)text + 2, 5}};
    char *line;
    weft_tls_info info;
    if (!require_or_alert(weft_stream_writev(from, pieces, 2)) ||
        !require_or_alert(weft_stream_flush(from)) || !require_or_alert(weft_stream_wait(to)))
        return false;
    int rc = weft_stream_line(to, &line, NULL);
    if (!require_or_alert(rc))
        return false;
    REQUIRE(rc == 1 && strcmp(line, "a line") == 0);
    rc = weft_tls_describe(to, &info);
    return require_or_alert(rc);
}

static bool close_end(weft_stream *s, int rc)
{
    return rc == 0 ? require_or_alert(weft_stream_close(s)) : require_or_alert(rc);
}

static bool connect_and_exchange(tls_ends *s)
{
    if (!REQUIRE_OR_FAULT(weft_socketpair(s->fd)))
        return false;
    weft_fiber server = require_created(weft_spin(accept_end, s));
    if (server == 0)
        weft_close(s->fd[1]);
    int rc = weft_tls_connect(&s->client, s->fd[0], s->client_tls, "localhost");
    if (server != 0)
        REQUIRE(weft_await(server) == 0);
    bool is_done = server != 0 && rc == 0 && s->server_rc == 0;
    is_done = is_done && send_line(&s->client, &s->server) && send_line(&s->server, &s->client);
    is_done &= close_end(&s->client, rc);
    return server != 0 && close_end(&s->server, s->server_rc) && is_done;
}

static bool open_tls(tls_ends *s)
{
    const weft_tls_options server = {.identity = identity_of(identity), .alpn = "a,b"};
    const weft_tls_options client = {.ca_pem = identity->cert_pem, .alpn = "b,c"};
    *s = (tls_ends){.server_tls = require_tls(weft_tls_server_new(&server)),
                    .client_tls = require_tls(weft_tls_client_new(&client))};
    return s->server_tls != NULL && s->client_tls != NULL;
}

static void close_tls(tls_ends *s)
{
    weft_tls_free(s->server_tls);
    weft_tls_free(s->client_tls);
    weft_error_clear();
}

SCENARIO(configure_tls)
{
    const weft_tls_identity other = identity_of(identity);
    tls_ends s;
    bool is_done = open_tls(&s);
    if (is_done) {
        is_done = REQUIRE_OR_FAULT(weft_tls_add(s.server_tls, &other));
        is_done &= REQUIRE_OR_FAULT(weft_tls_reload(s.client_tls));
    }
    close_tls(&s);
    return is_done;
}

TEST(a_configuration_is_loaded_or_fails_with_an_error)
{
    create_identity();
    fail_each_call(configure_tls);
    free_certs();
}

SCENARIO(exchange_twice)
{
    tls_ends s;
    bool is_done;
    WITHOUT_FAULTS(is_done = open_tls(&s));
    is_done &= connect_and_exchange(&s);
    is_done &= connect_and_exchange(&s); /* resumes the session */
    close_tls(&s);
    return is_done;
}

TEST(connections_succeed_or_fail_with_an_error)
{
    create_identity();
    fail_each_call(exchange_twice);
    free_certs();
}

TEST_FAULTS(a_certificate_is_created_or_the_call_fails)
{
    char *cert, *key;
    bool is_done = REQUIRE_OR_FAULT(weft_tls_self_signed("localhost", 2, &cert, &key));
    if (is_done) {
        free(cert);
        free(key);
    }
    return is_done;
}
