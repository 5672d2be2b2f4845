/* The command line of `weft serve`: what can be said, and what is wrong with what was said. */
#include "command/command.h"
#include "command/serve.h"

#include "http/ip.h"
#include "http/server.h"
#include "io/address.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTEN_DEFAULT "127.0.0.1:8080"
#define DRAIN_S_DEFAULT 10.0
#define CORDS_MAX 1000 /* a process has 1,024 threads with fibers at most */

/* Takes the value of an option. Returns false if it is no good. */
typedef bool set_fn(serve_settings *settings, char *value);

static bool set_listen(serve_settings *s, char *value)
{
    weft__address address;
    s->listen = value;
    return strchr(value, '/') != NULL || weft__address_parse("tcp", value, &address) == NULL;
}

static bool read_number(const char *text, double min, double max, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= min && *number <= max;
}

/* Digits, and k, m or g for 1024, its square or its cube. */
static bool read_size(const char *text, uint64_t *size)
{
    static const char units[] = "kmg";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || text[0] == '-' || errno != 0 || number == 0)
        return false;
    int shift = 0;
    if (*end != '\0') {
        const char *unit = strchr(units, *end | ' ');
        if (unit == NULL || end[1] != '\0')
            return false;
        shift = 10 * (int)(unit - units + 1);
    }
    *size = (uint64_t)number << shift;
    return *size >> shift == number;
}

static bool set_cords(serve_settings *s, char *value)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    s->cords = (unsigned)number;
    return end != value && *end == '\0' && value[0] != '-' && number >= 1 && number <= CORDS_MAX;
}

static bool set_cert(serve_settings *s, char *value)
{
    s->cert_file = value;
    return value[0] != '\0';
}

static bool set_key(serve_settings *s, char *value)
{
    s->key_file = value;
    return value[0] != '\0';
}

static bool set_self_signed(serve_settings *s, char *value)
{
    (void)value;
    return s->is_self_signed = true;
}

/* The host of that name, which is made if there is none; NULL: too many. */
static serve_host *find_host(serve_settings *s, const char *name, size_t bytes)
{
    for (size_t i = 0; i < s->hosts_count; i++)
        if (strncmp(s->hosts[i].name, name, bytes) == 0 && s->hosts[i].name[bytes] == '\0')
            return &s->hosts[i];
    if (s->hosts_count == SERVE_HOSTS_MAX)
        return NULL;
    serve_host *host = &s->hosts[s->hosts_count];
    *host = (serve_host){.name = strndup(name, bytes)};
    if (host->name != NULL)
        s->hosts_count++;
    return host->name != NULL ? host : NULL;
}

/* NAME=REST: the host, and what comes behind the sign. NULL: it is not that. */
static serve_host *split_host(serve_settings *s, char *value, char **rest)
{
    char *sign = strchr(value, '=');
    if (sign == NULL || sign == value || sign[1] == '\0')
        return NULL;
    *rest = sign + 1;
    return find_host(s, value, (size_t)(sign - value));
}

static bool set_host(serve_settings *s, char *value)
{
    char *dir;
    serve_host *host = split_host(s, value, &dir);
    if (host == NULL || host->dir != NULL)
        return false;
    host->dir = dir;
    return true;
}

static bool set_host_cert(serve_settings *s, char *value)
{
    char *files;
    serve_host *host = split_host(s, value, &files);
    char *comma = host != NULL ? strchr(files, ',') : NULL;
    if (comma == NULL || comma == files || comma[1] == '\0' || host->cert_file != NULL)
        return false;
    host->cert_file = strndup(files, (size_t)(comma - files));
    host->key_file = strdup(comma + 1);
    return true;
}

static bool set_access_log(serve_settings *s, char *value)
{
    s->access_log = value;
    return value[0] != '\0';
}

static bool set_trust(serve_settings *s, char *value)
{
    weft__cidr_list list;
    if (weft__cidr_parse(&list, value) < 0)
        return false;
    weft__cidr_close(&list);
    s->trusted_peers = value;
    return true;
}

static bool set_trust_headers(serve_settings *s, char *value)
{
    s->trusted_headers = value;
    return weft__trust_parse(value) > 0;
}

static bool set_listing(serve_settings *s, char *value)
{
    (void)value;
    return s->has_listing = true;
}

static bool set_no_gzip(serve_settings *s, char *value)
{
    (void)value;
    return s->has_no_gzip = true;
}

static bool set_quiet(serve_settings *s, char *value)
{
    (void)value;
    return s->is_quiet = true;
}

static bool set_help(serve_settings *s, char *value)
{
    (void)value;
    return s->wants_help = true;
}

/* 0 would be the server's default: as good as nothing is a nanosecond. */
static bool set_drain(serve_settings *s, char *value)
{
    bool is_good = read_number(value, 0, 1e9, &s->drain_s);
    s->drain_s = s->drain_s > 0 ? s->drain_s : 1e-9;
    return is_good;
}

static bool set_idle(serve_settings *s, char *value)
{
    return read_number(value, 0.001, 1e9, &s->limits.idle_s);
}

static bool set_max_body(serve_settings *s, char *value)
{
    return read_size(value, &s->limits.body_bytes_max);
}

static bool set_max_connections(serve_settings *s, char *value)
{
    return read_size(value, &s->connections_max);
}

static bool set_max_handshakes(serve_settings *s, char *value)
{
    return read_size(value, &s->handshakes_max);
}

static bool set_max_unsent(serve_settings *s, char *value)
{
    return read_size(value, &s->limits.unsent_bytes_per_peer_max);
}

