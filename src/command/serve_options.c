/* Parse the command line of `weft serve`, check it and print the help. */
#include "command/command.h"
#include "command/serve.h"

#include "http/server/server.h"
#include "http/url/ip.h"
#include "io/names/address.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTEN_DEFAULT "127.0.0.1:8080"
#define DRAIN_S_DEFAULT 10.0
#define SECONDS_MIN 0.001
#define SECONDS_MAX 1e9
#define CORDS_MAX 1000 /* a process has at most 1,024 threads with fibers */

int serve_memory_error(void)
{
    fprintf(stderr, "weft: serve: memory is exhausted\n");
    return EXIT_FAILURE;
}

typedef struct serve_option serve_option;

/* Store the value of an option. Return 0, or the exit status after a message. */
typedef int set_fn(serve_settings *settings, const serve_option *option, char *value);

struct serve_option {
    const char *name;
    const char *value; /* the name of the value in the help; NULL: the option has no value */
    set_fn *set;
    size_t offset; /* of the setting that set_flag, set_text, set_seconds or set_size stores */
    const char *help;
};

static void *option_field(serve_settings *s, const serve_option *o)
{
    return (char *)s + o->offset;
}

static int set_flag(serve_settings *s, const serve_option *o, char *value)
{
    (void)value;
    *(bool *)option_field(s, o) = true;
    return 0;
}

static int set_text(serve_settings *s, const serve_option *o, char *value)
{
    *(const char **)option_field(s, o) = value;
    return value[0] != '\0' ? 0
                            : weft__command_usage_error("serve: --%s: the value is empty", o->name);
}

static int set_seconds(serve_settings *s, const serve_option *o, char *value)
{
    double *seconds = option_field(s, o);
    char *end;
    *seconds = strtod(value, &end);
    if (end != value && *end == '\0' && *seconds >= 0 && *seconds <= SECONDS_MAX) {
        /* In weft_http_options, 0 means the default. */
        *seconds = *seconds > 0 ? *seconds : SECONDS_MIN;
        return 0;
    }
    return weft__command_usage_error("serve: --%s: %s is not in 0..%g", o->name, value,
                                     SECONDS_MAX);
}

/* Parse a number with an optional unit: k is 1024, m is 1024^2, g is 1024^3. */
static bool parse_size(const char *text, uint64_t *size)
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

static int set_size(serve_settings *s, const serve_option *o, char *value)
{
    if (parse_size(value, option_field(s, o)))
        return 0;
    return weft__command_usage_error(
        "serve: --%s: %s is not a positive 64-bit number with an optional k, m or g", o->name,
        value);
}

/* Find a host by its name, or add a host. Return 0, or the exit status after a message. */
static int settings_find_host(serve_settings *s, const char *name, size_t bytes, serve_host **host)
{
    for (size_t i = 0; i < s->hosts_count; i++) {
        *host = &s->hosts[i];
        if (strncmp((*host)->name, name, bytes) == 0 && (*host)->name[bytes] == '\0')
            return 0;
    }
    if (s->hosts_count == SERVE_HOSTS_MAX)
        return weft__command_usage_error("serve: %.*s: more than %d hosts", (int)bytes, name,
                                         SERVE_HOSTS_MAX);
    *host = &s->hosts[s->hosts_count];
    **host = (serve_host){.name = strndup(name, bytes)};
    if ((*host)->name == NULL)
        return serve_memory_error();
    s->hosts_count++;
    return 0;
}

/* Return the equals sign of "NAME=REST". Return NULL if NAME, the sign or REST is missing. */
static char *find_equals_sign(char *value)
{
    char *sign = strchr(value, '=');
    return sign != NULL && sign > value && sign[1] != '\0' ? sign : NULL;
}

static int set_listen(serve_settings *s, const serve_option *o, char *value)
{
    (void)o;
    weft__address address;
    bool is_path = strchr(value, '/') != NULL;
    const char *fault = is_path ? NULL : weft__address_parse("tcp", value, &address);
    s->listen = value;
    return fault == NULL ? 0 : weft__command_usage_error("serve: --listen: %s: %s", value, fault);
}

static int set_cords(serve_settings *s, const serve_option *o, char *value)
{
    (void)o;
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    s->cords = (unsigned)number;
    if (end != value && *end == '\0' && value[0] != '-' && number >= 1 && number <= CORDS_MAX)
        return 0;
    return weft__command_usage_error("serve: --cords: %s is not in 1..%d", value, CORDS_MAX);
}

