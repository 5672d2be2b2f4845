/*
 * The site of `weft serve`: directories, error pages and certificates of all hosts. All cords share
 * the site.
 */
#include "command/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SELF_SIGNED_DAYS 30

static int last_error_code(void)
{
    const weft_error_info *error = weft_error();
    return error != NULL ? error->code : -ENOMEM;
}

/* Serve a directory for one host, or for all hosts if host is empty. */
static int site_add_dir(serve_site *site, size_t index, const char *host, const char *dir,
                        const serve_settings *s)
{
    const weft_http_files_options options = {.has_listing = s->has_listing,
                                             .has_no_precompressed = s->has_no_precompressed,
                                             .cache_control = s->cache_control,
                                             .cache_rules = s->cache_rules,
                                             .cache_rules_count = s->cache_rules_count};
    char pattern[512];
    int bytes = snprintf(pattern, sizeof pattern, "%s/{path...}", host);
    if (bytes < 0 || (size_t)bytes >= sizeof pattern)
        return weft_fail(-EINVAL, "--host: %s is too long", host);
    weft_http_files *files = weft_http_files_new(dir, &options);
    if (files == NULL)
        return weft_fail(last_error_code(), "%s: %s", dir, strerror(-last_error_code()));
    site->files[index] = files;
    int rc = weft_http_route(site->routes, "GET", pattern, weft_http_serve_files, files);
    return rc < 0 ? weft_fail(rc, "--host: cannot add host %s: %s", host, strerror(-rc)) : 0;
}

static int site_add_dirs(serve_site *site, const serve_settings *s)
{
    int rc = serve_is_all_proxied(s, "") ? 0 : site_add_dir(site, 0, "", s->dir, s);
    for (size_t i = 0; rc == 0 && i < s->hosts_count; i++)
        if (s->hosts[i].dir != NULL && !serve_is_all_proxied(s, s->hosts[i].name))
            rc = site_add_dir(site, i + 1, s->hosts[i].name, s->hosts[i].dir, s);
    return rc;
}

static int site_open_error_pages(serve_site *site, const serve_settings *s)
{
    if (s->error_pages_count == 0)
        return 0;
    site->error_pages = weft_http_error_pages_new(s->error_pages, s->error_pages_count);
    return site->error_pages != NULL ? 0 : last_error_code();
}

/*
 * Return the names of the self-signed certificate: this machine, and the hosts without their own
 * certificate. The names of other hosts are not in the list, because TLS chooses the first
 * certificate with a matching name. The caller frees the list. Return NULL if memory is exhausted.
 */
static char *self_signed_names(const serve_settings *s)
{
    char *names = NULL;
    size_t bytes;
    FILE *out = open_memstream(&names, &bytes);
    if (out == NULL)
        return NULL;
    fputs("localhost,127.0.0.1,::1", out);
    for (size_t i = 0; i < s->hosts_count; i++)
        if (s->hosts[i].cert_file == NULL)
            fprintf(out, ",%s", s->hosts[i].name);
    fclose(out);
    return names;
}

/* Return the protocols that the server offers over TLS. */
static const char *alpn_of(const serve_settings *s)
{
    return s->has_no_http2 ? "http/1.1" : weft_http_alpn();
}

static int site_open_self_signed(serve_site *site, const serve_settings *s)
{
    char *names = self_signed_names(s), *cert = NULL, *key = NULL;
    int rc = names != NULL ? weft_tls_self_signed(names, SELF_SIGNED_DAYS, &cert, &key) : -ENOMEM;
    if (rc == 0) {
        site->tls = weft_tls_server_new(&(weft_tls_options){
            .alpn = alpn_of(s), .identity = {.cert_pem = cert, .key_pem = key}});
        rc = site->tls != NULL ? 0 : last_error_code();
    }
    free(names);
    free(cert);
    free(key);
    return rc < 0 ? weft_fail(rc, "--self-signed: cannot create a certificate: %s", strerror(-rc))
                  : 0;
}

static int site_open_certificate(serve_site *site, const serve_settings *s)
{
    site->tls = weft_tls_server_new(&(weft_tls_options){
        .alpn = alpn_of(s), .identity = {.cert_file = s->cert_file, .key_file = s->key_file}});
    return site->tls != NULL ? 0 : last_error_code();
}

static int site_open_tls(serve_site *site, const serve_settings *s)
{
    int rc = s->is_self_signed ? site_open_self_signed(site, s) : site_open_certificate(site, s);
    for (size_t i = 0; rc == 0 && i < s->hosts_count; i++) {
        const serve_host *host = &s->hosts[i];
        if (host->cert_file != NULL)
            rc = weft_tls_add(site->tls, &(weft_tls_identity){.cert_file = host->cert_file,
                                                              .key_file = host->key_file});
    }
    return rc;
}

int serve_site_open(serve_site *site, const serve_settings *s)
{
    *site = (serve_site){.routes = weft_http_router_new()};
    if (site->routes == NULL)
        return weft_fail(-ENOMEM, "memory is exhausted");
    int rc = site_add_dirs(site, s);
    if (rc == 0)
        rc = site_open_error_pages(site, s);
    if (rc == 0 && s->proxies_count > 0)
        rc = serve_proxies_open(site, s);
    return rc == 0 && serve_has_tls(s) ? site_open_tls(site, s) : rc;
}

int serve_site_reopen(serve_site *site)
{
    int rc = 0;
    for (size_t i = 0; i <= SERVE_HOSTS_MAX; i++) {
        int error = site->files[i] != NULL ? weft_http_files_reopen(site->files[i]) : 0;
        rc = error < 0 ? error : rc;
    }
    return rc;
}

void serve_site_close(serve_site *site)
{
    weft_http_router_free(site->routes);
    for (size_t i = 0; i <= SERVE_HOSTS_MAX; i++)
        if (site->files[i] != NULL)
            weft_http_files_free(site->files[i]);
    weft_http_error_pages_free(site->error_pages);
    serve_proxies_close(site->proxies);
    weft_tls_free(site->tls);
}
