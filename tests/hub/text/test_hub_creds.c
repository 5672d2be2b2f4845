/* The text of .creds files. */
#include "hub/text/creds.h"
#include "support/cases.h"
#include "support/suite.h"

#define JWT_BLOCK "-----BEGIN NATS USER JWT-----\neyJ0.a-b_c=.9\n------END NATS USER JWT------\n"
#define SEED_BLOCK "-----BEGIN USER NKEY SEED-----\nSUAM7\n------END USER NKEY SEED------\n"

/* Parse a copy in memory of the exact size. */
static int parse_creds(weft__creds *creds, const char *text)
{
    static char *copy;
    free(copy);
    size_t bytes = strlen(text);
    copy = malloc(bytes > 0 ? bytes : 1);
    memcpy(copy, text, bytes);
    return weft__creds_parse(creds, (weft__slice){copy, bytes});
}

static void is_creds(const char *text)
{
    weft__creds creds;
    ck_assert_msg(parse_creds(&creds, text) == 0, "%s", text);
    ck_assert(weft__slice_is(creds.jwt, "eyJ0.a-b_c=.9") && weft__slice_is(creds.seed, "SUAM7"));
}

TEST(the_jwt_and_the_seed_are_found)
{
    EACH_TEXT(
        is_creds, JWT_BLOCK SEED_BLOCK, SEED_BLOCK JWT_BLOCK,
        "\n" JWT_BLOCK "\n*** IMPORTANT ***\nNKEY Seed printed below\n\n" SEED_BLOCK "\n***\n",
        "---BEGIN NATS USER JWT---\r\neyJ0.a-b_c=.9\r\n---END NATS USER JWT---\r\n" SEED_BLOCK,
        "-----BEGIN NATS USER JWT-----  \neyJ0.a-b_c=.9 \t\n----END NATS USER JWT----\n"
        "-----BEGIN USER NKEY SEED-----\nSUAM7\n------END USER NKEY SEED------");
}

static void is_not_creds(const char *text)
{
    weft__creds creds;
    ck_assert_msg(parse_creds(&creds, text) == -EINVAL, "%s", text);
}

TEST(a_text_without_both_blocks_is_rejected)
{
    EACH_TEXT(
        is_not_creds, "", "\n", "SUAM7", JWT_BLOCK, SEED_BLOCK, JWT_BLOCK "SUAM7\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----", JWT_BLOCK "-----BEGIN USER NKEY SEED-----\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\nSUAM7",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\nSUAM7\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\n\n------END USER NKEY SEED------\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\nSUAM7\nSUAM7\n------END USER NKEY SEED------\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\nSU\"AM7\n------END USER NKEY SEED------\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\nSU AM7\n------END USER NKEY SEED------\n",
        JWT_BLOCK "--BEGIN USER NKEY SEED--\nSUAM7\n--END USER NKEY SEED--\n",
        JWT_BLOCK "BEGIN USER NKEY SEED\nSUAM7\nEND USER NKEY SEED\n",
        JWT_BLOCK "-----BEGIN USER NKEY SEED-----\nSUAM7\n-----BEGIN USER NKEY SEED-----\n",
        JWT_BLOCK "-----------\nSUAM7\n-----------\n",
        JWT_BLOCK "x-----BEGIN USER NKEY SEED-----\nSUAM7\n------END USER NKEY SEED------\n");
    weft__creds creds;
    ck_assert_int_eq(weft__creds_parse(&creds, (weft__slice){NULL, 0}), -EINVAL);
}
