/*
 * What a client may resume: the newest sessions, by the name and the port of their server. One of
 * TLS 1.3 is taken by one connection only, for whoever watches would know it again (RFC 8446,
 * C.4); servers give two or more of them at a time.
 */
#include "tls/tls.h"

#include <stdlib.h>
#include <string.h>

/* Its place must be freed, and its session given back, by one who does not hold the lock. */
static weft__tls_session clear(weft__tls_session *s)
{
    weft__tls_session old = *s;
    *s = (weft__tls_session){0};
    return old;
}

static void release(weft__tls_session old)
{
    SSL_SESSION_free(old.session);
    free(old.place);
}

static weft__tls_session *find_oldest(weft_tls *tls)
{
    weft__tls_session *oldest = &tls->sessions[0];
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (tls->sessions[i].number < oldest->number)
            oldest = &tls->sessions[i];
    return oldest;
}

void weft__tls_session_keep(weft__tls_conn *c, SSL_SESSION *session)
{
    weft_tls *tls = c->tls;
    char *copy = strdup(c->place);
    if (copy == NULL || !SSL_SESSION_up_ref(session)) {
        free(copy);
        return;
    }
    pthread_mutex_lock(&tls->lock);
    weft__tls_session old = {copy, session, 0};
    if (c->config == tls->config) { /* else it was trusted by what holds no longer */
        weft__tls_session *s = find_oldest(tls);
        old = clear(s);
        *s = (weft__tls_session){copy, session, ++tls->session_number};
    }
    pthread_mutex_unlock(&tls->lock);
    release(old);
}

static weft__tls_session *find_newest(weft_tls *tls, const char *place)
{
    weft__tls_session *newest = NULL;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        weft__tls_session *s = &tls->sessions[i];
        if (s->place != NULL && strcmp(s->place, place) == 0 &&
            (newest == NULL || s->number > newest->number))
            newest = s;
    }
    return newest;
}

SSL_SESSION *weft__tls_session_take(weft_tls *tls, const char *place)
{
    SSL_SESSION *session = NULL;
    weft__tls_session used = {0};
    pthread_mutex_lock(&tls->lock);
    weft__tls_session *s = find_newest(tls, place);
    if (s != NULL && SSL_SESSION_up_ref(s->session)) {
        session = s->session;
        if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
            used = clear(s);
    }
    pthread_mutex_unlock(&tls->lock);
    release(used);
    return session;
}

void weft__tls_sessions_forget(weft_tls *tls)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        pthread_mutex_lock(&tls->lock);
        weft__tls_session old = clear(&tls->sessions[i]);
        pthread_mutex_unlock(&tls->lock);
        release(old);
    }
}
