/* Tests of several fibers that write to one stream over TLS. */
#include "io/stream/writers.h"
#include "support/tls_support.h"

static tls_pair pair;

static void open_tls_streams(writers_link *l, bool is_tcp)
{
    int fd[2];
    pair = (tls_pair){0};
    new_tls_pair(&pair, NULL, NULL);
    open_small_sockets(fd, is_tcp);
    handshake_over(&pair, fd[0], fd[1]);
    ck_assert_good(pair.client_rc);
    ck_assert_good(pair.server_rc);
    *l = (writers_link){pair.client, pair.server};
}

static void open_tls_over_pair(writers_link *l)
{
    open_tls_streams(l, false);
}

static void open_tls_over_tcp(writers_link *l)
{
    open_tls_streams(l, true);
}

static void free_tls(void)
{
    free_tls_pair(&pair);
}

static const writers_transport transports[3] = {{open_tls_over_pair, free_tls, false},
                                                {open_tls_over_tcp, free_tls, true}};
