/* The handler for served directories: options, lookups and their cache, redirects. */
#include "http/files/files.h"
#include "http/server/server.h"
#include "http/text/field.h"
#include "http/url/path.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>
#include <weft/offload.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *copy_or_null(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static int files_set_options(weft_http_files *files, const weft_http_files_options *options)
{
    weft_http_files_options *o = &files->options;
    if (options != NULL)
        *o = *options;
    const char *index = o->index != NULL ? o->index : "index.html", *caching = o->cache_control;
    const weft_http_files_options given = *o;
    o->index = o->cache_control = NULL;
    o->cache_rules = NULL;
    o->cache_rules_count = 0;
    if (index[0] == '\0' || strchr(index, '/') != NULL)
        return weft_fail(-EINVAL, "weft_http_files_new: index is \"%s\"", index);
    if (caching != NULL && !weft__field_is_value(caching, strlen(caching)))
        return weft_fail(-EINVAL, "weft_http_files_new: cache_control has an invalid character");
    o->index = copy_or_null(index);
    o->cache_control = copy_or_null(caching);
    if (o->index == NULL || (caching != NULL && o->cache_control == NULL))
        return -ENOMEM;
    int rc = weft__cache_rules_copy(&given, &o->cache_rules);
    o->cache_rules_count = o->cache_rules != NULL ? given.cache_rules_count : 0;
    return rc;
}

/* Return the absolute path of a directory. The program may change its current directory later. */
static char *absolute_path(const char *dir)
{
    char *cwd = dir[0] != '/' ? getcwd(NULL, 0) : NULL, *path = NULL;
    if (cwd == NULL)
        return strdup(dir);
    if (asprintf(&path, "%s/%s", cwd, dir) < 0)
        path = NULL;
    free(cwd);
    return path;
}

weft_http_files *weft_http_files_new(const char *dir, const weft_http_files_options *options)
{
    weft_http_files *files = calloc(1, sizeof *files);
    int rc = -ENOMEM;
    if (files == NULL)
        goto failed;
    atomic_init(&files->refs, 1);
    weft__files_cache_open(&files->cache);
    files->dir = absolute_path(dir);
    rc = files->dir != NULL ? files_set_options(files, options) : -ENOMEM;
    if (rc == 0)
        rc = weft__files_open_root(files);
    if (rc == 0)
        return files;
    weft_http_files_free(files);
failed:
    if (rc == -ENOMEM)
        weft_fail(rc, "weft_http_files_new: memory is exhausted, dir is %s", dir);
    return NULL;
}

void weft__files_unref(weft_http_files *files)
{
    if (atomic_fetch_sub(&files->refs, 1) > 1)
        return;
    weft__files_root_put(files->root);
    free(files->dir);
    pthread_mutex_destroy(&files->cache.lock);
    free((char *)(uintptr_t)files->options.index);
    free((char *)(uintptr_t)files->options.cache_control);
    weft__cache_rules_free(files->options.cache_rules, files->options.cache_rules_count);
    free(files);
}

void weft_http_files_free(weft_http_files *files)
{
    if (files == NULL)
        return;
    weft__files_cache_empty(&files->cache);
    weft__files_unref(files);
}

/*
 * Lookups.
 */

static weft_value look_up_blocking(void *found)
{
    return weft__file_lookup_run(found, false);
}

/*
 * Run a lookup in the calling thread if the lookup does not access the disk. Otherwise run the
 * lookup in a worker. If the call is cancelled, the worker frees the lookup, and *found is NULL.
 */
static int look_up_once(weft__file_lookup **found)
{
    bool has_ended = true;
    int rc = (*found)->root->is_local ? weft__file_lookup_run(*found, true) : -EAGAIN;
    if (rc == -EAGAIN) {
        weft_offload_options options = {.drop = weft__file_lookup_drop, .has_ended = &has_ended};
        rc = (int)weft_offload_with(look_up_blocking, *found, &options);
    }
    *found = has_ended ? *found : NULL;
    return rc;
}

static int look_up_retrying(weft_http_files *files, weft__file_lookup **found)
{
    int rc = look_up_once(found);
    if (*found == NULL || (rc != -EMFILE && rc != -ENFILE))
        return rc;
    weft__files_cache_empty(&files->cache); /* close the cached descriptors */
    return look_up_once(found);
}

/* Return true for a file that fstat(2) can check without waiting for a network. */
static bool lookup_is_cacheable(const weft__file_lookup *f)
{
    bool is_cacheable = f->kind == WEFT__LOOKUP_FILE && f->root->is_local;
    for (size_t i = 0; is_cacheable && i < WEFT__CODINGS; i++)
        is_cacheable = f->coded[i].fd < 0 || f->coded[i].status.st_dev == f->root->device;
    return is_cacheable;
}

