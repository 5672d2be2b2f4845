/* Tutorial, step 10: call functions that block their thread. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct query {
    char city[16];
    char country[16]; /* the result */
} query;

/* Runs on a worker thread. Stands for a library that blocks its thread, for example a database. */
static weft_value run_query(void *arg)
{
    static const char *const rows[][2] = {{"Lima", "Peru"}, {"Oslo", "Norway"}, {"Riga", "Latvia"}};
    query *q = arg;
    usleep(100000);
    for (int i = 0; i < 3; i++)
        if (strcmp(rows[i][0], q->city) == 0)
            return snprintf(q->country, sizeof q->country, "%s", rows[i][1]);
    return weft_fail(-ENOENT, "run_query: %s is unknown", q->city);
}

/* Runs in a fiber. The worker gets a copy of the query, and the copy is copied back. */
static weft_value look_up(void *arg)
{
    return weft_offload_copy(run_query, arg, sizeof(query));
}

int main(void)
{
    query queries[] = {{"Riga", ""}, {"Lima", ""}, {"Oslo", ""}};
    weft_fiber fibers[3];
    for (int i = 0; i < 3; i++)
        fibers[i] = weft_spin(look_up, &queries[i]);
    if (weft_await_all(fibers, 3, NULL) < 0)
        return 1;
    for (int i = 0; i < 3; i++)
        printf("%s is in %s\n", queries[i].city, queries[i].country);
}
