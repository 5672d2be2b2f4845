/* The options of `weft fetch`: their table, the help, and checks of combinations. */
#include "command/command.h"
#include "command/fetch.h"

#include "http/text/field.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define REDIRECTS_DEFAULT 10
#define REDIRECTS_LIMIT 1000
#define RETRIES_LIMIT 1000
#define RETRY_DELAY_S_DEFAULT 1.0
#define PARALLEL_LIMIT 1000

/* "Name: value" */
static int set_header(void *settings, const command_option *o, char *value)
{
    fetch_settings *s = settings;
    char *colon = strchr(value, ':');
    if (colon == NULL || !weft__field_is_token(value, (size_t)(colon - value)))
        return weft__option_error(o, "%s is not NAME: VALUE", value);
    weft__span text = weft__field_trim(colon + 1, strlen(colon + 1));
    if (!weft__field_is_value(text.at, text.bytes))
        return weft__option_error(o, "the value of %.*s has an invalid character",
                                  (int)(colon - value), value);
    if (s->fields_count == FETCH_FIELDS_MAX)
        return weft__option_error(o, "%s: more than %d headers", value, FETCH_FIELDS_MAX);
    *colon = '\0';
    ((char *)(uintptr_t)text.at)[text.bytes] = '\0';
    s->fields[s->fields_count++] = (weft_fetch_field){value, text.at};
    return 0;
}

static int set_method(void *settings, const command_option *o, char *value)
{
    ((fetch_settings *)settings)->method = value;
    return weft__field_is_token(value, strlen(value)) && strcmp(value, "CONNECT") != 0
               ? 0
               : weft__option_error(o, "%s is not a method", value);
}

/* Join several values with "&", like the fields of a form. */
static int set_data(void *settings, const command_option *o, char *value)
{
    (void)o;
    fetch_settings *s = settings;
    size_t before = s->data != NULL ? strlen(s->data) + 1 : 0;
    char *data = realloc(s->data, before + strlen(value) + 1);
    if (data == NULL)
        return weft__option_memory_error();
    if (before > 0)
        data[before - 1] = '&';
    strcpy(data + before, value);
    s->data = data;
    return 0;
}

static int set_output(void *settings, const command_option *o, char *value)
{
    fetch_settings *s = settings;
    if (value[0] == '\0')
        return weft__option_error(o, "the value is empty");
    const char **outputs = realloc(s->outputs, (s->outputs_count + 1) * sizeof *outputs);
    if (outputs == NULL)
        return weft__option_memory_error();
    outputs[s->outputs_count++] = value;
    s->outputs = outputs;
    return 0;
}

static int set_redirects(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 0, REDIRECTS_LIMIT,
                               &((fetch_settings *)settings)->redirects_max);
}

static int set_retries(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 0, RETRIES_LIMIT, &((fetch_settings *)settings)->retries);
}

static int set_parallel(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 1, PARALLEL_LIMIT,
                               &((fetch_settings *)settings)->parallel);
}

#define FIELD(name) offsetof(fetch_settings, name)
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
#define SECONDS(name, letter, field, help)                                                \
    {                                                                                     \
        (name), (letter), "SECONDS", weft__option_set_seconds, FIELD(field), (help), NULL \
    }
#define OWN(name, letter, value, set, help)               \
    {                                                     \
        (name), (letter), (value), (set), 0, (help), NULL \
    }

static const command_option fetch_options[] = {
    HEADING("Request"),
    OWN("method", 'X', "METHOD", set_method, "send METHOD (GET, or POST with a body)"),
    OWN("header", 'H', "FIELD", set_header, "send this header, NAME: VALUE; may be repeated"),
    OWN("data", 'd', "TEXT", set_data, "send TEXT as the body; joined with & if repeated"),
    TEXT("data-file", 0, "FILE", data_file, "send FILE as the body; - means stdin"),
    TEXT("user", 'u', "USER:PASSWORD", user, "send Basic credentials"),
    TEXT("user-agent", 'A', "TEXT", user_agent, "send TEXT as User-Agent (weft/VERSION)"),
    FLAG("head", 'I', is_head, "send HEAD and print the head of the response"),
    HEADING("Output"),
    OWN("output", 'o', "FILE", set_output,
        "write the body to FILE; - means stdout; repeat it for each URL"),
    FLAG("remote-name", 'O', has_remote_names, "write each body to the name at the end of its URL"),
    FLAG("continue", 'C', continues, "continue a partial file"),
    FLAG("include", 'i', includes_head, "print the head of the response before the body"),
    FLAG("fail", 'f', fails_on_error, "exit with status 22 for a status of 400 or more"),
    FLAG("verbose", 'v', is_verbose, "print connections and heads on stderr"),
    FLAG("quiet", 'q', is_quiet, "print only errors"),
    FLAG("no-progress", 0, has_no_progress, "show no progress bar"),
    HEADING("Connection"),
    FLAG("http2", 0, has_http2, "speak HTTP/2 over TLS if the server does; this is the default"),
    FLAG("http1", 0, has_no_http2, "speak only HTTP/1.1"),
    FLAG("http2-prior-knowledge", 0, has_prior_knowledge,
         "speak HTTP/2 without TLS; the server must support it"),
    FLAG("insecure", 'k', is_insecure, "accept any certificate of the server"),
    TEXT("cacert", 0, "FILE", ca_file, "trust only the CAs in this PEM file"),
    TEXT("unix-socket", 0, "PATH", unix_socket, "connect to this Unix socket"),
    FLAG("location", 'L', follows, "follow redirects; this is the default"),
    OWN("max-redirects", 0, "N", set_redirects, "follow at most N redirects (10)"),
    SECONDS("timeout", 'm', timeout_s, "limit each attempt to SECONDS (no limit)"),
    OWN("retry", 0, "N", set_retries, "retry temporary failures up to N times (0)"),
    SECONDS("retry-delay", 0, retry_delay_s, "wait SECONDS before the first retry (1)"),
    OWN("parallel", 'P', "N", set_parallel, "fetch up to N URLs at once (1)"),
    HEADING("Help"),
    FLAG("help", 'h', wants_help, "print this help"),
};

