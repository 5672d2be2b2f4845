/* The TLS functions of a library that was built without OpenSSL: each call returns -ENOTSUP. */
#include "support/net_support.h"
#include "support/suite.h"

#include <weft/web.h>

TEST(without_openssl_every_call_is_enotsup)
{
    weft_tls_options options = {.identity = {.cert_pem = "x", .key_pem = "x"}};
    char *cert, *key;
    ck_assert_ptr_null(weft_tls_server_new(&options));
    ck_assert_error(-ENOTSUP, "TLS: weft was built without OpenSSL");
    ck_assert_ptr_null(weft_tls_client_new(NULL));
    ck_assert_error(-ENOTSUP, "TLS: weft was built without OpenSSL");
    ck_assert_int_eq(weft_tls_self_signed("localhost", 1, &cert, &key), -ENOTSUP);
    ck_assert_int_eq(weft_tls_reload(NULL), -ENOTSUP);
    ck_assert_int_eq(weft_tls_add(NULL, &options.identity), -ENOTSUP);
    weft_tls_free(NULL);
}

TEST(without_openssl_the_descriptor_is_still_closed)
{
    weft_stream s = {0};
    weft_tls_info info;
    char byte;
    for (int k = 0; k < 2; k++) {
        int fd[2];
        ck_assert_int_eq(weft_socketpair(fd), 0);
        ck_assert_int_eq(k == 0 ? weft_tls_accept(&s, fd[0], NULL)
                                : weft_tls_connect(&s, fd[0], NULL, "localhost"),
                         -ENOTSUP);
        ck_assert_int_eq(weft_read(fd[1], &byte, 1), 0);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
    ck_assert_int_eq(weft_tls_accept(&s, -ENOENT, NULL), -ENOENT);
    ck_assert_int_eq(weft_tls_describe(&s, &info), -EBADF);
    ck_assert_int_eq(weft_tls_shutdown(&s), -EBADF);
}
