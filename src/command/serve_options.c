/* The options of `weft serve`: their table, the help, and checks of combinations. */
#include "command/command.h"
#include "command/serve.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define LISTEN_DEFAULT "127.0.0.1:8080"
#define DRAIN_S_DEFAULT 10.0
#define TLS_CHECK_S_DEFAULT 10.0

#define FIELD(name) offsetof(serve_settings, name)
#define HEADING(text)  \
    {                  \
        .help = (text) \
    }
#define FLAG(name, field, help)                                            \
    {                                                                      \
        (name), 0, NULL, weft__option_set_flag, FIELD(field), (help), NULL \
    }
#define TEXT(name, value, field, help)                                        \
    {                                                                         \
        (name), 0, (value), weft__option_set_text, FIELD(field), (help), NULL \
    }
#define SECONDS(name, field, help)                                                 \
    {                                                                              \
        (name), 0, "SECONDS", weft__option_set_seconds, FIELD(field), (help), NULL \
    }
#define SIZE(name, value, field, help)                                        \
    {                                                                         \
        (name), 0, (value), weft__option_set_size, FIELD(field), (help), NULL \
    }
#define OWN(name, value, set, help)                \
    {                                              \
        (name), 0, (value), (set), 0, (help), NULL \
    }

static const command_option serve_options[] = {
    HEADING("Listening"),
    OWN("listen", "ADDR:PORT", serve_set_listen,
        "listen on this address or Unix socket path (127.0.0.1:8080)"),
    OWN("cords", "N", serve_set_cords, "serve with N threads (one per CPU)"),
    FLAG("no-http2", has_no_http2, "speak only HTTP/1"),
    OWN("trust", "ADDRESSES", serve_set_trust,
        "trust these proxies, for example 127.0.0.1,10.0.0.0/8,unix"),
    OWN("trust-headers", "NAMES", serve_set_trust_headers,
        "trust these headers from the proxies (X-Forwarded-For)"),
    {"proxy-protocol", 0, "ADDRESSES", serve_set_proxy_protocol, 0,
     "take the client from the PROXY protocol headers of these peers (this machine)",
     serve_is_address_list},
    HEADING("Files"),
    OWN("host", "NAME=DIR", serve_set_host, "serve DIR for the host NAME; may be repeated"),
    FLAG("listing", has_listing, "list directories without index.html"),
    OWN("cache-control", "RULE", serve_set_cache_control,
        "send this Cache-Control: VALUE or PATTERNS=VALUE; may be repeated"),
    OWN("error-page", "STATUS=FILE", serve_set_error_page,
        "reply to errors with FILE: 404=FILE, 5xx=FILE; may be repeated"),
    FLAG("no-gzip", has_no_gzip, "do not compress replies"),
    FLAG("no-precompressed", has_no_precompressed, "do not send FILE.br or FILE.gz for FILE"),
    HEADING("HTTPS"),
    TEXT("tls-cert", "FILE", cert_file, "serve HTTPS with the PEM certificate chain in FILE"),
    TEXT("tls-key", "FILE", key_file, "read the key of --tls-cert from FILE"),
    OWN("host-cert", "NAME=CERT,KEY", serve_set_host_cert,
        "use these PEM files for the host NAME; may be repeated"),
    SECONDS("tls-check", tls_check_s, "read changed PEM files again, check each SECONDS (10)"),
    FLAG("self-signed", is_self_signed,
         "serve HTTPS with a new self-signed certificate, for tests"),
    HEADING("Reverse proxy"),
    OWN("proxy", "PREFIX=URL", serve_set_proxy,
        "forward paths below PREFIX to the server at URL; may be repeated"),
    FLAG("proxy-host", sends_upstream_host, "send the host of URL as Host, not the client's Host"),
    SECONDS("proxy-timeout", proxy_timeout_s,
            "wait at most SECONDS for each response or part of it (60)"),
    TEXT("proxy-ca", "FILE", proxy_ca, "trust only the CAs in this PEM file for https URLs"),
    HEADING("Log"),
    TEXT("access-log", "FILE", access_log, "write a line per request to FILE; - means stdout"),
    OWN("log-format", "FORMAT", serve_set_log_format,
        "write the log as combined, common or json (combined)"),
    {"metrics", 0, "ADDR:PORT", serve_set_metrics, 0,
     "serve metrics for Prometheus at this address, path /metrics (127.0.0.1:9464)",
     serve_is_metrics_address},
    FLAG("quiet", is_quiet, "print only errors"),
    HEADING("Limits"),
    SECONDS("drain", drain_s, "let requests finish for SECONDS after SIGTERM (10)"),
    SECONDS("idle", limits.idle_s, "close idle connections after SECONDS (75)"),
    SIZE("max-body", "BYTES", limits.body_bytes_max, "limit the body of a request to BYTES (1m)"),
    SIZE("max-connections", "N", connections_max,
         "limit open connections to N, divided among the threads (16k per thread)"),
    SIZE("max-handshakes", "N", handshakes_max,
         "limit TLS handshakes per second and address to N, divided among the threads (200 per "
         "thread)"),
    SIZE("max-unsent", "BYTES", limits.unsent_bytes_per_peer_max,
         "limit unread reply bytes per address and thread to BYTES (64m)"),
    HEADING("Help"),
    {"help", 'h', NULL, weft__option_set_flag, FIELD(wants_help), "print this help", NULL},
};

