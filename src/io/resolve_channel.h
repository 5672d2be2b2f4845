/* c-ares behind a door: only resolve_channel.c and resolve_question.c name it. */
#ifndef WEFT_IO_RESOLVE_CHANNEL_H
#define WEFT_IO_RESOLVE_CHANNEL_H

#include "io/resolve_dns.h"
#include "io/resolve_system.h"

#include <weft/select.h>

/* Sockets that c-ares tells of: one or two a server. */
#define WEFT__CHANNEL_FDS_MAX 16

/* All-zero is closed. It must stay where it is while it is open. */
typedef struct weft__channel {
    struct ares_channeldata *ares;
    weft__search search;
    int rcode; /* of the answer that was received last; 0: none, or it was no refusal */
} weft__channel;

/*
 * The answer to a question: a code as getaddrinfo returns it; if that is 0 the addresses, which are
 * freed afterwards, and the canonical name. It may not switch.
 */
typedef void weft__on_answer(void *arg, int code, weft__ips *ips, const char *canonical);

static inline bool weft__channel_is_open(const weft__channel *ch)
{
    return ch->ares != NULL;
}

/* 0, or -ENOMEM. resolv is the text of that file; may be NULL. */
int weft__channel_open(weft__channel *ch, const weft__dns_settings *s, const char *resolv);

/* No question is open. */
void weft__channel_close(weft__channel *ch);

/* Ask the servers; the answer may come before this returns. */
void weft__channel_ask(weft__channel *ch, const char *host, int family, weft__on_answer *answer,
                       void *arg);

/* All open questions are answered with an error. */
void weft__channel_cancel(weft__channel *ch);

/* Clauses for its sockets; returns how many. */
int weft__channel_clauses(weft__channel *ch, weft_clause *out);

/* Seconds until it wants to be called for its timers; INFINITY: no question is open. */
double weft__channel_timeout(weft__channel *ch);

/* Close the sockets that no open question needs. */
void weft__channel_tidy(weft__channel *ch);

/* Handle what has come on a socket (-1: none), and the timers. */
void weft__channel_handle(weft__channel *ch, int fd, int events);

#endif
