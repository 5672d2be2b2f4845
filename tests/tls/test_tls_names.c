/* Negotiation in TLS: certificates by name, protocols, versions, sessions, and reloading. */
#include "support/cases.h"
#include "support/result_support.h"
#include "support/suite.h"
#include "tls/tls_fixture.h"

FIXTURE(NULL, end_pair)

/* Perform a handshake with this name. Assert the subject of the server's certificate. */
static void assert_subject(const char *name, const char *subject)
{
    weft_tls_info info;
    p.name = name;
    connect_pair();
    ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
    ck_assert_str_eq(info.peer_subject, subject);
    close_ends(&p);
}

static void add_identity(const test_cert *cert)
{
    weft_tls_identity identity = identity_of(cert);
    ck_assert_int_eq(weft_tls_add(p.server_tls, &identity), 0);
}

TEST(clients_get_the_certificate_for_the_requested_name)
{
    test_cert *ca = issue_ca("ca");
    test_cert *first = issue_for(ca, "first", "DNS:a.org,DNS:elsewhere.net,IP:127.0.0.1");
    test_cert *wild = issue_cert(
        (cert_options){.subject = "wild", .issuer = ca, .is_rsa = true, .names = "DNS:*.b.org"});
    test_cert *exact = issue_for(ca, "exact", "DNS:x.B.org");
    test_cert *common = issue_for(ca, "c.org", NULL);
    weft_tls_options server = {.identity = identity_of(first), .has_no_tickets = true};
    for (server.version_max = 12; server.version_max <= 13; server.version_max++) {
        renew_pair(&server, &(weft_tls_options){.ca_pem = ca->cert_pem});
        add_identity(wild);
        add_identity(exact);
        add_identity(common);
        EACH_PAIR(assert_subject, "a.org -> CN=first", "elsewhere.net -> CN=first",
                  "y.b.org -> CN=wild", "Y.B.ORG. -> CN=wild", "x.b.org -> CN=exact",
                  "127.0.0.1 -> CN=first");
        p.name = "c.org"; /* the server selects by common name, which clients do not accept */
        handshake(&p);
        ck_assert_int_eq(p.client_rc, -EACCES);
        ck_assert_error(-EACCES, "the certificate is not for c.org");
        p.name = "unknown.org";
        handshake(&p);
        ck_assert_error(-EACCES, "the certificate is not for unknown.org, only for a.org, "
                                 "elsewhere.net");
        ck_assert_int_eq(weft_tls_add(p.client_tls, &server.identity), -EINVAL);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &(weft_tls_identity){.cert_pem = "x"}),
                         -EINVAL);
        assert_subject("x.b.org", "CN=exact");
    }
}

TEST(with_rsa_and_ecdsa_certificates_for_a_name_the_client_gets_a_usable_one)
{
    test_cert *ca = issue_ca("ca"), *curve = issue_for(ca, "curve", "DNS:a.org");
    test_cert *rsa = issue_cert(
        (cert_options){.subject = "rsa", .issuer = ca, .is_rsa = true, .names = "DNS:a.org"});
    weft_tls_options server = {.identity = identity_of(rsa), .version_max = 12};
    for (int k = 0; k < 2; k++) {
        renew_pair(&server,
                   &(weft_tls_options){.ca_pem = ca->cert_pem,
                                       .ciphers = k == 0 ? "aRSA+AESGCM" : "aECDSA+AESGCM"});
        add_identity(curve);
        assert_subject("a.org", k == 0 ? "CN=rsa" : "CN=curve");
    }
}

/* The context of the choose function. */
typedef struct choice {
    const test_cert *cert;             /* NULL: use identity */
    const weft_tls_identity *identity; /* NULL as well: the choice is left to the weft_tls */
    int error;                         /* returned if negative */
    weft_fiber waiting;                /* the fiber that waits in the function, or 0 */
    bool is_blocking;
    char server_name[64];
} choice;

