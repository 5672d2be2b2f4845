/*
 * One transfer: attempts, the response, and what follows an interruption.
 *
 * The bytes of an interrupted attempt are kept. The next attempt asks for the rest, with the
 * validator of the first response in If-Range. The server therefore sends the rest of the same
 * version, or another version from its begin. After --continue, the validator of a part is the time
 * of the part. The time of any other file is only a lower bound. The request then has
 * If-Unmodified-Since, and the transfer also compares Last-Modified.
 */
#include "command/fetch.h"

#include "http/client/fetch.h"
#include "http/text/date.h"
#include "http/text/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Do not wait longer than this for Retry-After. */
#define RETRY_AFTER_S_MAX 3600.0
#define RETRY_DELAY_S_MAX 60.0
#define RETRY_JITTER 0.25

static void print_failure(const fetch_transfer *t, const char *message)
{
    fetch_print(t->progress, "%s: %s", t->url, message);
}

/*
 * Retries.
 */

static bool status_is_temporary(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static bool has_more_attempts(const fetch_transfer *t)
{
    return t->attempts <= t->settings->retries && !t->is_final;
}

/* Return the number of seconds of Retry-After, or 0. */
static double retry_after_s(const weft_fetch *fetch)
{
    const char *text = weft_fetch_header(fetch, "Retry-After");
    if (text == NULL)
        return 0;
    if (text[strspn(text, "0123456789")] == '\0')
        return strtod(text, NULL);
    int64_t when = weft__date_parse(text);
    return when != WEFT__DATE_NONE ? difftime((time_t)when, time(NULL)) : 0;
}

/* Return whether to repeat a request after a status. Another attempt waits for Retry-After. */
static bool may_retry_status(fetch_transfer *t, const weft_fetch *fetch, int status)
{
    if (!status_is_temporary(status) || !has_more_attempts(t))
        return false;
    /* 502 and 504 do not say whether the server has handled the request. */
    if (!weft__method_is_idempotent(fetch_method(t->settings)) && status != 429 && status != 503)
        return false;
    double wait_s = retry_after_s(fetch);
    if (wait_s > RETRY_AFTER_S_MAX)
        return false;
    t->retry_at_s = weft_now() + wait_s;
    return true;
}

/* Return whether an error is temporary. A server may have handled a request without a response. */
static bool should_retry(int code, void *arg)
{
    const fetch_transfer *t = arg;
    static const int unsent[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN};
    static const int temporary[] = {ECONNRESET, ECONNABORTED, EPIPE, ETIMEDOUT};
    bool is_retried = code == -EAGAIN; /* the result of may_retry_status */
    for (size_t i = 0; i < sizeof unsent / sizeof *unsent; i++)
        is_retried |= code == -unsent[i];
    for (size_t i = 0; i < sizeof temporary / sizeof *temporary; i++)
        is_retried |=
            code == -temporary[i] && weft__method_is_idempotent(fetch_method(t->settings));
    return is_retried && has_more_attempts(t);
}

/*
 * The rest of a body.
 */

/* Remember the version of the resource that the output has bytes of. */
static void note_version(fetch_transfer *t, const weft_fetch *fetch)
{
    const char *etag = weft_fetch_header(fetch, "ETag");
    const char *modified = weft_fetch_header(fetch, "Last-Modified");
    int64_t when = modified != NULL ? weft__date_parse(modified) : WEFT__DATE_NONE;
    t->output.modified_s = when > 0 ? (time_t)when : WEFT__DATE_NONE;
    const char *validator = etag != NULL && strncmp(etag, "W/", 2) != 0 ? etag : modified;
    bool fits = validator != NULL && strlen(validator) < sizeof t->validator;
    strcpy(t->validator, fits ? validator : "");
}

/*
 * Fill in the fields of a request for the rest of the body. Return false if the request is for the
 * whole body. date is memory for a date.
 */
static bool describe_range(fetch_transfer *t, fetch_range *range, char date[WEFT__DATE_LENGTH + 1])
{
    fetch_output *o = &t->output;
    *range = (fetch_range){.if_range = t->validator[0] != '\0' ? t->validator : NULL};
    if (o->bytes == 0 || t->settings->is_head || t->settings->includes_head ||
        (range->if_range == NULL && !o->is_partial))
        return false;
    if (range->if_range == NULL) {
        weft__date_write(date, o->partial_s);
        *(o->part != NULL ? &range->if_range : &range->if_unmodified_since) = date;
    }
    snprintf(range->range, sizeof range->range, "bytes=%llu-", (unsigned long long)o->bytes);
    return true;
}

/*
 * Return whether a response has all bytes from an offset on: "bytes 10-19/20". A server may send
 * less than the request asks for (RFC 9110, 14.2). The length is "*" if it is unknown.
 */
static bool is_rest_from(const weft_fetch *fetch, uint64_t offset)
{
    const char *text = weft_fetch_header(fetch, "Content-Range");
    unsigned long long first, last, length;
    int found = text != NULL ? sscanf(text, "bytes %llu-%llu/%llu", &first, &last, &length) : 0;
    return found >= 2 && first == offset && (found == 2 || last + 1 == length);
}

/* Return whether the server says that the output is complete (416 with this length). */
static bool is_complete(const fetch_transfer *t, const weft_fetch *fetch)
{
    const char *text = weft_fetch_header(fetch, "Content-Range");
    unsigned long long length;
    return text != NULL && sscanf(text, "bytes */%llu", &length) == 1 && length == t->output.bytes;
}

/*
 * Return whether a response with the rest of the body fits to the bytes in the output. The resource
 * may be newer than a file that another program has written.
 */
static bool rest_fits(const fetch_transfer *t, const weft_fetch *fetch, const fetch_range *range)
{
    const char *modified = weft_fetch_header(fetch, "Last-Modified");
    int64_t when = modified != NULL ? weft__date_parse(modified) : WEFT__DATE_NONE;
    if (!is_rest_from(fetch, t->output.bytes))
        return false;
    return range->if_unmodified_since == NULL || when == WEFT__DATE_NONE ||
           when <= (int64_t)t->output.partial_s;
}

/*
 * The response.
 */

static int write_head(fetch_transfer *t, const weft_fetch *fetch)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    fetch_write_head(out, fetch, "");
    int rc = fclose(out) == 0 ? fetch_output_write(&t->output, text, bytes) : -ENOMEM;
    free(text);
    return rc;
}

