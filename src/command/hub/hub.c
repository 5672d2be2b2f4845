/* weft hub: options and the table of subcommands. Connect, run a subcommand within its time. */
#include "command/hub/hub.h"
#include "command/command.h"
#include "command/options.h"

#include <weft/error.h>
#include <weft/scope.h>
#include <weft/tls.h>

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_DEFAULT "nats://127.0.0.1:4222"
#define TIMEOUT_S_DEFAULT 10.0
#define PORT_DEFAULT 4222
#define AT_ONCE_LIMIT 65536

static int set_revision(void *settings, const command_option *o, char *value)
{
    char *end;
    errno = 0;
    unsigned long long revision = strtoull(value, &end, 10);
    if (end == value || *end != '\0' || value[0] == '-' || errno != 0)
        return weft__option_error(o, "%s is not a number", value);
    ((hub_settings *)settings)->revision = revision;
    return 0;
}

static int set_create(void *settings, const command_option *o, char *value)
{
    (void)o, (void)value;
    ((hub_settings *)settings)->revision = 0;
    return 0;
}

static int set_at_once(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 1, AT_ONCE_LIMIT, &((hub_settings *)settings)->at_once);
}

static int set_count(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 1, UINT_MAX, &((hub_settings *)settings)->items_max);
}

static int set_replicas(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 1, 5, &((hub_settings *)settings)->queue.replicas);
}

static int set_deliveries(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 1, UINT_MAX,
                               &((hub_settings *)settings)->queue.deliveries_max);
}

static int set_port(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 0, 65535, &((hub_settings *)settings)->port);
}

#define FIELD(name) offsetof(hub_settings, name)
#define HEADING(text)  \
    {                  \
        .help = (text) \
    }
#define FLAG(name, letter, field, help)                                           \
    {                                                                             \
        (name), (letter), NULL, weft__option_set_flag, FIELD(field), (help), NULL \
    }
#define TEXT(name, letter, value, field, help)                                       \
    {                                                                                \
        (name), (letter), (value), weft__option_set_text, FIELD(field), (help), NULL \
    }
#define SECONDS(name, field, help)                                                 \
    {                                                                              \
        (name), 0, "SECONDS", weft__option_set_seconds, FIELD(field), (help), NULL \
    }
#define OWN(name, letter, value, set, help)               \
    {                                                     \
        (name), (letter), (value), (set), 0, (help), NULL \
    }

static const command_option hub_options[] = {
    HEADING("Connection"),
    TEXT("url", 'u', "URL", url, "the servers (WEFT_HUB, or " URL_DEFAULT ")"),
    TEXT("credentials", 0, "TEXT", credentials, "user:password, a token, or the path of a .creds"),
    TEXT("cacert", 0, "FILE", ca_file, "trust only the CAs in this PEM file, and use TLS"),
    SECONDS("timeout", timeout_s, "fail after this time, except for work and dev (10)"),
    HEADING("put"),
    TEXT("id", 0, "ID", id, "put the item only if no item with this ID was put"),
    HEADING("set, delete"),
    OWN("create", 0, NULL, set_create, "set the key only if it does not exist"),
    OWN("revision", 0, "N", set_revision, "only if the key has this revision"),
    HEADING("work"),
    OWN("at-once", 0, "N", set_at_once, "handle N items at a time (1)"),
    OWN("count", 0, "N", set_count, "exit after N handled items"),
    HEADING("queue"),
    OWN("replicas", 0, "N", set_replicas, "servers that store each item (3 in a cluster, or 1)"),
    SECONDS("ack", queue.ack_s, "deliver again after this time without the worker (30)"),
    OWN("deliveries", 0, "N", set_deliveries, "make the item a dead letter after N deliveries"),
    TEXT("dead-letters", 0, "QUEUE", queue.dead_letters, "the queue for dead letters"),
    HEADING("dev"),
    OWN("port", 0, "N", set_port, "listen on this port of 127.0.0.1 (4222); 0: a free port"),
    FLAG("embedded", 0, is_embedded, "use the broker of weft, even if nats-server is installed"),
    HEADING("Other"),
    FLAG("verbose", 'v', is_verbose, "get: print the revision; dev: print the log of nats-server"),
    FLAG("help", 'h', has_help, "print this help"),
};

static const command_syntax hub_syntax = {
    .command = "hub",
    .options = hub_options,
    .count = sizeof hub_options / sizeof *hub_options,
};

static const struct subcommand {
    const char *name, *arguments, *summary;
    int args_min, args_max;
    bool needs_hub;
    bool is_limited; /* by --timeout */
    int (*run)(hub_run *run);
} subcommands[] = {
    {"status", "", "print the server, and the queues, logs and names on it", 0, 0, true, true,
     weft__hub_command_status},
    {"call", "NAME [DATA]", "send DATA to NAME, and print the reply", 1, 2, true, true,
     weft__hub_command_call},
    {"tell", "NAME [DATA]", "send DATA to NAME, at most once", 1, 2, true, true,
     weft__hub_command_tell},
    {"queue", "QUEUE", "create a durable queue", 1, 1, true, true, weft__hub_command_queue},
    {"put", "QUEUE [DATA]", "put an item into a queue", 1, 2, true, true, weft__hub_command_put},
    {"work", "QUEUE [COMMAND...]", "run COMMAND for each item, or print the items", 1, INT_MAX,
     true, false, weft__hub_command_work},
    {"get", "KEY", "print the value of a key", 1, 1, true, true, weft__hub_command_get},
    {"set", "KEY [DATA]", "write a key, and print its revision", 1, 2, true, true,
     weft__hub_command_set},
    {"delete", "KEY", "delete a key", 1, 1, true, true, weft__hub_command_delete},
    {"dev", "[COMMAND...]", "start a server for development, for COMMAND or until a signal", 0,
     INT_MAX, false, false, weft__hub_command_dev},
};
#define SUBCOMMANDS_COUNT (sizeof subcommands / sizeof *subcommands)

