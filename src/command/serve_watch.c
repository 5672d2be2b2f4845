/*
 * Certificates that change on disk. A fiber of the main thread compares the status of all PEM files
 * at intervals. A change counts when two checks in a row agree, because a certificate and its key
 * are two files. New connections use the new certificates, and open connections continue.
 *
 * The fiber does not use inotify, because certificates are often symbolic links that a tool
 * replaces, together with their directory.
 */
#include "command/serve.h"

#include <stdio.h>

/* Include a value in a hash (FNV-1a). */
static void hash_add(uint64_t *hash, uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8)
        *hash = (*hash ^ (value & 0xff)) * UINT64_C(1099511628211);
}

/* Include the status of a file. A file that cannot be read has a status, too. */
static void hash_add_file(uint64_t *hash, const char *path)
{
    struct stat status = {0};
    if (path == NULL)
        return;
    int rc = weft_stat(path, &status);
    hash_add(hash, (uint64_t)rc);
    if (rc < 0)
        return;
    hash_add(hash, (uint64_t)status.st_dev);
    hash_add(hash, (uint64_t)status.st_ino);
    hash_add(hash, (uint64_t)status.st_size);
    hash_add(hash, (uint64_t)status.st_mtim.tv_sec);
    hash_add(hash, (uint64_t)status.st_mtim.tv_nsec);
}

/* Return a number that changes with the status of any PEM file. */
static uint64_t hash_of_files(const serve_settings *s)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    hash_add_file(&hash, s->cert_file);
    hash_add_file(&hash, s->key_file);
    for (size_t i = 0; i < s->hosts_count; i++) {
        hash_add_file(&hash, s->hosts[i].cert_file);
        hash_add_file(&hash, s->hosts[i].key_file);
    }
    return hash;
}

void serve_watch_reload(serve_watch *w)
{
    w->loaded_hash = hash_of_files(w->settings);
    int rc = weft_tls_reload(w->tls);
    if (rc < 0)
        serve_print("%s; the old certificates remain in use", serve_error_message(rc));
    else if (!w->settings->is_quiet)
        serve_print("the certificates were read again");
}

static weft_value watch_main(void *arg)
{
    serve_watch *w = arg;
    uint64_t last = w->loaded_hash;
    while (weft_sleep(w->settings->tls_check_s) == 0) {
        uint64_t now = hash_of_files(w->settings);
        if (now != w->loaded_hash && now == last)
            serve_watch_reload(w);
        last = now;
    }
    return 0;
}

static bool has_files(const serve_settings *s)
{
    bool has = s->cert_file != NULL;
    for (size_t i = 0; i < s->hosts_count; i++)
        has |= s->hosts[i].cert_file != NULL;
    return has;
}

int serve_watch_start(serve_watch *w)
{
    const weft_spin_options options = {.name = "certificates", .is_daemon = true};
    if (w->tls == NULL || !has_files(w->settings))
        return 0;
    w->loaded_hash = hash_of_files(w->settings);
    return weft_spin_with(watch_main, w, &options) != 0 ? 0 : weft_error()->code;
}
