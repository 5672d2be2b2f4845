/* weft fetch: fetch URLs. Create the client and the transfers, run them, handle signals. */
#include "command/fetch.h"
#include "command/command.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fetch_run {
    fetch_settings settings;
    weft_tls *tls; /* NULL: the default */
    weft_fetcher *fetcher;
    fetch_transfer *transfers;
    size_t count;
    fetch_progress progress;
    weft_sem slots; /* for transfers at the same time */
} fetch_run;

const char *fetch_error_message(int code)
{
    const weft_error_info *error = weft_error();
    return error != NULL && error->code == code ? error->message : strerror(-code);
}

static int print_error(int code)
{
    fprintf(stderr, "weft: fetch: %s\n", fetch_error_message(code));
    return EXIT_FAILURE;
}

/*
 * Transfers.
 */

/* Return a copy of a URL. A URL without a scheme has the scheme http. */
static char *url_new(const char *text)
{
    char *url = NULL;
    const char *scheme_end = strstr(text, "://");
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    bool has_scheme = scheme_end == text + name;
    return asprintf(&url, "%s%s", has_scheme ? "" : "http://", text) < 0 ? NULL : url;
}

static bool is_file_name(const char *name)
{
    bool is_name = name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    for (; *name != '\0'; name++)
        is_name &= *name != '/' && (unsigned char)*name >= ' ' && *name != 0x7f;
    return is_name;
}

/*
 * Return the last segment of the URL's path as a file name. Return NULL if the path ends with a
 * slash, or memory is exhausted.
 */
static char *remote_name_new(const char *url_text)
{
    weft_url url;
    if (weft_url_open(&url, url_text) < 0)
        return NULL;
    const char *slash = strrchr(url.path, '/');
    const char *segment = slash != NULL ? slash + 1 : url.path;
    char *name = strdup(segment);
    ssize_t bytes = name != NULL ? weft_url_decode(name, false) : -1;
    if (name != NULL && (bytes < 0 || (size_t)bytes != strlen(name) || !is_file_name(name)))
        strcpy(name, segment); /* the escapes remain */
    bool is_valid = name != NULL && is_file_name(name);
    weft_url_close(&url);
    if (is_valid)
        return name;
    free(name);
    return NULL;
}

/* Open the output of a transfer. Return 0, or the exit status after a message. */
static int transfer_open_output(fetch_transfer *t, size_t index)
{
    const fetch_settings *s = t->settings;
    const char *path = index < s->outputs_count ? s->outputs[index] : NULL;
    char *name = s->has_remote_names ? remote_name_new(t->url) : NULL;
    if (s->has_remote_names && name == NULL)
        return weft__command_usage_error(
            "fetch: --remote-name: %s has no file name; use --output FILE", t->url);
    path = name != NULL ? name : path;
    int rc = fetch_output_open(&t->output, path, s->continues);
    if (rc < 0)
        fprintf(stderr, "weft: fetch: --output: %s: %s\n", path, strerror(-rc));
    const char *shown = t->output.path != NULL ? strrchr(t->output.path, '/') : t->url;
    t->name = shown == NULL ? t->output.path : shown == t->url ? t->url : shown + 1;
    free(name);
    return rc < 0 ? EXIT_FAILURE : 0;
}

static int run_open_transfers(fetch_run *run)
{
    const fetch_settings *s = &run->settings;
    run->transfers = calloc(s->urls_count, sizeof *run->transfers);
    if (run->transfers == NULL)
        return weft__option_memory_error();
    for (size_t i = 0; i < s->urls_count; i++) {
        fetch_transfer *t = &run->transfers[run->count++];
        *t = (fetch_transfer){.settings = s,
                              .fetcher = run->fetcher,
                              .progress = &run->progress,
                              .url = url_new(s->urls[i]),
                              .output.fd = -1};
        int status = t->url != NULL ? transfer_open_output(t, i) : weft__option_memory_error();
        for (size_t k = 0; status == 0 && t->output.path != NULL && k < i; k++)
            if (run->transfers[k].output.path != NULL &&
                strcmp(run->transfers[k].output.path, t->output.path) == 0)
                status = weft__command_usage_error("fetch: %s and %s have the same output: %s",
                                                   run->transfers[k].url, t->url, t->output.path);
        if (status != 0)
            return status;
    }
    return 0;
}

/*
 * The client.
 */

