/*
 * Whom TLS trusts: names, dates, authorities, certificates of clients; and options that are wrong.
 */
#include "tls_certs.h"
#include "tls_support.h"

/* A handshake in which the client is to fail like this. */
static void assert_refused(pair *p, int code, const char *words)
{
    shake(p);
    ck_assert_int_eq(p->client_rc, code);
    ck_assert_words(code, words);
    ck_assert_int_lt(p->server_rc, 0);
}

START_TEST(a_certificate_for_another_name_is_refused)
{
    pair p = {.name = "other.example"};
    make_sides(&p, NULL, NULL);
    assert_refused(&p, -EACCES, "the certificate is not for other.example, but for localhost");
    p.name = "127.0.0.2";
    assert_refused(&p, -EACCES, "the certificate is not for 127.0.0.2, but for localhost");
    free_sides(&p);
}
END_TEST

START_TEST(an_address_or_a_name_in_any_form_may_be_asked_for)
{
    static const char *const good[] = {"localhost", "LocalHost", "localhost.",
                                       "127.0.0.1", "[::1]",     "::1"};
    issued cert = issue((want){.names = "DNS:localhost,IP:127.0.0.1,IP:::1"});
    weft_tls_options server = {.identity = identity_of(&cert)}, client = {.ca_pem = cert.cert_pem};
    pair p = {0};
    make_sides(&p, &server, &client);
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        p.name = good[i];
        shake(&p);
        ck_assert_good(p.client_rc);
        ck_assert_int_eq(weft_stream_close(&p.client), 0);
        ck_assert_int_eq(weft_stream_close(&p.server), 0);
    }
    free_sides(&p);
    free_issued(&cert);
}
END_TEST

START_TEST(a_wildcard_covers_one_whole_label)
{
    static const struct {
        const char *name;
        bool is_good;
    } cases[] = {{"a.example.org", true},
                 {"A.EXAMPLE.ORG", true},
                 {"example.org", false},
                 {"a.b.example.org", false},
                 {"foo.example.net", false}};
    issued cert = issue((want){.names = "DNS:*.example.org,DNS:f*.example.net"});
    weft_tls_options server = {.identity = identity_of(&cert)}, client = {.ca_pem = cert.cert_pem};
    pair p = {0};
    make_sides(&p, &server, &client);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        p.name = cases[i].name;
        shake(&p);
        ck_assert_int_eq(p.client_rc, cases[i].is_good ? 0 : -EACCES);
        if (cases[i].is_good) {
            ck_assert_int_eq(weft_stream_close(&p.client), 0);
            ck_assert_int_eq(weft_stream_close(&p.server), 0);
        }
    }
    free_sides(&p);
    free_issued(&cert);
}
END_TEST

/* To OpenSSL such a name is any that ends so. */
START_TEST(a_name_that_begins_with_a_dot_is_none)
{
    static const char *const bad[] = {".example.org", ".", "..", "[.example.org]"};
    issued cert = issue((want){.names = "DNS:a.example.org"});
    weft_tls_options server = {.identity = identity_of(&cert)}, client = {.ca_pem = cert.cert_pem};
    pair p = {0};
    make_sides(&p, &server, &client);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        p.name = bad[i];
        shake(&p);
        ck_assert_int_eq(p.client_rc, -EINVAL);
    }
    free_sides(&p);
    free_issued(&cert);
}
END_TEST

