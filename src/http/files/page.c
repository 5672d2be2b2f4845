/*
 * The page that lists a folder. It is written in parts, and other fibers run in between: a folder
 * of any size delays no other client.
 */
#include "http/files.h"
#include "http/server.h"

#include <weft/fiber.h>
#include <weft/url.h>

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* Bytes that are written before other fibers run. */
#define PART_BYTES ((size_t)8 << 10)
/* The most bytes of one formatted text. */
#define TEXT_BYTES_MAX ((size_t)2 << 10)

/* A part of the page in the making. */
typedef struct page {
    weft_http_request *request;
    char *bytes;
    size_t count;
    int error; /* why nothing more is written; 0: more is */
} page;

/* Send what there is, and let others run. */
static void send_part(page *p)
{
    if (p->count == 0 || p->error < 0)
        return;
    ssize_t n = weft_http_write(p->request, p->bytes, p->count);
    p->count = 0;
    p->error = n < 0 ? (int)n : weft_snooze();
}

/* Make room for so many bytes. */
static void page_reserve(page *p, size_t bytes)
{
    if (PART_BYTES - p->count < bytes)
        send_part(p);
    p->count = p->error < 0 ? 0 : p->count;
}

static void put(page *p, const char *text)
{
    size_t bytes = strlen(text);
    page_reserve(p, bytes);
    memcpy(p->bytes + p->count, text, bytes);
    p->count += bytes;
}

static void __attribute__((format(printf, 2, 3))) put_format(page *p, const char *format, ...)
{
    va_list args;
    page_reserve(p, TEXT_BYTES_MAX);
    va_start(args, format);
    int n = vsnprintf(p->bytes + p->count, TEXT_BYTES_MAX, format, args);
    va_end(args);
    p->count += n > 0 && (size_t)n < TEXT_BYTES_MAX ? (size_t)n : 0;
}

static const char *escape_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static void put_text(page *p, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *escape = escape_of(*text);
        put(p, escape != NULL ? escape : (char[]){*text, '\0'});
    }
}

static void put_size(page *p, off_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    if (unit == 0)
        put_format(p, "%.0f %s", size, units[unit]);
    else
        put_format(p, "%.1f %s", size, units[unit]);
}

/* The link begins with "./": a name with a colon is not to be taken for a scheme. */
static void put_entry(page *p, const weft__entry *e)
{
    char link[3 * NAME_MAX + 1], date[32] = "";
    const char *slash = e->is_folder ? "/" : "";
    struct tm when;
    weft_url_encode(link, sizeof link, e->name);
    if (gmtime_r(&e->modified, &when) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &when);
    put_format(p, "<tr><td><a href=\"./%s%s\">", link, slash);
    put_text(p, e->name);
    put_format(p, "%s</a></td><td>", slash);
    if (!e->is_folder)
        put_size(p, e->bytes);
    put_format(p, "</td><td>%s</td></tr>\n", date);
}

static void put_page(page *p, const weft__found *f)
{
    const weft__listing *l = &f->listing;
    put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width\">\n<title>/");
    put_text(p, f->name);
    put(p, "</title>\n<style>\nbody { font: 1rem sans-serif; margin: 2rem; }\n"
           "td { padding: 0.1rem 2rem 0.1rem 0; }\n"
           "td + td { text-align: right; color: #555; }\n</style>\n</head>\n<body>\n<h1>/");
    put_text(p, f->name);
    put(p, "</h1>\n<table>\n");
    if (f->name[0] != '\0')
        put(p, "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    for (size_t i = 0; i < l->count && p->error == 0; i++)
        put_entry(p, &l->entries[i]);
    put(p, "</table>\n");
    if (l->total > l->count)
        put_format(p, "<p>These are the first %zu of %zu names, in this order.</p>\n", l->count,
                   l->total);
    put(p, "</body>\n</html>\n");
    send_part(p);
}

int weft__found_reply_list(weft_http_request *request, const weft__found *found)
{
    const char *caching = found->files->options.cache_control;
    page p = {.request = request, .bytes = weft_http_alloc(request, PART_BYTES)};
    int rc = p.bytes == NULL ? -ENOMEM : 0;
    if (rc == 0 && caching != NULL)
        rc = weft_http_set(request, "Cache-Control", caching);
    if (rc == 0)
        rc = weft_http_set(request, "Content-Type", "text/html; charset=utf-8");
    if (rc == 0)
        rc = weft_http_begin(request, 200, -1);
    if (rc < 0)
        return rc;
    put_page(&p, found);
    return p.error < 0 ? p.error : weft_http_end(request);
}
