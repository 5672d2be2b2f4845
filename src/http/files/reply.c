/*
 * Replies with a file: headers, conditional requests, ranges. If the file becomes shorter than the
 * announced length, the server resets the connection. The server never pads the body.
 */
#include "http/reply/reply.h"
#include "http/files/files.h"
#include "http/text/conditional.h"
#include "http/text/range.h"

#include <stdio.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

/* The headers of a request that affect the reply with a file. */
typedef struct file_request {
    weft__conditional conditional;
    const char *range; /* Range; NULL: none */
} file_request;

/*
 * Join the values of repeated headers. Joined lists form a list. Joined dates do not form a date.
 * The server therefore ignores repeated dates (RFC 9110, 13.1.3).
 */
static const char *join_values(weft_http_request *r, const char *before, const char *value)
{
    if (before == NULL)
        return value;
    size_t bytes = strlen(before) + strlen(value) + sizeof ", ";
    char *both = weft_http_alloc(r, bytes);
    if (both == NULL)
        return before;
    snprintf(both, bytes, "%s, %s", before, value);
    return both;
}

static void conditional_add_field(weft_http_request *r, weft__conditional *c, const char *name,
                                  const char *value)
{
    if (strcasecmp(name, "If-None-Match") == 0)
        c->if_none_match = join_values(r, c->if_none_match, value);
    else if (strcasecmp(name, "If-Match") == 0)
        c->if_match = join_values(r, c->if_match, value);
    else if (strcasecmp(name, "If-Modified-Since") == 0)
        c->if_modified_since = join_values(r, c->if_modified_since, value);
    else if (strcasecmp(name, "If-Unmodified-Since") == 0)
        c->if_unmodified_since = join_values(r, c->if_unmodified_since, value);
    else if (strcasecmp(name, "If-Range") == 0)
        c->if_range = join_values(r, c->if_range, value);
}

static void file_request_read(weft_http_request *r, const weft__file *file, file_request *w)
{
    const char *name, *value;
    *w = (file_request){.conditional = {.method = r->method,
                                        .etag = file->etag,
                                        .mtime = file->status.st_mtim.tv_sec}};
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++) {
        if (strncasecmp(name, "If-", 3) == 0)
            conditional_add_field(r, &w->conditional, name, value);
        else if (w->range == NULL && strcasecmp(name, "Range") == 0)
            w->range = value;
    }
    if (w->conditional.if_range != NULL)
        w->conditional.now = time(NULL);
}

/* Decide whether the server would compress the whole file. */
static weft__gzip_choice file_gzip_choice(const weft_http_request *r, const weft__file *file,
                                          const char *cache_control)
{
    const weft__gzip_candidate whole = {
        .status = 200,
        .length = file->status.st_size,
        .type = file->type,
        .encoding = file->encoding,
        .cache_control = cache_control,
        .accept = weft_http_header(r, "Accept-Encoding"),
    };
    bool is_enabled = r->server->options.gzip_level > 0;
    return is_enabled ? weft__gzip_choose(&whole) : WEFT__GZIP_NEVER;
}

/*
 * Set the ETag that a 200 would have (RFC 9110, 15.4.5). The ETag is weak if the server would
 * compress the body.
 */
static int set_304_etag(weft_http_request *r, const weft__file *file, weft__gzip_choice choice)
{
    char weak[sizeof file->etag + 2];
    snprintf(weak, sizeof weak, "%s%s", choice == WEFT__GZIP_APPLIES ? "W/" : "", file->etag);
    return weft_http_set(r, "ETag", weak);
}

/* Set the headers that describe the version of the file, for replies with and without content. */
static int set_validators(weft_http_request *r, const weft__file *file, const char *cache_control,
                          weft__gzip_choice choice)
{
    int rc = weft_http_set(r, "ETag", file->etag);
    if (rc == 0)
        rc = weft_http_set(r, "Last-Modified", file->modified);
    if (rc == 0 && cache_control != NULL)
        rc = weft_http_set(r, "Cache-Control", cache_control);
    if (rc == 0 && (file->varies || choice != WEFT__GZIP_NEVER))
        rc = weft__reply_add_vary(r);
    return rc;
}

