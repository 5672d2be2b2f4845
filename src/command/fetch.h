/*
 * weft fetch: fetch URLs.
 *
 *     fetch.c           run the transfers, handle signals
 *     fetch_options.c   parse the command line
 *     fetch_transfer.c  one URL: attempts, responses, resumption
 *     fetch_request.c   the request: fields, body
 *     fetch_output.c    files: temporary names, partial files
 *     fetch_progress.c  the progress bar, messages
 *     fetch_verbose.c   the exchange, for --verbose
 *
 * A transfer is one URL with its output. Each transfer has a fiber. All fibers are in one thread.
 */
#ifndef WEFT_COMMAND_FETCH_H
#define WEFT_COMMAND_FETCH_H

#include "command/options.h"

#include <weft/web.h>

#include <stdio.h>

/* The exit status for a status of 400 or more with --fail, as in curl. */
#define EXIT_HTTP_ERROR 22

#define FETCH_FIELDS_MAX 64

typedef struct fetch_settings {
    const char *method; /* NULL: HEAD with is_head, POST with data, else GET */
    weft_fetch_field fields[FETCH_FIELDS_MAX];
    size_t fields_count;
    char *data;            /* of --data; NULL: none */
    const char *data_file; /* "-": stdin; NULL: none */
    const char **outputs;  /* of --output, in the order of the URLs */
    size_t outputs_count;
    bool has_remote_names; /* --remote-name */
    bool continues;
    bool includes_head;
    bool is_head;
    bool fails_on_error; /* --fail */
    bool is_insecure;
    bool has_no_progress;
    bool is_quiet;
    bool is_verbose;
    bool wants_help;
    bool has_http2;           /* --http2, which is the default over TLS */
    bool has_no_http2;        /* --http1 */
    bool has_prior_knowledge; /* --http2-prior-knowledge */
    bool follows;             /* --location, which is the default */
    const char *ca_file;      /* NULL: the CAs of the system */
    const char *user;         /* "user:password"; NULL: none */
    const char *user_agent;   /* NULL: the default */
    const char *unix_socket;
    unsigned redirects_max;
    unsigned retries;
    double retry_delay_s; /* before the first retry */
    double timeout_s;     /* of an attempt; 0: none */
    unsigned parallel;
    char **urls;
    size_t urls_count;
} fetch_settings;

/* fetch_options.c */

/*
 * Parse the command line. settings contains pointers into argv. Return 0, or the exit status after
 * a message. The caller frees the settings in both cases.
 */
int fetch_read_options(fetch_settings *settings, int argc, char **argv);
void fetch_free_options(fetch_settings *settings);
void fetch_print_help(void);

/* fetch_output.c */

/*
 * The output of a transfer. The body goes to a temporary file, the part: "NAME.part". A complete
 * part gets the name of the output. An incomplete part remains, with the time of the last
 * modification of the resource, and --continue appends to it.
 */
typedef struct fetch_output {
    char *path;        /* NULL: stdout */
    char *part;        /* NULL: write to path itself, or to stdout */
    int fd;            /* -1: not open */
    uint64_t bytes;    /* complete bytes, the offset of the next byte */
    time_t modified_s; /* modification of the resource; WEFT__DATE_NONE: unknown */
    bool is_partial;   /* bytes are from an earlier run */
    time_t partial_s;  /* modification of the partial file, if is_partial */
} fetch_output;

/*
 * Find the files of an output. path is NULL for stdout. If continues is set, find the bytes of an
 * earlier run. Return 0 or an error.
 */
int fetch_output_open(fetch_output *output, const char *path, bool continues);

/* Begin to write at an offset, and drop all bytes after the offset. Return 0 or an error. */
int fetch_output_begin(fetch_output *output, uint64_t offset);

int fetch_output_write(fetch_output *output, const void *data, size_t bytes);

/* Give a complete output its name. Return 0 or an error. */
int fetch_output_finish(fetch_output *output);

/*
 * Stop before the end, without waiting. Keep the bytes for --continue. Return the name of the file
 * with these bytes, or NULL.
 */
const char *fetch_output_stop(fetch_output *output);

void fetch_output_close(fetch_output *output);

/* fetch_transfer.c */

typedef struct fetch_transfer {
    const fetch_settings *settings;
    weft_fetcher *fetcher;
    struct fetch_progress *progress;
    char *url;
    const char *name; /* of the output, for the progress bar */
    fetch_output output;
    unsigned attempts;   /* so far */
    double retry_at_s;   /* the server accepts no earlier attempt; 0: unknown */
    char validator[256]; /* of the bytes in output, for If-Range; "": none */
    bool is_final;       /* another attempt is impossible or cannot help */
    bool is_running;
    bool is_done;
    int exit_status;
    int64_t total;  /* length of the whole body; -1: unknown */
    uint64_t first; /* offset of the first byte of this run */
    double begun_s; /* when the response began; 0: not yet */
} fetch_transfer;

/* Run a transfer, with its retries, and set exit_status. */
void fetch_transfer_run(fetch_transfer *transfer);

/* fetch_request.c */

/* The fields that --continue adds to a request. */
typedef struct fetch_range {
    char range[40];
    const char *if_range;            /* NULL: none */
    const char *if_unmodified_since; /* NULL: none */
} fetch_range;

/* Return the method of all requests. */
const char *fetch_method(const fetch_settings *settings);

/*
 * Send the request of a transfer, with the fields of range unless range is NULL. Return the status
 * of the response, or an error. The caller closes *fetch.
 */
int fetch_send_request(fetch_transfer *transfer, const fetch_range *range, weft_fetch **fetch);

/* fetch_progress.c */

typedef struct fetch_progress {
    fetch_transfer *transfers;
    size_t count;
    bool is_on;
    bool is_quiet;
    bool is_shown;    /* the bar is on the terminal */
    weft_fiber fiber; /* 0: none */
    double last_s;
    uint64_t last_bytes;
    double bytes_per_s; /* averaged over the last seconds */
} fetch_progress;

/* Start to draw the bar, if stderr is a terminal. */
void fetch_progress_start(fetch_progress *progress, const fetch_settings *settings);

/* Remove the bar. */
void fetch_progress_stop(fetch_progress *progress);

/* Print a message: "weft: fetch: ...". Remove the bar first. */
void fetch_print(fetch_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print the size and the time of a complete file on a terminal. */
void fetch_print_done(fetch_progress *progress, const fetch_transfer *transfer);

/* Write a size as text, for example "1.5 MiB". */
#define FETCH_SIZE_BYTES 24
const char *fetch_size_text(char out[FETCH_SIZE_BYTES], double bytes);

/* fetch_verbose.c */

/* Print a step of a fetch on stderr. This function is a trace of weft_fetcher_options. */
void fetch_print_step(weft_fetch *fetch, weft_fetch_event event, const char *text, void *ctx);

/* Write the head of a response: a status line, header lines, an empty line. */
void fetch_write_head(FILE *out, const weft_fetch *fetch, const char *prefix);

/* fetch.c */

/* Return the message of an error that the last call of weft returned. */
const char *fetch_error_message(int code);

#endif
