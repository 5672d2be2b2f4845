/* TLS connections: handshakes, bytes in both directions, closing, cancelling in every state. */
#include "tls_support.h"

START_TEST(a_client_and_a_server_shake_hands_and_talk)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
    weft_tls_info info;
    ck_assert_int_eq(weft_stream_puts(&p.client, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_line(&p.server, "hello");
    ck_assert_int_eq(weft_stream_puts(&p.server, "and you\n"), 8);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_line(&p.client, "and you");
    ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
    ck_assert_int_eq(info.version, 13);
    ck_assert_str_eq(info.cipher, "TLS_AES_256_GCM_SHA384");
    ck_assert_str_eq(info.server_name, "localhost");
    ck_assert_str_eq(info.peer_subject, "CN=localhost");
    ck_assert(!info.is_resumed);
    ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
    ck_assert_str_eq(info.server_name, "localhost");
    ck_assert_str_eq(info.peer_subject, "");
    close_pair(&p);
}
END_TEST

int main(void)
{
    const TTest *const *const tests[] = {
        &a_client_and_a_server_shake_hands_and_talk,
    };
    return run_suite("tls", tests, COUNT_OF(tests));
}
