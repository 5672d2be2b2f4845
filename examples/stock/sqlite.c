/*
 * SQLite: a fiber waits for the transaction of another fiber. sqlite3_busy_timeout makes SQLite
 * sleep and try again. The sleep blocks only the fiber, so the other fiber can commit.
 *
 * usage: sqlite [FILE]
 */
#include <weft.h>
#include <weft/posix.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char file[256];

/* Run a statement. Print an error. */
static int execute(sqlite3 *db, const char *statement)
{
    char *error = NULL;
    if (sqlite3_exec(db, statement, NULL, NULL, &error) == SQLITE_OK)
        return 0;
    int rc = weft_fail(-EIO, "sqlite: %s", error);
    sqlite3_free(error);
    return rc;
}

/* Open the database. Wait up to 10 seconds for transactions of other connections. */
static sqlite3 *open_database(void)
{
    sqlite3 *db;
    if (sqlite3_open(file, &db) != SQLITE_OK)
        return NULL;
    sqlite3_busy_timeout(db, 10000);
    return db;
}

static weft_value hold_transaction(void *arg)
{
    sqlite3 *db = arg;
    int rc = execute(db, "begin immediate; insert into notes values ('first')");
    for (int i = 0; i < 5 && rc == 0; i++)
        rc = weft_sleep(0.02);
    puts("commit");
    return rc == 0 ? execute(db, "commit") : rc;
}

static weft_value insert_note(void *db)
{
    puts("insert");
    int rc = execute(db, "insert into notes values ('second')");
    puts("inserted");
    return rc;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("STOCK_FOLDER");
    snprintf(file, sizeof file, "%s/notes-%d", folder != NULL ? folder : "/tmp", (int)getpid());
    if (argc > 1)
        snprintf(file, sizeof file, "%s", argv[1]);
    if (weft_adopt("libsqlite3.so", NULL) < 0)
        return 1;
    sqlite3 *first = open_database(), *second = open_database();
    if (first == NULL || second == NULL || execute(first, "create table notes (text)") < 0)
        return 1;
    weft_spin_options options = {.stack_bytes = 256 * 1024};
    weft_fiber fibers[] = {weft_spin_with(hold_transaction, first, &options),
                           weft_spin_with(insert_note, second, &options)};
    int rc = weft_await_all(fibers, 2, NULL);
    sqlite3_close(first);
    sqlite3_close(second);
    unlink(file);
    return rc < 0;
}
