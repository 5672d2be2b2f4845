/* The folder of a web site: who may have what of it, and where that is to be found. */
#include "http/files.h"
#include "http/accept.h"
#include "http/field.h"
#include "http/path.h"
#include "http/server.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>
#include <weft/offload.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *copy_of(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static int set_options(weft_http_files *files, const weft_http_files_options *options)
{
    weft_http_files_options *o = &files->options;
    if (options != NULL)
        *o = *options;
    const char *index = o->index != NULL ? o->index : "index.html", *caching = o->cache_control;
    o->index = o->cache_control = NULL;
    if (index[0] == '\0' || strchr(index, '/') != NULL)
        return weft_fail(-EINVAL, "\"%s\" is no name for an index", index);
    if (caching != NULL && !weft__field_is_value(caching, strlen(caching)))
        return weft_fail(-EINVAL, "a Cache-Control with characters that do not belong there");
    o->index = copy_of(index);
    o->cache_control = copy_of(caching);
    return o->index == NULL || (caching != NULL && o->cache_control == NULL) ? -ENOMEM : 0;
}

/* Resolve a relative name now: the program may change its folder later. */
static char *absolute(const char *dir)
{
    char *here = dir[0] != '/' ? getcwd(NULL, 0) : NULL, *path = NULL;
    if (here == NULL)
        return strdup(dir);
    if (asprintf(&path, "%s/%s", here, dir) < 0)
        path = NULL;
    free(here);
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
    files->dir = absolute(dir);
    rc = files->dir != NULL ? set_options(files, options) : -ENOMEM;
    if (rc == 0)
        rc = weft__files_open_root(files);
    if (rc == 0)
        return files;
    weft_http_files_free(files);
failed:
    if (rc == -ENOMEM)
        weft_fail(rc, "no memory to serve the folder %s", dir);
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
 * Looking a path up.
 */

static weft_value look_blocking(void *found)
{
    return weft__found_look(found, false);
}

/* In place, or by a thread. Whatever happens, *found is the caller's, or NULL. */
static int look_once(weft__found **found)
{
    bool has_ended = true;
    int rc = (*found)->root->is_local ? weft__found_look(*found, true) : -EAGAIN;
    if (rc == -EAGAIN) {
        weft_offload_options options = {.drop = weft__found_drop, .has_ended = &has_ended};
        rc = (int)weft_offload_with(look_blocking, *found, &options);
    }
    *found = has_ended ? *found : NULL;
    return rc;
}

static int look(weft_http_files *files, weft__found **found)
{
    int rc = look_once(found);
    if (*found == NULL || (rc != -EMFILE && rc != -ENFILE))
        return rc;
    weft__files_cache_empty(&files->cache); /* there are descriptors to be had */
    return look_once(found);
}

/* A thread's answer is worth keeping if it is known how to see that it is not true any more. */
static bool is_to_be_kept(const weft__found *f)
{
    return f->kind == WEFT__FOUND_FILE && f->root->is_local &&
           f->plain.status.st_dev == f->root->device &&
           (f->gzip.fd < 0 || f->gzip.status.st_dev == f->root->device);
}

static int find_anew(weft_http_files *files, const char *name, weft__found **out)
{
    weft__found *f = weft__found_new(files, name);
    int rc = f != NULL ? look(files, &f) : -ENOMEM;
    if (rc == 0) {
        if (is_to_be_kept(f))
            weft__files_cache_keep(&files->cache, f);
        *out = f;
        return 0;
    }
    weft__found_free(f);
    weft__files_cache_forget(&files->cache, name);
    return rc;
}

static int find(weft_http_files *files, const char *name, weft__found **out)
{
    weft__files_follow_root(files);
    weft__found *f = weft__files_cache_get(&files->cache, name);
    *out = f;
    if (f != NULL && weft__found_is_current(f))
        return 0;
    if (f != NULL)
        weft__files_cache_put(&files->cache, f);
    return find_anew(files, name, out);
}

/*
 * The handler.
 */

/* A name that begins with a dot is hidden; /.well-known/ is there to be found (RFC 8615). */
static bool is_hidden(const char *name)
{
    static const char well_known[] = ".well-known/";
    if (strncmp(name, well_known, sizeof well_known - 1) == 0)
        name += sizeof well_known - 1;
    return name[0] == '.' || strstr(name, "/.") != NULL;
}

/*
 * To the same path with a slash at its end. It is written anew from what it means, with one slash
 * at its beginning: nothing in it can be taken for another host.
 */
static int redirect_to_folder(weft_http_request *request)
{
    const char *path = weft_http_path(request), *query = weft_http_query(request);
    path += strspn(path, "/");
    size_t room = 3 * strlen(path) + strlen(query) + sizeof "//?";
    char *location = weft_http_alloc(request, room);
    if (location == NULL)
        return -ENOMEM;
    char *at = location;
    *at++ = '/';
    at += weft__path_escape(at, room - 1, path);
    *at++ = '/';
    snprintf(at, room - (size_t)(at - location), "%s%s", query[0] != '\0' ? "?" : "", query);
    return weft_http_redirect(request, 301, location);
}

static int reply_found(weft_http_request *request, const weft__found *f)
{
    const weft_http_files_options *o = &f->files->options;
    if (f->kind == WEFT__FOUND_FOLDER)
        return redirect_to_folder(request);
    if (f->kind == WEFT__FOUND_LIST)
        return weft__found_reply_list(request, f);
    bool is_gzip =
        f->gzip.fd >= 0 && weft__accept_gzip(weft_http_header(request, "Accept-Encoding"));
    return weft__file_reply(request, is_gzip ? &f->gzip : &f->plain, o->cache_control);
}

static bool ends_in_slash(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 0 && path[bytes - 1] == '/';
}

/* The path below the folder; NULL: there can be none of that name. */
static const char *name_of(const weft_http_request *request, const weft_http_files *files)
{
    const char *name = request->rest;
    if (name == NULL)
        name = request->path[0] == '/' ? request->path + 1 : NULL;
    return name != NULL && !files->options.has_hidden && is_hidden(name) ? NULL : name;
}

static bool is_method(const weft_http_request *request, const char *method)
{
    return strcmp(request->method, method) == 0;
}

int weft_http_serve_files(weft_http_request *request, void *ctx)
{
    weft_http_files *files = ctx;
    weft__found *found;
    int rc = weft__body_glance(request);
    if (rc < 0)
        return rc;
    if (!is_method(request, "GET") && !is_method(request, "HEAD")) {
        rc = weft_http_set(request, "Allow", "GET, HEAD");
        return rc < 0 ? rc : weft_http_reply_status(request, 405);
    }
    const char *name = name_of(request, files);
    if (name == NULL)
        return -ENOENT;
    if (name[0] == '\0' && !ends_in_slash(request->path))
        return redirect_to_folder(request);
    rc = find(files, name, &found);
    if (rc < 0)
        return rc;
    rc = reply_found(request, found);
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
        return weft_fail(-EINVAL, "a reply with what is no regular file");
    weft__file_describe(&file, name != NULL ? name : "");
    return weft__file_reply(request, &file, NULL);
}
