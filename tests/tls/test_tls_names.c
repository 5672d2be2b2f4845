/* What two sides agree on: certificates by name, protocols, versions, sessions; and reloading. */
#include "tls_certs.h"
#include "tls_support.h"

/* One handshake; what the client was told of the certificate is the result, to be compared. */
static const char *subject_for(pair *p, const char *name)
{
    static char subject[128];
    weft_tls_info info;
    p->name = name;
    shake(p);
    ck_assert_good(p->client_rc);
    ck_assert_good(p->server_rc);
    ck_assert_int_eq(weft_tls_describe(&p->client, &info), 0);
    snprintf(subject, sizeof subject, "%s", info.peer_subject);
    ck_assert_int_eq(weft_stream_close(&p->client), 0);
    ck_assert_int_eq(weft_stream_close(&p->server), 0);
    return subject;
}

START_TEST(clients_get_the_certificate_of_the_name_they_ask_for)
{
    issued ca = issue((want){.subject = "ca", .is_authority = true});
    issued first = issue((want){
        .subject = "first", .issuer = &ca, .names = "DNS:a.org,DNS:elsewhere.net,IP:127.0.0.1"});
    issued wild =
        issue((want){.subject = "wild", .issuer = &ca, .is_rsa = true, .names = "DNS:*.b.org"});
    issued exact = issue((want){.subject = "exact", .issuer = &ca, .names = "DNS:x.B.org"});
    issued common = issue((want){.subject = "c.org", .issuer = &ca});
    weft_tls_options server = {.identity = identity_of(&first)};
    weft_tls_options client = {.ca_pem = ca.cert_pem};
    for (int version = 12; version <= 13; version++) {
        pair p = {0};
        server.version_max = version;
        server.has_no_tickets = true;
        make_sides(&p, &server, &client);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &(weft_tls_identity){.cert_pem = wild.cert_pem,
                                                                         .key_pem = wild.key_pem}),
                         0);
        weft_tls_identity more = identity_of(&exact);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &more), 0);
        more = identity_of(&common);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &more), 0);
        ck_assert_str_eq(subject_for(&p, "a.org"), "CN=first");
        ck_assert_str_eq(subject_for(&p, "elsewhere.net"), "CN=first");
        ck_assert_str_eq(subject_for(&p, "y.b.org"), "CN=wild");
        ck_assert_str_eq(subject_for(&p, "Y.B.ORG."), "CN=wild");
        ck_assert_str_eq(subject_for(&p, "x.b.org"), "CN=exact");
        ck_assert_str_eq(subject_for(&p, "127.0.0.1"), "CN=first");
        p.name = "c.org"; /* which no client takes for its common name, but it is sent */
        shake(&p);
        ck_assert_int_eq(p.client_rc, -EACCES);
        ck_assert_words(-EACCES, "the certificate is not for c.org");
        p.name = "unknown.org";
        shake(&p);
        ck_assert_words(-EACCES, "the certificate is not for unknown.org, but for a.org, "
                                 "elsewhere.net");
        ck_assert_int_eq(weft_tls_add(p.client_tls, &more), -EINVAL);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &(weft_tls_identity){.cert_pem = "x"}),
                         -EINVAL);
        ck_assert_str_eq(subject_for(&p, "x.b.org"), "CN=exact");
        free_sides(&p);
    }
    free_issued(&common);
    free_issued(&exact);
    free_issued(&wild);
    free_issued(&first);
    free_issued(&ca);
}
END_TEST

START_TEST(of_two_kinds_of_certificates_for_a_name_the_client_gets_what_it_can_use)
{
    issued ca = issue((want){.subject = "ca", .is_authority = true});
    issued rsa =
        issue((want){.subject = "rsa", .issuer = &ca, .is_rsa = true, .names = "DNS:a.org"});
    issued curve = issue((want){.subject = "curve", .issuer = &ca, .names = "DNS:a.org"});
    weft_tls_options server = {.identity = identity_of(&rsa), .version_max = 12};
    weft_tls_identity more = identity_of(&curve);
    for (int k = 0; k < 2; k++) {
        weft_tls_options client = {.ca_pem = ca.cert_pem,
                                   .ciphers = k == 0 ? "aRSA+AESGCM" : "aECDSA+AESGCM"};
        pair p = {0};
        make_sides(&p, &server, &client);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &more), 0);
        ck_assert_str_eq(subject_for(&p, "a.org"), k == 0 ? "CN=rsa" : "CN=curve");
        free_sides(&p);
    }
    free_issued(&curve);
    free_issued(&rsa);
    free_issued(&ca);
}
END_TEST

