/*
 * Make an effect happen once, although a queue delivers at least once. The id of the item and the
 * effect are in one transaction of a database: a second delivery finds the id, and changes nothing.
 * usage: once [URL]
 */
#include <weft.h>
#include <weft/hub.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define PAYMENTS 10

typedef struct bank {
    weft_hub *hub;
    sqlite3 *db;
    weft_latch left;     /* payments without a handler that has returned 0 */
    unsigned deliveries; /* calls of the handler */
} bank;

static int execute(sqlite3 *db, const char *sql)
{
    char *text = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &text) == SQLITE_OK)
        return 0;
    int rc = weft_fail(-EIO, "%s", text);
    sqlite3_free(text);
    return rc;
}

/* Book a payment, unless its id is in the table already. */
static int book(sqlite3 *db, const char *id)
{
    char sql[256];
    int rc = execute(db, "BEGIN IMMEDIATE");
    if (rc < 0)
        return rc;
    sqlite3_snprintf(sizeof sql, sql, "INSERT OR IGNORE INTO booked (id) VALUES (%Q)", id);
    rc = execute(db, sql);
    if (rc == 0 && sqlite3_changes(db) == 1)
        rc = execute(db, "UPDATE account SET balance = balance + 1");
    int ended = execute(db, rc == 0 ? "COMMIT" : "ROLLBACK");
    return rc < 0 ? rc : ended;
}

/*
 * The first delivery of each payment fails after the effect, as if the process had ended before the
 * acknowledgement. The payment is delivered again.
 */
static weft_value handle_payment(weft_hub_msg *payment, void *arg)
{
    bank *b = arg;
    b->deliveries++;
    int rc = book(b->db, payment->id);
    if (rc < 0 || payment->deliveries == 1)
        return rc < 0 ? rc : -EINTR;
    weft_latch_done(&b->left);
    return 0;
}

static weft_value handle_payments(void *arg)
{
    bank *b = arg;
    return weft_hub_work(b->hub, "payments", handle_payment, b, 4);
}

static int balance_of(sqlite3 *db)
{
    sqlite3_stmt *query;
    if (sqlite3_prepare_v2(db, "SELECT balance FROM account", -1, &query, NULL) != SQLITE_OK)
        return -1;
    int balance = sqlite3_step(query) == SQLITE_ROW ? sqlite3_column_int(query, 0) : -1;
    sqlite3_finalize(query);
    return balance;
}

static int run_bank(bank *b)
{
    int rc = execute(b->db, "CREATE TABLE booked (id TEXT PRIMARY KEY);"
                            "CREATE TABLE account (balance INTEGER);"
                            "INSERT INTO account VALUES (0)");
    if (rc == 0)
        rc = weft_hub_queue(b->hub, "payments", NULL);
    for (int i = 0; i < PAYMENTS && rc >= 0; i++) {
        char id[32];
        snprintf(id, sizeof id, "payment-%d", i);
        rc = weft_hub_put(b->hub, "payments", id, "1 coin", 6);
    }
    if (rc < 0)
        return rc;
    weft_fiber worker = weft_spin(handle_payments, b);
    rc = weft_latch_wait(&b->left);
    weft_terminate(worker, 1.0);
    return rc;
}

int main(int argc, char **argv)
{
    bank b = {.hub = weft_hub_open(argc > 1 ? argv[1] : "mem:", NULL)};
    if (b.hub == NULL || sqlite3_open(":memory:", &b.db) != SQLITE_OK)
        return 1;
    weft_latch_add(&b.left, PAYMENTS);
    int rc = run_bank(&b);
    printf("%u deliveries of %d payments, the balance is %d\n", b.deliveries, PAYMENTS,
           balance_of(b.db));
    sqlite3_close(b.db);
    weft_hub_close(b.hub);
    return rc < 0;
}
