/*
 * The connection of a test of TLS. The fixture closes both ends, and frees contexts and
 * certificates.
 */
#ifndef TESTS_TLS_TLS_FIXTURE_H
#define TESTS_TLS_TLS_FIXTURE_H

#include "support/tls_support.h"
#include "tls/tls_certs.h"

static tls_pair p;

/* Close an end unless it is closed. */
static inline void close_end(weft_stream *end)
{
    int rc = weft_stream_close(end);
    ck_assert_msg(rc == 0 || rc == -EBADF, "weft_stream_close returned %d", rc);
}

static inline void drop_pair(void)
{
    close_end(&p.client);
    close_end(&p.server);
    free_tls_pair(&p);
    p = (tls_pair){0};
}

/* The end of each test. */
static inline void end_pair(void)
{
    drop_pair();
    free_certs();
    assert_nothing_pending();
}

/* Replace both contexts. */
static inline void renew_pair(const weft_tls_options *for_server,
                              const weft_tls_options *for_client)
{
    drop_pair();
    new_tls_pair(&p, for_server, for_client);
}

/* Perform a handshake that succeeds. */
static inline void connect_pair(void)
{
    handshake(&p);
    ck_assert_good(p.client_rc);
    ck_assert_good(p.server_rc);
}

#endif
