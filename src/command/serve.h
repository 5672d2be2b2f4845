/*
 * weft serve: a folder as a web site.
 *
 *     serve.c          from the command line to its status    serve_options.c  the command line
 *     serve_site.c     folders, hosts and certificates        serve_log.c      the access log
 *     serve_listen.c   where it listens, and how that is said
 */
#ifndef WEFT_COMMAND_SERVE_H
#define WEFT_COMMAND_SERVE_H

#include <weft.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* Virtual hosts; more than that is another program's job. */
#define SERVE_HOSTS_MAX 256

typedef struct serve_host {
    char *name;
    const char *dir; /* NULL: the site's own */
    char *cert_file; /* NULL: none of its own */
    char *key_file;
} serve_host;

/* What the command line says. */
typedef struct serve_settings {
    const char *listen;
    const char *dir;
    unsigned cords; /* 0: as many as there are CPUs */
    bool is_self_signed;
    const char *cert_file, *key_file;
    serve_host hosts[SERVE_HOSTS_MAX];
    size_t hosts_count;
    const char *access_log; /* "-": stdout; NULL: none */
    const char *trusted_peers;
    const char *trusted_headers; /* NULL: X-Forwarded-For */
    bool has_listing;
    bool has_no_gzip;
    bool is_quiet;
    bool wants_help;
    double drain_s;
    uint64_t handshakes_max;  /* per second and peer, in all; 0: the default for each cord */
    uint64_t connections_max; /* in all; 0: the server's default for each cord */
    weft_http_limits limits;
} serve_settings;

static inline bool serve_has_tls(const serve_settings *s)
{
    return s->is_self_signed || s->cert_file != NULL;
}

/* serve_options.c */

/* 0, or EXIT_MISUSED after what is wrong has been said. Settings point into argv. */
int serve_read_options(serve_settings *settings, int argc, char **argv);
void serve_free_options(serve_settings *settings);
void serve_print_help(void);

/* serve_site.c */

typedef struct serve_site {
    weft_http_router *routes;
    weft_http_files *files[SERVE_HOSTS_MAX + 1]; /* the site's, then each host's; NULL: none */
    weft_tls *tls;                               /* NULL: plain */
} serve_site;

/* 0, or an error with words; closing is the caller's in either case. */
int serve_site_open(serve_site *site, const serve_settings *settings);
/* Open all folders again. One that cannot be opened stays as it was: the last error, with words. */
int serve_site_reopen(serve_site *site);
void serve_site_close(serve_site *site);

/* serve_listen.c */

typedef struct serve_place {
    int fd;            /* the first listener, which has the port for all */
    bool is_unix;      /* all cords accept at that one */
    char address[128]; /* as weft_listen has it, with the port that it really is */
    char url[192];     /* where to open it */
} serve_place;

int serve_place_open(serve_place *place, const serve_settings *settings);

/* The listener of the number-th cord, counted from 0. It is the caller's. */
int serve_place_listen(serve_place *place, unsigned number);

/* serve_log.c */

/* The lines of one cord that are to be written. */
typedef struct serve_log_lane {
    struct serve_log *log;
    pthread_mutex_t lock; /* for the next three; held for a copy, never over a switch */
    char *lines;
    size_t bytes;
    uint64_t lost; /* lines that there was no room for */
    time_t second; /* the cord's own: time_text is for it */
    char time_text[32];
} serve_log_lane;

/* The access log: cords put lines into lanes, one fiber of the main thread writes them all. */
typedef struct serve_log {
    const char *path; /* NULL: none is kept */
    int fd;
    int error; /* of the last write; 0: it went well */
    serve_log_lane *lanes;
    size_t lanes_count;
    char *writing; /* what is taken out of a lane to be written */
    weft_event wanted;
    atomic_bool is_to_reopen;
    weft_fiber writer;
} serve_log;

int serve_log_open(serve_log *log, const char *path, size_t lanes);

/* For weft_http_options: context is a lane. */
void serve_log_add(const weft_http_record *record, void *lane);

/* Open the file anew, by its name, for who has moved it away. */
void serve_log_reopen(serve_log *log);

/* Write what is left, once the cords have ended, and close it. */
void serve_log_close(serve_log *log);

#endif
