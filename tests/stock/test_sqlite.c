/* SQLite on fibers. A connection holds a recursive mutex while its busy handler waits. */
#include "stock/stock_support.h"

#include <sqlite3.h>

#define INSERTS 4
#define TICKS 20

static char path[128];

/* The busy handlers of this program wait, so adopt this program, too. */
static void adopt_sqlite(void)
{
    adopt_library_of("sqlite3_exec");
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt("", &(weft_adopt_options){.is_alone = true}), 0);
    snprintf(path, sizeof path, "%s/sqlite-%d", server_address("STOCK_FOLDER"), (int)getpid());
}

FIXTURE(adopt_sqlite, NULL)

static sqlite3 *open_database(void)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void execute(sqlite3 *db, const char *statement)
{
    char *error = NULL;
    int rc = sqlite3_exec(db, statement, NULL, NULL, &error);
    ck_assert_msg(rc == SQLITE_OK, "%s: %s", statement, error);
}

static int count_rows(sqlite3 *db)
{
    sqlite3_stmt *query;
    ck_assert_int_eq(sqlite3_prepare_v2(db, "select count(*) from t", -1, &query, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(query), SQLITE_ROW);
    int n = sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    return n;
}

/* A fiber holds a write transaction, and ends it after TICKS ticks of its own. */
static weft_value hold_transaction(void *db)
{
    execute(db, "begin immediate");
    mark("begun ");
    for (int i = 0; i < TICKS; i++)
        ck_assert_int_eq(weft_sleep(0.005), 0);
    execute(db, "commit");
    mark("committed ");
    return 0;
}

static weft_value insert_row(void *db)
{
    execute(db, "insert into t values (1)");
    mark("inserted ");
    return 0;
}

static void close_databases(sqlite3 *a, sqlite3 *b)
{
    ck_assert_int_eq(sqlite3_close(a), SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(b), SQLITE_OK);
    unlink(path);
}

static int wait_by_usleep(void *arg, int count)
{
    return usleep(1000) == 0 && count < 10000;
}

static int wait_by_weft(void *arg, int count)
{
    return weft_sleep(0.001) == 0 && count < 10000;
}

static int (*const busy_handlers[])(void *, int) = {wait_by_usleep, wait_by_weft};

TEST_ROWS(fibers_with_one_connection_insert_in_turn_after_a_transaction, busy_handlers)
{
    sqlite3 *holder = open_database(), *db = open_database();
    execute(holder, "create table t (x)");
    sqlite3_busy_handler(db, busy_handlers[_i], NULL);
    weft_fiber fibers[1 + INSERTS] = {spin_stock(hold_transaction, holder)};
    for (int i = 1; i <= INSERTS; i++)
        fibers[i] = spin_stock(insert_row, db);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
    ck_assert_trail("begun committed inserted inserted inserted inserted ");
    ck_assert_int_eq(count_rows(db), INSERTS);
    close_databases(holder, db);
}

/* If the wait blocked the thread, the holder could not commit, and the insert would time out. */
TEST(a_fiber_that_waits_for_another_connection_lets_other_fibers_run)
{
    sqlite3 *holder = open_database(), *db = open_database();
    execute(holder, "create table t (x)");
    sqlite3_busy_timeout(db, 15000);
    weft_fiber fibers[] = {spin_stock(hold_transaction, holder), spin_stock(insert_row, db)};
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
    ck_assert_trail("begun committed inserted ");
    close_databases(holder, db);
}
