/*
 * Pages for errors. A page is a file of a served directory, which is the directory of the file. The
 * lookups and their cache are therefore those of served files. Without a page, browsers get a short
 * HTML page, and other clients a text.
 */
#include "http/files/files.h"
#include "http/reply/reply.h"
#include "http/text/status.h"

#include <weft/error.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct error_page {
    int first, last; /* the statuses of the page */
    weft_http_files *dir;
    char *name; /* below dir */
} error_page;

struct weft_http_error_pages {
    size_t count;
    error_page at[]; /* pages for one status first */
};

/*
 * Creating.
 */

static int page_check(const weft_http_error_page *pages, size_t index)
{
    int status = pages[index].status;
    if (status != 4 && status != 5 && (status < 400 || status > 599))
        return weft_fail(-EINVAL, "weft_http_error_pages_new: status is %d", status);
    if (pages[index].file == NULL || pages[index].file[0] == '\0')
        return weft_fail(-EINVAL, "weft_http_error_pages_new: the page of %d has no file", status);
    for (size_t i = 0; i < index; i++)
        if (pages[i].status == status)
            return weft_fail(-EEXIST, "weft_http_error_pages_new: %d has two pages", status);
    return 0;
}

/* Open the directory of a file. The program has named the file, so all links are allowed. */
static int page_open_dir(error_page *page, const char *file)
{
    static const weft_http_files_options options = {.has_outside_links = true};
    const char *slash = strrchr(file, '/');
    size_t bytes = slash != NULL ? (size_t)(slash - file) + 1 : 0;
    char *dir = bytes > 0 ? strndup(file, bytes) : strdup(".");
    page->name = strdup(file + bytes);
    int rc = dir != NULL && page->name != NULL ? 0 : -ENOMEM;
    if (rc == 0) {
        page->dir = weft_http_files_new(dir, &options);
        rc = page->dir != NULL ? 0 : weft_error()->code;
    }
    free(dir);
    return rc;
}

/* Find a page. Return 0, or an error if the page is not a regular file. */
static int page_find(const error_page *page, weft__file_lookup **found)
{
    int rc = weft__files_find(page->dir, page->name, found);
    if (rc < 0 || (*found)->kind == WEFT__LOOKUP_FILE)
        return rc;
    weft__files_cache_put(&page->dir->cache, *found);
    return -ENOENT;
}

static int page_open(error_page *page, const weft_http_error_page *given)
{
    weft__file_lookup *found;
    int status = given->status;
    page->first = status < 400 ? status * 100 : status;
    page->last = status < 400 ? status * 100 + 99 : status;
    int rc = page_open_dir(page, given->file);
    if (rc == 0)
        rc = page_find(page, &found);
    if (rc < 0)
        return weft_fail(rc, "error page %s: %s", given->file, strerror(-rc));
    weft__files_cache_put(&page->dir->cache, found);
    return 0;
}

weft_http_error_pages *weft_http_error_pages_new(const weft_http_error_page *pages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (page_check(pages, i) < 0)
            return NULL;
    weft_http_error_pages *p = calloc(1, sizeof *p + count * sizeof *p->at);
    if (p == NULL) {
        weft_fail(-ENOMEM, "weft_http_error_pages_new: memory is exhausted");
        return NULL;
    }
    for (int is_class = 0; is_class <= 1; is_class++)
        for (size_t i = 0; i < count; i++)
            if ((pages[i].status < 400) == is_class &&
                page_open(&p->at[p->count++], &pages[i]) < 0) {
                weft_http_error_pages_free(p);
                return NULL;
            }
    return p;
}

void weft_http_error_pages_free(weft_http_error_pages *pages)
{
    for (size_t i = 0; pages != NULL && i < pages->count; i++) {
        weft_http_files_free(pages->at[i].dir);
        free(pages->at[i].name);
    }
    free(pages);
}

/*
 * Replying.
 */

/* A sentence for people that see the built-in page. */
static const char *advice_of(int status)
{
    switch (status) {
    case 403:
        return "You do not have access to this page.";
    case 404:
        return "This page does not exist. Check the address.";
    case 429:
        return "You have sent too many requests. Wait a moment and try again.";
    case 502:
    case 503:
    case 504:
        return "The site is not available at the moment. Try again in a few minutes.";
    default:
        return status >= 500 ? "The server cannot handle the request. Try again later."
                             : "The server does not accept this request.";
    }
}

#define BUILT_IN_BYTES 1536

static int reply_built_in(weft_http_request *r, int status)
{
    static const char format[] =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>%d %s</title>\n<style>\n"
        ":root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }\n"
        "body { margin: 0; min-height: 100vh; display: grid; place-items: center; }\n"
        "main { padding: 2rem; max-width: 32rem; }\n"
        "h1 { margin: 0; font-size: 1.5rem; }\n"
        "h1 b { display: block; font-size: 4rem; line-height: 1; font-weight: 200; }\n"
        "p { margin: 1rem 0; }\n</style>\n</head>\n<body>\n<main>\n"
        "<h1><b>%d</b> %s</h1>\n<p>%s</p>\n</main>\n</body>\n</html>\n";
    char *page = weft_http_alloc(r, BUILT_IN_BYTES);
    const char *text = weft__status_text(status);
    if (page == NULL)
        return -ENOMEM;
    int n = snprintf(page, BUILT_IN_BYTES, format, status, text, status, text, advice_of(status));
    return weft_http_reply(r, status, "text/html; charset=utf-8", page, (size_t)n);
}

/* Reply with a page of the program. Return 1, 0 if the page does not exist, or an error. */
static int reply_page(weft_http_request *r, int status, const weft_http_error_pages *pages)
{
    weft__file_lookup *found;
    size_t i = 0;
    while (pages != NULL && i < pages->count &&
           (status < pages->at[i].first || status > pages->at[i].last))
        i++;
    if (pages == NULL || i == pages->count || page_find(&pages->at[i], &found) < 0)
        return 0;
    int rc = weft__file_reply_with_status(r, weft__file_lookup_choose(r, found), status);
    weft__files_cache_put(&pages->at[i].dir->cache, found);
    return rc < 0 ? rc : 1;
}

int weft_http_reply_error_page(weft_http_request *request, int status, void *pages)
{
    int rc = reply_page(request, status, pages);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = weft_http_add(request, "Vary", "Accept");
    if (rc < 0)
        return rc;
    if (weft__accept_html(weft_http_header(request, "Accept")))
        return reply_built_in(request, status);
    return weft_http_reply_text(request, status, "%d %s\n", status, weft__status_text(status));
}
