/*
 * Redis with a non-blocking connection of hiredis, without libweft-posix. The program waits for the
 * socket with weft_wait_fd.
 *
 * usage: redis_async [SOCKET-PATH]
 */
#include <weft.h>

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define FIBERS 100

static int empty; /* replies */

/* Write the commands that redisAppendCommand has put into the buffer. */
static int flush_commands(redisContext *c)
{
    int is_done = 0;
    while (redisBufferWrite(c, &is_done) == REDIS_OK) {
        if (is_done)
            return 0;
        int rc = weft_wait_fd(c->fd, POLLOUT);
        if (rc < 0)
            return rc;
    }
    return weft_fail(-EIO, "redis: %s", c->errstr);
}

/* Read the next reply. The caller frees the reply. */
static int read_reply(redisContext *c, redisReply **reply)
{
    *reply = NULL;
    while (redisGetReplyFromReader(c, (void **)reply) == REDIS_OK) {
        if (*reply != NULL)
            return 0;
        int rc = weft_wait_fd(c->fd, POLLIN);
        if (rc < 0)
            return rc;
        if (redisBufferRead(c) != REDIS_OK)
            break;
    }
    return weft_fail(-EIO, "redis: %s", c->errstr);
}

/* hiredis closes the socket, so weft must forget the descriptor. */
static void close_connection(redisContext *c)
{
    weft_fd_forget(c->fd);
    redisFree(c);
}

static weft_value pop(void *path)
{
    redisContext *c = redisConnectUnixNonBlock(path);
    if (c == NULL || c->err != 0)
        return weft_fail(-ECONNREFUSED, "redis: %s", c != NULL ? c->errstr : "no memory");
    redisReply *reply = NULL;
    redisAppendCommand(c, "BLPOP nothing 1");
    int rc = flush_commands(c);
    if (rc == 0)
        rc = read_reply(c, &reply);
    empty += rc == 0 && reply->type == REDIS_REPLY_NIL;
    freeReplyObject(reply);
    close_connection(c);
    return rc;
}

int main(int argc, char **argv)
{
    char *path = argc > 1 ? argv[1] : getenv("STOCK_REDIS");
    for (int i = 0; i < FIBERS; i++)
        weft_go(pop, path);
    if (weft_await_children() < 0)
        return 1;
    printf("%d empty replies\n", empty);
}