/* What a choose function works with. */
typedef struct choice {
    const issued *cert;                /* NULL: it leaves it to the weft_tls */
    const weft_tls_identity *identity; /* instead */
    int error;
    weft_fiber waiting; /* in the function; 0: it does not wait */
    bool is_blocking;
    char asked[64];
} choice;

static int choose(const char *server_name, weft_tls_identity *identity, void *ctx)
{
    choice *c = ctx;
    snprintf(c->asked, sizeof c->asked, "%s", server_name != NULL ? server_name : "(none)");
    mark("asked ");
    if (c->is_blocking) {
        c->waiting = weft_self();
        weft_value rc = weft_suspend();
        if (weft_is_error(rc))
            return (int)rc;
        mark("answers ");
    }
    if (c->error < 0)
        return weft_fail(c->error, "nobody is called so");
    if (c->cert == NULL && c->identity == NULL)
        return 0;
    *identity = c->identity != NULL ? *c->identity : identity_of(c->cert);
    return 1;
}

START_TEST(a_function_may_choose_the_certificate)
{
    issued ca = issue((want){.subject = "ca", .is_authority = true});
    issued own = issue((want){.subject = "own", .issuer = &ca, .names = "DNS:a.org"});
    issued chosen =
        issue((want){.subject = "chosen", .issuer = &ca, .names = "DNS:a.org,IP:127.0.0.1"});
    char *cert_path = write_file(chosen.cert_pem), *key_path = write_file(chosen.key_pem);
    weft_tls_identity files = {.cert_file = cert_path, .key_file = key_path};
    choice c = {.cert = &chosen};
    weft_tls_options server = {.identity = identity_of(&own), .choose = choose, .choose_ctx = &c};
    weft_tls_options client = {.ca_pem = ca.cert_pem};
    server.has_no_tickets = true;
    for (int version = 12; version <= 13; version++) {
        pair p = {0};
        server.version_max = version;
        make_sides(&p, &server, &client);
        c = (choice){.cert = &chosen};
        ck_assert_str_eq(subject_for(&p, "A.org"), "CN=chosen");
        ck_assert_str_eq(c.asked, "a.org");
        ck_assert_str_eq(subject_for(&p, "127.0.0.1"), "CN=chosen");
        ck_assert_str_eq(c.asked, "(none)");
        c = (choice){.identity = &files};
        ck_assert_str_eq(subject_for(&p, "a.org"), "CN=chosen");
        c = (choice){0};
        ck_assert_str_eq(subject_for(&p, "a.org"), "CN=own");
        free_sides(&p);
    }
    remove_file(cert_path);
    remove_file(key_path);
    free_issued(&chosen);
    free_issued(&own);
    free_issued(&ca);
}
END_TEST

START_TEST(a_function_that_cannot_choose_ends_the_handshake)
{
    weft_tls_identity missing = {.cert_file = "/nowhere/a"};
    choice choices[] = {{.error = -ENXIO}, {.identity = &missing}, {0}};
    const int codes[] = {-ENXIO, -ENOENT, -EPROTO};
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        pair p = {0};
        weft_tls_options server = {.choose = choose, .choose_ctx = &choices[i]};
        make_sides(&p, &server, NULL);
        shake(&p);
        ck_assert_int_eq(p.server_rc, codes[i]);
        ck_assert_int_eq(p.client_rc, -EPROTO);
        ck_assert_words(-EPROTO, "TLS: the other side says: it is not the server of that name");
        free_sides(&p);
    }
}
END_TEST

static weft_value count_to_three(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        mark("other ");
        ck_assert_int_eq(weft_snooze(), 0);
    }
    return 0;
}

static weft_value connect_end(void *arg)
{
    pair *p = arg;
    p->client_rc = weft_tls_connect(&p->client, p->fd[0], p->client_tls, "localhost");
    return 0;
}