static const command_syntax fetch_syntax = {"fetch", fetch_options,
                                            sizeof fetch_options / sizeof *fetch_options};

void fetch_print_help(void)
{
    printf("usage: weft fetch [OPTION...] URL...\n\n"
           "Fetch URLs and print the bodies. Defaults are in parentheses.\n\n");
    weft__options_print(&fetch_syntax);
    printf("\n"
           "A file is first written as FILE.part, and gets its name when it is complete. With\n"
           "--continue, an existing FILE.part, or else FILE, is continued if the resource has not\n"
           "changed since.\n"
           "Temporary failures are failed connections and the statuses 429, 502, 503 and 504.\n"
           "The delays double. Retry-After of the server applies.\n\n"
           "The exit status is 0, 22 with --fail for a status of 400 or more, 2 for a wrong\n"
           "command line, or 1 for any other failure.\n");
}

static int check_outputs(const fetch_settings *s)
{
    if (s->has_remote_names && s->outputs_count > 0)
        return weft__command_usage_error(
            "fetch: --output and --remote-name are mutually exclusive");
    if (s->outputs_count > s->urls_count)
        return weft__command_usage_error("fetch: --output: %s has no URL",
                                         s->outputs[s->urls_count]);
    bool has_stdout = !s->has_remote_names && s->outputs_count < s->urls_count;
    for (size_t i = 0; i < s->outputs_count; i++) {
        has_stdout |= strcmp(s->outputs[i], "-") == 0;
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->outputs[i], s->outputs[k]) == 0 && strcmp(s->outputs[i], "-") != 0)
                return weft__command_usage_error("fetch: --output: %s is given twice",
                                                 s->outputs[i]);
    }
    if (s->continues && has_stdout)
        return weft__command_usage_error("fetch: --continue needs --output or --remote-name");
    if (s->parallel > 1 && s->urls_count > 1 && has_stdout)
        return weft__command_usage_error(
            "fetch: --parallel needs --output for each URL, or --remote-name");
    return 0;
}

/* Check combinations of options. */
static int settings_check(const fetch_settings *s)
{
    bool has_body = s->data != NULL || s->data_file != NULL;
    if (s->urls_count == 0)
        return weft__command_usage_error("fetch: a URL is missing (see weft fetch --help)");
    if (s->data != NULL && s->data_file != NULL)
        return weft__command_usage_error("fetch: --data and --data-file are mutually exclusive");
    if (s->is_head && (has_body || s->method != NULL))
        return weft__command_usage_error(
            "fetch: --head and --method, --data or --data-file are mutually exclusive");
    if (s->continues && (s->includes_head || s->is_head || has_body))
        return weft__command_usage_error(
            "fetch: --continue and --include, --head, --data or --data-file are mutually "
            "exclusive");
    if (s->data_file != NULL && strcmp(s->data_file, "-") == 0 && s->urls_count > 1)
        return weft__command_usage_error("fetch: --data-file - has only one URL");
    if (s->is_insecure && s->ca_file != NULL)
        return weft__command_usage_error("fetch: --insecure and --cacert are mutually exclusive");
    if (s->has_no_http2 && (s->has_http2 || s->has_prior_knowledge))
        return weft__command_usage_error(
            "fetch: --http1 and --http2 or --http2-prior-knowledge are mutually exclusive");
    return check_outputs(s);
}

int fetch_read_options(fetch_settings *s, int argc, char **argv)
{
    *s = (fetch_settings){
        .redirects_max = REDIRECTS_DEFAULT, .retry_delay_s = RETRY_DELAY_S_DEFAULT, .parallel = 1};
    int status = weft__options_read(&fetch_syntax, s, argc, argv);
    if (status != 0)
        return status;
    s->urls = argv + optind;
    s->urls_count = (size_t)(argc - optind);
    if (s->continues && s->urls_count > 0 && strcmp(s->urls[0], "-") == 0) { /* curl's "-C -" */
        s->urls++;
        s->urls_count--;
    }
    return s->wants_help ? 0 : settings_check(s);
}

void fetch_free_options(fetch_settings *s)
{
    free(s->data);
    free(s->outputs);
}
