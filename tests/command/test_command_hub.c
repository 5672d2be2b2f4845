/* The command `weft hub`: a server for development, messages, queues and keys. */
#include "command/command_support.h"
#include "support/suite.h"

#include <weft/hub.h>

static weft_process server;
static char url[64];
static weft_output output;

static char *const embedded[] = {"weft", "hub", "dev", "--embedded", "--port", "0", NULL};

/* Read the first line of `weft hub dev`: its URL, and the kind of server. */
static void read_url(void)
{
    char line[128] = "";
    for (size_t n = 0; n < sizeof line - 1 && strchr(line, '\n') == NULL; n++)
        ck_assert_int_eq(weft_read(server.out, line + n, 1), 1);
    ck_assert_int_eq(sscanf(line, "%63s", url), 1);
    ck_assert_msg(strncmp(url, "nats://127.0.0.1:", 17) == 0, "%s", line);
    ck_assert_int_eq(setenv("WEFT_HUB", url, 1), 0);
}

static void start_dev(void)
{
    weft_process_options o = {.path = command_path(), .out = WEFT_STDIO_PIPE, .has_group = true};
    server = spawn(embedded, o);
    read_url();
}

static void end_dev(void)
{
    /* Not weft_process_end: its SIGCONT discards the SIGSTOP of LeakSanitizer. */
    ck_assert_int_eq(weft_process_kill(&server, SIGTERM), 0);
    int status = weft_process_wait(&server);
    weft_process_close(&server);
    ck_assert_int_eq(status, 0);
    weft_output_free(&output);
}

FIXTURE(start_dev, end_dev)

