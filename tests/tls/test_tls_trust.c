/* Verification in TLS: names, dates, authorities, client certificates, and invalid options. */
#include "support/cases.h"
#include "support/suite.h"
#include "tls/tls_fixture.h"

FIXTURE(NULL, end_pair)

/* Assert that the client's handshake fails with this error. */
static void assert_refused(const char *message)
{
    handshake(&p);
    ck_assert_int_eq(p.client_rc, -EACCES);
    ck_assert_error(-EACCES, message);
    ck_assert_int_lt(p.server_rc, 0);
}

TEST(a_certificate_for_another_name_is_refused)
{
    renew_pair(NULL, NULL);
    p.name = "other.example";
    assert_refused("the certificate is not for other.example, only for localhost");
    p.name = "127.0.0.2";
    assert_refused("the certificate is not for 127.0.0.2, only for localhost");
}

/* Connect with this name. expected is ok, other (-EACCES) or bad (-EINVAL). */
static void assert_name(const char *name, const char *expected)
{
    p.name = name;
    handshake(&p);
    int rc = strcmp(expected, "ok") == 0 ? 0 : strcmp(expected, "bad") == 0 ? -EINVAL : -EACCES;
    ck_assert_msg(p.client_rc == rc, "%s: %d", name, p.client_rc);
    if (rc == 0)
        close_ends(&p);
}

/* OpenSSL treats a name that begins with a dot as a suffix that matches any host below it. */
TEST(names_match_in_any_case_and_a_wildcard_covers_one_whole_label)
{
    test_cert *cert = issue_cert((cert_options){
        .names = "DNS:localhost,IP:127.0.0.1,IP:::1,DNS:*.example.org,DNS:f*.example.net"});
    renew_pair(&(weft_tls_options){.identity = identity_of(cert)},
               &(weft_tls_options){.ca_pem = cert->cert_pem});
    EACH_PAIR(assert_name, "localhost -> ok", "LocalHost -> ok", "localhost. -> ok",
              "127.0.0.1 -> ok", "[::1] -> ok", "::1 -> ok", "a.example.org -> ok",
              "A.EXAMPLE.ORG -> ok", "example.org -> other", "a.b.example.org -> other",
              "foo.example.net -> other", ".example.org -> bad", ". -> bad", ".. -> bad",
              "[.example.org] -> bad");
}

