/*
 * Redis with hiredis: workers wait for jobs in a list, and each waits on its own connection. All
 * workers are fibers of one thread.
 *
 * usage: redis [SOCKET-PATH]
 */
#include <weft.h>
#include <weft/posix.h>

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS 10
#define JOBS 1000

static const char *path;
static int done; /* jobs */

static redisContext *connect_to_redis(void)
{
    redisContext *c = redisConnectUnix(path);
    if (c != NULL && c->err == 0)
        return c;
    weft_fail(-ECONNREFUSED, "redis: %s", c != NULL ? c->errstr : "no memory");
    redisFree(c);
    return NULL;
}

/* Take jobs until the list stays empty for 1 second. */
static weft_value work(void *list)
{
    redisContext *c = connect_to_redis();
    if (c == NULL)
        return -ECONNREFUSED;
    redisReply *reply;
    while ((reply = redisCommand(c, "BLPOP %s 1", (char *)list)) != NULL &&
           reply->type == REDIS_REPLY_ARRAY) {
        done++;
        freeReplyObject(reply);
    }
    int rc = reply != NULL ? 0 : weft_fail(-EIO, "redis: %s", c->errstr);
    freeReplyObject(reply);
    redisFree(c);
    return rc;
}

/* Send all jobs before reading the replies. */
static int send_jobs(const char *list)
{
    redisContext *c = connect_to_redis();
    if (c == NULL)
        return -ECONNREFUSED;
    void *reply;
    int rc = 0;
    for (int i = 0; i < JOBS; i++)
        redisAppendCommand(c, "RPUSH %s %d", list, i);
    for (int i = 0; i < JOBS && rc == 0; i++)
        if ((rc = redisGetReply(c, &reply)) == REDIS_OK)
            freeReplyObject(reply);
    redisFree(c);
    return rc == REDIS_OK ? 0 : -EIO;
}

int main(int argc, char **argv)
{
    path = argc > 1 ? argv[1] : getenv("STOCK_REDIS");
    char list[32];
    snprintf(list, sizeof list, "jobs-%d", (int)getpid());
    if (weft_adopt("libhiredis.so", NULL) < 0)
        return 1;
    for (int i = 0; i < WORKERS; i++)
        weft_go_with(work, list, &(weft_spin_options){.stack_bytes = 256 * 1024});
    if (send_jobs(list) < 0 || weft_await_children() < 0)
        return 1;
    printf("%d jobs done by %d workers\n", done, WORKERS);
}
