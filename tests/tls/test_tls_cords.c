/* A weft_tls that several threads share, and the end of threads and processes that use TLS. */
#include "support/cord_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#include <openssl/ssl.h>

/* The state that all cords share. */
typedef struct shared {
    weft_tls *server_tls, *client_tls;
    atomic_bool is_over;
    atomic_uint connections, resumed;
} shared;

enum { CORDS = 2, ROUNDS = IS_SLOW ? 15 : 60 };

static weft_value connect_repeatedly(void *arg)
{
    shared *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        weft_tls_info info;
        tls_pair p = {.client_tls = s->client_tls, .server_tls = s->server_tls};
        handshake(&p);
        if (p.client_rc < 0 || p.server_rc < 0)
            return p.client_rc < 0 ? p.client_rc : p.server_rc;
        weft_stream_puts(&p.server, "hello\n");
        weft_stream_flush(&p.server);
        char *line;
        if (weft_stream_line(&p.client, &line, NULL) != 1 || strcmp(line, "hello") != 0)
            return -EIO;
        weft_tls_describe(&p.client, &info);
        atomic_fetch_add(&s->resumed, info.is_resumed);
        atomic_fetch_add(&s->connections, 1);
        weft_stream_close(&p.client);
        weft_stream_close(&p.server);
    }
    return 0;
}

TEST(threads_share_a_weft_tls_while_one_thread_reloads_it)
{
    tls_pair p = {0};
    new_tls_pair(&p, NULL, NULL);
    shared s = {.server_tls = p.server_tls, .client_tls = p.client_tls};
    weft_cord cords[CORDS];
    for (int i = 0; i < CORDS; i++)
        cords[i] = start_cord(connect_repeatedly, &s);
    while (atomic_load(&s.connections) < CORDS * ROUNDS / 2) {
        ck_assert_int_eq(weft_tls_reload(p.server_tls), 0);
        ck_assert_int_eq(weft_tls_reload(p.client_tls), 0);
        ck_assert_int_eq(weft_tls_add(p.server_tls, &(weft_tls_identity){.cert_pem = local_cert,
                                                                         .key_pem = local_key}),
                         0);
        weft_sleep(0.005);
    }
    for (int i = 0; i < CORDS; i++)
        ck_assert_good(weft_cord_join(cords[i]));
    ck_assert_uint_eq(atomic_load(&s.connections), CORDS * ROUNDS);
    ck_assert_uint_gt(atomic_load(&s.resumed), 0);
    free_tls_pair(&p);
}

/* Hold a connection open until is_over. */
static weft_value hold_connection(void *arg)
{
    shared *s = arg;
    tls_pair p = {.client_tls = s->client_tls, .server_tls = s->server_tls};
    handshake(&p);
    atomic_fetch_add(&s->connections, 1);
    if (p.client_rc < 0 || p.server_rc < 0)
        return -EIO;
    while (!atomic_load(&s->is_over))
        weft_sleep(0.001);
    weft_stream_puts(&p.client, "hello\n");
    weft_stream_flush(&p.client);
    char *line;
    int rc = weft_stream_line(&p.server, &line, NULL);
    weft_stream_close(&p.client);
    weft_stream_close(&p.server);
    return rc == 1 ? 0 : -EIO;
}

TEST(the_last_connection_of_several_threads_frees_the_weft_tls)
{
    tls_pair p = {0};
    new_tls_pair(&p, NULL, NULL);
    shared s = {.server_tls = p.server_tls, .client_tls = p.client_tls};
    weft_cord cords[CORDS];
    for (int i = 0; i < CORDS; i++)
        cords[i] = start_cord(hold_connection, &s);
    while (atomic_load(&s.connections) < CORDS)
        weft_sleep(0.001);
    free_tls_pair(&p);
    atomic_store(&s.is_over, true);
    for (int i = 0; i < CORDS; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

TEST(a_thread_frees_its_openssl_state)
{
    tls_pair p = {0};
    new_tls_pair(&p, NULL, NULL);
    shared s = {.server_tls = p.server_tls, .client_tls = p.client_tls, .is_over = true};
    for (int i = 0; i < (IS_SLOW ? 3 : 10); i++)
        ck_assert_good(weft_cord_join(start_cord(hold_connection, &s)));
    free_tls_pair(&p); /* LeakSanitizer checks the rest */
}

/* The end of a process. OpenSSL is not in use before. */

static int close_result_at_exit; /* the expected result of weft_stream_close */

static weft_value close_at_exit(void *arg)
{
    weft_value rc = weft_suspend();
    int result = weft_stream_close(arg);
    if (result != close_result_at_exit)
        fprintf(stderr, "weft_stream_close returned %d\n", result);
    return rc;
}

static weft_value write_until_exit(void *arg)
{
    static const char data[30000];
    while (weft_stream_write(arg, data, sizeof data) > 0)
        continue;
    return 0;
}

static int exit_with_connections(void)
{
    static tls_pair ends;
    open_tls_pair(&ends, NULL, NULL);
    weft_spin(close_at_exit, &ends.client);
    weft_spin(write_until_exit, &ends.server);
    let_run();
    return 0;
}

/* The cleanup of OpenSSL then runs before that of weft. */
static int exit_after_openssl(void)
{
    weft_self();
    OPENSSL_init_ssl(0, NULL);
    close_result_at_exit = -EBADF;
    return exit_with_connections();
}

TEST(a_process_may_exit_with_open_connections)
{
    assert_silent(run_apart(exit_with_connections), 0);
    if (!is_sanitized()) /* LeakSanitizer reports memory that OpenSSL no longer references */
        assert_silent(run_apart(exit_after_openssl), 0);
}