/* Refuse to print binary data on a terminal, which might not show text afterwards. */
static int check_terminal(const fetch_transfer *t, const void *data, size_t bytes)
{
    if (t->output.path != NULL || t->output.bytes > 0 || memchr(data, '\0', bytes) == NULL ||
        !isatty(STDOUT_FILENO))
        return 0;
    return weft_fail(-EINVAL, "the body is not a text; use --output FILE, or --output - | cat");
}

static int copy_body(fetch_transfer *t, weft_fetch *fetch)
{
    const void *data;
    ssize_t n;
    while ((n = weft_fetch_read_piece(fetch, &data)) > 0) {
        int rc = check_terminal(t, data, (size_t)n);
        if (rc == 0) {
            rc = fetch_output_write(&t->output, data, (size_t)n);
            if (rc < 0)
                weft_fail(rc, "cannot write %s: %s",
                          t->output.path != NULL ? t->output.path : "to stdout", strerror(-rc));
        }
        if (rc < 0) {
            t->is_final = true; /* a retry cannot help */
            return rc;
        }
    }
    return (int)n;
}

/* Write the response to the output, from an offset. Return 0 or an error. */
static int take_body(fetch_transfer *t, weft_fetch *fetch, uint64_t offset)
{
    fetch_output *o = &t->output;
    if (offset == 0)
        note_version(t, fetch);
    int rc = fetch_output_begin(o, offset);
    if (rc < 0) {
        t->is_final = true;
        return weft_fail(rc, "cannot write %s: %s", o->path,
                         rc == -EBUSY ? "another process writes it" : strerror(-rc));
    }
    int64_t length = weft_fetch_length(fetch);
    if (t->settings->is_head || t->settings->includes_head)
        rc = write_head(t, fetch);
    t->total = length >= 0 ? (int64_t)o->bytes + length : -1;
    t->first = o->bytes;
    t->begun_s = weft_now();
    if (rc == 0 && !t->settings->is_head)
        rc = copy_body(t, fetch);
    return rc == 0 ? fetch_output_finish(o) : rc;
}

static int fail_status(fetch_transfer *t, int status)
{
    const fetch_settings *s = t->settings;
    t->exit_status = s->fails_on_error ? EXIT_HTTP_ERROR : EXIT_FAILURE;
    return weft_fail(-EREMOTEIO, "%d %s", status, weft__status_text(status));
}

/* The results of a response to a request for the rest, in addition to errors. */
enum { REST_DONE = 0, REST_RESTART = 1 };

