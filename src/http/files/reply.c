/*
 * A file as a reply: what is said about it, whether the client has it already, which parts of it it
 * wants. What is announced is sent, or the connection is cut: a file that shrinks meanwhile is
 * never padded.
 */
#include "http/condition.h"
#include "http/files.h"
#include "http/range.h"
#include "http/server.h"

#include <stdio.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

/* What a client wants of a file. */
typedef struct wish {
    weft__condition condition;
    const char *range;
} wish;

/* Several lines of a list are one list; of a date they are none any more (RFC 9110, 13.1.3). */
static const char *joined(weft_http_request *r, const char *before, const char *value)
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

static void note_condition(weft_http_request *r, weft__condition *c, const char *name,
                           const char *value)
{
    if (strcasecmp(name, "If-None-Match") == 0)
        c->if_none_match = joined(r, c->if_none_match, value);
    else if (strcasecmp(name, "If-Match") == 0)
        c->if_match = joined(r, c->if_match, value);
    else if (strcasecmp(name, "If-Modified-Since") == 0)
        c->if_modified_since = joined(r, c->if_modified_since, value);
    else if (strcasecmp(name, "If-Unmodified-Since") == 0)
        c->if_unmodified_since = joined(r, c->if_unmodified_since, value);
    else if (strcasecmp(name, "If-Range") == 0)
        c->if_range = joined(r, c->if_range, value);
}

static void read_wish(weft_http_request *r, const weft__file *file, wish *w)
{
    const char *name, *value;
    *w = (wish){.condition = {
                    .method = r->method, .etag = file->etag, .mtime = file->status.st_mtim.tv_sec}};
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++) {
        if (strncasecmp(name, "If-", 3) == 0)
            note_condition(r, &w->condition, name, value);
        else if (w->range == NULL && strcasecmp(name, "Range") == 0)
            w->range = value;
    }
    if (w->condition.if_range != NULL)
        w->condition.now = time(NULL);
}

/* Whether the server would compress it on its way. */
static weft__gzip_choice gzip_choice(const weft_http_request *r, const weft__file *file,
                                     const char *cache_control)
{
    const weft__gzip_case whole = {
        .status = 200,
        .length = file->status.st_size,
        .type = file->type,
        .encoding = file->encoding,
        .cache_control = cache_control,
        .accept = weft_http_header(r, "Accept-Encoding"),
    };
    bool can = r->conn->server->options.gzip_level > 0;
    return can ? weft__gzip_choose(&whole) : WEFT__GZIP_NEVER;
}

/* A 304 has the headers that a 200 would have: the tag of what would be compressed is weak. */
static int set_unchanged(weft_http_request *r, const weft__file *file, weft__gzip_choice choice)
{
    char weak[sizeof file->etag + 2];
    snprintf(weak, sizeof weak, "%s%s", choice == WEFT__GZIP_APPLIES ? "W/" : "", file->etag);
    return weft_http_set(r, "ETag", weak);
}

/* What is said of it whether it is sent or not. */
static int set_about(weft_http_request *r, const weft__file *file, const char *cache_control,
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

/* What is said of it when it is sent, or a part of it. */
static int set_sent(weft_http_request *r, const weft__file *file, const char *type)
{
    int rc = weft_http_set(r, "Content-Type", type);
    if (rc == 0)
        rc = weft_http_set(r, "X-Content-Type-Options", "nosniff");
    if (rc == 0 && file->encoding != NULL)
        rc = weft_http_set(r, "Content-Encoding", file->encoding);
    return rc == 0 ? weft_http_set(r, "Accept-Ranges", "bytes") : rc;
}

static int send_bytes(weft_http_request *r, const weft__file *file, uint64_t first, uint64_t bytes)
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
    int rc = set_sent(r, file, file->type);
    if (rc == 0)
        rc = weft_http_begin(r, 200, (int64_t)bytes);
    return rc == 0 ? send_bytes(r, file, 0, bytes) : rc;
}