static int set_host(serve_settings *s, const serve_option *o, char *value)
{
    (void)o;
    char *sign = find_equals_sign(value);
    if (sign == NULL)
        return weft__command_usage_error("serve: --host: %s is not NAME=DIR", value);
    serve_host *host;
    int status = settings_find_host(s, value, (size_t)(sign - value), &host);
    if (status != 0)
        return status;
    if (host->dir != NULL)
        return weft__command_usage_error("serve: --host: %s is given twice", host->name);
    host->dir = sign + 1;
    return 0;
}

static int set_host_cert(serve_settings *s, const serve_option *o, char *value)
{
    (void)o;
    char *sign = find_equals_sign(value);
    char *comma = sign != NULL ? strchr(sign, ',') : NULL;
    if (comma == NULL || comma == sign + 1 || comma[1] == '\0')
        return weft__command_usage_error("serve: --host-cert: %s is not NAME=CERT,KEY", value);
    serve_host *host;
    int status = settings_find_host(s, value, (size_t)(sign - value), &host);
    if (status != 0)
        return status;
    if (host->cert_file != NULL)
        return weft__command_usage_error("serve: --host-cert: %s is given twice", host->name);
    host->cert_file = strndup(sign + 1, (size_t)(comma - sign - 1));
    host->key_file = strdup(comma + 1);
    return host->cert_file != NULL && host->key_file != NULL ? 0 : serve_memory_error();
}

static int set_trust(serve_settings *s, const serve_option *o, char *value)
{
    (void)o;
    weft__cidr_list list;
    int rc = weft__cidr_parse(&list, value);
    if (rc == -ENOMEM)
        return serve_memory_error();
    if (rc < 0)
        return weft__command_usage_error(
            "serve: --trust: %s is not a list of addresses, address ranges and unix", value);
    weft__cidr_close(&list);
    s->trusted_peers = value;
    return 0;
}

static int set_trust_headers(serve_settings *s, const serve_option *o, char *value)
{
    (void)o;
    s->trusted_headers = value;
    if (weft__trusted_headers_parse(value) > 0)
        return 0;
    return weft__command_usage_error("serve: --trust-headers: %s is not a list of X-Forwarded-For, "
                                     "X-Forwarded-Host, X-Forwarded-Proto and Forwarded",
                                     value);
}

#define FIELD(name) offsetof(serve_settings, name)

static const serve_option serve_options[] = {
    {"listen", "ADDR:PORT", set_listen, 0,
     "listen on this address or Unix socket path (127.0.0.1:8080)"},
    {"cords", "N", set_cords, 0, "serve with N threads (one per CPU)"},
    {"tls-cert", "FILE", set_text, FIELD(cert_file),
     "serve HTTPS with the PEM certificate chain in FILE"},
    {"tls-key", "FILE", set_text, FIELD(key_file), "read the key of --tls-cert from FILE"},
    {"self-signed", NULL, set_flag, FIELD(is_self_signed),
     "serve HTTPS with a new self-signed certificate, for tests"},
    {"host", "NAME=DIR", set_host, 0, "serve DIR for the host NAME; may be repeated"},
    {"host-cert", "NAME=CERT,KEY", set_host_cert, 0,
     "use these PEM files for the host NAME; may be repeated"},
    {"access-log", "FILE", set_text, FIELD(access_log),
     "write a line per request to FILE; - means stdout"},
    {"listing", NULL, set_flag, FIELD(has_listing), "list directories without index.html"},
    {"no-gzip", NULL, set_flag, FIELD(has_no_gzip), "do not compress replies"},
    {"trust", "ADDRESSES", set_trust, 0,
     "trust these proxies, for example 127.0.0.1,10.0.0.0/8,unix"},
    {"trust-headers", "NAMES", set_trust_headers, 0,
     "trust these headers from the proxies (X-Forwarded-For)"},
    {"drain", "SECONDS", set_seconds, FIELD(drain_s),
     "let requests finish for SECONDS after SIGTERM (10)"},
    {"idle", "SECONDS", set_seconds, FIELD(limits.idle_s),
     "close idle connections after SECONDS (75)"},
    {"max-body", "BYTES", set_size, FIELD(limits.body_bytes_max),
     "limit the body of a request to BYTES (1m)"},
    {"max-connections", "N", set_size, FIELD(connections_max),
     "limit open connections to N, divided among the threads (16k per thread)"},
    {"max-handshakes", "N", set_size, FIELD(handshakes_max),
     "limit TLS handshakes per second and address to N, divided among the threads (200 per "
     "thread)"},
    {"max-unsent", "BYTES", set_size, FIELD(limits.unsent_bytes_per_peer_max),
     "limit unread reply bytes per address and thread to BYTES (64m)"},
    {"quiet", NULL, set_flag, FIELD(is_quiet), "print only errors"},
    {"help", NULL, set_flag, FIELD(wants_help), "print this help"},
};
#define OPTIONS_COUNT (sizeof serve_options / sizeof *serve_options)
#define OPTION_HELP (OPTIONS_COUNT - 1) /* --help is the last option */

