/*
 * The servers that a hub knows: those of weft_hub_open, and those that servers announce.
 *
 * The list has the order in which the hub tries the servers. A server that was tried goes to the
 * tail. The delay before the next attempt grows with the failures of the server.
 */
#ifndef WEFT_HUB_CLIENT_SERVERS_H
#define WEFT_HUB_CLIENT_SERVERS_H

#include "base/list.h"
#include "hub/text/json_read.h"

#include <weft/hub_broker.h>

#include <stdint.h>

#define WEFT__SERVERS_MAX 256 /* a server cannot announce more */
#define WEFT__HOST_BYTES_MAX 255

typedef struct weft__server {
    weft__list node;
    char *host;              /* without brackets; of mem: the name of the broker */
    unsigned port;           /* 0: mem: */
    weft_hub_broker *broker; /* of mem:, held since the first connection; NULL: none */
    char *user;              /* of the URL, decoded; a token if password is NULL; NULL: none */
    char *password;          /* NULL: none */
    char *tls_name;          /* the name in the certificate */
    bool has_tls;            /* the URL demands TLS */
    bool is_announced;       /* by another server; removed when no server announces it any more */
    double delay_s;          /* after the last attempt; 0: the last connection was long */
    unsigned rejections;     /* of the credentials, in a row */
    double retry_at;         /* do not try earlier (weft_now) */
} weft__server;

typedef struct weft__servers {
    weft__list list;
    unsigned count;
    uint64_t random; /* the state of the generator for delays and for the order */
} weft__servers;

/*
 * Parse one or more URLs with commas between them, into an empty list. Returns 0, or:
 * -EINVAL if a URL is not valid
 * -ENOMEM if memory is exhausted
 */
int weft__servers_init(weft__servers *servers, const char *where);
void weft__servers_free(weft__servers *servers);

/*
 * Add the servers that a server announces (connect_urls of its INFO), in random order. Remove
 * announced servers that are not in the INFO, except for the announcing one. Entries that are not
 * valid, and entries for which memory is missing, are ignored.
 */
void weft__servers_announce(weft__servers *servers, const weft__json_doc *info,
                            const weft__server *from);

/* Return the head of the list, which has at least one server. */
weft__server *weft__servers_first(weft__servers *servers);

/* Return the first server that may be tried at a time, or NULL. *wait_s is then the time until. */
weft__server *weft__servers_next(weft__servers *servers, double now, double *wait_s);

/* Note the end of an attempt or of a connection. Moves the server to the tail of the list. */
void weft__server_failed(weft__servers *servers, weft__server *server, int code, double now);
void weft__server_lost(weft__servers *servers, weft__server *server, double connected_s,
                       double now);

/* Write "host:port" for messages and for weft_dial. */
#define WEFT__SERVER_TEXT_BYTES (WEFT__HOST_BYTES_MAX + 16)
const char *weft__server_text(const weft__server *server, char out[WEFT__SERVER_TEXT_BYTES]);

#endif