START_TEST(what_is_wrong_with_a_certificate_is_said)
{
    issued authority = issue((want){.subject = "ca", .is_authority = true});
    issued stranger = issue((want){.subject = "stranger", .is_authority = true});
    const struct {
        issued cert;
        const char *words;
    } cases[] = {
        {issue((want){
             .names = "DNS:localhost", .issuer = &authority, .begin_days = -9, .end_days = -2}),
         "the certificate of localhost is not trusted: it has expired"},
        {issue((want){.names = "DNS:localhost", .issuer = &authority, .begin_days = 2}),
         "the certificate of localhost is not trusted: it is not valid yet"},
        {issue((want){.names = "DNS:localhost"}),
         "the certificate of localhost is not trusted: it is signed by itself"},
        {issue((want){.names = "DNS:localhost", .issuer = &stranger}),
         "the certificate of localhost is not trusted: it is signed by one whom we do not know"},
        {issue((want){.subject = "localhost", .issuer = &authority}),
         "the certificate is not for localhost"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        pair p = {0};
        weft_tls_options server = {.identity = identity_of(&cases[i].cert)};
        weft_tls_options client = {.ca_pem = authority.cert_pem};
        make_sides(&p, &server, &client);
        assert_refused(&p, -EACCES, cases[i].words);
        free_sides(&p);
        issued cert = cases[i].cert;
        free_issued(&cert);
    }
    free_issued(&authority);
    free_issued(&stranger);
}
END_TEST

START_TEST(who_wants_no_proof_gets_none)
{
    weft_tls_info info;
    for (int k = 0; k < 2; k++) {
        pair p = {.name = "other.example"};
        weft_tls_options client = {.verify =
                                       k == 0 ? WEFT_TLS_VERIFY_NONE : WEFT_TLS_VERIFY_OPTIONAL};
        open_pair(&p, NULL, &client);
        ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
        ck_assert_str_eq(info.peer_subject, "");
        close_pair(&p);
    }
}
END_TEST

START_TEST(the_authorities_of_the_system_do_not_know_us)
{
    pair p = {0};
    make_sides(&p, NULL, NULL);
    weft_tls_free(p.client_tls);
    p.client_tls = weft_tls_client_new(NULL);
    ck_assert_ptr_nonnull(p.client_tls);
    assert_refused(&p, -EACCES,
                   "the certificate of localhost is not trusted: it is signed by itself");
    free_sides(&p);
}
END_TEST

/* A server that asks for certificates, and what becomes of a client with this one (may be NULL). */
static void try_client(weft_tls_verify verify, const issued *authority, const issued *cert,
                       int version, int code, const char *subject)
{
    pair p = {0};
    weft_tls_options server = {
        .verify = verify, .ca_pem = authority->cert_pem, .version_max = version};
    weft_tls_options client = {0};
    if (cert != NULL)
        client.identity = identity_of(cert);
    make_sides(&p, &server, &client);
    shake(&p);
    ck_assert_int_eq(p.server_rc, code);
    if (code == 0) {
        weft_tls_info info;
        ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
        ck_assert_str_eq(info.peer_subject, subject);
        close_pair(&p);
        return;
    }
    /* With TLS 1.3 a client hears of it when it reads; 1.2 has no word for one that is missing. */
    char byte;
    int heard = version == 12 && cert == NULL ? -EPROTO : -EACCES;
    ck_assert_int_eq(p.client_rc, version == 13 ? 0 : heard);
    if (version == 13)
        ck_assert_int_eq(weft_stream_read(&p.client, &byte, 1), heard);
    ck_assert_any_words(heard);
    ck_assert_int_eq(count_in(weft_error()->message, "the other side says: "), 1);
    weft_stream_close(&p.client);
    free_sides(&p);
}

START_TEST(clients_show_certificates_where_they_are_asked_for)
{
    issued authority = issue((want){.subject = "ca", .is_authority = true});
    issued stranger = issue((want){.subject = "stranger", .is_authority = true});
    issued alice = issue((want){.subject = "alice", .issuer = &authority});
    issued mallory = issue((want){.subject = "mallory", .issuer = &stranger});
    for (int version = 12; version <= 13; version++) {
        const weft_tls_verify required = WEFT_TLS_VERIFY_REQUIRED;
        const weft_tls_verify optional = WEFT_TLS_VERIFY_OPTIONAL;
        try_client(required, &authority, &alice, version, 0, "CN=alice");
        try_client(required, &authority, NULL, version, -EACCES, NULL);
        try_client(required, &authority, &mallory, version, -EACCES, NULL);
        try_client(optional, &authority, &alice, version, 0, "CN=alice");
        try_client(optional, &authority, NULL, version, 0, "");
        try_client(optional, &authority, &mallory, version, -EACCES, NULL);
        try_client(WEFT_TLS_VERIFY_DEFAULT, &authority, &mallory, version, 0, "");
    }
    free_issued(&alice);
    free_issued(&mallory);
    free_issued(&stranger);
    free_issued(&authority);
}
END_TEST

START_TEST(a_chain_is_sent_as_a_whole)
{
    issued root = issue((want){.subject = "root", .is_authority = true});
    issued middle = issue((want){.subject = "middle", .is_authority = true, .issuer = &root});
    issued leaf = issue((want){.names = "DNS:localhost", .issuer = &middle});
    char *chain, *all;
    ck_assert_int_gt(asprintf(&chain, "%s%s", leaf.cert_pem, middle.cert_pem), 0);
    ck_assert_int_gt(asprintf(&all, "%s%s%s", leaf.key_pem, leaf.cert_pem, middle.cert_pem), 0);
    const weft_tls_identity identities[] = {
        {.cert_pem = chain, .key_pem = leaf.key_pem}, {.cert_pem = all}, /* the key is with it */
    };
    for (size_t i = 0; i < COUNT_OF(identities); i++) {
        pair p = {0};
        weft_tls_options server = {.identity = identities[i]}, client = {.ca_pem = root.cert_pem};
        open_pair(&p, &server, &client);
        close_pair(&p);
    }
    pair p = {0};
    weft_tls_options server = {.identity = identity_of(&leaf)}, client = {.ca_pem = root.cert_pem};
    make_sides(&p, &server, &client);
    assert_refused(&p, -EACCES,
                   "the certificate of localhost is not trusted: it is signed by one "
                   "whom we do not know");
    free_sides(&p);
    free(chain);
    free(all);
    free_issued(&leaf);
    free_issued(&middle);
    free_issued(&root);
}
END_TEST

static void assert_no_server(weft_tls_options options, int code, const char *words)
{
    ck_assert_ptr_null(weft_tls_server_new(&options));
    ck_assert_words(code, words);
}

START_TEST(options_that_make_no_sense_are_refused)
{
    issued a = issue((want){0}), b = issue((want){0});
    weft_tls_identity good = identity_of(&a);
    const weft_tls_identity odd = {.cert_pem = a.cert_pem, .key_pem = b.key_pem};
    const weft_tls_identity twice = {.cert_pem = a.cert_pem, .cert_file = "/x"};
    const weft_tls_identity keyless = {.cert_pem = a.cert_pem};
    const weft_tls_identity bare = {.key_pem = a.key_pem};
    const weft_tls_identity none = {.cert_file = "/nowhere/a", .key_file = "/nowhere/b"};
    const weft_tls_identity folder = {.cert_file = "/tmp"};
    ck_assert_ptr_null(weft_tls_server_new(NULL));
    ck_assert_words(-EINVAL, "a TLS server needs a certificate");
    assert_no_server((weft_tls_options){0}, -EINVAL, "a TLS server needs a certificate");
    assert_no_server((weft_tls_options){.identity = odd}, -EINVAL,
                     "a key in memory: the key is not the certificate's");
    assert_no_server((weft_tls_options){.identity = twice}, -EINVAL,
                     "a certificate or a key both in a file and in memory");
    assert_no_server((weft_tls_options){.identity = keyless}, -EINVAL,
                     "a certificate in memory: no key in PEM");
    assert_no_server((weft_tls_options){.identity = bare}, -EINVAL, "a key without a certificate");
    assert_no_server((weft_tls_options){.identity = none}, -ENOENT,
                     "cannot read /nowhere/a: No such file or directory");
    assert_no_server((weft_tls_options){.identity = folder}, -EISDIR,
                     "cannot read /tmp: Is a directory");
    assert_no_server((weft_tls_options){.identity = good, .version_min = 11}, -EINVAL,
                     "no versions of TLS: 11 to 13");
    assert_no_server((weft_tls_options){.identity = good, .version_min = 13, .version_max = 12},
                     -EINVAL, "no versions of TLS: 13 to 12");
    assert_no_server((weft_tls_options){.identity = good, .ciphers = "ROT13"}, -EINVAL,
                     "no ciphers of TLS 1.2: ROT13");
    assert_no_server((weft_tls_options){.identity = good, .alpn = "h2,,x"}, -EINVAL,
                     "no list of protocols: h2,,x");
    assert_no_server((weft_tls_options){.identity = good, .alpn = ""}, -EINVAL,
                     "no list of protocols: ");
    assert_no_server((weft_tls_options){.identity = good, .alpn = "h2,"}, -EINVAL,
                     "no list of protocols: h2,");
    assert_no_server((weft_tls_options){.identity = good, .verify = (weft_tls_verify)9}, -EINVAL,
                     "no way to verify: 9");
    assert_no_server((weft_tls_options){.identity = good, .ca_pem = "rubbish"}, -EINVAL,
                     "a text in memory: no good certificates of authorities in PEM");
    assert_no_server((weft_tls_options){.identity = good, .ca_file = "/nowhere/c"}, -ENOENT,
                     "cannot read /nowhere/c: No such file or directory");
    ck_assert_ptr_null(weft_tls_client_new(&(weft_tls_options){.ca_pem = ""}));
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_tls_reload(NULL), -EINVAL);
    ck_assert_int_eq(weft_tls_add(NULL, &good), -EINVAL);
    free_issued(&a);
    free_issued(&b);
}
END_TEST

