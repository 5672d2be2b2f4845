/*
 * The HTML page of a listing. The server writes the page in parts. Other fibers run between two
 * parts, so a large directory does not delay other clients.
 */
#include "http/files/files.h"
#include "http/server/server.h"

#include <weft/fiber.h>
#include <weft/url.h>

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* The size of a part. */
#define PART_BYTES ((size_t)8 << 10)
/* The maximum length of one formatted text. */
#define TEXT_BYTES_MAX ((size_t)2 << 10)

/* The part that is being written. */
typedef struct page {
    weft_http_request *request;
    char *bytes; /* PART_BYTES long */
    size_t count;
    int error; /* the error of a write; the page discards further text; 0: none */
} page;

/* Write the part to the reply, and switch to other fibers. */
static void page_flush(page *p)
{
    if (p->count == 0 || p->error < 0)
        return;
    ssize_t n = weft_http_write(p->request, p->bytes, p->count);
    p->count = 0;
    p->error = n < 0 ? (int)n : weft_snooze();
}

/* Flush the part if it has no space for this number of bytes. */
static void page_reserve(page *p, size_t bytes)
{
    if (PART_BYTES - p->count < bytes)
        page_flush(p);
    p->count = p->error < 0 ? 0 : p->count;
}

static void page_put(page *p, const char *text)
{
    size_t bytes = strlen(text);
    page_reserve(p, bytes);
    memcpy(p->bytes + p->count, text, bytes);
    p->count += bytes;
}

static void __attribute__((format(printf, 2, 3))) page_printf(page *p, const char *format, ...)
{
    va_list args;
    page_reserve(p, TEXT_BYTES_MAX);
    va_start(args, format);
    int n = vsnprintf(p->bytes + p->count, TEXT_BYTES_MAX, format, args);
    va_end(args);
    p->count += n > 0 && (size_t)n < TEXT_BYTES_MAX ? (size_t)n : 0;
}

static const char *html_escape_of(char c)
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

static void page_put_escaped(page *p, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *escape = html_escape_of(*text);
        page_put(p, escape != NULL ? escape : (char[]){*text, '\0'});
    }
}

static void page_put_size(page *p, off_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    if (unit == 0)
        page_printf(p, "%.0f %s", size, units[unit]);
    else
        page_printf(p, "%.1f %s", size, units[unit]);
}

/* Start the link with "./". Otherwise browsers would interpret a name with a colon as a scheme. */
static void page_put_entry(page *p, const weft__listing_entry *e)
{
    char link[3 * NAME_MAX + 1], date[32] = "";
    const char *slash = e->is_dir ? "/" : "";
    struct tm when;
    weft_url_encode(link, sizeof link, e->name);
    if (gmtime_r(&e->modified, &when) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &when);
    page_printf(p, "<tr><td><a href=\"./%s%s\">", link, slash);
    page_put_escaped(p, e->name);
    page_printf(p, "%s</a></td><td>", slash);
    if (!e->is_dir)
        page_put_size(p, e->bytes);
    page_printf(p, "</td><td>%s</td></tr>\n", date);
}

static void page_put_listing(page *p, const weft__file_lookup *f)
{
    const weft__listing *l = &f->listing;
    page_put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<title>/");
    page_put_escaped(p, f->name);
    page_put(p, "</title>\n<style>\n"
                ":root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }\n"
                "body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }\n"
                "h1 { font-size: 1.25rem; overflow-wrap: anywhere; }\n"
                "table { width: 100%; border-collapse: collapse; }\n"
                "th, td { text-align: right; white-space: nowrap; padding: 0.2rem 0 0.2rem 1rem;\n"
                "  font-variant-numeric: tabular-nums; }\n"
                "th:first-child, td:first-child { text-align: left; white-space: normal;\n"
                "  overflow-wrap: anywhere; padding-left: 0; }\n"
                "th { font-weight: 400; opacity: 0.7; }\n"
                "</style>\n</head>\n<body>\n<h1>/");
    page_put_escaped(p, f->name);
    page_put(p, "</h1>\n<table>\n<thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th>"
                "<th scope=\"col\">Modified (UTC)</th></tr></thead>\n<tbody>\n");
    if (f->name[0] != '\0')
        page_put(p, "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    for (size_t i = 0; i < l->count && p->error == 0; i++)
        page_put_entry(p, &l->entries[i]);
    page_put(p, "</tbody>\n</table>\n");
    if (l->total > l->count)
        page_printf(p, "<p>This page lists the first %zu of %zu names.</p>\n", l->count, l->total);
    page_put(p, "</body>\n</html>\n");
    page_flush(p);
}

int weft__file_lookup_reply_listing(weft_http_request *request, const weft__file_lookup *found)
{
    const char *caching = found->cache_control;
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
    page_put_listing(&p, found);
    return p.error < 0 ? p.error : weft_http_end(request);
}