static int run_open_fetcher(fetch_run *run)
{
    const fetch_settings *s = &run->settings;
    if (s->is_insecure || s->ca_file != NULL) {
        run->tls = weft_tls_client_new(&(weft_tls_options){
            .ca_file = s->ca_file,
            .verify = s->is_insecure ? WEFT_TLS_VERIFY_NONE : WEFT_TLS_VERIFY_REQUIRED,
            .alpn = weft_http_alpn()});
        if (run->tls == NULL)
            return print_error(weft_error()->code);
    }
    run->fetcher = weft_fetcher_new(&(weft_fetcher_options){
        .tls = run->tls,
        .user_agent = s->user_agent,
        .unix_socket = s->unix_socket,
        .trace = s->is_verbose ? fetch_print_step : NULL,
        .has_no_http2 = s->has_no_http2,
        .has_prior_knowledge = s->has_prior_knowledge,
        .connections_per_origin_max = s->parallel,
        .redirects_max = s->redirects_max > 0 ? (int)s->redirects_max : -1});
    return run->fetcher != NULL ? 0 : print_error(weft_error()->code);
}

/*
 * Running.
 */

/*
 * Wait for a signal that ends the command. Keep the partial files and end at once, without waiting
 * for servers. The status of the process contains the signal.
 */
static weft_value end_on_signal(void *arg)
{
    fetch_run *run = arg;
    sigset_t set;
    char size[FETCH_SIZE_BYTES];
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    int sig = weft_wait_signal(&set);
    if (sig < 0)
        return 0;
    for (size_t i = 0; i < run->count; i++) {
        fetch_transfer *t = &run->transfers[i];
        const char *rest = t->is_running ? fetch_output_stop(&t->output) : NULL;
        if (rest != NULL && !run->settings.is_quiet)
            fetch_print(&run->progress, "%s has %s; continue with -C", rest,
                        fetch_size_text(size, (double)t->output.bytes));
    }
    (void)weft_on_signal(sig, NULL, NULL);
    signal(sig, SIG_DFL);
    raise(sig);
    _exit(EXIT_FAILURE); /* not reached */
}

typedef struct transfer_arg {
    fetch_run *run;
    fetch_transfer *transfer;
} transfer_arg;

static weft_value run_transfer(void *arg)
{
    const transfer_arg *a = arg;
    fetch_transfer_run(a->transfer);
    weft_sem_post(&a->run->slots);
    return 0;
}

static int run_transfers(fetch_run *run)
{
    int rc = 0, closed = 0;
    WEFT_GROUP(group, closed) {
        for (size_t i = 0; rc == 0 && i < run->count; i++) {
            const transfer_arg arg = {run, &run->transfers[i]};
            const weft_spin_options options = {.name = "transfer", .arg_bytes = sizeof arg};
            rc = weft_sem_wait(&run->slots);
            if (rc == 0 &&
                weft_group_spin_with(&group, run_transfer, (void *)(uintptr_t)&arg, &options) == 0)
                rc = weft_error()->code;
        }
    }
    return rc < 0 ? rc : closed;
}

/* Return the exit status of all transfers: that of the worst failure. */
static int exit_status_of(const fetch_run *run)
{
    int status = EXIT_SUCCESS;
    for (size_t i = 0; i < run->count; i++)
        if (run->transfers[i].exit_status != 0 && status != EXIT_FAILURE)
            status = run->transfers[i].exit_status;
    return status;
}

static int run_all(fetch_run *run)
{
    const weft_spin_options options = {.name = "signals", .is_daemon = true};
    weft_fiber watcher = weft_spin_with(end_on_signal, run, &options);
    run->progress.transfers = run->transfers;
    run->progress.count = run->count;
    for (unsigned i = 0; i < run->settings.parallel; i++)
        weft_sem_post(&run->slots);
    fetch_progress_start(&run->progress, &run->settings);
    int rc = run_transfers(run);
    fetch_progress_stop(&run->progress);
    if (watcher != 0)
        (void)weft_terminate(watcher, INFINITY);
    return rc < 0 ? print_error(rc) : exit_status_of(run);
}

int weft__command_fetch(int argc, char **argv)
{
    fetch_run run = {0};
    int status = fetch_read_options(&run.settings, argc, argv);
    if (status == 0 && run.settings.wants_help) {
        fetch_print_help();
    } else if (status == 0) {
        status = run_open_fetcher(&run);
        if (status == 0)
            status = run_open_transfers(&run);
        if (status == 0)
            status = run_all(&run);
    }
    for (size_t i = 0; i < run.count; i++) {
        fetch_output_close(&run.transfers[i].output);
        free(run.transfers[i].url);
    }
    free(run.transfers);
    (void)weft_fetcher_free(run.fetcher);
    weft_tls_free(run.tls);
    fetch_free_options(&run.settings);
    return status;
}
