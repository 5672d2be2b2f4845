/* Credentials, TLS and permissions, with servers that demand them. */
#include "hub/client/expose_support.h"
#include "hub/client/jwt_support.h"
#include "hub/nats_server.h"

static nats_server server;

static void end_server(void)
{
    if (server.folder[0] != '\0')
        nats_server_end(&server);
}

FIXTURE(NULL, end_server)

/* A hub can be opened, and works. */
static void assert_login_works(const char *where, const weft_hub_options *options)
{
    weft_hub *hub = open_hub_at(where, options);
    spin_exposed(hub, "echo", echo_all, NULL);
    assert_call(hub, "echo", "x", "x");
    close_hub(hub);
}

static void assert_login_refused(const char *where, const weft_hub_options *options)
{
    ck_assert_ptr_null(weft_hub_open(where, options));
    ck_assert_any_error(-EACCES);
    weft_error_clear();
}

/* The URL of the server with a user. */
static const char *server_url(const char *user)
{
    return format("nats://%s127.0.0.1:%d", user, server.client.number);
}

TEST(a_user_and_a_password_are_accepted)
{
    nats_server_start(&server, "authorization { user: ada, password: \"a:/b\" }");
    assert_login_works(server_url("ada:a%3A%2fb@"), NULL);
    assert_login_refused(server_url("ada:wrong@"), NULL);
    assert_login_refused(server_url(""), NULL);
    assert_login_refused(server_url("ada:a%3A%2fb@"),
                         &(weft_hub_options){.credentials = "ada:wrong"});
}

TEST(credentials_replace_the_user_of_the_url)
{
    nats_server_start(&server, "authorization { user: ada, password: \"a:b\" }");
    assert_login_works(server_url("ada:wrong@"), &(weft_hub_options){.credentials = "ada:a:b"});
}

TEST(a_token_is_accepted)
{
    nats_server_start(&server, "authorization { token: secret }");
    assert_login_works(server_url(""), &(weft_hub_options){.credentials = "secret"});
    assert_login_works(server_url("secret@"), NULL);
    assert_login_refused(server_url("wrong@"), NULL);
}

TEST(a_hub_is_opened_by_the_server_that_accepts_the_credentials)
{
    nats_server_start(&server, "authorization { token: secret }");
    assert_login_works(format("%s,%s", server_url("wrong@"), server_url("secret@")), NULL);
}

TEST(the_signature_of_an_nkey_is_accepted)
{
    weft__nkey key;
    if (weft__nkey_open(&key, weft__slice_of(USER_SEED)) == -ENOTSUP)
        return;
    nats_server_start(&server, format("authorization { users: [{nkey: %s}] }", key.public_text));
    assert_login_works(server_url(""), &(weft_hub_options){.credentials = USER_SEED});
    assert_login_refused(server_url(""), NULL);
}

#define ACCOUNT_LIMITS                                                         \
    "\"type\":\"account\",\"limits\":{\"subs\":-1,\"data\":-1,\"payload\":-1," \
    "\"imports\":-1,\"exports\":-1,\"wildcards\":true,\"conn\":-1,\"leaf\":-1}"
#define USER_LIMITS "\"type\":\"user\",\"subs\":-1,\"data\":-1,\"payload\":-1"

/* Write a .creds file for the server. Return its path. */
static const char *creds_write(const char *name, const char *jwt, const char *seed)
{
    const char *path = nats_file(&server, name);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"
            "-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
            jwt, seed);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

TEST(the_jwt_of_a_creds_file_is_accepted)
{
    weft__nkey user;
    static char more[16384];
    if (weft__nkey_open(&user, weft__slice_of(USER_SEED)) == -ENOTSUP)
        return;
    jwt_key root = jwt_key_make(JWT_OPERATOR, 1), account = jwt_key_make(JWT_ACCOUNT, 2);
    jwt_key system = jwt_key_make(JWT_ACCOUNT, 3), stranger = jwt_key_make(JWT_ACCOUNT, 4);
    char *root_jwt = jwt_make(&root, root.text, "\"type\":\"operator\"");
    char *system_jwt = jwt_make(&root, system.text, ACCOUNT_LIMITS);
    char *account_jwt = jwt_make(&root, account.text, ACCOUNT_LIMITS);
    char *user_jwt = jwt_make(&account, user.public_text, USER_LIMITS);
    char *forged_jwt = jwt_make(&stranger, user.public_text, USER_LIMITS);
    snprintf(more, sizeof more,
             "operator: \"%s\"\nresolver: MEMORY\nsystem_account: %s\n"
             "resolver_preload: { %s: \"%s\", %s: \"%s\" }",
             root_jwt, system.text, system.text, system_jwt, account.text, account_jwt);
    nats_server_start(&server, more);
    const char *path = creds_write("user.creds", user_jwt, USER_SEED);
    assert_login_works(server_url(""), &(weft_hub_options){.credentials = path});
    path = creds_write("forged.creds", forged_jwt, USER_SEED);
    assert_login_refused(server_url(""), &(weft_hub_options){.credentials = path});
    free(root_jwt);
    free(account_jwt);
    free(system_jwt);
    free(user_jwt);
    free(forged_jwt);
}

/* TLS */

static char *cert, *key_pem;

/* Start a server with a certificate for names. more is the rest of the block "tls". */
static bool start_tls_server(const char *names, const char *more)
{
    if (weft_tls_self_signed(names, 2, &cert, &key_pem) == -ENOTSUP)
        return false;
    nats_server_prepare(&server, "n1");
    FILE *f = fopen(nats_file(&server, "cert.pem"), "we"),
         *g = fopen(nats_file(&server, "key.pem"), "we");
    fputs(cert, f);
    fputs(key_pem, g);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(fclose(g), 0);
    nats_server_configure(&server,
                          format("tls { cert_file: \"%s/cert.pem\", key_file: \"%s/key.pem\" "
                                 "%s }",
                                 server.folder, server.folder, more));
    nats_server_launch(&server);
    nats_server_await(&server);
    return true;
}