/* "bytes 0-99/1000": 8 characters and three numbers of at most 20 digits. */
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
    int rc = set_sent(r, file, file->type);
    if (rc == 0)
        rc = weft_http_set(r, "Content-Range", text);
    if (rc == 0)
        rc = weft_http_begin(r, 206, (int64_t)range->bytes);
    return rc == 0 ? send_bytes(r, file, range->first, range->bytes) : rc;
}

/*
 * Several parts.
 */

#define BOUNDARY_BYTES 33

/* What no file has in it, as nobody knew it before. */
static void write_boundary(char text[BOUNDARY_BYTES])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) {
        struct timespec now; /* early after boot */
        clock_gettime(CLOCK_MONOTONIC, &now);
        random[0] = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15;
        random[1] = (uint64_t)(uintptr_t)text ^ (uint64_t)now.tv_sec;
    }
    snprintf(text, BOUNDARY_BYTES, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
}

/* What stands before a part; without one, behind the last. As snprintf. */
static int write_part_head(char *text, size_t room, const char *boundary, const weft__file *file,
                           const weft__range *range)
{
    char about[CONTENT_RANGE_BYTES];
    if (range == NULL)
        return snprintf(text, room, "\r\n--%s--\r\n", boundary);
    write_content_range(about, range, file);
    return snprintf(text, room, "\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n",
                    boundary, file->type, about);
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
        return -EINVAL; /* a type as long as that is none */
    ssize_t n = weft_http_write(r, text, (size_t)bytes);
    return n < 0 ? (int)n : 0;
}

static int reply_parts(weft_http_request *r, const weft__file *file, const weft__ranges *ranges)
{
    char boundary[BOUNDARY_BYTES], type[BOUNDARY_BYTES + sizeof "multipart/byteranges; boundary="];
    write_boundary(boundary);
    snprintf(type, sizeof type, "multipart/byteranges; boundary=%s", boundary);
    int rc = set_sent(r, file, type);
    if (rc == 0)
        rc = weft_http_begin(r, 206, (int64_t)parts_bytes(file, ranges, boundary));
    for (size_t i = 0; rc == 0 && i < ranges->count; i++) {
        rc = send_part_head(r, boundary, file, &ranges->at[i]);
        if (rc == 0)
            rc = send_bytes(r, file, ranges->at[i].first, ranges->at[i].bytes);
    }
    return rc == 0 ? send_part_head(r, boundary, file, NULL) : rc;
}

static int reply_no_part(weft_http_request *r, const weft__file *file)
{
    char text[CONTENT_RANGE_BYTES];
    snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)file->status.st_size);
    int rc = weft_http_set(r, "Content-Range", text);
    return rc == 0 ? weft_http_reply_status(r, 416) : rc;
}

/* With what of it, 200, 206 or 416. */
static int choose_parts(const wish *w, const weft__file *file, weft__ranges *ranges)
{
    ranges->count = 0;
    if (w->range == NULL || !weft__condition_allows_range(&w->condition))
        return 200;
    return weft__ranges_parse(ranges, w->range, (uint64_t)file->status.st_size);
}

int weft__file_reply(weft_http_request *r, const weft__file *file, const char *cache_control)
{
    wish w;
    weft__ranges ranges;
    read_wish(r, file, &w);
    int status = weft__condition_check(&w.condition);
    if (status == 412)
        return weft_http_reply_status(r, 412);
    weft__gzip_choice choice = gzip_choice(r, file, cache_control);
    int rc = set_about(r, file, cache_control, choice);
    if (rc == 0 && status == 304)
        rc = set_unchanged(r, file, choice);
    if (rc < 0 || status == 304)
        return rc < 0 ? rc : weft_http_reply(r, 304, NULL, NULL, 0);
    status = choose_parts(&w, file, &ranges);
    if (status == 416)
        return reply_no_part(r, file);
    if (status == 200)
        return reply_whole(r, file);
    return ranges.count == 1 ? reply_part(r, file, &ranges.at[0]) : reply_parts(r, file, &ranges);
}