static int files_look_up(weft_http_files *files, const char *name, weft__file_lookup **out)
{
    weft__file_lookup *f = weft__file_lookup_new(files, name);
    int rc = f != NULL ? look_up_retrying(files, &f) : -ENOMEM;
    if (rc == 0) {
        if (lookup_is_cacheable(f))
            weft__files_cache_add(&files->cache, f);
        *out = f;
        return 0;
    }
    weft__file_lookup_free(f);
    weft__files_cache_remove(&files->cache, name);
    return rc;
}

int weft__files_find(weft_http_files *files, const char *name, weft__file_lookup **out)
{
    weft__files_follow_root(files);
    weft__file_lookup *f = weft__files_cache_get(&files->cache, name);
    *out = f;
    if (f != NULL && weft__file_lookup_is_current(f))
        return 0;
    if (f != NULL)
        weft__files_cache_put(&files->cache, f);
    return files_look_up(files, name, out);
}

/*
 * The handler.
 */

/*
 * Return true for a hidden name. Names that start with a dot are hidden, except .well-known (RFC
 * 8615).
 */
static bool is_hidden(const char *name)
{
    static const char well_known[] = ".well-known/";
    if (strncmp(name, well_known, sizeof well_known - 1) == 0)
        name += sizeof well_known - 1;
    return name[0] == '.' || strstr(name, "/.") != NULL;
}

/*
 * The location starts with exactly one slash, because a location that starts with "//" names
 * another host.
 */
int weft__redirect_to_dir(weft_http_request *request)
{
    const char *path = weft_http_path(request), *query = weft_http_query(request);
    path += strspn(path, "/");
    size_t capacity = 3 * strlen(path) + strlen(query) + sizeof "//?";
    char *location = weft_http_alloc(request, capacity);
    if (location == NULL)
        return -ENOMEM;
    char *at = location;
    *at++ = '/';
    at += weft__path_escape(at, capacity - 1, path);
    *at++ = '/';
    snprintf(at, capacity - (size_t)(at - location), "%s%s", query[0] != '\0' ? "?" : "", query);
    return weft_http_redirect(request, 301, location);
}

const weft__file *weft__file_lookup_choose(const weft_http_request *request,
                                           const weft__file_lookup *f)
{
    unsigned available = 0;
    for (unsigned i = 0; i < WEFT__CODINGS; i++)
        available |= f->coded[i].fd >= 0 ? 1u << i : 0;
    if (available == 1u << WEFT__CODING_IDENTITY)
        return &f->coded[WEFT__CODING_IDENTITY];
    return &f->coded[weft__accept_choose(weft_http_header(request, "Accept-Encoding"), available)];
}

static int reply_lookup(weft_http_request *request, const weft__file_lookup *f)
{
    if (f->kind == WEFT__LOOKUP_DIR)
        return weft__redirect_to_dir(request);
    if (f->kind == WEFT__LOOKUP_LISTING)
        return weft__file_lookup_reply_listing(request, f);
    return weft__file_reply(request, weft__file_lookup_choose(request, f), f->cache_control);
}

static bool ends_in_slash(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 0 && path[bytes - 1] == '/';
}

/* Return the path below the root, or NULL if the path is hidden or does not start with a slash. */
static const char *request_file_name(const weft_http_request *request, const weft_http_files *files)
{
    const char *name = request->rest;
    if (name == NULL)
        name = request->path[0] == '/' ? request->path + 1 : NULL;
    return name != NULL && !files->options.has_hidden && is_hidden(name) ? NULL : name;
}

static bool request_has_method(const weft_http_request *request, const char *method)
{
    return strcmp(request->method, method) == 0;
}

int weft_http_serve_files(weft_http_request *request, void *ctx)
{
    weft_http_files *files = ctx;
    weft__file_lookup *found;
    int rc = weft__body_discard_arrived(request);
    if (rc < 0)
        return rc;
    if (!request_has_method(request, "GET") && !request_has_method(request, "HEAD")) {
        rc = weft_http_set(request, "Allow", "GET, HEAD");
        return rc < 0 ? rc : weft_http_reply_status(request, 405);
    }
    const char *name = request_file_name(request, files);
    if (name == NULL)
        return -ENOENT;
    if (name[0] == '\0' && !ends_in_slash(request->path))
        return weft__redirect_to_dir(request);
    rc = weft__files_find(files, name, &found);
    if (rc < 0)
        return rc;
    rc = reply_lookup(request, found);
    weft__files_cache_put(&files->cache, found);
    return rc;
}

int weft_http_reply_file(weft_http_request *request, int fd, const char *name, const char *type)
{
    weft__file file = {.fd = fd, .type = type};
    int rc = weft_fstat(fd, &file.status);
    if (rc < 0)
        return rc;
    if (!S_ISREG(file.status.st_mode))
        return weft_fail(-EINVAL, "weft_http_reply_file: fd %d is not a regular file", fd);
    weft__file_describe(&file, name != NULL ? name : "");
    return weft__file_reply(request, &file, NULL);
}
