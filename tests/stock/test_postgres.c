/* libpq on fibers. */
#include "stock/stock_support.h"

#include <libpq-fe.h>

static void adopt_libpq(void)
{
    adopt_library_of("PQexec");
}

FIXTURE(adopt_libpq, NULL)

static PGconn *connect_to(const char *variable)
{
    PGconn *c = PQconnectdb(server_address(variable));
    ck_assert_msg(PQstatus(c) == CONNECTION_OK, "%s", PQerrorMessage(c));
    return c;
}

/* Run a query with one result. Store the result in text. */
static void query_text(PGconn *c, const char *query, char *text, size_t room)
{
    PGresult *r = PQexec(c, query);
    ck_assert_msg(PQresultStatus(r) == PGRES_TUPLES_OK, "%s", PQerrorMessage(c));
    snprintf(text, room, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
}

static void assert_query(PGconn *c, const char *query, const char *expected)
{
    char text[64];
    query_text(c, query, text, sizeof text);
    ck_assert_str_eq(text, expected);
}

static void assert_new_connection_works(void)
{
    PGconn *c = connect_to("STOCK_POSTGRES");
    assert_query(c, "select 6 * 7", "42");
    PQfinish(c);
}

static weft_value query_slowly(void *variable)
{
    PGconn *c = connect_to(variable);
    call_begin();
    assert_query(c, "select pg_sleep(1)", "");
    call_end();
    assert_query(c, "select 6 * 7", "42");
    PQfinish(c);
    return 0;
}

static const char *const connections[] = {"STOCK_POSTGRES", "STOCK_POSTGRES_TLS"};

TEST_ROWS(the_queries_of_a_hundred_fibers_overlap, connections)
{
    assert_calls_overlap(query_slowly, (void *)(uintptr_t)connections[_i], STOCK_FIBERS);
}

TEST_ROWS(a_query_fails_at_the_deadline_of_a_scope, connections)
{
    PGconn *c = connect_to(connections[_i]);
    PGresult *r = NULL;
    int rc = 0;
    WEFT_CANCEL_AFTER(0.3, rc) {
        r = PQexec(c, "select pg_sleep(5)");
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(PQresultStatus(r), PGRES_FATAL_ERROR);
    PQclear(r);
    PQfinish(c);
    assert_new_connection_works();
}

/* Wait until the server process pid does not run a query. */
static void await_idle_backend(int pid)
{
    char query[128], count[8] = "1";
    PGconn *c = connect_to("STOCK_POSTGRES");
    snprintf(query, sizeof query,
             "select count(*) from pg_stat_activity where pid = %d and state = 'active'", pid);
    while (strcmp(count, "0") != 0) {
        query_text(c, query, count, sizeof count);
        ck_assert_int_eq(weft_sleep(0.01), 0);
    }
    PQfinish(c);
}

TEST_ROWS(PQcancel_ends_a_query_after_its_deadline, connections)
{
    PGconn *c = connect_to(connections[_i]);
    WEFT_MOVE_ON_AFTER(0.1) {
        PQclear(PQexec(c, "select pg_sleep(1000)"));
    }
    char error[256];
    PGcancel *cancel = PQgetCancel(c);
    ck_assert_msg(PQcancel(cancel, error, sizeof error) == 1, "%s", error);
    PQfreeCancel(cancel);
    await_idle_backend(PQbackendPID(c));
    PQfinish(c);
    assert_new_connection_works();
}

static weft_value query_forever(void *c)
{
    PGresult *r = PQexec(c, "select pg_sleep(1000)");
    ck_assert_int_eq(PQresultStatus(r), PGRES_FATAL_ERROR);
    PQclear(r);
    mark("failed ");
    return 0;
}

TEST(a_cancelled_fiber_leaves_its_query)
{
    PGconn *c = connect_to("STOCK_POSTGRES");
    weft_fiber f = spin_stock(query_forever, c);
    let_run();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_trail("failed ");
    PQfinish(c);
    assert_new_connection_works();
}

/* For a second cord, whose fibers cannot share the barrier of the first cord. */
static weft_value query_ten_times(void *arg)
{
    for (int i = 0; i < 10; i++)
        assert_new_connection_works();
    return 10;
}

TEST(fibers_of_two_cords_use_libpq_at_once)
{
    weft_cord cord = weft_cord_start(query_ten_times, NULL, NULL);
    ck_assert_uint_ne(cord, 0);
    assert_calls_overlap(query_slowly, (void *)(uintptr_t)connections[0], 10);
    ck_assert_int_eq(weft_cord_join(cord), 10);
}
