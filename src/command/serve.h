/*
 * weft serve: serve a directory as a web site.
 *
 *     serve.c          run the server
 *     serve_options.c  the options, their help, and checks of combinations
 *     serve_values.c   parse the values of options that have their own form
 *     serve_site.c     directories, hosts, error pages and certificates
 *     serve_proxy.c    reverse proxies
 *     serve_watch.c    read changed certificates
 *     serve_log.c      write the access log
 *     serve_listen.c   open the listeners
 */
#ifndef WEFT_COMMAND_SERVE_H
#define WEFT_COMMAND_SERVE_H

#include "command/options.h"
#include "http/text/log.h"

#include <weft/web.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* The maximum number of virtual hosts. */
#define SERVE_HOSTS_MAX 256

typedef struct serve_host {
    char *name;
    const char *dir; /* NULL: the directory of the site */
    char *cert_file; /* NULL: the certificate of the site */
    char *key_file;
} serve_host;

#define SERVE_CACHE_RULES_MAX 64
#define SERVE_ERROR_PAGES_MAX 64
#define SERVE_PROXIES_MAX 64

/* --proxy */
typedef struct serve_proxy_rule {
    const char *host;        /* "": all hosts */
    const char *path;        /* "/api", or "/" */
    const char *url;         /* of the upstream server */
    const char *unix_socket; /* NULL: none */
    char *memory;            /* of the strings */
} serve_proxy_rule;

/* The options of the command line, and their defaults. */
typedef struct serve_settings {
    const char *listen;
    const char *dir;
    bool has_dir;   /* the command line has a directory */
    unsigned cords; /* 0: one per CPU */
    bool is_self_signed;
    const char *cert_file; /* NULL: none */
    const char *key_file;  /* NULL: none */
    serve_host hosts[SERVE_HOSTS_MAX];
    size_t hosts_count;
    const char *access_log; /* "-": stdout; NULL: none */
    weft__log_format log_format;
    const char *trusted_peers;
    const char *trusted_headers;      /* NULL: X-Forwarded-For */
    const char *proxy_protocol_peers; /* NULL: none */
    bool has_listing;
    bool has_no_http2;
    bool has_no_gzip;
    bool has_no_precompressed;
    const char *cache_control; /* if no rule matches; NULL: none */
    weft_http_cache_rule cache_rules[SERVE_CACHE_RULES_MAX];
    size_t cache_rules_count;
    weft_http_error_page error_pages[SERVE_ERROR_PAGES_MAX];
    size_t error_pages_count;
    serve_proxy_rule proxies[SERVE_PROXIES_MAX];
    size_t proxies_count;
    const char *proxy_ca;   /* NULL: the CAs of the system */
    double proxy_timeout_s; /* 0: the default */
    bool sends_upstream_host;
    double tls_check_s;  /* between two checks of the certificates */
    const char *metrics; /* the address of the page of metrics; NULL: none */
    bool is_quiet;
    bool wants_help;
    double drain_s;
    /* TLS handshakes of all cords, per second and address; 0: each cord has the default */
    uint64_t handshakes_max;
    uint64_t connections_max; /* of all cords; 0: each cord has the default */
    weft_http_limits limits;  /* of each cord, without the two limits above */
} serve_settings;

static inline bool serve_has_tls(const serve_settings *s)
{
    return s->is_self_signed || s->cert_file != NULL;
}

/* Return whether a proxy has all paths of a host without its own proxies. host "": the site. */
static inline bool serve_is_all_proxied(const serve_settings *s, const char *host)
{
    for (size_t i = 0; i < s->proxies_count; i++)
        if (strcmp(s->proxies[i].path, "/") == 0 &&
            (s->proxies[i].host[0] == '\0' || strcmp(s->proxies[i].host, host) == 0))
            return true;
    return false;
}

/* Print a message of the server: "weft: serve: ...". */
void serve_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return the message of an error that the last call of weft returned. */
const char *serve_error_message(int code);

/* serve_options.c */

/*
 * Parse the command line. settings contains pointers into argv. Return 0, or the exit status after
 * a message. The caller frees the settings in both cases.
 */
int serve_read_options(serve_settings *settings, int argc, char **argv);
void serve_free_options(serve_settings *settings);
void serve_print_help(void);

/* serve_values.c: see command_option_set */

int serve_set_listen(void *settings, const command_option *option, char *value);
int serve_set_cords(void *settings, const command_option *option, char *value);
int serve_set_host(void *settings, const command_option *option, char *value);
int serve_set_host_cert(void *settings, const command_option *option, char *value);
int serve_set_trust(void *settings, const command_option *option, char *value);
int serve_set_metrics(void *settings, const command_option *option, char *value);
int serve_set_proxy_protocol(void *settings, const command_option *option, char *value);
bool serve_is_address_list(const char *argument);

