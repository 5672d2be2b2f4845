/*
 * Use a blocking library from fibers. A wrapper of three lines runs its calls on a worker thread.
 * Only the calling fiber waits. The library here is a slow database.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The library, which blocks its thread. */

static int db_lookup(const char *city, char *country, size_t room)
{
    static const char *const rows[][2] = {{"Lima", "Peru"}, {"Oslo", "Norway"}, {"Riga", "Latvia"}};
    usleep(20000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], city) == 0)
            return snprintf(country, room, "%s", rows[i][1]);
    return -1;
}

/* The wrapper. A query is copied to the worker and back, so it may be on the stack. */

typedef struct query {
    char city[16];
    char country[16];
} query;

static weft_value run_query(void *arg)
{
    query *q = arg;
    if (db_lookup(q->city, q->country, sizeof q->country) < 0)
        return weft_fail(-ENOENT, "run_query: unknown city %s", q->city);
    return 0;
}

static int lookup(query *q)
{
    return (int)weft_offload_copy(run_query, q, sizeof *q);
}

/* The program. */

static weft_value show_life(void *arg)
{
    int *ticks = arg;
    int rc;
    while ((rc = weft_sleep(0.002)) == 0)
        ++*ticks;
    return rc;
}

typedef struct question {
    const char *city;
    char answer[64];
} question;

static weft_value ask(void *arg)
{
    question *a = arg;
    query q = {{0}, {0}};
    snprintf(q.city, sizeof q.city, "%s", a->city);
    int rc = lookup(&q);
    if (rc == -ENOENT)
        snprintf(a->answer, sizeof a->answer, "%s", weft_error()->message);
    else if (rc == 0)
        snprintf(a->answer, sizeof a->answer, "%s is in %s", q.city, q.country);
    return rc == -ENOENT ? 0 : rc;
}

int main(void)
{
    int ticks = 0;
    weft_fiber life = weft_spin(show_life, &ticks);
    question questions[] = {{"Lima", ""}, {"Oslo", ""}, {"Riga", ""}, {"Ys", ""}};
    weft_fiber fibers[4];
    for (int i = 0; i < 4; i++)
        fibers[i] = weft_spin(ask, &questions[i]);
    for (int i = 0; i < 4; i++)
        if (weft_await(fibers[i]) == 0)
            printf("%s\n", questions[i].answer);
    weft_cancel(life);
    weft_await(life);
    printf("other fibers ran meanwhile: %s\n", ticks > 0 ? "yes" : "no");

    int rc;
    WEFT_CANCEL_AFTER(0.005, rc) {
        ask(&questions[0]);
    }
    printf("timed out: %s\n", rc == -ETIMEDOUT ? "yes" : "no");
    return 0;
}