static int choose_identity(const char *server_name, weft_tls_identity *identity, void *ctx)
{
    choice *c = ctx;
    snprintf(c->server_name, sizeof c->server_name, "%s",
             server_name != NULL ? server_name : "(none)");
    mark("called ");
    if (c->is_blocking) {
        c->waiting = weft_self();
        weft_value rc = weft_suspend();
        if (weft_is_error(rc))
            return (int)rc;
        mark("resumed ");
    }
    if (c->error < 0)
        return weft_fail(c->error, "the name is unknown");
    if (c->cert == NULL && c->identity == NULL)
        return 0;
    *identity = c->identity != NULL ? *c->identity : identity_of(c->cert);
    return 1;
}

TEST(a_function_may_choose_the_certificate)
{
    test_cert *ca = issue_ca("ca"), *own = issue_for(ca, "own", "DNS:a.org");
    test_cert *chosen = issue_for(ca, "chosen", "DNS:a.org,IP:127.0.0.1");
    char *cert_path = write_temp_file(chosen->cert_pem),
         *key_path = write_temp_file(chosen->key_pem);
    weft_tls_identity files = {.cert_file = cert_path, .key_file = key_path};
    choice c;
    weft_tls_options server = {.identity = identity_of(own),
                               .choose = choose_identity,
                               .choose_ctx = &c,
                               .has_no_tickets = true};
    for (server.version_max = 12; server.version_max <= 13; server.version_max++) {
        renew_pair(&server, &(weft_tls_options){.ca_pem = ca->cert_pem});
        c = (choice){.cert = chosen};
        assert_subject("A.org", "CN=chosen");
        ck_assert_str_eq(c.server_name, "a.org");
        assert_subject("127.0.0.1", "CN=chosen");
        ck_assert_str_eq(c.server_name, "(none)");
        c = (choice){.identity = &files};
        assert_subject("a.org", "CN=chosen");
        c = (choice){0};
        assert_subject("a.org", "CN=own");
    }
    remove_temp_file(cert_path);
    remove_temp_file(key_path);
}

TEST(a_failing_choose_function_ends_the_handshake)
{
    weft_tls_identity missing = {.cert_file = "/nowhere/a"};
    choice choices[] = {{.error = -ENXIO}, {.identity = &missing}, {0}};
    const int codes[] = {-ENXIO, -ENOENT, -EPROTO};
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        renew_pair(&(weft_tls_options){.choose = choose_identity, .choose_ctx = &choices[i]}, NULL);
        handshake(&p);
        ck_assert_int_eq(p.server_rc, codes[i]);
        ck_assert_int_eq(p.client_rc, -EPROTO);
        ck_assert_error(-EPROTO, "TLS: the peer reports: unknown server name");
    }
}

static weft_value mark_three_times(void *arg)
{
    for (int i = 0; i < 3; i++) {
        mark("other ");
        ck_assert_int_eq(weft_snooze(), 0);
    }
    return 0;
}

static weft_value connect_end(void *arg)
{
    p.client_rc = weft_tls_connect(&p.client, p.fd[0], p.client_tls, "localhost");
    return 0;
}

/* Start a handshake of p, until its choose function waits. */
static void start_waiting(choice *c, weft_fiber both[2])
{
    c->is_blocking = true;
    renew_pair(&(weft_tls_options){.choose = choose_identity, .choose_ctx = c}, NULL);
    ck_assert_int_eq(weft_socketpair(p.fd), 0);
    both[0] = weft_spin(accept_tls_end, &p);
    both[1] = weft_spin(connect_end, NULL);
    while (c->waiting == 0)
        weft_snooze();
}

TEST(a_waiting_choose_function_does_not_block_other_fibers)
{
    choice c = {0};
    tls_pair fast = {0};
    weft_fiber both[2];
    start_waiting(&c, both);
    weft_tls_identity identity = {.cert_pem = local_cert, .key_pem = local_key};
    c.identity = &identity;
    new_tls_pair(&fast, NULL, NULL);
    weft_fiber counter = weft_spin(mark_three_times, NULL);
    handshake(&fast); /* completes meanwhile */
    ck_assert_good(fast.client_rc);
    ck_assert_int_eq(weft_await(counter), 0);
    ck_assert_int_eq(weft_schedule(c.waiting, 0), 0);
    ck_assert_int_eq(weft_await_all(both, 2, NULL), 0);
    ck_assert_good(p.client_rc);
    ck_assert_good(p.server_rc);
    ck_assert_trail("called other other other resumed ");
    close_ends(&fast);
    weft_tls_free(fast.client_tls);
    weft_tls_free(fast.server_tls);
}

