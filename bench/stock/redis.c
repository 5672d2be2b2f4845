/* hiredis: blocking functions, and a non-blocking connection with weft_wait_fd. */
#include "stock.h"

#include <weft.h>

#include <hiredis/hiredis.h>
#include <poll.h>

static void *open_blocking(void)
{
    redisContext *c = redisConnectUnix(setting("STOCK_REDIS"));
    require(c != NULL && c->err == 0, "redisConnectUnix");
    return c;
}

static void redis_request(void *conn)
{
    redisReply *reply = redisCommand(conn, "PING");
    require(reply != NULL && reply->type == REDIS_REPLY_STATUS, "PING");
    freeReplyObject(reply);
}

static void redis_wait(void *conn)
{
    redisReply *reply = redisCommand(conn, "BLPOP nothing 1");
    require(reply != NULL && reply->type == REDIS_REPLY_NIL, "BLPOP");
    freeReplyObject(reply);
}

static void redis_close(void *conn)
{
    redisFree(conn);
}

static void *open_nonblocking(void)
{
    redisContext *c = redisConnectUnixNonBlock(setting("STOCK_REDIS"));
    require(c != NULL && c->err == 0, "redisConnectUnixNonBlock");
    return c;
}

static void request_nonblocking(void *conn)
{
    redisContext *c = conn;
    void *reply = NULL;
    int is_done = 0;
    redisAppendCommand(c, "PING");
    while (!is_done) {
        require(redisBufferWrite(c, &is_done) == REDIS_OK, c->errstr);
        if (!is_done)
            require(weft_wait_fd(c->fd, POLLOUT) > 0, "weft_wait_fd");
    }
    while (reply == NULL) {
        require(weft_wait_fd(c->fd, POLLIN) > 0, "weft_wait_fd");
        require(redisBufferRead(c) == REDIS_OK, c->errstr);
        require(redisGetReplyFromReader(c, &reply) == REDIS_OK, c->errstr);
    }
    freeReplyObject(reply);
}

static void close_nonblocking(void *conn)
{
    weft_fd_forget(((redisContext *)conn)->fd);
    redisFree(conn);
}

const client redis_client = {"libhiredis.so", open_blocking, redis_request, redis_wait,
                             redis_close};
const client redis_async_client = {NULL, open_nonblocking, request_nonblocking, NULL,
                                   close_nonblocking};
