/*
 * A pool of expensive connections, each for one fiber at a time. The pool opens at most its limit
 * and passes connections from fiber to fiber. Five queries share two connections.
 */
#include <weft.h>

#include <stdio.h>

#define QUERIES 5

static int made, closed; /* connections */

static weft_value connect_to_database(void *arg)
{
    (void)arg;
    int rc = weft_sleep(0.05); /* other fibers run meanwhile */
    return rc < 0 ? rc : ++made;
}

static void hang_up(weft_value connection, void *arg)
{
    (void)connection;
    (void)arg;
    closed++;
}

static weft_pool *pool;

static weft_value query(void *arg)
{
    weft_value connection = weft_pool_acquire(pool);
    if (weft_is_error(connection))
        return connection;
    int rc = weft_sleep(0.02);
    if (rc < 0) /* interrupted within a response: do not reuse the connection */
        weft_pool_discard(pool, connection);
    else
        weft_pool_release(pool, connection);
    return rc < 0 ? rc : 100 * *(int *)arg;
}

int main(void)
{
    weft_pool_options options = {.limit = 2, .make = connect_to_database, .destroy = hang_up};
    pool = weft_pool_new(&options);
    if (pool == NULL)
        return 1;
    int numbers[QUERIES];
    weft_fiber fibers[QUERIES];
    weft_value rows[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
        numbers[i] = i + 1;
        fibers[i] = weft_spin(query, &numbers[i]);
    }
    if (weft_await_all(fibers, QUERIES, rows) < 0)
        return 1;
    for (int i = 0; i < QUERIES; i++)
        printf("query %d: %d rows\n", i + 1, (int)rows[i]);
    int rc = weft_pool_free(pool);
    printf("connections opened: %d, closed: %d\n", made, closed);
    return rc < 0;
}