void serve_print_help(void)
{
    printf("usage: weft serve [OPTION...] [DIR]\n\n"
           "Serve the files in DIR, or in the current directory. Defaults are in parentheses.\n\n");
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        char left[40];
        snprintf(left, sizeof left, "--%s %s", serve_options[i].name,
                 serve_options[i].value != NULL ? serve_options[i].value : "");
        printf("  %-28s %s\n", left, serve_options[i].help);
    }
    printf("\nAn address without a host, such as :80, means all interfaces. Port 0 means a free "
           "port.\n"
           "A limit may end with k, m or g, for example 64k.\n\n"
           "SIGTERM or Ctrl-C: stop accepting connections, finish requests and exit. A second\n"
           "signal: exit at once.\n"
           "SIGHUP: read the certificates again, open the directories and the access log again.\n");
}

/* Report an argument that getopt_long refused with `refused`. Return the exit status. */
static int report_refused(int refused, char **argv)
{
    if (optopt > (int)OPTIONS_COUNT) /* a short option, perhaps one of several in the argument */
        return weft__command_usage_error("serve: unknown option: -%c (see weft serve --help)",
                                         optopt);
    const char *arg = argv[optind - 1];
    if (refused == ':')
        return weft__command_usage_error("serve: %s needs a value: %s", arg,
                                         serve_options[optopt - 1].value);
    if (optopt > 0 && (size_t)optopt <= OPTIONS_COUNT)
        return weft__command_usage_error("serve: %s: --%s takes no value", arg,
                                         serve_options[optopt - 1].name);
    return weft__command_usage_error("serve: unknown option: %s (see weft serve --help)", arg);
}

/* Parse the options. Set optind to the first argument that is not an option. */
static int read_options(serve_settings *s, int argc, char **argv)
{
    struct option known[OPTIONS_COUNT + 1] = {0};
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        known[i] = (struct option){
            .name = serve_options[i].name,
            .has_arg = serve_options[i].value != NULL ? required_argument : no_argument,
            .val = (int)i + 1,
        };
    opterr = 0;
    int found;
    while ((found = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
        if (found == '?' || found == ':')
            return report_refused(found, argv);
        const serve_option *o = &serve_options[found == 'h' ? OPTION_HELP : (size_t)found - 1];
        int status = o->set(s, o, optarg);
        if (status != 0)
            return status;
    }
    return 0;
}

/* Check combinations of options. */
static int settings_check(const serve_settings *s)
{
    if (s->is_self_signed && s->cert_file != NULL)
        return weft__command_usage_error(
            "serve: --self-signed and --tls-cert are mutually exclusive");
    if (s->cert_file != NULL && s->key_file == NULL)
        return weft__command_usage_error("serve: --tls-cert needs --tls-key");
    if (s->key_file != NULL && s->cert_file == NULL)
        return weft__command_usage_error("serve: --tls-key needs --tls-cert");
    if (s->trusted_headers != NULL && s->trusted_peers == NULL)
        return weft__command_usage_error("serve: --trust-headers needs --trust");
    for (size_t i = 0; i < s->hosts_count; i++)
        if (s->hosts[i].cert_file != NULL && !serve_has_tls(s))
            return weft__command_usage_error("serve: --host-cert for %s needs --tls-cert or "
                                             "--self-signed, for clients that request no host",
                                             s->hosts[i].name);
    return 0;
}

int serve_read_options(serve_settings *s, int argc, char **argv)
{
    *s = (serve_settings){.listen = LISTEN_DEFAULT, .drain_s = DRAIN_S_DEFAULT};
    int status = read_options(s, argc, argv);
    if (status != 0)
        return status;
    if (optind + 1 < argc)
        return weft__command_usage_error("serve: more than one directory: %s", argv[optind + 1]);
    s->dir = optind < argc ? argv[optind] : ".";
    return s->wants_help ? 0 : settings_check(s);
}

void serve_free_options(serve_settings *s)
{
    for (size_t i = 0; i < s->hosts_count; i++) {
        free(s->hosts[i].name);
        free(s->hosts[i].cert_file);
        free(s->hosts[i].key_file);
    }
}