TEST(a_handshake_can_be_cancelled_while_the_choose_function_waits)
{
    choice c = {0};
    weft_fiber both[2];
    start_waiting(&c, both);
    let_run();
    ck_assert_int_eq(weft_cancel(both[0]), 0);
    (void)weft_await(both[0]);
    ck_assert_int_eq(weft_await(both[1]), 0);
    ck_assert_int_eq(p.server_rc, -ECANCELED);
    ck_assert_int_lt(p.client_rc, 0);
}

/* selected NULL: the handshake fails. */
static void assert_protocol(const char *of_server, const char *of_client, const char *selected)
{
    weft_tls_options server = {.alpn = of_server};
    for (server.version_max = 12; server.version_max <= 13; server.version_max++) {
        weft_tls_info info;
        renew_pair(&server, &(weft_tls_options){.alpn = of_client});
        handshake(&p);
        if (selected == NULL) {
            ck_assert_int_eq(p.server_rc, -EPROTO);
            ck_assert_int_eq(p.client_rc, -EPROTO);
            ck_assert_error(-EPROTO, "TLS: the peer reports: no common protocol (ALPN)");
            continue;
        }
        ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
        ck_assert_str_eq(info.alpn, selected);
        ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
        ck_assert_str_eq(info.alpn, selected);
    }
}

TEST(the_server_selects_a_protocol_of_both_sides)
{
    assert_protocol("h2,http/1.1", "http/1.1,h2", "h2");
    assert_protocol("http/1.1", "h2,http/1.1", "http/1.1");
    assert_protocol("h2", "http/1.1", NULL);
    assert_protocol("h2", "h", NULL);
    assert_protocol("h2", NULL, "");
    assert_protocol(NULL, "h2", "");
    assert_protocol(NULL, NULL, "");
}

/* message NULL: any. */
static void assert_nothing_common(weft_tls_options server, weft_tls_options client,
                                  const char *message)
{
    renew_pair(&server, &client);
    handshake(&p);
    ck_assert_int_eq(p.server_rc, -EPROTO);
    ck_assert_int_eq(p.client_rc, -EPROTO);
    if (message != NULL)
        ck_assert_error(-EPROTO, message);
}