static int set_representation(weft_http_request *r, const weft__file *file, const char *type)
{
    int rc = weft_http_set(r, "Content-Type", type);
    if (rc == 0)
        rc = weft_http_set(r, "X-Content-Type-Options", "nosniff");
    return rc == 0 && file->encoding != NULL ? weft_http_set(r, "Content-Encoding", file->encoding)
                                             : rc;
}

/* Set the headers of replies with the file or a part of the file. */
static int set_content_fields(weft_http_request *r, const weft__file *file, const char *type)
{
    int rc = set_representation(r, file, type);
    return rc == 0 ? weft_http_set(r, "Accept-Ranges", "bytes") : rc;
}

static int send_file_bytes(weft_http_request *r, const weft__file *file, uint64_t first,
                           uint64_t bytes)
{
    if (bytes == 0 || r->is_bodiless)
        return 0;
    int64_t n = file->content != NULL ? weft_http_write(r, file->content + first, (size_t)bytes)
                                      : weft_http_send_file(r, file->fd, (off_t)first, bytes);
    return n < 0 ? (int)n : 0;
}

static int reply_whole(weft_http_request *r, const weft__file *file)
{
    uint64_t bytes = (uint64_t)file->status.st_size;
    int rc = set_content_fields(r, file, file->type);
    if (rc == 0)
        rc = weft_http_begin(r, 200, (int64_t)bytes);
    return rc == 0 ? send_file_bytes(r, file, 0, bytes) : rc;
}

int weft__file_reply_with_status(weft_http_request *r, const weft__file *file, int status)
{
    uint64_t bytes = (uint64_t)file->status.st_size;
    int rc = set_representation(r, file, file->type);
    if (rc == 0 && file->varies)
        rc = weft__reply_add_vary(r);
    if (rc == 0)
        rc = weft_http_begin(r, status, (int64_t)bytes);
    return rc == 0 ? send_file_bytes(r, file, 0, bytes) : rc;
}

/* "bytes 0-99/1000": 8 characters and 3 numbers of at most 20 digits. */
#define CONTENT_RANGE_BYTES 72

static void write_content_range(char text[CONTENT_RANGE_BYTES], const weft__range *range,
                                const weft__file *file)
{
    snprintf(text, CONTENT_RANGE_BYTES, "bytes %llu-%llu/%llu", (unsigned long long)range->first,
             (unsigned long long)(range->first + range->bytes - 1),
             (unsigned long long)file->status.st_size);
}

static int reply_part(weft_http_request *r, const weft__file *file, const weft__range *range)
{
    char text[CONTENT_RANGE_BYTES];
    write_content_range(text, range, file);
    int rc = set_content_fields(r, file, file->type);
    if (rc == 0)
        rc = weft_http_set(r, "Content-Range", text);
    if (rc == 0)
        rc = weft_http_begin(r, 206, (int64_t)range->bytes);
    return rc == 0 ? send_file_bytes(r, file, range->first, range->bytes) : rc;
}

/* Replies with several ranges. */

#define BOUNDARY_BYTES 33

/* Write a random boundary. The probability that a file contains the boundary is negligible. */
static void write_boundary(char text[BOUNDARY_BYTES])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) {
        struct timespec now; /* no entropy is available early after boot */
        clock_gettime(CLOCK_MONOTONIC, &now);
        random[0] = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15;
        random[1] = (uint64_t)(uintptr_t)text ^ (uint64_t)now.tv_sec;
    }
    snprintf(text, BOUNDARY_BYTES, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
}

/*
 * Write the head of a part. If range is NULL, write the end of the last part. Returns the same
 * value as snprintf(3).
 */