START_TEST(texts_that_are_cut_or_locked_are_refused)
{
    issued a = issue((want){0});
    BIO *bio = BIO_new(BIO_s_mem());
    ck_assert_int_eq(
        PEM_write_bio_PKCS8PrivateKey(bio, a.key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL), 1);
    char *locked = take_text(bio);
    assert_no_server((weft_tls_options){.identity = {.cert_pem = a.cert_pem, .key_pem = locked}},
                     -EINVAL, "a key in memory: the key has a password");
    a.cert_pem[strlen(a.cert_pem) / 2] = '\0';
    assert_no_server((weft_tls_options){.identity = identity_of(&a)}, -EINVAL,
                     "a certificate in memory: no good certificate in PEM");
    assert_no_server((weft_tls_options){.identity = {.cert_pem = "", .key_pem = ""}}, -EINVAL,
                     "a certificate in memory: no good certificate in PEM");
    free(locked);
    free_issued(&a);
}
END_TEST

START_TEST(a_certificate_is_made_for_names_and_days)
{
    char *cert, *key;
    static const char *const bad[] = {"", ",a", "a,", "a,,b", "a b", "a\nb", "\xc3\xa4"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        ck_assert_int_eq(weft_tls_self_signed(bad[i], 1, &cert, &key), -EINVAL);
    ck_assert_int_eq(weft_tls_self_signed(NULL, 1, &cert, &key), -EINVAL);
    ck_assert_int_eq(weft_tls_self_signed("a", 0, &cert, &key), -EINVAL);
    ck_assert_int_eq(weft_tls_self_signed("a", 1000000, &cert, &key), -EINVAL);
    ck_assert_int_eq(weft_tls_self_signed("a", 1, NULL, &key), -EINVAL);
    ck_assert_int_eq(weft_tls_self_signed("*.a.org,::1,email:copy", 1, &cert, &key), 0);
    BIO *bio = BIO_new_mem_buf(cert, -1);
    X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    ck_assert_int_eq(X509_check_host(x, "b.a.org", 0, 0, NULL), 1);
    ck_assert_int_eq(X509_check_ip_asc(x, "::1", 0), 1);
    ck_assert_int_eq(X509_check_email(x, "copy", 0, 0), 0); /* a name is only a name */
    X509_free(x);
    BIO_free(bio);
    free(cert);
    free(key);
}
END_TEST

int main(void)
{
    const TTest *const *const tests[] = {
        &a_certificate_for_another_name_is_refused,
        &an_address_or_a_name_in_any_form_may_be_asked_for,
        &a_wildcard_covers_one_whole_label,
        &a_name_that_begins_with_a_dot_is_none,
        &what_is_wrong_with_a_certificate_is_said,
        &who_wants_no_proof_gets_none,
        &the_authorities_of_the_system_do_not_know_us,
        &clients_show_certificates_where_they_are_asked_for,
        &a_chain_is_sent_as_a_whole,
        &options_that_make_no_sense_are_refused,
        &texts_that_are_cut_or_locked_are_refused,
        &a_certificate_is_made_for_names_and_days,
    };
    return run_suite("tls_trust", tests, COUNT_OF(tests));
}
