/* hiredis on fibers. */
#include "stock/stock_support.h"

#include <hiredis/hiredis.h>

static void adopt_hiredis(void)
{
    adopt_library_of("redisCommand");
}

FIXTURE(adopt_hiredis, NULL)

static redisContext *connect_to_redis(void)
{
    redisContext *c = redisConnectUnix(server_address("STOCK_REDIS"));
    ck_assert_msg(c != NULL && c->err == 0, "%s", c != NULL ? c->errstr : "no memory");
    return c;
}

static void assert_new_connection_works(void)
{
    redisContext *c = connect_to_redis();
    redisReply *reply = redisCommand(c, "PING");
    ck_assert_ptr_nonnull(reply);
    ck_assert_str_eq(reply->str, "PONG");
    freeReplyObject(reply);
    redisFree(c);
}

static weft_value pop_slowly(void *arg)
{
    redisContext *c = connect_to_redis();
    call_begin();
    redisReply *reply = redisCommand(c, "BLPOP missing 1");
    call_end();
    ck_assert_msg(reply != NULL, "%s", c->errstr);
    ck_assert_int_eq(reply->type, REDIS_REPLY_NIL);
    freeReplyObject(reply);
    redisFree(c);
    return 0;
}

TEST(the_commands_of_a_hundred_fibers_overlap)
{
    assert_calls_overlap(pop_slowly, NULL, STOCK_FIBERS);
}

/* The name of a list that no other process uses. */
static const char *own_list(void)
{
    static char name[32];
    snprintf(name, sizeof name, "list-%d", (int)getpid());
    return name;
}

static weft_value pop_one(void *arg)
{
    redisContext *c = connect_to_redis();
    redisReply *reply = redisCommand(c, "BLPOP %s 0", own_list());
    ck_assert_msg(reply != NULL && reply->elements == 2, "%s", c->errstr);
    mark(reply->element[1]->str);
    freeReplyObject(reply);
    redisFree(c);
    return 0;
}

TEST(a_fiber_that_pops_gets_what_another_fiber_pushes)
{
    weft_fiber f = spin_stock(pop_one, NULL);
    redisContext *c = connect_to_redis();
    freeReplyObject(redisCommand(c, "RPUSH %s pushed", own_list()));
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("pushed");
    redisFree(c);
}

TEST(a_command_fails_at_the_deadline_of_a_scope)
{
    redisContext *c = connect_to_redis();
    redisReply *reply = NULL;
    int rc = 0;
    WEFT_CANCEL_AFTER(0.3, rc) {
        reply = redisCommand(c, "BLPOP missing 5");
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_ptr_null(reply);
    ck_assert_int_eq(c->err, REDIS_ERR_IO);
    redisFree(c);
    assert_new_connection_works();
}

TEST(the_timeout_of_a_connection_ends_a_command)
{
    redisContext *c = connect_to_redis();
    ck_assert_int_eq(redisSetTimeout(c, (struct timeval){.tv_usec = 100000}), REDIS_OK);
    ck_assert_ptr_null(redisCommand(c, "BLPOP missing 5"));
    ck_assert_int_eq(c->err, REDIS_ERR_IO);
    redisFree(c);
    assert_new_connection_works();
}
