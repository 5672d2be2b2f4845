/*
 * The n-th call fails, as in test_fault.c, for TLS: what was made is given back, descriptors are
 * closed, and what was not sent is told. (OpenSSL's own memory does not fail here.)
 */
#include "fault.h"

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

static bool use_sides(char *cert, char *key)
{
    const weft_tls_identity identity = {.cert_pem = cert, .key_pem = key};
    const weft_tls_options server = {.identity = identity, .alpn = "a,b"};
    const weft_tls_options client = {.ca_pem = cert, .alpn = "b,c"};
    sides s = {.server_tls = require_side(weft_tls_server_new(&server)),
               .client_tls = require_side(weft_tls_client_new(&client))};
    bool is_done = s.server_tls != NULL && s.client_tls != NULL;
    if (is_done) {
        is_done = REQUIRE_TOLD(weft_tls_add(s.server_tls, &identity));
        is_done &= REQUIRE_TOLD(weft_tls_reload(s.client_tls));
        is_done &= connect_sides(&s);
        is_done &= connect_sides(&s); /* with a session from before */
    }
    weft_tls_free(s.server_tls);
    weft_tls_free(s.client_tls);
    return is_done;
}

static bool tls(void)
{
    char *cert, *key;
    if (!become_a_cord())
        return false;
    if (!REQUIRE_TOLD(weft_tls_self_signed("localhost", 2, &cert, &key)))
        return false;
    bool is_done = use_sides(cert, key);
    free(cert);
    free(key);
    weft_error_clear();
    return is_done;
}

START_TEST(tls_does_without_what_it_cannot_have)
{
    strike_some_calls(tls, 1);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &tls_does_without_what_it_cannot_have,
    };
    return run_suite("fault_tls", tests, COUNT_OF(tests));
}