/* Handle the response to a request for the rest of the body. */
static int take_rest(fetch_transfer *t, weft_fetch *fetch, int status, const fetch_range *range)
{
    if (status == 206 && rest_fits(t, fetch, range))
        return take_body(t, fetch, t->output.bytes);
    if (status == 416 && is_complete(t, fetch)) {
        int rc = fetch_output_begin(&t->output, t->output.bytes);
        return rc == 0 ? fetch_output_finish(&t->output) : rc;
    }
    bool is_other_version = status == 206 || status == 412 || status == 416;
    if (!is_other_version && status >= 400)
        return fail_status(t, status);
    if (t->output.path == NULL) {
        t->is_final = true;
        return weft_fail(-ESTALE, "the resource has changed during the transfer");
    }
    return is_other_version ? REST_RESTART : take_body(t, fetch, 0);
}

static int take_response(fetch_transfer *t, weft_fetch *fetch, int status)
{
    if (status >= 400 && t->settings->fails_on_error)
        return fail_status(t, status);
    if (status >= 400 && t->output.path != NULL && !t->settings->is_quiet)
        fetch_print(t->progress, "%s: %d %s", t->url, status, weft__status_text(status));
    return take_body(t, fetch, 0);
}

/* Send one request and handle its response. Return 0, REST_RESTART or an error. */
static int run_request(fetch_transfer *t)
{
    fetch_range range;
    char date[WEFT__DATE_LENGTH + 1];
    weft_fetch *fetch;
    bool has_range = describe_range(t, &range, date);
    int rc, status = fetch_send_request(t, has_range ? &range : NULL, &fetch);
    if (status < 0)
        rc = status;
    else if (may_retry_status(t, fetch, status))
        rc = weft_fail(-EAGAIN, "%d %s", status, weft__status_text(status));
    else
        rc = has_range ? take_rest(t, fetch, status, &range) : take_response(t, fetch, status);
    weft_fetch_close(fetch);
    return rc;
}

static int run_request_in_time(fetch_transfer *t)
{
    int rc = 0, late = 0;
    if (t->settings->timeout_s == 0)
        return run_request(t);
    WEFT_CANCEL_AFTER(t->settings->timeout_s, late)
        rc = run_request(t);
    if (late < 0 && rc < 0)
        return weft_fail(-ETIMEDOUT, "the attempt took longer than %g s", t->settings->timeout_s);
    return rc;
}

static weft_value run_attempt(void *arg)
{
    fetch_transfer *t = arg;
    if (t->retry_at_s > weft_now())
        weft_sleep_until(t->retry_at_s);
    t->attempts++;
    int rc = run_request_in_time(t);
    if (rc == REST_RESTART) { /* the partial file belongs to another version */
        t->output.bytes = 0;
        t->output.is_partial = false;
        t->validator[0] = '\0';
        if (!t->settings->is_quiet)
            fetch_print(t->progress, "%s: the resource has changed; the transfer starts again",
                        t->url);
        rc = run_request_in_time(t);
    }
    if (rc < 0 && should_retry(rc, t) && !t->settings->is_quiet)
        fetch_print(t->progress, "%s: %s; attempt %u of %u follows", t->url,
                    fetch_error_message(rc), t->attempts + 1, t->settings->retries + 1);
    return rc;
}

static void end_transfer(fetch_transfer *t, int rc)
{
    char size[FETCH_SIZE_BYTES];
    t->is_done = rc == 0;
    t->is_running = false;
    if (rc == 0) {
        fetch_print_done(t->progress, t);
        return;
    }
    if (t->exit_status == 0)
        t->exit_status = EXIT_FAILURE;
    print_failure(t, fetch_error_message(rc));
    const char *rest = fetch_output_stop(&t->output);
    if (rest != NULL && !t->settings->is_quiet)
        fetch_print(t->progress, "%s has %s; continue with -C", rest,
                    fetch_size_text(size, (double)t->output.bytes));
}

void fetch_transfer_run(fetch_transfer *t)
{
    const weft_retry_options options = {.attempts_max = t->settings->retries + 1,
                                        .first_s = t->settings->retry_delay_s,
                                        .delay_s_max = RETRY_DELAY_S_MAX,
                                        .jitter = RETRY_JITTER,
                                        .should_retry = should_retry,
                                        .context = t};
    t->is_running = true;
    t->total = -1;
    end_transfer(t, (int)weft_retry(run_attempt, t, &options));
}