static void print_hub_help(void)
{
    printf("usage: weft hub [OPTION...] SUBCOMMAND [ARGUMENT...]\n\n"
           "Send messages, use durable queues and keys of NATS servers.\n"
           "Without DATA, or if DATA is -, the data is the standard input.\n\n");
    for (size_t i = 0; i < SUBCOMMANDS_COUNT; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", subcommands[i].name, subcommands[i].arguments);
        printf("  %-27s %s\n", left, subcommands[i].summary);
    }
    printf("\n");
    weft__options_print(&hub_syntax);
    printf("\nAn option after a COMMAND belongs to the command if -- stands before it.\n");
}

int weft__hub_command_say(const hub_run *run, const char *format, ...)
{
    char text[512];
    va_list args;
    snprintf(text, sizeof text, "%s: %s", run->name, format);
    va_start(args, format);
    weft__command_print("hub", text, args);
    va_end(args);
    return EXIT_FAILURE;
}

int weft__hub_command_fail(const hub_run *run, int rc)
{
    const weft_error_info *error = weft_error();
    bool has_message = error != NULL && error->code == rc && error->message[0] != '\0';
    const char *argument = run->args_count > 0 ? run->args[0] : "";
    return weft__hub_command_say(run, "%s%s%s", argument, argument[0] != '\0' ? ": " : "",
                                 has_message ? error->message : strerror(-rc));
}

/* Connect. Returns 0 or an error. The caller frees *tls. */
static int hub_connect(hub_run *run, weft_tls **tls)
{
    const hub_settings *s = run->settings;
    const char *url = s->url != NULL ? s->url : getenv("WEFT_HUB");
    weft_hub_options options = {.credentials = s->credentials};
    if (s->ca_file != NULL) {
        options.tls = *tls = weft_tls_client_new(&(weft_tls_options){.ca_file = s->ca_file});
        if (*tls == NULL)
            return weft_error()->code;
    }
    run->hub = weft_hub_open(url != NULL && url[0] != '\0' ? url : URL_DEFAULT, &options);
    return run->hub != NULL ? 0 : weft_error()->code;
}

static int run_connected(hub_run *run, const struct subcommand *sub)
{
    int status = EXIT_FAILURE, rc = 0;
    if (!sub->is_limited)
        return sub->run(run);
    WEFT_CANCEL_AFTER(run->settings->timeout_s, rc)
        status = sub->run(run);
    return rc == -ETIMEDOUT ? EXIT_FAILURE : status; /* run has printed the error */
}

static int subcommand_run(hub_run *run, const struct subcommand *sub)
{
    if (!sub->needs_hub)
        return sub->run(run);
    weft_tls *tls = NULL;
    int rc = 0, late = 0;
    WEFT_CANCEL_AFTER(run->settings->timeout_s, late)
        rc = hub_connect(run, &tls);
    int status =
        rc < 0 ? weft__hub_command_fail(run, late < 0 ? late : rc) : run_connected(run, sub);
    rc = weft_hub_close(run->hub);
    if (rc < 0 && status == EXIT_SUCCESS)
        status = weft__hub_command_fail(run, rc);
    weft_tls_free(tls);
    return status;
}

static int check_arguments(const struct subcommand *sub, int count)
{
    if (count >= sub->args_min && count <= sub->args_max)
        return 0;
    return weft__command_usage_error("hub: usage: weft hub %s %s", sub->name, sub->arguments);
}

int weft__command_hub(int argc, char **argv)
{
    hub_settings settings = {
        .timeout_s = TIMEOUT_S_DEFAULT,
        .revision = WEFT_HUB_ANY_REVISION,
        .at_once = 1,
        .port = PORT_DEFAULT,
    };
    int status = weft__options_read(&hub_syntax, &settings, argc, argv);
    if (status != 0)
        return status;
    if (settings.has_help) {
        print_hub_help();
        return EXIT_SUCCESS;
    }
    if (optind == argc)
        return weft__command_usage_error("hub: the subcommand is missing (see weft hub --help)");
    for (size_t i = 0; i < SUBCOMMANDS_COUNT; i++) {
        const struct subcommand *sub = &subcommands[i];
        if (strcmp(argv[optind], sub->name) != 0)
            continue;
        hub_run run = {&settings, sub->name, NULL, argv + optind + 1, argc - optind - 1};
        status = check_arguments(sub, run.args_count);
        return status != 0 ? status : subcommand_run(&run, sub);
    }
    return weft__command_usage_error("hub: unknown subcommand: %s (see weft hub --help)",
                                     argv[optind]);
}