START_TEST(a_function_that_waits_does_not_stop_the_world)
{
    make_local();
    weft_tls_identity identity = {.cert_pem = local_cert, .key_pem = local_key};
    choice c = {.identity = &identity, .is_blocking = true};
    weft_tls_options server = {.choose = choose, .choose_ctx = &c};
    pair slow = {0}, quick = {0};
    make_sides(&slow, &server, NULL);
    make_sides(&quick, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(slow.fd), 0);
    weft_fiber both[] = {weft_spin(accept_end, &slow), weft_spin(connect_end, &slow)};
    while (c.waiting == 0)
        weft_snooze();
    weft_fiber counter = weft_spin(count_to_three, NULL);
    shake(&quick); /* a whole handshake of others */
    ck_assert_good(quick.client_rc);
    ck_assert_int_eq(weft_await(counter), 0);
    ck_assert_int_eq(weft_schedule(c.waiting, 0), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(both[i]), 0);
    ck_assert_good(slow.client_rc);
    ck_assert_good(slow.server_rc);
    ck_assert_trail("asked other other other answers ");
    ck_assert_int_eq(weft_stream_close(&quick.client), 0);
    ck_assert_int_eq(weft_stream_close(&quick.server), 0);
    weft_tls_free(quick.client_tls);
    weft_tls_free(quick.server_tls);
    close_pair(&slow);
}
END_TEST

START_TEST(a_handshake_is_cancelled_while_the_function_waits)
{
    choice c = {.is_blocking = true};
    weft_tls_options server = {.choose = choose, .choose_ctx = &c};
    pair p = {0};
    make_sides(&p, &server, NULL);
    ck_assert_int_eq(weft_socketpair(p.fd), 0);
    weft_fiber both[] = {weft_spin(accept_end, &p), weft_spin(connect_end, &p)};
    while (c.waiting == 0)
        weft_snooze();
    let_run();
    ck_assert_int_eq(weft_cancel(both[0]), 0);
    (void)weft_await(both[0]);
    ck_assert_int_eq(weft_await(both[1]), 0);
    ck_assert_int_eq(p.server_rc, -ECANCELED);
    ck_assert_int_lt(p.client_rc, 0);
    free_sides(&p);
    assert_nothing_pending();
}
END_TEST

/* Both sides' protocols, and what comes of it; NULL: the handshake fails. */
static const struct {
    const char *server, *client, *agreed;
} protocols[] = {
    {"h2,http/1.1", "http/1.1,h2", "h2"},
    {"http/1.1", "h2,http/1.1", "http/1.1"},
    {"h2", "http/1.1", NULL},
    {"h2", "h", NULL},
    {"h2", NULL, ""},
    {NULL, "h2", ""},
    {NULL, NULL, ""},
};

START_TEST(the_server_prefers_among_the_protocols_of_both)
{
    for (size_t i = 0; i < 2 * COUNT_OF(protocols); i++) {
        pair p = {0};
        weft_tls_info info;
        weft_tls_options server = {.alpn = protocols[i / 2].server, .version_max = 12 + i % 2};
        weft_tls_options client = {.alpn = protocols[i / 2].client};
        const char *agreed = protocols[i / 2].agreed;
        make_sides(&p, &server, &client);
        shake(&p);
        if (agreed == NULL) {
            ck_assert_int_eq(p.server_rc, -EPROTO);
            ck_assert_int_eq(p.client_rc, -EPROTO);
            ck_assert_words(-EPROTO, "TLS: the other side says: no protocol (ALPN) that both sides "
                                     "have");
            free_sides(&p);
            continue;
        }
        ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
        ck_assert_str_eq(info.alpn, agreed);
        ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
        ck_assert_str_eq(info.alpn, agreed);
        close_pair(&p);
    }
}
END_TEST

START_TEST(versions_that_do_not_meet_end_the_handshake)
{
    for (int k = 0; k < 2; k++) {
        pair p = {0};
        weft_tls_options old = {.version_max = 12}, new = {.version_min = 13};
        make_sides(&p, k == 0 ? &old : &new, k == 0 ? &new : &old);
        shake(&p);
        ck_assert_int_eq(p.server_rc, -EPROTO);
        ck_assert_int_eq(p.client_rc, -EPROTO);
        ck_assert_words(-EPROTO,
                        "TLS: the other side says: no version of TLS that both sides allow");
        free_sides(&p);
    }
}
END_TEST

