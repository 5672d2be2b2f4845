/*
 * The n-th call fails, as in test_fault.c, for TLS: what was made is given back, descriptors are
 * closed, and what was not sent is told. (OpenSSL's own memory does not fail here.)
 */
#include "fault.h"
#include "tls_certs.h"

/* Made once, before the attempts are forked. */
static issued identity;

static void make_identity(void)
{
    identity =
        issue((want){.subject = "localhost", .names = "DNS:localhost", .is_authority = true});
}

/* Both sides. */
typedef struct sides {
    weft_tls *client_tls, *server_tls;
    weft_stream client, server;
    int fd[2];
    int server_rc;
} sides;

/* What comes of an error at the other end, which may have said why. */
static bool is_felt(long result)
{
    if (result == -EPROTO || result == -EACCES)
        return atomic_load(&fault.struck) > 0;
    return REQUIRE_FELT(result);
}

static weft_tls *require_side(weft_tls *tls)
{
    REQUIRE(tls != NULL || atomic_load(&fault.struck) > 0);
    return tls;
}

static weft_value accept_side(void *arg)
{
    sides *s = arg;
    s->server_rc = weft_tls_accept(&s->server, s->fd[1], s->server_tls);
    return 0;
}

static bool talk(weft_stream *from, weft_stream *to)
{
    static const char text[] = "a line\n";
    struct iovec pieces[] = {{(char *)(uintptr_t)text, 2}, {(char *)(uintptr_t)text + 2, 5}};
    char *line;
    weft_tls_info info;
    if (!is_felt(weft_stream_writev(from, pieces, 2)) || !is_felt(weft_stream_flush(from)) ||
        !is_felt(weft_stream_wait(to)))
        return false;
    int rc = weft_stream_line(to, &line, NULL);
    if (!is_felt(rc))
        return false;
    REQUIRE(rc == 1 && strcmp(line, "a line") == 0);
    rc = weft_tls_describe(to, &info);
    return is_felt(rc);
}

static bool close_side(weft_stream *s, int rc)
{
    return rc == 0 ? is_felt(weft_stream_close(s)) : is_felt(rc);
}

static bool connect_sides(sides *s)
{
    if (!REQUIRE_TOLD(weft_socketpair(s->fd)))
        return false;
    weft_fiber server = require_made(weft_spin(accept_side, s));
    if (server == 0)
        weft_close(s->fd[1]);
    int rc = weft_tls_connect(&s->client, s->fd[0], s->client_tls, "localhost");
    if (server != 0)
        REQUIRE(weft_await(server) == 0);
    bool is_done = server != 0 && rc == 0 && s->server_rc == 0;
    is_done = is_done && talk(&s->client, &s->server) && talk(&s->server, &s->client);
    is_done &= close_side(&s->client, rc);
    return server != 0 && close_side(&s->server, s->server_rc) && is_done;
}

static bool open_tls(sides *s)
{
    const weft_tls_options server = {.identity = identity_of(&identity), .alpn = "a,b"};
    const weft_tls_options client = {.ca_pem = identity.cert_pem, .alpn = "b,c"};
    *s = (sides){.server_tls = require_side(weft_tls_server_new(&server)),
                 .client_tls = require_side(weft_tls_client_new(&client))};
    return s->server_tls != NULL && s->client_tls != NULL;
}

static void close_tls(sides *s)
{
    weft_tls_free(s->server_tls);
    weft_tls_free(s->client_tls);
    weft_error_clear();
}

static bool configuring(void)
{
    const weft_tls_identity other = identity_of(&identity);
    sides s;
    if (!become_a_cord())
        return false;
    bool is_done = open_tls(&s);
    if (is_done) {
        is_done = REQUIRE_TOLD(weft_tls_add(s.server_tls, &other));
        is_done &= REQUIRE_TOLD(weft_tls_reload(s.client_tls));
    }
    close_tls(&s);
    return is_done;
}

START_TEST(a_configuration_is_loaded_or_it_is_said_why_not)
{
    make_identity();
    strike_each_call(configuring);
    free_issued(&identity);
}
END_TEST

static bool talking(void)
{
    sides s;
    if (!become_a_cord())
        return false;
    bool is_done;
    WITHOUT_FAULTS(is_done = open_tls(&s));
    is_done &= connect_sides(&s);
    is_done &= connect_sides(&s); /* with a session from before */
    close_tls(&s);
    return is_done;
}

START_TEST(tls_does_without_what_it_cannot_have)
{
    make_identity();
    strike_each_call(talking);
    free_issued(&identity);
}
END_TEST

static bool signing(void)
{
    char *cert, *key;
    if (!become_a_cord())
        return false;
    bool is_done = REQUIRE_TOLD(weft_tls_self_signed("localhost", 2, &cert, &key));
    if (is_done) {
        free(cert);
        free(key);
    }
    weft_error_clear();
    return is_done;
}

START_TEST(a_certificate_is_signed_or_it_is_said_why_not)
{
    strike_each_call(signing);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_configuration_is_loaded_or_it_is_said_why_not,
        &tls_does_without_what_it_cannot_have,
        &a_certificate_is_signed_or_it_is_said_why_not,
    };
    return run_suite("fault_tls", tests, COUNT_OF(tests));
}
