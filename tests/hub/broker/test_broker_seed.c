/* Runs of a broker that repeat on sim. */
#include "hub/broker/raw_client.h"

static raw_client a;

/* Print who gets which message: the members of a queue group, and a consumer with redeliveries. */
static int print_run(void)
{
    weft_hub_broker *broker = weft_hub_broker_get("");
    raw_open(&a);
    raw_send(&a, "SUB s g 2\r\nSUB s g 3\r\nSUB s g 4\r\n");
    for (int i = 0; i < 50; i++)
        raw_publish(&a, "s", NULL, NULL, "");
    for (int i = 0; i < 50; i++)
        fprintf(stderr, "%s\n", raw_next(&a));
    raw_expect_json(&a, "$JS.API.STREAM.CREATE.W", "{\"name\":\"W\",\"retention\":\"workqueue\"}",
                    "error=");
    raw_expect_json(&a, "$JS.API.CONSUMER.CREATE.W",
                    "{\"config\":{\"ack_policy\":\"explicit\",\"ack_wait\":100000000}}", "error=");
    fprintf(stderr, "%s\n", a.payload); /* with the random name and the time */
    raw_close(&a);
    weft_hub_broker_release(broker);
    return 0;
}

TEST(on_sim_a_run_depends_on_the_seed_only)
{
    if (!runs_on("sim"))
        return;
    static char first[sizeof((outcome *)0)->text];
    setenv("WEFT_SEED", "1", 1);
    strcpy(first, run_apart(print_run)->text);
    ck_assert_ptr_nonnull(strstr(first, "\"ack_policy\":\"explicit\""));
    ck_assert_str_eq(run_apart(print_run)->text, first);
    setenv("WEFT_SEED", "2", 1);
    ck_assert_str_ne(run_apart(print_run)->text, first);
}