/* Return whether an argument is the optional value of --metrics: an address, and not a path. */
bool serve_is_metrics_address(const char *argument);
int serve_set_trust_headers(void *settings, const command_option *option, char *value);
int serve_set_log_format(void *settings, const command_option *option, char *value);
int serve_set_cache_control(void *settings, const command_option *option, char *value);
int serve_set_error_page(void *settings, const command_option *option, char *value);
int serve_set_proxy(void *settings, const command_option *option, char *value);

/* serve_site.c */

typedef struct serve_site {
    weft_http_router *routes;
    weft_http_files *files[SERVE_HOSTS_MAX + 1]; /* of the site, then of each host; NULL: none */
    weft_http_error_pages *error_pages;          /* NULL: only the built-in pages */
    weft_tls *tls;                               /* NULL: no TLS */
    struct serve_proxies *proxies;               /* NULL: none */
} serve_site;

/*
 * Open the site. Return 0, or record an error and return it. The caller closes the site in both
 * cases.
 */
int serve_site_open(serve_site *site, const serve_settings *settings);
/*
 * Open all directories again. If a directory cannot be opened, keep the old directory. Return 0, or
 * record the last error and return it.
 */
int serve_site_reopen(serve_site *site);
void serve_site_close(serve_site *site);

/* serve_proxy.c */

typedef struct serve_proxies serve_proxies;

/*
 * Create the proxies of the settings, and add their routes. Start a fiber that reports failures.
 * Return 0, or record an error and return it. The caller closes the proxies in both cases.
 */
int serve_proxies_open(serve_site *site, const serve_settings *settings);

/* Free the proxies. All cords must have ended. */
void serve_proxies_close(serve_proxies *proxies);

/* serve_watch.c */

/* The certificates, and the state of their files. */
typedef struct serve_watch {
    const serve_settings *settings;
    weft_tls *tls;        /* NULL: no TLS */
    uint64_t loaded_hash; /* of the files that were last read */
} serve_watch;

/*
 * Start a fiber that reads certificates again after their files have changed. Without files, do
 * nothing. watch must live until the fiber ends with its parent. Return 0 or an error.
 */
int serve_watch_start(serve_watch *watch);

/* Read the certificates again, and print the result. */
void serve_watch_reload(serve_watch *watch);

/* serve_listen.c */

typedef struct serve_listener {
    int fd;            /* the first listener; -1: none */
    bool is_unix;      /* a Unix socket, which all cords share */
    char address[128]; /* the bound address, in the form of weft_listen */
    char url[192];     /* of the site */
} serve_listener;

/* Open the first listener. Return 0, or record an error and return it. */
int serve_listener_open(serve_listener *listener, const serve_settings *settings);

/* Open the listener of the page of metrics, if there is one. Return as serve_listener_open does. */
int serve_metrics_listener_open(serve_listener *listener, const serve_settings *settings);

/*
 * Return the listener of a cord, or an error. The number of the first cord is 0. The caller closes
 * the descriptor.
 */
int serve_listener_for_cord(serve_listener *listener, unsigned number);

/* serve_log.c */

/* The lines of one cord that are not written yet. */
typedef struct serve_log_buffer {
    struct serve_log *log;
    pthread_mutex_t lock; /* guards lines, bytes and lost_count; never held across a switch */
    char *lines;
    size_t bytes;
    uint64_t lost_count; /* lines dropped because the buffer was full */
    time_t time_text_s;  /* the time in time_text */
    char time_text[32];
} serve_log_buffer;

/*
 * The access log. Each cord appends lines to its own buffer. One fiber of the main thread writes
 * the buffers to the file.
 */
typedef struct serve_log {
    const char *path; /* NULL: no log */
    weft__log_format format;
    int fd;
    int error; /* of the last write; 0: none */
    serve_log_buffer *buffers;
    size_t buffers_count;
    char *spare_lines;      /* memory that replaces the lines of a buffer during a write */
    weft_event flush_event; /* wakes the writer early */
    atomic_bool is_reopen_requested;
    weft_fiber writer; /* 0: none */
} serve_log;

/* Open the log and start the writer. Return 0, or record an error and return it. */
int serve_log_open(serve_log *log, const char *path, weft__log_format format, size_t buffers_count);

/* Append a line. This function is the callback weft_http_options.log, with a serve_log_buffer. */
void serve_log_add(const weft_http_record *record, void *buffer);

/* Open the file again by its name, for log rotation. */
void serve_log_reopen(serve_log *log);

/* Write the remaining lines and close the log. All cords must have ended. */
void serve_log_close(serve_log *log);

#endif
