/* The request of a transfer: method, fields, and a body from the command line or from a file. */
#include "command/fetch.h"

#include "http/client/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields in addition to those of the command line: credentials, and four for a range. */
#define OWN_FIELDS_MAX 5

/* The size of the parts in which a file is sent. */
#define PIECE_BYTES ((size_t)64 << 10)

static bool has_body(const fetch_settings *s)
{
    return s->data != NULL || s->data_file != NULL;
}

const char *fetch_method(const fetch_settings *s)
{
    if (s->method != NULL)
        return s->method;
    return s->is_head ? "HEAD" : has_body(s) ? "POST" : "GET";
}

/* Return the value of Authorization for --user, or NULL if memory is exhausted. */
static char *credentials_new(const char *user)
{
    const char *colon = strchrnul(user, ':');
    size_t name_bytes = (size_t)(colon - user), room = 3 * strlen(user) + 2;
    char *name = strndup(user, name_bytes), *text = malloc(room), *value = NULL;
    if (name != NULL && text != NULL) {
        size_t n = weft_url_encode(text, room, name);
        text[n++] = ':';
        weft_url_encode(text + n, room - n, *colon == ':' ? colon + 1 : "");
        value = weft__basic_auth_new(text);
    }
    free(name);
    free(text);
    return value;
}

/* Send a file, or stdin until its end. Return 0 or an error. */
static int write_file(weft_fetch *fetch, int fd)
{
    char *piece = malloc(PIECE_BYTES);
    ssize_t n = piece != NULL ? 1 : -ENOMEM;
    while (n > 0) {
        n = weft_read(fd, piece, PIECE_BYTES);
        ssize_t sent = n > 0 ? weft_fetch_write(fetch, piece, (size_t)n) : 0;
        if (sent == -EPIPE) /* the server has already sent a response */
            break;
        n = sent < 0 ? sent : n;
    }
    free(piece);
    return n < 0 && n != -EPIPE ? (int)n : 0;
}

/* Send a request with a body from a file. Return the status of the response, or an error. */
static int send_with_file(fetch_transfer *t, weft_fetch_request *request, weft_fetch **fetch)
{
    const char *name = t->settings->data_file;
    bool is_stdin = strcmp(name, "-") == 0;
    struct stat status;
    int fd = is_stdin ? STDIN_FILENO : weft_open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return weft_fail(fd, "--data-file %s: %s", name, strerror(-fd));
    t->is_final = is_stdin;
    int rc = weft_fstat(fd, &status);
    int64_t length = rc == 0 && S_ISREG(status.st_mode) && !is_stdin ? status.st_size : -1;
    if (request->type == NULL)
        request->type = "application/octet-stream";
    if (rc == 0)
        rc = weft_fetch_open(t->fetcher, request, length, fetch);
    if (rc == 0)
        rc = write_file(*fetch, fd);
    if (rc == 0)
        rc = weft_fetch_wait(*fetch);
    if (!is_stdin)
        weft_close(fd);
    return rc;
}

static void request_add_field(weft_fetch_request *request, weft_fetch_field *fields,
                              const char *name, const char *value)
{
    if (value != NULL)
        fields[request->fields_count++] = (weft_fetch_field){name, value};
}

int fetch_send_request(fetch_transfer *t, const fetch_range *range, weft_fetch **fetch)
{
    const fetch_settings *s = t->settings;
    weft_fetch_field fields[FETCH_FIELDS_MAX + OWN_FIELDS_MAX];
    weft_fetch_request request = {.method = fetch_method(s),
                                  .url = t->url,
                                  .fields = fields,
                                  .fields_count = s->fields_count,
                                  .body = s->data,
                                  .body_bytes = s->data != NULL ? strlen(s->data) : 0};
    memcpy(fields, s->fields, s->fields_count * sizeof *fields);
    char *credentials = s->user != NULL ? credentials_new(s->user) : NULL;
    *fetch = NULL;
    if (s->user != NULL && credentials == NULL)
        return -ENOMEM;
    request_add_field(&request, fields, "Authorization", credentials);
    if (range != NULL) {
        request_add_field(&request, fields, "Range", range->range);
        request_add_field(&request, fields, "If-Range", range->if_range);
        request_add_field(&request, fields, "If-Unmodified-Since", range->if_unmodified_since);
        request_add_field(&request, fields, "Accept-Encoding", "identity");
    }
    if (s->data != NULL)
        request.type = "application/x-www-form-urlencoded";
    int status = s->data_file != NULL ? send_with_file(t, &request, fetch)
                                      : weft_fetch_send(t->fetcher, &request, fetch);
    free(credentials);
    return status;
}