/* Run `weft hub` with an input. Store the output. Return the exit status. */
static int hub_with_input(const char *input, char *const argv[])
{
    weft_process_options o = {.path = command_path()};
    weft_output_free(&output);
    output = (weft_output){0};
    int status = weft_run(argv, input, strlen(input), &o, &output);
    ck_assert_int_ge(status, 0);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define HUB(...) hub_with_input("", ARGV("weft", "hub", __VA_ARGS__))

TEST(a_key_is_written_and_read)
{
    ck_assert_int_eq(HUB("set", "color", "blue"), 0);
    ck_assert_str_eq(output.out, "1\n");
    ck_assert_int_eq(HUB("-v", "get", "color"), 0);
    ck_assert_str_eq(output.out, "blue");
    ck_assert_str_eq(output.err, "revision 1\n");
}

TEST(a_key_is_read_from_stdin)
{
    ck_assert_int_eq(hub_with_input("from stdin", ARGV("weft", "hub", "set", "color")), 0);
    ck_assert_int_eq(HUB("get", "color"), 0);
    ck_assert_str_eq(output.out, "from stdin");
}

TEST(a_wrong_revision_is_refused)
{
    ck_assert_int_eq(HUB("set", "--create", "color", "blue"), 0);
    ck_assert_int_eq(HUB("set", "--create", "color", "red"), 1);
    ck_assert_ptr_nonnull(strstr(output.err, "weft: hub: set: color: "));
    ck_assert_int_eq(HUB("delete", "--revision", "9", "color"), 1);
    ck_assert_int_eq(HUB("delete", "--revision", "1", "color"), 0);
    ck_assert_int_eq(HUB("get", "color"), 1);
    ck_assert_str_eq(output.out, "");
}

TEST(a_command_runs_for_each_item_and_fails_until_it_succeeds)
{
    ck_assert_int_eq(HUB("queue", "jobs"), 0);
    ck_assert_int_eq(HUB("put", "--id", "a", "jobs", "first"), 0);
    ck_assert_int_eq(HUB("put", "--id", "a", "jobs", "first"), 0);
    ck_assert_ptr_nonnull(strstr(output.err, "was put before"));
    ck_assert_int_eq(HUB("work", "--count", "1", "jobs", "--", "/bin/sh", "-c",
                         "test $WEFT_HUB_DELIVERIES = 2 && echo \"$WEFT_HUB_ID: $(cat)\""),
                     0);
    ck_assert_str_eq(output.out, "a: first\n");
}

TEST(items_are_printed_without_a_command)
{
    ck_assert_int_eq(HUB("queue", "jobs"), 0);
    ck_assert_int_eq(HUB("put", "jobs", "one"), 0);
    ck_assert_int_eq(HUB("put", "jobs", "two"), 0);
    ck_assert_int_eq(HUB("work", "--count", "2", "jobs"), 0);
    ck_assert_str_eq(output.out, "one\ntwo\n");
}

TEST(an_item_goes_to_a_queue_that_exists)
{
    ck_assert_int_eq(HUB("put", "nothing", "one"), 1);
    ck_assert_ptr_nonnull(strstr(output.err, "nothing"));
}

static weft_value reply_once(void *arg)
{
    weft_hub *hub = arg;
    weft_value got = weft_hub_expose(hub, "echo", weft_self(), NULL);
    if (got == 0)
        got = weft_receive();
    if (weft_is_error(got))
        return got;
    weft_hub_msg *msg = (weft_hub_msg *)got;
    int rc = weft_hub_reply(msg, msg->data, msg->bytes);
    weft_hub_free(msg);
    return rc;
}

TEST(a_call_prints_the_reply)
{
    weft_hub *hub = weft_hub_open(url, NULL);
    ck_assert_ptr_nonnull(hub);
    ck_assert_int_eq(HUB("call", "echo", "hello"), 1);
    ck_assert_ptr_nonnull(strstr(output.err, "weft: hub: call: echo: "));
    weft_fiber service = weft_spin(reply_once, hub);
    weft_snooze();
    ck_assert_int_eq(weft_hub_set(hub, "order", "", 0, NULL), 0); /* the server has the name */
    ck_assert_int_eq(HUB("call", "echo", "hello"), 0);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_int_eq(weft_await(service), 0);
    ck_assert_int_eq(weft_hub_close(hub), 0);
}

TEST(a_tell_without_a_receiver_succeeds)
{
    ck_assert_int_eq(HUB("tell", "nobody", "hello"), 0);
    ck_assert_str_eq(output.err, "");
}

TEST(the_status_names_the_server_and_the_queues)
{
    ck_assert_int_eq(HUB("queue", "jobs"), 0);
    ck_assert_int_eq(HUB("put", "jobs", "one"), 0);
    ck_assert_int_eq(HUB("set", "color", "blue"), 0);
    ck_assert_int_eq(HUB("status"), 0);
    ck_assert_ptr_nonnull(strstr(output.out, "server "));
    ck_assert_msg(strstr(output.out, "jobs") != NULL && strstr(output.out, "1 items") != NULL, "%s",
                  output.out);
}

TEST(a_closed_output_is_an_error)
{
    ck_assert_int_eq(HUB("set", "color", "blue"), 0);
    char *argv[] = {"/bin/sh", "-c", "exec \"$0\" hub get color >&-", (char *)command_path(), NULL};
    weft_output_free(&output);
    int status = weft_run(argv, NULL, 0, NULL, &output);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    ck_assert_ptr_nonnull(strstr(output.err, "Bad file descriptor"));
}

/* Return whether a server accepts connections at the URL. */
static bool accepts_connections(void)
{
    int fd = weft_dial("tcp", url + strlen("nats://"));
    if (fd >= 0)
        weft_close(fd);
    weft_error_clear();
    return fd >= 0;
}

TEST(a_server_does_not_outlive_dev)
{
    if (access("/usr/sbin/nats-server", X_OK) != 0 && access("/usr/bin/nats-server", X_OK) != 0)
        return;
    weft_process first = server;
    weft_process_options o = {.path = command_path(), .out = WEFT_STDIO_PIPE, .has_group = true};
    server = spawn(ARGV("weft", "hub", "dev", "--port", "0"), o);
    read_url();
    ck_assert(accepts_connections());
    ck_assert_int_eq(weft_process_kill(&server, SIGKILL), 0);
    ck_assert_int_ge(weft_process_wait(&server), 0);
    while (accepts_connections()) /* the limit is that of the test */
        ck_assert_int_eq(weft_sleep(0.01), 0);
    weft_process_close(&server);
    server = first;
}

TEST(a_command_of_dev_gets_the_url)
{
    ck_assert_int_eq(HUB("dev", "--embedded", "--port", "0", "--", "/bin/sh", "-c",
                         "\"$0\" hub set a b >&2 && echo $WEFT_HUB; exit 3", command_path()),
                     3);
    ck_assert_str_ne(output.out, format("%s\n", url));
    ck_assert_msg(strncmp(output.out, "nats://127.0.0.1:", 17) == 0, "%s", output.out);
    ck_assert_str_eq(output.err, "1\n");
}

TEST(a_missing_server_is_named)
{
    ck_assert_int_eq(HUB("-u", "nats://127.0.0.1:1", "get", "a"), 1);
    ck_assert_ptr_nonnull(strstr(output.err, "127.0.0.1:1"));
}

TEST(a_bad_command_line_has_status_2)
{
    ck_assert_int_eq(hub_with_input("", ARGV("weft", "hub")), 2);
    ck_assert_int_eq(HUB("frobnicate"), 2);
    ck_assert_int_eq(HUB("get"), 2);
    ck_assert_str_eq(output.err, "weft: hub: usage: weft hub get KEY\n");
    ck_assert_int_eq(HUB("get", "a", "b"), 2);
    ck_assert_int_eq(HUB("--revision", "x", "set", "a", "b"), 2);
    ck_assert_int_eq(HUB("--help"), 0);
}
