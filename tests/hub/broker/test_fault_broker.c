/*
 * Brokers with faults: the n-th call fails. A client gets each reply, an error, or the end of its
 * connection. Nothing is left of a broker without users.
 */
#include "hub/broker/connect.h"
#include "support/fault.h"
#include "support/suite.h"

#include <weft/hub_broker.h>

/* What a client sends, and a text in the reply of a broker without faults. */
typedef struct step {
    const char *send, *expected;
} step;

#define PUB(subject, bytes, payload) "PUB " subject " r " bytes "\r\n" payload "\r\n"

static const step steps[] = {
    {"", "INFO {"},
    {"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"name\":\"x\"}\r\n"
     "PING\r\n",
     "PONG"},
    {"SUB r 1\r\nSUB s.* 2\r\nSUB s.a g 3\r\nPING\r\n", "PONG"},
    {"HPUB s.a 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\nPING\r\n", "PONG"},
    {PUB("nobody", "0", ""), "503"},
    {PUB("$JS.API.STREAM.CREATE.W", "46",
         "{\"name\":\"W\",\"retention\":\"workqueue\",\"no\":true}"),
     "did_create"},
    {PUB("$JS.API.CONSUMER.DURABLE.CREATE.W.c", "55",
         "{\"config\":{\"durable_name\":\"c\",\"ack_policy\":\"explicit\"}}"),
     "num_pending"},
    {"HPUB W r 28 29\r\nNATS/1.0\r\nNats-Msg-Id: 1\r\n\r\nm\r\n", "\"seq\":1"},
    {PUB("$JS.API.STREAM.MSG.GET.W", "9", "{\"seq\":1}"), "bQ=="},
    {PUB("$JS.API.CONSUMER.MSG.NEXT.W.c", "32", "{\"batch\":1,\"expires\":1000000000}"),
     "$JS.ACK.W.c.1.1.1."},
    {PUB("$JS.ACK.W.c.1.1.1.1.0", "4", "-NAK"), "MSG r 1 0"},
    {PUB("$JS.API.CONSUMER.MSG.NEXT.W.c", "1", "1"), "$JS.ACK.W.c.2.1.2."},
    {PUB("$JS.ACK.W.c.2.1.2.1.0", "4", "+ACK"), "MSG r 1 0"},
    {PUB("$JS.API.STREAM.DELETE.W", "0", ""), "success"},
};

/*
 * Read until the input contains a text. Returns false after an error, or at the end of the input.
 */
static bool read_until(int fd, const char *expected)
{
    char input[8192] = "";
    size_t bytes = 0;
    while (strstr(input, expected) == NULL) {
        ssize_t n = weft_read(fd, input + bytes, sizeof input - 1 - bytes);
        if (n <= 0)
            return false;
        bytes += (size_t)n;
        input[bytes] = '\0';
        if (strstr(input, "\"error\"") != NULL || strstr(input, "NATS/1.0 4") != NULL)
            return false;
    }
    return true;
}

static bool run_steps(int fd)
{
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        size_t bytes = strlen(steps[i].send);
        ssize_t n = bytes == 0 ? 0 : weft_write_all(fd, steps[i].send, bytes);
        if (n < 0 || !read_until(fd, steps[i].expected)) {
            REQUIRE(atomic_load(&fault.injected) > 0);
            return false;
        }
    }
    return true;
}

/* Wait for the end of the fibers of the broker. */
static void require_broker_ended(void)
{
    weft_counters now;
    for (int i = 0; i < 3000 && weft_stats(&now) == 0 && now.fibers > 0; i++)
        weft_sleep(0.001);
    REQUIRE(now.fibers == 0);
}

static bool use_broker(void)
{
    weft_hub_broker *broker = weft_hub_broker_get("faulty");
    if (!require_object(broker))
        return false;
    bool is_done = false;
    int fd = weft__broker_connect("faulty");
    if (REQUIRE_OR_FAULT(fd)) {
        is_done = run_steps(fd);
        weft_close(fd);
    }
    if (weft_hub_broker_isolate(broker, "y", true) < 0)
        require_message();
    weft_hub_broker_release(broker);
    weft_error_clear();
    require_broker_ended();
    return is_done;
}

FAULT_TEST(a_broker_loses_a_connection_rather_than_a_reply, use_broker, 1)
