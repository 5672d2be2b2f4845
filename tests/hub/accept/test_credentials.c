/*
 * Credentials and TLS against a NATS server: user and password, token, nkey, .creds file, and
 * certificates.
 */
#include "hub/accept/accept_support.h"
#include "hub/accept/credentials_data.h"
#include "hub/nats_server.h"

#define OPERATOR_CONFIGURATION         \
    "operator: \"" OPERATOR_JWT "\"\n" \
    "resolver: MEMORY\n"               \
    "resolver_preload: { " ACCOUNT_KEY ": \"" ACCOUNT_JWT "\" }\n"
#define CREDS                                                                        \
    "-----BEGIN NATS USER JWT-----\n" USER_JWT "\n------END NATS USER JWT------\n\n" \
    "-----BEGIN USER NKEY SEED-----\n" USER_SEED "\n------END USER NKEY SEED------\n"

#define USER_CONFIGURATION "authorization { user: ada, password: \"s3:cret\" }"
#define TOKEN_CONFIGURATION "authorization { token: \"opensesame\" }"
#define NKEY_CONFIGURATION "authorization { users: [ { nkey: " NKEY_PUBLIC " } ] }"

/* A server, what a hub presents, and the result. */
typedef struct credentials_row {
    const char *configuration;
    const char *in_url;      /* "USER:PASSWORD@"; "": none */
    const char *credentials; /* NULL: none */
    int code;                /* of the error; 0: the hub opens */
} credentials_row;

static const credentials_row credentials_rows[] = {
    {USER_CONFIGURATION, "", "ada:s3:cret", 0},
    {USER_CONFIGURATION, "ada:s3%3Acret@", NULL, 0},
    {USER_CONFIGURATION, "bob:wrong@", "ada:s3:cret", 0}, /* the options have precedence */
    {USER_CONFIGURATION, "", "ada:wrong", -EACCES},
    {USER_CONFIGURATION, "", NULL, -EACCES},
    {TOKEN_CONFIGURATION, "", "opensesame", 0},
    {TOKEN_CONFIGURATION, "", "closesesame", -EACCES},
    {NKEY_CONFIGURATION, "", NKEY_SEED, 0},
    {NKEY_CONFIGURATION, "", OTHER_SEED, -EACCES},
    {NKEY_CONFIGURATION, "", NULL, -EACCES},
    {OPERATOR_CONFIGURATION, "", "/creds", 0},
    {OPERATOR_CONFIGURATION, "", OTHER_SEED, -EACCES},
    {OPERATOR_CONFIGURATION, "", NULL, -EACCES},
};