static const command_syntax serve_syntax = {"serve", serve_options,
                                            sizeof serve_options / sizeof *serve_options};

void serve_print_help(void)
{
    printf("usage: weft serve [OPTION...] [DIR]\n\n"
           "Serve the files in DIR, or in the current directory. Defaults are in parentheses.\n\n");
    weft__options_print(&serve_syntax);
    printf("\n"
           "An address without a host, such as :80, means all interfaces. Port 0 means a free "
           "port.\n"
           "A limit may end with k, m or g, for example 64k.\n"
           "Rules for Cache-Control: --cache-control no-cache applies to all files, and\n"
           "--cache-control '*.css,*.js=max-age=31536000, immutable' to files with these names.\n"
           "The first rule that matches applies.\n"
           "A path in the URL of --proxy replaces PREFIX. The longest PREFIX applies. URL may be\n"
           "unix:SOCKET or unix:SOCKET:/PATH. PREFIX may start with a host.\n\n"
           "SIGTERM or Ctrl-C: stop accepting connections, finish requests and exit. A second\n"
           "signal: exit at once.\n"
           "SIGHUP: read the certificates again, open the directories and the access log again.\n");
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
    if (s->log_format != WEFT__LOG_COMBINED && s->access_log == NULL)
        return weft__command_usage_error("serve: --log-format needs --access-log");
    if (s->proxies_count == 0 &&
        (s->sends_upstream_host || s->proxy_timeout_s > 0 || s->proxy_ca != NULL))
        return weft__command_usage_error("serve: --proxy-host, --proxy-timeout and --proxy-ca need "
                                         "--proxy");
    if (s->has_dir && serve_is_all_proxied(s, ""))
        return weft__command_usage_error(
            "serve: %s is never served, because --proxy forwards all paths", s->dir);
    for (size_t i = 0; i < s->hosts_count; i++)
        if (s->hosts[i].cert_file != NULL && !serve_has_tls(s))
            return weft__command_usage_error("serve: --host-cert for %s needs --tls-cert or "
                                             "--self-signed, for clients that request no host",
                                             s->hosts[i].name);
    return 0;
}

int serve_read_options(serve_settings *s, int argc, char **argv)
{
    *s = (serve_settings){
        .listen = LISTEN_DEFAULT, .drain_s = DRAIN_S_DEFAULT, .tls_check_s = TLS_CHECK_S_DEFAULT};
    int status = weft__options_read(&serve_syntax, s, argc, argv);
    if (status != 0)
        return status;
    if (optind + 1 < argc)
        return weft__command_usage_error("serve: more than one directory: %s", argv[optind + 1]);
    s->has_dir = optind < argc;
    s->dir = s->has_dir ? argv[optind] : ".";
    return s->wants_help ? 0 : settings_check(s);
}

void serve_free_options(serve_settings *s)
{
    for (size_t i = 0; i < s->hosts_count; i++) {
        free(s->hosts[i].name);
        free(s->hosts[i].cert_file);
        free(s->hosts[i].key_file);
    }
    for (size_t i = 0; i < s->proxies_count; i++)
        free(s->proxies[i].memory);
}
