/* libmariadb on fibers. */
#include "stock/stock_support.h"

#include <mysql.h>

/* With TLS, libcrypto reads from the socket. weft_adopt takes libcrypto along. */
static void adopt_libmariadb(void)
{
    adopt_library_of("mysql_real_query");
    ck_assert_int_eq(mysql_library_init(0, NULL, NULL), 0);
}

FIXTURE(adopt_libmariadb, NULL)

static MYSQL *connect_to_mariadb(bool has_tls)
{
    MYSQL *c = mysql_init(NULL);
    unsigned port = has_tls ? (unsigned)atoi(server_address("STOCK_MARIADB_PORT")) : 0;
    if (has_tls)
        ck_assert_int_eq(mysql_ssl_set(c, NULL, NULL, server_address("STOCK_CA"), NULL, NULL), 0);
    MYSQL *connected =
        mysql_real_connect(c, has_tls ? "127.0.0.1" : NULL, "stock", NULL, NULL, port,
                           has_tls ? NULL : server_address("STOCK_MARIADB"), 0);
    ck_assert_msg(connected != NULL, "%s", mysql_error(c));
    ck_assert_int_eq(mysql_get_ssl_cipher(c) != NULL, has_tls);
    return c;
}

static void assert_query(MYSQL *c, const char *query, const char *expected)
{
    ck_assert_msg(mysql_real_query(c, query, strlen(query)) == 0, "%s", mysql_error(c));
    MYSQL_RES *r = mysql_store_result(c);
    ck_assert_ptr_nonnull(r);
    ck_assert_str_eq(mysql_fetch_row(r)[0], expected);
    mysql_free_result(r);
}

static const bool has_tls[] = {false, true};

static weft_value query_slowly(void *arg)
{
    MYSQL *c = connect_to_mariadb(*(const bool *)arg);
    call_begin();
    assert_query(c, "select sleep(1)", "0");
    call_end();
    mysql_close(c);
    return 0;
}

/* A connection with TLS loads all trusted certificates, which takes 60 ms of CPU time. */
TEST_ROWS(the_queries_of_fibers_overlap, has_tls)
{
    bool tls = has_tls[_i];
    assert_calls_overlap(query_slowly, &tls, tls ? 5 : STOCK_FIBERS);
}

TEST_ROWS(a_query_fails_at_the_deadline_of_a_scope, has_tls)
{
    static const char query[] = "select sleep(5)";
    MYSQL *c = connect_to_mariadb(has_tls[_i]);
    int rc = 0, failed = 0;
    WEFT_CANCEL_AFTER(0.3, rc) {
        failed = mysql_real_query(c, query, strlen(query));
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_ne(failed, 0);
    mysql_close(c);
    c = connect_to_mariadb(has_tls[_i]);
    assert_query(c, "select 6 * 7", "42");
    mysql_close(c);
}