static nats_server server;

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(nats_file(&server, name), "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Open a hub, and assert that messages pass in both directions, or assert the error. */
static void assert_opens(const char *where, const weft_hub_options *options, int code)
{
    weft_hub *hub = weft_hub_open(where, options);
    if (code < 0) {
        ck_assert_ptr_null(hub);
        ck_assert_any_error(code);
        return;
    }
    ck_assert_msg(hub != NULL, "%s", hub == NULL ? weft_error()->message : "");
    ck_assert_int_eq(weft_hub_call(hub, "nobody", "", 0, NULL), -EHOSTUNREACH);
    close_hub(hub);
}

TEST_ROWS(a_hub_opens_only_with_the_credentials_that_the_server_accepts, credentials_rows)
{
    const credentials_row *row = &credentials_rows[_i];
    nats_server_prepare(&server, "n1");
    nats_server_start_plain(&server, row->configuration);
    write_file("creds", CREDS);
    weft_hub_options options = {.credentials = row->credentials};
    if (row->credentials != NULL && strcmp(row->credentials, "/creds") == 0)
        options.credentials = nats_file(&server, "creds");
    assert_opens(format("nats://%s127.0.0.1:%d", row->in_url, server.client.number), &options,
                 row->code);
    nats_server_end(&server);
}

TEST(a_hub_without_a_readable_creds_file_does_not_open)
{
    nats_server_prepare(&server, "n1");
    nats_server_start_plain(&server, OPERATOR_CONFIGURATION);
    weft_hub_options options = {.credentials = nats_file(&server, "missing")};
    weft_hub *hub = weft_hub_open(server.url, &options);
    ck_assert_ptr_null(hub);
    ck_assert_uint_gt(strlen(weft_error()->message), 0);
    nats_server_end(&server);
}

/* The certificate authority of a test: a self-signed certificate. */
typedef struct authority {
    char *cert, *key;
} authority;

static authority new_authority(void)
{
    authority a;
    ck_assert_done(weft_tls_self_signed("localhost,127.0.0.1", 2, &a.cert, &a.key));
    return a;
}

static void free_authority(authority *a)
{
    free(a->cert);
    free(a->key);
}

/* Start a server with a certificate. more is additional configuration of TLS. */
static authority start_tls_server(const char *more)
{
    authority a = new_authority();
    nats_server_prepare(&server, "n1");
    write_file("cert.pem", a.cert);
    write_file("key.pem", a.key);
    const char *text =
        format("tls { cert_file: \"%s/cert.pem\", key_file: \"%s/key.pem\", timeout: 10\n%s }",
               server.folder, server.folder, more);
    nats_server_start_plain(&server, text);
    return a;
}

static weft_tls *new_client_tls(const char *ca, const authority *identity)
{
    weft_tls_options options = {.ca_pem = ca};
    if (identity != NULL)
        options.identity =
            (weft_tls_identity){.cert_pem = identity->cert, .key_pem = identity->key};
    weft_tls *tls = weft_tls_client_new(&options);
    ck_assert_ptr_nonnull(tls);
    return tls;
}

/* A URL with either scheme uses the configuration of the options. */
TEST_LOOP(a_hub_with_tls_trusts_the_authority_of_its_options, 2)
{
    authority a = start_tls_server("");
    weft_tls *tls = new_client_tls(a.cert, NULL);
    const char *where = format("%s://localhost:%d", _i == 0 ? "tls" : "nats", server.client.number);
    assert_opens(where, &(weft_hub_options){.tls = tls}, 0);
    weft_tls_free(tls);
    free_authority(&a);
    nats_server_end(&server);
}

TEST(a_hub_does_not_open_if_it_does_not_trust_the_certificate_of_the_server)
{
    authority a = start_tls_server(""), other = new_authority();
    weft_tls *tls = new_client_tls(other.cert, NULL);
    const char *where = format("tls://localhost:%d", server.client.number);
    ck_assert_ptr_null(weft_hub_open(where, &(weft_hub_options){.tls = tls}));
    ck_assert_uint_gt(strlen(weft_error()->message), 0);
    ck_assert_ptr_null(weft_hub_open(where, NULL)); /* trusts the authorities of the system */
    weft_tls_free(tls);
    free_authority(&a);
    free_authority(&other);
    nats_server_end(&server);
}

/* Round 0 has a certificate that the server accepts. Round 1 has none. */
TEST_LOOP(a_server_that_verifies_clients_accepts_only_a_certificate, 2)
{
    authority client = new_authority();
    nats_server_prepare(&server, "n1");
    write_file("cert.pem", client.cert);
    write_file("key.pem", client.key);
    nats_server_start_plain(&server,
                            format("tls { cert_file: \"%s/cert.pem\", key_file: \"%s/key.pem\",\n"
                                   "ca_file: \"%s/cert.pem\", verify: true, timeout: 10 }",
                                   server.folder, server.folder, server.folder));
    weft_tls *tls = new_client_tls(client.cert, _i == 0 ? &client : NULL);
    weft_hub_options options = {.tls = tls};
    const char *where = format("tls://localhost:%d", server.client.number);
    if (_i == 0)
        assert_opens(where, &options, 0);
    else
        ck_assert_ptr_null(weft_hub_open(where, &options));
    weft_tls_free(tls);
    free_authority(&client);
    nats_server_end(&server);
}