static int write_part_head(char *text, size_t capacity, const char *boundary,
                           const weft__file *file, const weft__range *range)
{
    char content_range[CONTENT_RANGE_BYTES];
    if (range == NULL)
        return snprintf(text, capacity, "\r\n--%s--\r\n", boundary);
    write_content_range(content_range, range, file);
    return snprintf(text, capacity, "\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n",
                    boundary, file->type, content_range);
}

static uint64_t parts_bytes(const weft__file *file, const weft__ranges *ranges,
                            const char *boundary)
{
    uint64_t bytes = (uint64_t)write_part_head(NULL, 0, boundary, file, NULL);
    for (size_t i = 0; i < ranges->count; i++)
        bytes += (uint64_t)write_part_head(NULL, 0, boundary, file, &ranges->at[i]) +
                 ranges->at[i].bytes;
    return bytes;
}

static int send_part_head(weft_http_request *r, const char *boundary, const weft__file *file,
                          const weft__range *range)
{
    char text[512];
    int bytes = write_part_head(text, sizeof text, boundary, file, range);
    if (bytes < 0 || bytes >= (int)sizeof text)
        return -EINVAL; /* the type is too long */
    ssize_t n = weft_http_write(r, text, (size_t)bytes);
    return n < 0 ? (int)n : 0;
}

static int reply_parts(weft_http_request *r, const weft__file *file, const weft__ranges *ranges)
{
    char boundary[BOUNDARY_BYTES], type[BOUNDARY_BYTES + sizeof "multipart/byteranges; boundary="];
    write_boundary(boundary);
    snprintf(type, sizeof type, "multipart/byteranges; boundary=%s", boundary);
    int rc = set_content_fields(r, file, type);
    if (rc == 0)
        rc = weft_http_begin(r, 206, (int64_t)parts_bytes(file, ranges, boundary));
    for (size_t i = 0; rc == 0 && i < ranges->count; i++) {
        rc = send_part_head(r, boundary, file, &ranges->at[i]);
        if (rc == 0)
            rc = send_file_bytes(r, file, ranges->at[i].first, ranges->at[i].bytes);
    }
    return rc == 0 ? send_part_head(r, boundary, file, NULL) : rc;
}

static int reply_unsatisfiable(weft_http_request *r, const weft__file *file)
{
    char text[CONTENT_RANGE_BYTES];
    snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)file->status.st_size);
    int rc = weft_http_set(r, "Content-Range", text);
    return rc == 0 ? weft_http_reply_status(r, 416) : rc;
}

/* Parse the ranges. Returns the status of the reply: 200, 206 or 416. */
static int choose_ranges(const file_request *w, const weft__file *file, weft__ranges *ranges)
{
    ranges->count = 0;
    if (w->range == NULL || !weft__conditional_allows_range(&w->conditional))
        return 200;
    return weft__ranges_parse(ranges, w->range, (uint64_t)file->status.st_size);
}

int weft__file_reply(weft_http_request *r, const weft__file *file, const char *cache_control)
{
    file_request w;
    weft__ranges ranges;
    file_request_read(r, file, &w);
    int status = weft__conditional_check(&w.conditional);
    if (status == 412)
        return weft_http_reply_status(r, 412);
    weft__gzip_choice choice = file_gzip_choice(r, file, cache_control);
    int rc = set_validators(r, file, cache_control, choice);
    if (rc == 0 && status == 304)
        rc = set_304_etag(r, file, choice);
    if (rc < 0 || status == 304)
        return rc < 0 ? rc : weft_http_reply(r, 304, NULL, NULL, 0);
    status = choose_ranges(&w, file, &ranges);
    if (status == 416)
        return reply_unsatisfiable(r, file);
    if (status == 200)
        return reply_whole(r, file);
    return ranges.count == 1 ? reply_part(r, file, &ranges.at[0]) : reply_parts(r, file, &ranges);
}
