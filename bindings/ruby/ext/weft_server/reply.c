/* Replies in the cord: headers, whole bodies, files, other protocols. */
#include "bridge.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Return the headers that follow the value at field, which is a name. */
static const char *next_field(const char *field, const char **value)
{
    *value = field + strlen(field) + 1;
    return *value + strlen(*value) + 1;
}

int reply_add_fields(weft_http_request *r, const reply_head *head)
{
    const char *field = head->fields, *value;
    for (size_t i = 0; i < head->fields_count; i++) {
        const char *next = next_field(field, &value);
        int rc = weft_http_add(r, field, value);
        if (rc < 0 && rc != -EPERM) { /* the server itself sets Date, Connection and so on */
            fprintf(stderr, "weft: the reply is invalid: %s\n", weft_error()->message);
            return -EIO;
        }
        field = next;
    }
    return 0;
}

int reply_upgrade(exchange *x, const reply_head *head)
{
    int rc = reply_add_fields(x->request, head);
    if (rc == 0)
        rc = weft_http_upgrade(x->request, head->protocol, &x->stream);
    if (rc < 0)
        return rc;
    x->has_begun = true;
    pthread_mutex_lock(&x->lock);
    x->mode = MODE_UPGRADED;
    pthread_mutex_unlock(&x->lock);
    bridge_announce(x, NOTICE_CHANGED);
    return 0;
}

static int send_opened_file(exchange *x, const reply_head *head, int fd)
{
    struct stat s;
    if (fstat(fd, &s) < 0 || !S_ISREG(s.st_mode))
        return -EIO;
    if (head->length >= 0 && head->length != s.st_size) {
        fprintf(stderr, "weft: %s has %lld bytes, and not %lld\n", head->path, (long long)s.st_size,
                (long long)head->length);
        return -EIO;
    }
    int rc = weft_http_begin(x->request, head->status, s.st_size);
    if (rc == 0 && weft_http_send_file(x->request, fd, 0, (uint64_t)s.st_size) < 0)
        rc = -EPIPE;
    return rc < 0 ? rc : weft_http_end(x->request);
}

/* Send the file that is the whole body. */
static int reply_with_file(exchange *x, const reply_head *head)
{
    int fd = weft_open(head->path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        fprintf(stderr, "weft: cannot open %s: %s\n", head->path, strerror(-fd));
        return -EIO;
    }
    x->has_begun = true;
    int rc = send_opened_file(x, head, fd);
    weft_close(fd);
    return rc < 0 ? rc : 1;
}

/* Return whether one call can send the reply. HEAD has no body, but the length of one. */
static bool reply_is_whole(const exchange *x, const reply_head *head, const chunk_queue *body)
{
    bool has_length = head->length >= 0;
    return body->first == body->last && strcmp(x->method, "HEAD") != 0 &&
           (!has_length || (size_t)head->length == body->bytes);
}

static int begin(exchange *x, reply_head *head, chunk_queue *body, bool is_complete)
{
    if (head->protocol != NULL)
        return reply_upgrade(x, head);
    int rc = reply_add_fields(x->request, head);
    if (rc < 0)
        return rc;
    if (head->path != NULL)
        return reply_with_file(x, head);
    x->has_begun = true;
    if (is_complete && reply_is_whole(x, head, body)) {
        const chunk *c = body->first;
        rc = weft_http_reply(x->request, head->status, NULL, c != NULL ? c->data : "",
                             c != NULL ? c->bytes : 0);
        return rc < 0 ? rc : 1;
    }
    if (is_complete && head->length < 0 && strcmp(x->method, "HEAD") != 0)
        head->length = (int64_t)body->bytes;
    return weft_http_begin(x->request, head->status, head->length);
}

int reply_begin(exchange *x, reply_head *head, chunk_queue *body, bool is_complete)
{
    if (x->has_begun)
        return -EALREADY;
    int rc = begin(x, head, body, is_complete);
    if (rc == -EINVAL) /* an invalid status is an error of the application, not of the client */
        fprintf(stderr, "weft: the reply is invalid: %s\n", weft_error()->message);
    return rc == -EINVAL ? -EIO : rc;
}
