/*
 * Acceptance test 4: a worker that stores the id of an item and the effect in one transaction has
 * each effect once, although items are delivered again.
 */
#include "hub/accept/accept_support.h"
#include "hub/nats_server.h"

#include <sqlite3.h>

#define QUEUE "payments"
#define HANDLERS_AT_ONCE 128
#define DRAIN_S_MAX 60
/* Between the effect and the acknowledgement. A worker that is killed then has not acknowledged. */
#define AFTER_EFFECT_S 0.02

/* Shared by the test and its workers. */
typedef struct effect_board {
    char where[64], path[96];
    unsigned held_from;             /* worker 1 does not finish handlers after this many effects */
    _Atomic unsigned effects, held; /* committed effects; handlers that wait for the kill */
    _Atomic unsigned redelivered;
} effect_board;

typedef struct effect_worker {
    effect_board *board;
    sqlite3 *db;
    bool is_doomed;
} effect_worker;

static void run_sql(sqlite3 *db, const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, error);
        _exit(99);
    }
}

static sqlite3 *open_database(const char *path)
{
    sqlite3 *db;
    MUST_EQ(sqlite3_open(path, &db), SQLITE_OK);
    MUST_EQ(sqlite3_busy_timeout(db, 30000), SQLITE_OK);
    return db;
}

/* Store the id and add 1 to the balance, unless the id is there. Returns true if it is new. */
static bool commit_effect(sqlite3 *db, const char *id)
{
    run_sql(db, "BEGIN IMMEDIATE");
    char *insert = sqlite3_mprintf("INSERT OR IGNORE INTO handled VALUES (%Q)", id);
    run_sql(db, insert);
    sqlite3_free(insert);
    bool is_new = sqlite3_changes(db) == 1;
    if (is_new)
        run_sql(db, "UPDATE account SET balance = balance + 1");
    run_sql(db, "COMMIT");
    return is_new;
}

static weft_value pay(weft_hub_msg *item, void *arg)
{
    effect_worker *w = arg;
    effect_board *b = w->board;
    if (item->deliveries > 1)
        atomic_fetch_add(&b->redelivered, 1);
    unsigned effects = b->effects;
    if (commit_effect(w->db, item->id))
        effects = atomic_fetch_add(&b->effects, 1) + 1;
    if (w->is_doomed && effects >= b->held_from) {
        atomic_fetch_add(&b->held, 1);
        return weft_sleep(INFINITY);
    }
    return weft_sleep(AFTER_EFFECT_S);
}

static int work_on_payments(effect_board *b, bool is_doomed)
{
    effect_worker w = {b, open_database(b->path), is_doomed};
    weft_hub *hub = weft_hub_open(b->where, NULL);
    MUST(hub != NULL);
    MUST_EQ(weft_hub_work(hub, QUEUE, pay, &w, HANDLERS_AT_ONCE), 0); /* never returns */
    return 98;
}

static int work_until_killed(void *arg)
{
    return work_on_payments(arg, true);
}

static int work_to_the_end(void *arg)
{
    return work_on_payments(arg, false);
}

static int read_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    int number = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

static void put_payments(weft_hub *hub, unsigned items)
{
    for (unsigned i = 0; i < items; i++)
        ck_assert_int_eq(weft_hub_put(hub, QUEUE, format("payment-%u", i), "", 0), 0);
}

TEST_WITHIN(200, an_effect_in_the_transaction_of_its_id_happens_once)
{
    unsigned items = test_size(2000, 20000);
    nats_server server;
    nats_server_start(&server, "");
    effect_board *b = share_memory(sizeof *b);
    snprintf(b->where, sizeof b->where, "%s", server.url);
    snprintf(b->path, sizeof b->path, "%s/payments.db", server.folder);
    b->held_from = items * 3 / 10;
    sqlite3 *db = open_database(b->path);
    run_sql(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                "CREATE TABLE handled (id TEXT PRIMARY KEY);"
                "CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (0)");
    sqlite3_close(db); /* not across a fork */
    weft_hub *hub = open_hub_at(server.url, NULL);
    ck_assert_done(weft_hub_queue(hub, QUEUE, &(weft_hub_queue_options){.ack_s = 2}));
    put_payments(hub, items);
    close_hub(hub);

    pid_t first = start_process(work_until_killed, b);
    ck_await(DRAIN_S_MAX, b->held == HANDLERS_AT_ONCE);
    pid_t second = start_process(work_to_the_end, b);
    kill_process(first); /* 128 items have their effect, and no acknowledgement */
    ck_await(DRAIN_S_MAX, b->redelivered >= HANDLERS_AT_ONCE && b->effects == items);
    kill_process(second);

    db = open_database(b->path);
    ck_assert_int_eq(read_number(db, "SELECT balance FROM account"), (int)items);
    ck_assert_int_eq(read_number(db, "SELECT count(*) FROM handled"), (int)items);
    sqlite3_close(db);
    print_figures("| effects %u | redelivered %u | effects twice 0 |\n", b->effects,
                  b->redelivered);
    nats_server_end(&server);
}
