/* The page that lists a folder: read, sorted and written by the thread that looked it up. */
#include "http/files.h"
#include "http/server.h"

#include <weft/url.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct entry {
    char *name;
    bool is_folder;
    off_t bytes;
    time_t modified;
} entry;

typedef struct listing {
    entry *entries;
    size_t count, room;
    bool is_cut; /* there are more */
} listing;

/*
 * Reading.
 */

/* What a name is, or leads to; a link only as far as it would be served. */
static int status_of(const weft__found *f, int folder, const char *name, struct stat *out)
{
    char path[PATH_MAX];
    if (fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISLNK(out->st_mode))
        return 0;
    if ((size_t)snprintf(path, sizeof path, "%s%s", f->name, name) >= sizeof path)
        return -ENAMETOOLONG;
    int fd = weft__beneath_open(f->files->root, path, O_PATH, f->files->kind, false);
    int rc = fd < 0 ? fd : fstat(fd, out) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make_room(listing *l)
{
    if (l->count < l->room)
        return 0;
    size_t room = l->room > 0 ? 2 * l->room : 64;
    entry *entries = realloc(l->entries, room * sizeof *entries);
    if (entries == NULL)
        return -ENOMEM;
    l->entries = entries;
    l->room = room;
    return 0;
}

/* What is neither file nor folder could not be had, and is left out. */
static int add_entry(listing *l, const weft__found *f, int folder, const char *name)
{
    struct stat status;
    bool is_hidden = name[0] == '.' && !f->files->options.has_hidden;
    if (is_hidden || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (status_of(f, folder, name, &status) < 0 ||
        (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return 0;
    l->is_cut = l->count == WEFT__LIST_MAX;
    if (l->is_cut)
        return 0;
    int rc = make_room(l);
    char *copy = rc == 0 ? strdup(name) : NULL;
    if (copy == NULL)
        return -ENOMEM;
    l->entries[l->count++] =
        (entry){copy, S_ISDIR(status.st_mode), status.st_size, status.st_mtim.tv_sec};
    return 0;
}

static int read_folder(listing *l, const weft__found *f, DIR *dir)
{
    int rc = 0;
    const struct dirent *next;
    errno = 0;
    while (rc == 0 && !l->is_cut && (next = readdir(dir)) != NULL) {
        rc = add_entry(l, f, dirfd(dir), next->d_name);
        errno = 0;
    }
    return rc == 0 && errno != 0 ? -errno : rc;
}

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->is_folder != y->is_folder)
        return x->is_folder ? -1 : 1;
    int rc = strcasecmp(x->name, y->name);
    return rc != 0 ? rc : strcmp(x->name, y->name);
}

/*
 * Writing. A stream in memory notes its errors, which are asked for at the end.
 */

static void put_text(FILE *page, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", page);
            break;
        case '<':
            fputs("&lt;", page);
            break;
        case '>':
            fputs("&gt;", page);
            break;
        case '"':
            fputs("&quot;", page);
            break;
        case '\'':
            fputs("&#39;", page);
            break;
        default:
            fputc(*text, page);
        }
    }
}

static void put_size(FILE *page, off_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    fprintf(page, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
}

/* The link begins with "./": a name with a colon is not to be taken for a scheme. */
static void put_entry(FILE *page, const entry *e)
{
    char link[3 * NAME_MAX + 1], date[32] = "";
    const char *slash = e->is_folder ? "/" : "";
    struct tm when;
    weft_url_encode(link, sizeof link, e->name);
    if (gmtime_r(&e->modified, &when) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &when);
    fprintf(page, "<tr><td><a href=\"./%s%s\">", link, slash);
    put_text(page, e->name);
    fprintf(page, "%s</a></td><td>", slash);
    if (!e->is_folder)
        put_size(page, e->bytes);
    fprintf(page, "</td><td>%s</td></tr>\n", date);
}

static void put_page(FILE *page, const weft__found *f, const listing *l)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n<title>/",
          page);
    put_text(page, f->name);
    fputs("</title>\n<style>\nbody { font: 1rem sans-serif; margin: 2rem; }\n"
          "td { padding: 0.1rem 2rem 0.1rem 0; }\n"
          "td + td { text-align: right; color: #555; }\n</style>\n</head>\n<body>\n<h1>/",
          page);
    put_text(page, f->name);
    fputs("</h1>\n<table>\n", page);
    if (f->name[0] != '\0')
        fputs("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n", page);
    for (size_t i = 0; i < l->count; i++)
        put_entry(page, &l->entries[i]);
    fputs("</table>\n", page);
    if (l->is_cut)
        fprintf(page, "<p>There are more than %d.</p>\n", WEFT__LIST_MAX);
    fputs("</body>\n</html>\n", page);
}

static int write_page(weft__found *f, const listing *l)
{
    FILE *page = open_memstream(&f->page, &f->page_bytes);
    if (page == NULL)
        return -ENOMEM;
    put_page(page, f, l);
    bool has_failed = ferror(page) != 0;
    return fclose(page) != 0 || has_failed ? -ENOMEM : 0;
}

int weft__found_list(weft__found *found, int folder)
{
    listing l = {0};
    DIR *dir = fdopendir(folder);
    if (dir == NULL) {
        int rc = -errno;
        close(folder);
        return rc;
    }
    int rc = read_folder(&l, found, dir);
    closedir(dir);
    if (rc == 0) {
        if (l.count > 0)
            qsort(l.entries, l.count, sizeof *l.entries, compare);
        rc = write_page(found, &l);
    }
    for (size_t i = 0; i < l.count; i++)
        free(l.entries[i].name);
    free(l.entries);
    return rc;
}

int weft__found_reply_list(weft_http_request *request, const weft__found *found)
{
    const char *caching = found->files->options.cache_control;
    int rc = caching != NULL ? weft_http_set(request, "Cache-Control", caching) : 0;
    if (rc < 0)
        return rc;
    return weft_http_reply(request, 200, "text/html; charset=utf-8", found->page,
                           found->page_bytes);
}
