/* Create, change and free a weft_tls. Threads share a weft_tls, which has a reference count. */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/offload.h>

#include <stdlib.h>
#include <string.h>

static void option_free_text(const char *text)
{
    free((char *)(uintptr_t)text);
}

static int option_copy_text(const char **text)
{
    if (*text == NULL)
        return 0;
    *text = strdup(*text);
    return *text != NULL ? 0 : -ENOMEM;
}

/* Replace each string with a copy. A string that cannot be copied becomes NULL. */
static int copy_options(weft_tls_options *o)
{
    weft_tls_identity identity = o->identity;
    o->identity = (weft_tls_identity){0};
    int rc = option_copy_text(&o->ca_file);
    rc |= option_copy_text(&o->ca_pem);
    rc |= option_copy_text(&o->alpn);
    rc |= option_copy_text(&o->ciphers);
    rc |= weft__tls_identity_copy(&o->identity, &identity);
    return rc != 0 ? -ENOMEM : 0;
}

static void free_options(weft_tls_options *o)
{
    weft__tls_identity_free(&o->identity);
    option_free_text(o->ca_file);
    option_free_text(o->ca_pem);
    option_free_text(o->alpn);
    option_free_text(o->ciphers);
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
    if (!weft__tls_is_cleaned_up()) {
        weft__tls_sessions_clear(tls);
        if (tls->config != NULL)
            weft__tls_config_unref(tls->config);
    }
    for (size_t i = 0; i < tls->added_count; i++)
        weft__tls_identity_free(&tls->added[i]);
    free(tls->added);
    free_options(&tls->options);
    pthread_mutex_destroy(&tls->change_lock);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

/* Use a config for new connections. The weft_tls takes over the caller's reference. */
static void tls_install_config(weft_tls *tls, weft__tls_config *config)
{
    pthread_mutex_lock(&tls->lock);
    weft__tls_config *previous = tls->config;
    tls->config = config;
    pthread_mutex_unlock(&tls->lock);
    if (previous != NULL)
        weft__tls_config_unref(previous);
    weft__tls_sessions_clear(tls);
}

/* The argument of a function that a worker thread runs. */
typedef struct tls_job {
    weft_tls *tls;
    const weft_tls_identity *identity;
} tls_job;

static weft_value load_config(void *arg)
{
    weft_tls *tls = ((tls_job *)arg)->tls;
    weft__tls_config *config;
    int rc = weft__tls_init();
    if (rc < 0)
        return weft_fail(rc, "TLS: cannot initialise OpenSSL");
    pthread_mutex_lock(&tls->change_lock);
    rc = weft__tls_config_load(tls, &config);
    if (rc == 0)
        tls_install_config(tls, config);
    pthread_mutex_unlock(&tls->change_lock);
    return rc;
}

static int add_identity(weft_tls *tls, const weft_tls_identity *identity)
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
    /* The caller holds change_lock. tls->config therefore does not change. */
    int rc = weft__tls_config_extend(tls->config, cert, &config);
    if (rc < 0)
        return rc;
    rc = add_identity(tls, identity);
    if (rc < 0)
        weft__tls_config_unref(config);
    else
        tls_install_config(tls, config);
    return rc;
}

static weft_value add_cert(void *arg)
{
    const tls_job *job = arg;
    weft__tls_cert *cert;
    pthread_mutex_lock(&job->tls->change_lock);
    int rc = weft__tls_cert_load(job->identity, &cert);
    if (rc == 0) {
        rc = add_to_config(job->tls, cert, job->identity);
        weft__tls_cert_unref(cert);
    }
    pthread_mutex_unlock(&job->tls->change_lock);
    return rc;
}

/* Run fn in a worker thread. fn records all its errors except -ENOMEM. */
static int run_offloaded(weft_fn *fn, tls_job *job)
{
    bool has_ended = false;
    int rc = (int)weft_offload_with(
        fn, job, &(weft_offload_options){.is_kept = true, .has_ended = &has_ended});
    if (has_ended && rc != -ENOMEM)
        return rc;
    return rc < 0 ? weft_fail(rc, "TLS: %s", weft__tls_error_text(rc)) : rc;
}

static weft_tls *tls_new(const weft_tls_options *options, bool is_server)
{
    const char *side = is_server ? "server" : "client";
    weft_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        weft_fail(-ENOMEM, "weft_tls_%s_new: memory is exhausted", side);
        return NULL;
    }
    atomic_init(&tls->refs, 1);
    tls->is_server = is_server;
    pthread_mutex_init(&tls->change_lock, NULL);
    pthread_mutex_init(&tls->lock, NULL);
    if (options != NULL)
        tls->options = *options;
    int rc = copy_options(&tls->options);
    rc = rc < 0 ? weft_fail(rc, "weft_tls_%s_new: memory is exhausted", side)
                : run_offloaded(load_config, &(tls_job){tls, NULL});
    if (rc == 0)
        return tls;
    weft_tls_free(tls);
    return NULL;
}

weft_tls *weft_tls_server_new(const weft_tls_options *options)
{
    if (options == NULL ||
        (weft__tls_identity_is_empty(&options->identity) && options->choose == NULL)) {
        weft_fail(-EINVAL, "weft_tls_server_new: identity is empty and choose is NULL");
        return NULL;
    }
    return tls_new(options, true);
}

weft_tls *weft_tls_client_new(const weft_tls_options *options)
{
    if (options != NULL && options->choose != NULL) {
        weft_fail(-EINVAL, "weft_tls_client_new: choose is set");
        return NULL;
    }
    return tls_new(options, false);
}

int weft_tls_add(weft_tls *tls, const weft_tls_identity *identity)
{
    if (tls == NULL || identity == NULL || !tls->is_server)
        return weft_fail(-EINVAL,
                         "weft_tls_add: tls is NULL or belongs to a client, or identity is NULL");
    return run_offloaded(add_cert, &(tls_job){tls, identity});
}

int weft_tls_reload(weft_tls *tls)
{
    if (tls == NULL)
        return weft_fail(-EINVAL, "weft_tls_reload: tls is NULL");
    return run_offloaded(load_config, &(tls_job){tls, NULL});
}