START_TEST(ciphers_that_do_not_meet_end_the_handshake)
{
    pair p = {0};
    weft_tls_options server = {.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256", .version_max = 12};
    weft_tls_options client = {.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"};
    make_sides(&p, &server, &client);
    shake(&p);
    ck_assert_int_eq(p.server_rc, -EPROTO);
    ck_assert_int_eq(p.client_rc, -EPROTO);
    free_sides(&p);
}
END_TEST

/* Connect, talk (the tickets come on the way), close; whether the session was resumed. */
static bool is_resumed(pair *p)
{
    weft_tls_info client, server;
    shake(p);
    ck_assert_good(p->client_rc);
    ck_assert_good(p->server_rc);
    ck_assert_int_eq(weft_stream_puts(&p->server, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p->server), 0);
    ck_assert_line(&p->client, "hello");
    ck_assert_int_eq(weft_tls_describe(&p->client, &client), 0);
    ck_assert_int_eq(weft_tls_describe(&p->server, &server), 0);
    ck_assert_int_eq(client.is_resumed, server.is_resumed);
    bool result = client.is_resumed;
    ck_assert_str_eq(client.peer_subject, "CN=localhost");
    ck_assert_int_eq(weft_stream_close(&p->client), 0);
    ck_assert_int_eq(weft_stream_close(&p->server), 0);
    return result;
}

START_TEST(a_client_resumes_its_sessions)
{
    for (int version = 12; version <= 13; version++) {
        pair p = {0};
        weft_tls_options server = {.version_max = version};
        make_sides(&p, &server, NULL);
        ck_assert(!is_resumed(&p));
        for (int k = 0; k < 5; k++)
            ck_assert(is_resumed(&p));
        p.name = "127.0.0.1"; /* another name is another session */
        ck_assert(!is_resumed(&p));
        ck_assert(is_resumed(&p));
        p.name = NULL;
        ck_assert(is_resumed(&p));
        ck_assert_int_eq(weft_tls_reload(p.client_tls), 0);
        ck_assert(!is_resumed(&p));
        ck_assert(is_resumed(&p));
        ck_assert_int_eq(weft_tls_reload(p.server_tls), 0); /* with keys that nobody has */
        ck_assert(!is_resumed(&p));
        ck_assert(is_resumed(&p));
        free_sides(&p);
    }
}
END_TEST

START_TEST(a_session_of_tls_1_3_is_used_once)
{
    for (int version = 12; version <= 13; version++) {
        pair p = {0};
        weft_tls_options server = {.version_max = version};
        make_sides(&p, &server, NULL);
        ck_assert(!is_resumed(&p));
        for (int k = 0; k < 3; k++) { /* two tickets came; nobody reads those that come now */
            weft_tls_info info;
            shake(&p);
            ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
            ck_assert_int_eq(info.is_resumed, version == 12 || k < 2);
            ck_assert_int_eq(weft_stream_close(&p.client), 0);
            ck_assert_int_eq(weft_stream_close(&p.server), 0);
        }
        free_sides(&p);
    }
}
END_TEST

START_TEST(without_tickets_nothing_is_resumed)
{
    for (int k = 0; k < 4; k++) {
        pair p = {0};
        weft_tls_options server = {.version_max = 12 + k % 2, .has_no_tickets = k < 2};
        weft_tls_options client = {.has_no_tickets = k >= 2};
        make_sides(&p, &server, &client);
        for (int turn = 0; turn < 3; turn++)
            ck_assert(!is_resumed(&p));
        free_sides(&p);
    }
}
END_TEST

START_TEST(a_session_with_a_clients_certificate_is_resumed_with_it)
{
    issued ca = issue((want){.subject = "ca", .is_authority = true});
    issued alice = issue((want){.subject = "alice", .issuer = &ca});
    for (int version = 12; version <= 13; version++) {
        pair p = {0};
        weft_tls_options server = {
            .version_max = version, .ca_pem = ca.cert_pem, .verify = WEFT_TLS_VERIFY_REQUIRED};
        weft_tls_options client = {.identity = identity_of(&alice)};
        make_sides(&p, &server, &client);
        ck_assert(!is_resumed(&p));
        ck_assert(is_resumed(&p));
        weft_tls_info info;
        shake(&p);
        ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
        ck_assert(info.is_resumed);
        ck_assert_str_eq(info.peer_subject, "CN=alice");
        close_pair(&p);
    }
    free_issued(&alice);
    free_issued(&ca);
}
END_TEST

START_TEST(many_servers_do_not_fill_the_memory)
{
    issued cert = issue((want){.subject = "localhost", .names = "DNS:*.a.org"});
    weft_tls_options server = {.identity = identity_of(&cert)}, client = {.ca_pem = cert.cert_pem};
    pair p = {0};
    make_sides(&p, &server, &client);
    char name[32];
    for (int i = 0; i < 100; i++) { /* more than are kept */
        snprintf(name, sizeof name, "s%d.a.org", i);
        p.name = name;
        ck_assert(!is_resumed(&p));
    }
    ck_assert(is_resumed(&p));
    p.name = "s0.a.org";
    ck_assert(!is_resumed(&p));
    free_sides(&p);
    free_issued(&cert);
}
END_TEST

START_TEST(files_are_read_again_and_connections_keep_what_they_have)
{
    issued ca = issue((want){.subject = "ca", .is_authority = true});
    issued old = issue((want){.subject = "old", .issuer = &ca, .names = "DNS:a.org"});
    issued new = issue((want){.subject = "new", .issuer = &ca, .names = "DNS:a.org"});
    issued extra = issue((want){.subject = "extra", .issuer = &ca, .names = "DNS:b.org"});
    char *cert = write_file(old.cert_pem), *key = write_file(old.key_pem);
    weft_tls_options server = {.identity = {.cert_file = cert, .key_file = key}};
    weft_tls_options client = {.ca_pem = ca.cert_pem, .has_no_tickets = true};
    pair p = {0};
    make_sides(&p, &server, &client);
    weft_tls_identity more = identity_of(&extra);
    ck_assert_int_eq(weft_tls_add(p.server_tls, &more), 0);
    pair kept = p;
    kept.name = "a.org";
    shake(&kept);
    ck_assert_good(kept.client_rc);
    rewrite_file(cert, new.cert_pem); /* half of it: the key is the old one */
    ck_assert_int_eq(weft_tls_reload(p.server_tls), -EINVAL);
    ck_assert_str_eq(subject_for(&p, "a.org"), "CN=old");
    rewrite_file(key, new.key_pem);
    ck_assert_str_eq(subject_for(&p, "a.org"), "CN=old");
    ck_assert_int_eq(weft_tls_reload(p.server_tls), 0);
    ck_assert_str_eq(subject_for(&p, "a.org"), "CN=new");
    ck_assert_str_eq(subject_for(&p, "b.org"), "CN=extra");
    unlink(cert);
    ck_assert_int_eq(weft_tls_reload(p.server_tls), -ENOENT);
    ck_assert_str_eq(subject_for(&p, "a.org"), "CN=new");
    ck_assert_int_eq(weft_stream_puts(&kept.client, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&kept.client), 0);
    ck_assert_line(&kept.server, "hello");
    ck_assert_int_eq(weft_stream_close(&kept.client), 0);
    ck_assert_int_eq(weft_stream_close(&kept.server), 0);
    free_sides(&p);
    remove_file(cert);
    remove_file(key);
    free_issued(&extra);
    free_issued(&new);
    free_issued(&old);
    free_issued(&ca);
}
END_TEST

int main(void)
{
    const TTest *const *const tests[] = {
        &clients_get_the_certificate_of_the_name_they_ask_for,
        &of_two_kinds_of_certificates_for_a_name_the_client_gets_what_it_can_use,
        &a_function_may_choose_the_certificate,
        &a_function_that_cannot_choose_ends_the_handshake,
        &a_function_that_waits_does_not_stop_the_world,
        &a_handshake_is_cancelled_while_the_function_waits,
        &the_server_prefers_among_the_protocols_of_both,
        &versions_that_do_not_meet_end_the_handshake,
        &ciphers_that_do_not_meet_end_the_handshake,
        &a_client_resumes_its_sessions,
        &a_session_of_tls_1_3_is_used_once,
        &without_tickets_nothing_is_resumed,
        &a_session_with_a_clients_certificate_is_resumed_with_it,
        &many_servers_do_not_fill_the_memory,
        &files_are_read_again_and_connections_keep_what_they_have,
    };
    return run_suite("tls_names", tests, COUNT_OF(tests));
}
