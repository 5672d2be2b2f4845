/*
 * Sessions that a client may resume: the newest sessions, by name and port of the server. A client
 * resumes a TLS 1.3 session only once, because an observer could link two connections that use the
 * same session (RFC 8446, C.4). Most servers send two or more sessions per connection.
 */
#include "tls/tls.h"

#include <stdlib.h>
#include <string.h>

/* Empty a slot and return its session. The caller frees the session without the lock. */
static weft__tls_session session_remove(weft__tls_session *slot)
{
    weft__tls_session removed = *slot;
    *slot = (weft__tls_session){0};
    return removed;
}

static void session_free(weft__tls_session session)
{
    SSL_SESSION_free(session.session);
    free(session.server_key);
}

static weft__tls_session *find_oldest(weft_tls *tls)
{
    weft__tls_session *oldest = &tls->sessions[0];
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (tls->sessions[i].number < oldest->number)
            oldest = &tls->sessions[i];
    return oldest;
}

void weft__tls_session_add(weft__tls_conn *c, SSL_SESSION *session)
{
    weft_tls *tls = c->tls;
    char *server_key = strdup(c->server_key);
    if (server_key == NULL || !SSL_SESSION_up_ref(session)) {
        free(server_key);
        return;
    }
    pthread_mutex_lock(&tls->lock);
    weft__tls_session unused = {server_key, session, 0};
    /* If the config has changed, other CAs have verified the server. Do not keep the session. */
    if (c->config == tls->config) {
        weft__tls_session *slot = find_oldest(tls);
        unused = session_remove(slot);
        *slot = (weft__tls_session){server_key, session, ++tls->session_number};
    }
    pthread_mutex_unlock(&tls->lock);
    session_free(unused);
}

static weft__tls_session *find_newest(weft_tls *tls, const char *server_key)
{
    weft__tls_session *newest = NULL;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        weft__tls_session *s = &tls->sessions[i];
        if (s->server_key != NULL && strcmp(s->server_key, server_key) == 0 &&
            (newest == NULL || s->number > newest->number))
            newest = s;
    }
    return newest;
}

SSL_SESSION *weft__tls_session_take(weft_tls *tls, const char *server_key)
{
    SSL_SESSION *session = NULL;
    weft__tls_session used = {0};
    pthread_mutex_lock(&tls->lock);
    weft__tls_session *s = find_newest(tls, server_key);
    if (s != NULL && SSL_SESSION_up_ref(s->session)) {
        session = s->session;
        if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
            used = session_remove(s);
    }
    pthread_mutex_unlock(&tls->lock);
    session_free(used);
    return session;
}

void weft__tls_sessions_clear(weft_tls *tls)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        pthread_mutex_lock(&tls->lock);
        weft__tls_session removed = session_remove(&tls->sessions[i]);
        pthread_mutex_unlock(&tls->lock);
        session_free(removed);
    }
}
