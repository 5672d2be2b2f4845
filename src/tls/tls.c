/* How one side behaves: made from options, changed, shared between threads, freed. */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/offload.h>

#include <stdlib.h>
#include <string.h>

static void free_text(const char *text)
{
    free((char *)(uintptr_t)text);
}

static int copy_text(const char **text)
{
    if (*text == NULL)
        return 0;
    *text = strdup(*text);
    return *text != NULL ? 0 : -ENOMEM;
}

/* In place: each text becomes a copy, or NULL. */
static int copy_options(weft_tls_options *o)
{
    weft_tls_identity identity = o->identity;
    o->identity = (weft_tls_identity){0};
    int rc = copy_text(&o->ca_file);
    rc |= copy_text(&o->ca_pem);
    rc |= copy_text(&o->alpn);
    rc |= copy_text(&o->ciphers);
    rc |= weft__tls_identity_copy(&o->identity, &identity);
    return rc != 0 ? -ENOMEM : 0;
}

static void free_options(weft_tls_options *o)
{
    weft__tls_identity_free(&o->identity);
    free_text(o->ca_file);
    free_text(o->ca_pem);
    free_text(o->alpn);
    free_text(o->ciphers);
}

weft_tls *weft__tls_ref(weft_tls *tls)
{
    atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
    return tls;
}

void weft_tls_free(weft_tls *tls)
{
    if (tls == NULL || atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (!weft__tls_is_over()) {
        weft__tls_sessions_forget(tls);
        if (tls->config != NULL)
            weft__tls_config_unref(tls->config);
    }
    for (size_t i = 0; i < tls->added_count; i++)
        weft__tls_identity_free(&tls->added[i]);
    free(tls->added);
    free_options(&tls->options);
    pthread_mutex_destroy(&tls->change);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

/* New connections begin with it; its reference is handed over. */
static void install(weft_tls *tls, weft__tls_config *config)
{
    pthread_mutex_lock(&tls->lock);
    weft__tls_config *old = tls->config;
    tls->config = config;
    pthread_mutex_unlock(&tls->lock);
    if (old != NULL)
        weft__tls_config_unref(old);
    weft__tls_sessions_forget(tls);
}

/* What a thread that may block does to a weft_tls. */
typedef struct errand {
    weft_tls *tls;
    const weft_tls_identity *identity;
} errand;

static weft_value load(void *arg)
{
    weft_tls *tls = ((errand *)arg)->tls;
    weft__tls_config *config;
    int rc = weft__tls_init();
    if (rc < 0)
        return weft_fail(rc, "OpenSSL cannot begin");
    pthread_mutex_lock(&tls->change);
    rc = weft__tls_config_load(tls, &config);
    if (rc == 0)
        install(tls, config);
    pthread_mutex_unlock(&tls->change);
    return rc;
}

static int add_source(weft_tls *tls, const weft_tls_identity *identity)
{
    weft_tls_identity *added = realloc(tls->added, (tls->added_count + 1) * sizeof *added);
    if (added == NULL)
        return -ENOMEM;
    tls->added = added;
    int rc = weft__tls_identity_copy(&added[tls->added_count], identity);
    tls->added_count += rc == 0;
    return rc;
}

static int add_to_config(weft_tls *tls, weft__tls_cert *cert, const weft_tls_identity *identity)
{
    weft__tls_config *config;
    /* Nobody else changes it: the caller holds the lock on changes. */
    int rc = weft__tls_config_extend(tls->config, cert, &config);
    if (rc < 0)
        return rc;
    rc = add_source(tls, identity);
    if (rc < 0)
        weft__tls_config_unref(config);
    else
        install(tls, config);
    return rc;
}

static weft_value add(void *arg)
{
    const errand *e = arg;
    weft__tls_cert *cert;
    pthread_mutex_lock(&e->tls->change);
    int rc = weft__tls_cert_load(e->identity, &cert);
    if (rc == 0) {
        rc = add_to_config(e->tls, cert, e->identity);
        weft__tls_cert_unref(cert);
    }
    pthread_mutex_unlock(&e->tls->change);
    return rc;
}

/* Errors of fn have words. */
static int run(weft_fn *fn, errand *e)
{
    bool has_ended = false;
    int rc = (int)weft_offload_with(
        fn, e, &(weft_offload_options){.is_kept = true, .has_ended = &has_ended});
    if (has_ended && rc != -ENOMEM)
        return rc;
    return rc < 0 ? weft_fail(rc, "TLS cannot be set up: %s", weft__tls_error_text(rc)) : rc;
}

static weft_tls *make(const weft_tls_options *options, bool is_server)
{
    weft_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        weft_fail(-ENOMEM, "no memory for TLS");
        return NULL;
    }
    atomic_init(&tls->refs, 1);
    tls->is_server = is_server;
    pthread_mutex_init(&tls->change, NULL);
    pthread_mutex_init(&tls->lock, NULL);
    if (options != NULL)
        tls->options = *options;
    int rc = copy_options(&tls->options);
    rc = rc < 0 ? weft_fail(rc, "no memory for TLS") : run(load, &(errand){tls, NULL});
    if (rc == 0)
        return tls;
    weft_tls_free(tls);
    return NULL;
}

weft_tls *weft_tls_server_new(const weft_tls_options *options)
{
    if (options == NULL ||
        (weft__tls_identity_is_empty(&options->identity) && options->choose == NULL)) {
        weft_fail(-EINVAL, "a TLS server needs a certificate");
        return NULL;
    }
    return make(options, true);
}

weft_tls *weft_tls_client_new(const weft_tls_options *options)
{
    if (options != NULL && options->choose != NULL) {
        weft_fail(-EINVAL, "a TLS client does not choose certificates by name");
        return NULL;
    }
    return make(options, false);
}

int weft_tls_add(weft_tls *tls, const weft_tls_identity *identity)
{
    if (tls == NULL || identity == NULL || !tls->is_server)
        return weft_fail(-EINVAL, "certificates can be added to a TLS server's only");
    return run(add, &(errand){tls, identity});
}

int weft_tls_reload(weft_tls *tls)
{
    if (tls == NULL)
        return weft_fail(-EINVAL, "nothing to reload");
    return run(load, &(errand){tls, NULL});
}