static const struct option {
    const char *name;
    const char *value; /* what to call it; NULL: it takes none */
    set_fn *set;
    const char *help;
} options[] = {
    {"--listen", "ADDR:PORT", set_listen,
     "127.0.0.1:8080; :80 is all interfaces, port 0 any free one; or a path"},
    {"--cords", "N", set_cords, "threads to serve with; one for each CPU"},
    {"--tls-cert", "FILE", set_cert, "serve https with this certificate chain (PEM)"},
    {"--tls-key", "FILE", set_key, "and its key"},
    {"--self-signed", NULL, set_self_signed, "serve https with a certificate made now: to try it"},
    {"--host", "NAME=DIR", set_host, "another folder for this host; may be repeated"},
    {"--host-cert", "NAME=CERT,KEY", set_host_cert, "another certificate for this host"},
    {"--access-log", "FILE", set_access_log, "write a line for each request; - is stdout"},
    {"--listing", NULL, set_listing, "list folders that have no index.html"},
    {"--no-gzip", NULL, set_no_gzip, "do not compress"},
    {"--trust", "ADDRESSES", set_trust, "proxies to believe: 127.0.0.1,10.0.0.0/8,unix"},
    {"--trust-headers", "NAMES", set_trust_headers,
     "headers of these proxies to believe, by commas; X-Forwarded-For"},
    {"--drain", "SECONDS", set_drain, "what requests have to finish when it is stopped; 10"},
    {"--idle", "SECONDS", set_idle, "how long a connection may wait for a request; 75"},
    {"--max-body", "BYTES", set_max_body, "of a request; 1m"},
    {"--max-connections", "N", set_max_connections, "at once; 16k for each thread"},
    {"--max-handshakes", "N", set_max_handshakes,
     "of TLS, per second and address; 200 for each thread"},
    {"--max-unsent", "BYTES", set_max_unsent,
     "of replies that an address has not read; 64m for each thread"},
    {"--quiet", NULL, set_quiet, "print nothing when it is ready"},
    {"--help", NULL, set_help, "print this"},
};
#define OPTIONS_COUNT (sizeof options / sizeof *options)

void serve_print_help(void)
{
    printf("usage: weft serve [OPTION...] [DIR]\n\n"
           "Serve the files of a folder, the current one unless it is named.\n\n");
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", options[i].name,
                 options[i].value != NULL ? options[i].value : "");
        printf("  %-28s %s\n", left, options[i].help);
    }
    printf("\nSIGTERM or ctrl-C: stop accepting, finish what runs, end; a second time: end now.\n"
           "SIGHUP: read certificates again, open the folders and the access log anew.\n");
}

static const struct option *find_option(const char *word, size_t bytes)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (strlen(options[i].name) == bytes && memcmp(options[i].name, word, bytes) == 0)
            return &options[i];
    return NULL;
}

/* An option, and its value: behind a sign, or the next word. Moves *at to the last word of it. */
static int read_option(serve_settings *s, char **words, int *at)
{
    char *word = strcmp(words[*at], "-h") == 0 ? "--help" : words[*at];
    char *sign = strchr(word, '=');
    const struct option *o = find_option(word, sign != NULL ? (size_t)(sign - word) : strlen(word));
    if (o == NULL)
        return weft__command_misused("serve: no such option: %s (weft serve --help lists them)",
                                     word);
    if (o->value == NULL && sign != NULL)
        return weft__command_misused("serve: %s takes no value: %s", o->name, word);
    char *value = sign != NULL ? sign + 1 : NULL;
    if (o->value != NULL && value == NULL) {
        value = words[*at + 1];
        if (value == NULL)
            return weft__command_misused("serve: %s wants %s behind it", o->name, o->value);
        ++*at;
    }
    if (!o->set(s, value))
        return weft__command_misused("serve: %s wants %s, not %s", o->name, o->value, value);
    return 0;
}

/* Words that make no sense together. */
static int check(const serve_settings *s)
{
    if (s->is_self_signed && s->cert_file != NULL)
        return weft__command_misused("serve: --self-signed and --tls-cert: only one of them");
    if (s->cert_file != NULL && s->key_file == NULL)
        return weft__command_misused("serve: --tls-cert without --tls-key");
    if (s->key_file != NULL && s->cert_file == NULL)
        return weft__command_misused("serve: --tls-key without --tls-cert");
    if (s->trusted_headers != NULL && s->trusted_peers == NULL)
        return weft__command_misused("serve: --trust-headers without --trust");
    for (size_t i = 0; i < s->hosts_count; i++)
        if (s->hosts[i].cert_file != NULL && !serve_has_tls(s))
            return weft__command_misused("serve: --host-cert %s=... without --tls-cert or "
                                         "--self-signed, for who names no host",
                                         s->hosts[i].name);
    return 0;
}

int serve_read_options(serve_settings *s, int argc, char **argv)
{
    *s = (serve_settings){.listen = LISTEN_DEFAULT, .drain_s = DRAIN_S_DEFAULT};
    bool are_all = false; /* behind "--" */
    for (int i = 1; i < argc; i++) {
        int rc = 0;
        if (are_all || argv[i][0] != '-' || argv[i][1] == '\0') {
            if (s->dir != NULL)
                return weft__command_misused("serve: one folder, not also %s", argv[i]);
            s->dir = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            are_all = true;
        } else {
            rc = read_option(s, argv, &i);
        }
        if (rc != 0)
            return rc;
    }
    s->dir = s->dir != NULL ? s->dir : ".";
    return s->wants_help ? 0 : check(s);
}

void serve_free_options(serve_settings *s)
{
    for (size_t i = 0; i < s->hosts_count; i++) {
        free(s->hosts[i].name);
        free(s->hosts[i].cert_file);
        free(s->hosts[i].key_file);
    }
}