static weft_tls *trust(const char *ca)
{
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.ca_pem = ca});
    ck_assert_ptr_nonnull(tls);
    return tls;
}

TEST(a_server_with_a_trusted_certificate_is_used)
{
    if (!start_tls_server("127.0.0.1,localhost", ""))
        return;
    weft_tls *tls = trust(cert);
    assert_login_works(server_url(""), &(weft_hub_options){.tls = tls});
    assert_login_works(format("tls://localhost:%d", server.client.number),
                       &(weft_hub_options){.tls = tls});
    weft_tls_free(tls);
}

TEST(a_server_without_a_trusted_certificate_is_refused)
{
    if (!start_tls_server("127.0.0.1,localhost", ""))
        return;
    assert_login_refused(server_url(""), NULL); /* the INFO demands TLS */
    assert_login_refused(format("tls://127.0.0.1:%d", server.client.number), NULL);
}

TEST(a_server_with_the_certificate_of_another_host_is_refused)
{
    if (!start_tls_server("other.example", ""))
        return;
    weft_tls *tls = trust(cert);
    assert_login_refused(server_url(""), &(weft_hub_options){.tls = tls});
    weft_tls_free(tls);
}

TEST(a_server_that_demands_a_client_certificate_gets_it)
{
    if (!start_tls_server("127.0.0.1,localhost", ""))
        return;
    nats_server_kill(&server);
    nats_server_configure(&server,
                          format("tls { cert_file: \"%s/cert.pem\", key_file: \"%s/key.pem\", "
                                 "ca_file: \"%s/cert.pem\", verify: true }",
                                 server.folder, server.folder, server.folder));
    nats_server_restart(&server);
    weft_tls *bare = trust(cert);
    weft_tls *tls = weft_tls_client_new(
        &(weft_tls_options){.ca_pem = cert, .identity = {.cert_pem = cert, .key_pem = key_pem}});
    ck_assert_ptr_nonnull(tls);
    assert_login_works(server_url(""), &(weft_hub_options){.tls = tls});
    ck_assert_ptr_null(weft_hub_open(server_url(""), &(weft_hub_options){.tls = bare}));
    weft_tls_free(bare);
    weft_tls_free(tls);
}

/* Many large messages in both directions at a time. */
static weft_value call_with_much(void *arg)
{
    size_t bytes = 200000;
    char *data = malloc(bytes);
    memset(data, 'x', bytes);
    for (int i = 0; i < 20; i++) {
        weft_hub_msg *reply;
        ck_assert_done(weft_hub_call(arg, "echo", data, bytes, &reply));
        ck_assert_uint_eq(reply->bytes, bytes);
        ck_assert_mem_eq(reply->data, data, bytes);
        weft_hub_free(reply);
    }
    free(data);
    return 0;
}

TEST(large_messages_pass_through_tls)
{
    if (!start_tls_server("127.0.0.1,localhost", ""))
        return;
    weft_tls *tls = trust(cert);
    weft_hub *hub = open_hub_at(server_url(""), &(weft_hub_options){.tls = tls});
    weft_fiber f[8];
    spin_exposed(hub, "echo", echo_all, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(call_with_much, hub);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    close_hub(hub);
    weft_tls_free(tls);
}

TEST(a_hub_connects_again_with_tls)
{
    if (!start_tls_server("127.0.0.1,localhost", ""))
        return;
    weft_tls *tls = trust(cert);
    weft_hub *hub = open_hub_at(server_url(""), &(weft_hub_options){.tls = tls});
    spin_exposed(hub, "echo", echo_all, NULL);
    nats_server_kill(&server);
    nats_server_restart(&server);
    while (weft__hub_connection(hub) < 2)
        weft_sleep(0.01);
    assert_call(hub, "echo", "x", "x");
    close_hub(hub);
    weft_tls_free(tls);
}

/* Permissions */

static weft_hub *open_restricted(const char *permissions)
{
    nats_server_start(&server, format("authorization { users: [{user: a, password: b, permissions: "
                                      "{ %s }}] }",
                                      permissions));
    return open_hub_at(server_url("a:b@"), NULL);
}

TEST(a_forbidden_call_is_eperm)
{
    weft_hub *hub = open_restricted("publish: { deny: [\"secret.>\"] }");
    spin_exposed(hub, "echo", echo_all, NULL);
    ck_assert_fails(weft_hub_call(hub, "secret.a", "x", 1, NULL), -EPERM);
    assert_call(hub, "echo", "x", "x");
    close_hub(hub);
}

TEST(a_forbidden_name_cannot_be_exposed)
{
    weft_hub *hub = open_restricted("subscribe: { deny: [\"secret.>\"] }");
    ck_assert_fails(expose(hub, "secret.a", weft_self()), -EPERM);
    ck_assert_ptr_null(weft__expose_find(hub, "secret.a"));
    ck_assert_done(expose(hub, "open", weft_self()));
    close_hub(hub);
}

TEST(a_hub_that_must_not_use_its_inbox_gets_eperm)
{
    weft_hub *hub = open_restricted("subscribe: { deny: [\"_INBOX.>\"] }");
    ck_assert_fails(weft_hub_call(hub, "a", "x", 1, NULL), -EPERM);
    close_hub(hub);
}