TEST(no_common_version_or_cipher_ends_the_handshake)
{
    static const char no_version[] = "TLS: the peer reports: no common version of TLS";
    const weft_tls_options old = {.version_max = 12}, recent = {.version_min = 13};
    assert_nothing_common(old, recent, no_version);
    assert_nothing_common(recent, old, no_version);
    assert_nothing_common(
        (weft_tls_options){.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256", .version_max = 12},
        (weft_tls_options){.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"}, NULL);
}

/* Connect, exchange data, during which tickets arrive, and close. Return whether it resumed. */
static bool is_resumed(void)
{
    weft_tls_info client, server;
    connect_pair();
    assert_line_passes(&p.server, &p.client);
    ck_assert_int_eq(weft_tls_describe(&p.client, &client), 0);
    ck_assert_int_eq(weft_tls_describe(&p.server, &server), 0);
    ck_assert_int_eq(client.is_resumed, server.is_resumed);
    ck_assert_str_eq(client.peer_subject, "CN=localhost");
    bool result = client.is_resumed;
    close_ends(&p);
    return result;
}

static weft_stream *described;

static int fill_tls_info(void *out, size_t size)
{
    return weft__tls_describe(described, out, size);
}

TEST(a_description_has_the_size_of_the_callers_struct)
{
    renew_pair(NULL, NULL);
    handshake(&p);
    ck_assert_good(p.client_rc);
    described = &p.client;
    assert_result_is_sized(sizeof(weft_tls_info), fill_tls_info);
}

/* Assert that the next connection is new and the one after it is resumed. */
static void assert_resumed_after_new(void)
{
    ck_assert(!is_resumed());
    ck_assert(is_resumed());
}

TEST_LOOP(a_client_resumes_sessions, 2)
{
    renew_pair(&(weft_tls_options){.version_max = 12 + _i}, NULL);
    assert_resumed_after_new();
    for (int k = 0; k < 4; k++)
        ck_assert(is_resumed());
    p.name = "127.0.0.1"; /* each name has its own session */
    assert_resumed_after_new();
    p.name = NULL;
    ck_assert(is_resumed());
    ck_assert_int_eq(weft_tls_reload(p.client_tls), 0);
    assert_resumed_after_new();
    ck_assert_int_eq(weft_tls_reload(p.server_tls), 0); /* with new ticket keys */
    assert_resumed_after_new();
}

TEST_LOOP(a_session_of_tls_1_3_is_used_once, 2)
{
    int version = 12 + _i;
    renew_pair(&(weft_tls_options){.version_max = version}, NULL);
    ck_assert(!is_resumed());
    for (int k = 0; k < 3; k++) { /* two tickets have arrived; the next ones are not read */
        weft_tls_info info;
        handshake(&p);
        ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
        ck_assert_int_eq(info.is_resumed, version == 12 || k < 2);
        close_ends(&p);
    }
}

TEST(without_tickets_nothing_is_resumed)
{
    for (int k = 0; k < 4; k++) {
        renew_pair(&(weft_tls_options){.version_max = 12 + k % 2, .has_no_tickets = k < 2},
                   &(weft_tls_options){.has_no_tickets = k >= 2});
        for (int round = 0; round < 3; round++)
            ck_assert(!is_resumed());
    }
}

TEST_LOOP(a_resumed_session_has_the_client_certificate, 2)
{
    test_cert *ca = issue_ca("ca"), *alice = issue_for(ca, "alice", NULL);
    int version = 12 + _i;
    weft_tls_info info;
    new_tls_pair(&p,
                 &(weft_tls_options){.version_max = version,
                                     .ca_pem = ca->cert_pem,
                                     .verify = WEFT_TLS_VERIFY_REQUIRED},
                 &(weft_tls_options){.identity = identity_of(alice)});
    assert_resumed_after_new();
    handshake(&p);
    ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
    ck_assert(info.is_resumed);
    ck_assert_str_eq(info.peer_subject, "CN=alice");
}

TEST(the_session_cache_is_bounded)
{
    test_cert *cert = issue_cert((cert_options){.subject = "localhost", .names = "DNS:*.a.org"});
    weft_tls_options server = {.identity = identity_of(cert)}, client = {.ca_pem = cert->cert_pem};
    renew_pair(&server, &client);
    char name[32];
    for (int i = 0; i < 70; i++) { /* more than the cache holds */
        snprintf(name, sizeof name, "s%d.a.org", i);
        p.name = name;
        ck_assert(!is_resumed());
    }
    ck_assert(is_resumed());
    p.name = "s0.a.org";
    ck_assert(!is_resumed());
}

TEST(reload_reads_files_again_and_existing_connections_continue)
{
    test_cert *ca = issue_ca("ca");
    test_cert *old = issue_for(ca, "old", "DNS:a.org");
    test_cert *new = issue_for(ca, "new", "DNS:a.org");
    test_cert *extra = issue_for(ca, "extra", "DNS:b.org");
    char *cert = write_temp_file(old->cert_pem), *key = write_temp_file(old->key_pem);
    weft_tls_options server = {.identity = {.cert_file = cert, .key_file = key}};
    weft_tls_options client = {.ca_pem = ca->cert_pem, .has_no_tickets = true};
    renew_pair(&server, &client);
    add_identity(extra);
    tls_pair connected = p;
    connected.name = "a.org";
    handshake(&connected);
    ck_assert_good(connected.client_rc);
    overwrite_file(cert, new->cert_pem); /* the key is still the old one */
    ck_assert_int_eq(weft_tls_reload(p.server_tls), -EINVAL);
    assert_subject("a.org", "CN=old");
    overwrite_file(key, new->key_pem);
    assert_subject("a.org", "CN=old");
    ck_assert_int_eq(weft_tls_reload(p.server_tls), 0);
    assert_subject("a.org", "CN=new");
    assert_subject("b.org", "CN=extra");
    unlink(cert);
    ck_assert_int_eq(weft_tls_reload(p.server_tls), -ENOENT);
    assert_subject("a.org", "CN=new");
    assert_line_passes(&connected.client, &connected.server);
    close_ends(&connected);
    remove_temp_file(cert);
    remove_temp_file(key);
}