TEST(the_message_says_why_a_certificate_is_not_trusted)
{
    test_cert *authority = issue_ca("ca");
    test_cert *other_authority = issue_ca("stranger");
    const struct {
        const test_cert *cert;
        const char *message;
    } cases[] = {
        {issue_cert((cert_options){
             .names = "DNS:localhost", .issuer = authority, .begin_days = -9, .end_days = -2}),
         "the certificate of localhost is not trusted: it has expired"},
        {issue_cert((cert_options){.names = "DNS:localhost", .issuer = authority, .begin_days = 2}),
         "the certificate of localhost is not trusted: it is not valid yet"},
        {issue_cert((cert_options){.names = "DNS:localhost"}),
         "the certificate of localhost is not trusted: it is self-signed"},
        {issue_cert((cert_options){.names = "DNS:localhost", .issuer = other_authority}),
         "the certificate of localhost is not trusted: it is signed by an unknown CA"},
        {issue_cert((cert_options){.subject = "localhost", .issuer = authority}),
         "the certificate is not for localhost"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_tls_options server = {.identity = identity_of(cases[i].cert)};
        weft_tls_options client = {.ca_pem = authority->cert_pem};
        renew_pair(&server, &client);
        assert_refused(cases[i].message);
    }
}

TEST(a_client_without_verification_accepts_any_certificate)
{
    weft_tls_info info;
    for (int k = 0; k < 2; k++) {
        weft_tls_options client = {.verify =
                                       k == 0 ? WEFT_TLS_VERIFY_NONE : WEFT_TLS_VERIFY_OPTIONAL};
        renew_pair(NULL, &client);
        p.name = "other.example";
        connect_pair();
        ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
        ck_assert_str_eq(info.peer_subject, "");
    }
}

TEST(a_self_signed_certificate_is_not_trusted_by_default)
{
    renew_pair(NULL, NULL);
    weft_tls_free(p.client_tls);
    p.client_tls = weft_tls_client_new(NULL);
    ck_assert_ptr_nonnull(p.client_tls);
    assert_refused("the certificate of localhost is not trusted: it is self-signed");
}

/*
 * Connect a client with a certificate, or with none if cert is NULL, to a server that requests
 * certificates. code is the result of the server.
 */
static void try_client(weft_tls_verify verify, const test_cert *authority, const test_cert *cert,
                       int version, int code, const char *subject)
{
    weft_tls_options server = {
        .verify = verify, .ca_pem = authority->cert_pem, .version_max = version};
    weft_tls_options client = {0};
    if (cert != NULL)
        client.identity = identity_of(cert);
    renew_pair(&server, &client);
    handshake(&p);
    ck_assert_int_eq(p.server_rc, code);
    if (code == 0) {
        weft_tls_info info;
        ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
        ck_assert_str_eq(info.peer_subject, subject);
        return;
    }
    /* With TLS 1.3 the client's read fails. TLS 1.2 has no alert for a missing certificate. */
    char byte;
    int error = version == 12 && cert == NULL ? -EPROTO : -EACCES;
    ck_assert_int_eq(p.client_rc, version == 13 ? 0 : error);
    if (version == 13)
        ck_assert_int_eq(weft_stream_read(&p.client, &byte, 1), error);
    ck_assert_any_error(error);
    ck_assert_int_eq(count_in(weft_error()->message, "the peer reports: "), 1);
    weft_stream_close(&p.client);
}

TEST_LOOP(client_certificates_are_verified_as_the_server_requests, 2)
{
    test_cert *authority = issue_ca("ca");
    test_cert *other_authority = issue_ca("stranger");
    test_cert *alice = issue_for(authority, "alice", NULL);
    test_cert *mallory = issue_for(other_authority, "mallory", NULL);
    int version = 12 + _i;
    const weft_tls_verify required = WEFT_TLS_VERIFY_REQUIRED;
    const weft_tls_verify optional = WEFT_TLS_VERIFY_OPTIONAL;
    try_client(required, authority, alice, version, 0, "CN=alice");
    try_client(required, authority, NULL, version, -EACCES, NULL);
    try_client(required, authority, mallory, version, -EACCES, NULL);
    try_client(optional, authority, alice, version, 0, "CN=alice");
    try_client(optional, authority, NULL, version, 0, "");
    try_client(optional, authority, mallory, version, -EACCES, NULL);
    try_client(WEFT_TLS_VERIFY_DEFAULT, authority, mallory, version, 0, "");
}

TEST(a_chain_is_sent_completely)
{
    test_cert *root = issue_ca("root");
    test_cert *middle =
        issue_cert((cert_options){.subject = "middle", .is_authority = true, .issuer = root});
    test_cert *leaf = issue_cert((cert_options){.names = "DNS:localhost", .issuer = middle});
    char *chain, *all;
    ck_assert_int_gt(asprintf(&chain, "%s%s", leaf->cert_pem, middle->cert_pem), 0);
    ck_assert_int_gt(asprintf(&all, "%s%s%s", leaf->key_pem, leaf->cert_pem, middle->cert_pem), 0);
    const weft_tls_identity identities[] = {
        {.cert_pem = chain, .key_pem = leaf->key_pem}, {.cert_pem = all}, /* contains the key */
    };
    for (size_t i = 0; i < COUNT_OF(identities); i++) {
        weft_tls_options server = {.identity = identities[i]}, client = {.ca_pem = root->cert_pem};
        renew_pair(&server, &client);
        connect_pair();
    }
    weft_tls_options server = {.identity = identity_of(leaf)}, client = {.ca_pem = root->cert_pem};
    renew_pair(&server, &client);
    assert_refused("the certificate of localhost is not trusted: it is signed by an unknown CA");
    free(chain);
    free(all);
}

static void assert_no_server(weft_tls_options options, int code, const char *message)
{
    ck_assert_ptr_null(weft_tls_server_new(&options));
    ck_assert_error(code, message);
}

TEST(invalid_options_are_refused)
{
    test_cert *a = issue_cert((cert_options){0}), *b = issue_cert((cert_options){0});
    weft_tls_identity good = identity_of(a);
    const weft_tls_identity mismatched = {.cert_pem = a->cert_pem, .key_pem = b->key_pem};
    const weft_tls_identity file_and_pem = {.cert_pem = a->cert_pem, .cert_file = "/x"};
    const weft_tls_identity without_key = {.cert_pem = a->cert_pem};
    const weft_tls_identity without_cert = {.key_pem = a->key_pem};
    const weft_tls_identity missing_files = {.cert_file = "/nowhere/a", .key_file = "/nowhere/b"};
    const weft_tls_identity folder = {.cert_file = "/tmp"};
    const struct {
        weft_tls_options options;
        int code;
        const char *message;
    } rows[] = {
        {{.alpn = NULL}, -EINVAL, "weft_tls_server_new: identity is empty and choose is NULL"},
        {{.identity = mismatched}, -EINVAL, "key_pem: the key does not match the certificate"},
        {{.identity = file_and_pem},
         -EINVAL,
         "identity has both a file and a PEM text for a certificate or key"},
        {{.identity = without_key}, -EINVAL, "cert_pem: no PEM key"},
        {{.identity = without_cert}, -EINVAL, "identity has no certificate"},
        {{.identity = missing_files}, -ENOENT, "cannot read /nowhere/a: No such file or directory"},
        {{.identity = folder}, -EISDIR, "cannot read /tmp: Is a directory"},
        {{.identity = good, .version_min = 11}, -EINVAL, "version_min is 11, version_max is 13"},
        {{.identity = good, .version_min = 13, .version_max = 12},
         -EINVAL,
         "version_min is 13, version_max is 12"},
        {{.identity = good, .ciphers = "ROT13"},
         -EINVAL,
         "ciphers has no cipher of TLS 1.2: ROT13"},
        {{.identity = good, .alpn = "h2,,x"}, -EINVAL, "alpn is not a list of protocols: h2,,x"},
        {{.identity = good, .alpn = ""}, -EINVAL, "alpn is not a list of protocols: "},
        {{.identity = good, .alpn = "h2,"}, -EINVAL, "alpn is not a list of protocols: h2,"},
        {{.identity = good, .verify = (weft_tls_verify)9}, -EINVAL, "verify is 9"},
        {{.identity = good, .ca_pem = "rubbish"},
         -EINVAL,
         "ca_pem: not a PEM list of CA certificates"},
        {{.identity = good, .ca_file = "/nowhere/c"},
         -ENOENT,
         "cannot read /nowhere/c: No such file or directory"},
    };
    ck_assert_ptr_null(weft_tls_server_new(NULL));
    ck_assert_error(-EINVAL, "weft_tls_server_new: identity is empty and choose is NULL");
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_no_server(rows[i].options, rows[i].code, rows[i].message);
    ck_assert_ptr_null(weft_tls_client_new(&(weft_tls_options){.ca_pem = ""}));
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_tls_reload(NULL), -EINVAL);
    ck_assert_int_eq(weft_tls_add(NULL, &good), -EINVAL);
}

TEST(truncated_certificates_and_encrypted_keys_are_refused)
{
    test_cert *a = issue_cert((cert_options){0});
    BIO *bio = BIO_new(BIO_s_mem());
    ck_assert_int_eq(
        PEM_write_bio_PKCS8PrivateKey(bio, a->key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL), 1);
    char *encrypted_key = bio_to_text(bio);
    assert_no_server(
        (weft_tls_options){.identity = {.cert_pem = a->cert_pem, .key_pem = encrypted_key}},
        -EINVAL, "key_pem: the key has a password");
    a->cert_pem[strlen(a->cert_pem) / 2] = '\0';
    assert_no_server((weft_tls_options){.identity = identity_of(a)}, -EINVAL,
                     "cert_pem: not a PEM certificate");
    assert_no_server((weft_tls_options){.identity = {.cert_pem = "", .key_pem = ""}}, -EINVAL,
                     "cert_pem: not a PEM certificate");
    free(encrypted_key);
}

TEST(a_self_signed_certificate_is_created_for_names_and_days)
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
    ck_assert_int_eq(X509_check_email(x, "copy", 0, 0), 0); /* names cannot inject extensions */
    X509_free(x);
    BIO_free(bio);
    free(cert);
    free(key);
}
