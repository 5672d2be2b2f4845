/* Parse the values of options of `weft serve` that have their own form. */
#include "command/command.h"
#include "command/serve.h"

#include "http/server/server.h"
#include "http/text/field.h"
#include "http/url/ip.h"
#include "http/url/path.h"
#include "io/names/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORDS_MAX 1000 /* a process has at most 1,024 threads with fibers */

/* Return the equals sign of "NAME=REST". Return NULL if NAME, the sign or REST is missing. */
static char *find_equals_sign(char *value)
{
    char *sign = strchr(value, '=');
    return sign != NULL && sign > value && sign[1] != '\0' ? sign : NULL;
}

/* The default of --metrics: not reachable from other hosts. */
#define METRICS_ADDRESS "127.0.0.1:9464"

int serve_set_listen(void *settings, const command_option *o, char *value)
{
    serve_settings *s = settings;
    weft__address address;
    bool is_path = strchr(value, '/') != NULL;
    const char *fault = is_path ? NULL : weft__address_parse("tcp", value, &address);
    s->listen = value;
    return fault == NULL ? 0 : weft__option_error(o, "%s: %s", value, fault);
}

bool serve_is_metrics_address(const char *argument)
{
    weft__address address;
    bool is_path = strchr(argument, '/') != NULL || strchr(argument, ':') == NULL;
    return !is_path && weft__address_parse("tcp", argument, &address) == NULL;
}

int serve_set_metrics(void *settings, const command_option *o, char *value)
{
    serve_settings *s = settings;
    weft__address address;
    s->metrics = value != NULL ? value : METRICS_ADDRESS;
    bool is_path = strchr(s->metrics, '/') != NULL;
    const char *fault = is_path ? NULL : weft__address_parse("tcp", s->metrics, &address);
    return fault == NULL ? 0 : weft__option_error(o, "%s: %s", s->metrics, fault);
}

int serve_set_cords(void *settings, const command_option *o, char *value)
{
    return weft__option_number(o, value, 1, CORDS_MAX, &((serve_settings *)settings)->cords);
}

/*
 * Hosts.
 */

/* Find a host by its name, or add a host. Return 0, or the exit status after a message. */
static int settings_find_host(serve_settings *s, const command_option *o, const char *name,
                              size_t bytes, serve_host **host)
{
    for (size_t i = 0; i < s->hosts_count; i++) {
        *host = &s->hosts[i];
        if (strncmp((*host)->name, name, bytes) == 0 && (*host)->name[bytes] == '\0')
            return 0;
    }
    if (s->hosts_count == SERVE_HOSTS_MAX)
        return weft__option_error(o, "%.*s: more than %d hosts", (int)bytes, name, SERVE_HOSTS_MAX);
    *host = &s->hosts[s->hosts_count];
    **host = (serve_host){.name = strndup(name, bytes)};
    if ((*host)->name == NULL)
        return weft__option_memory_error();
    s->hosts_count++;
    return 0;
}

int serve_set_host(void *settings, const command_option *o, char *value)
{
    char *sign = find_equals_sign(value);
    if (sign == NULL)
        return weft__option_error(o, "%s is not NAME=DIR", value);
    serve_host *host;
    int status = settings_find_host(settings, o, value, (size_t)(sign - value), &host);
    if (status != 0)
        return status;
    if (host->dir != NULL)
        return weft__option_error(o, "%s is given twice", host->name);
    host->dir = sign + 1;
    return 0;
}

int serve_set_host_cert(void *settings, const command_option *o, char *value)
{
    char *sign = find_equals_sign(value);
    char *comma = sign != NULL ? strchr(sign, ',') : NULL;
    if (comma == NULL || comma == sign + 1 || comma[1] == '\0')
        return weft__option_error(o, "%s is not NAME=CERT,KEY", value);
    serve_host *host;
    int status = settings_find_host(settings, o, value, (size_t)(sign - value), &host);
    if (status != 0)
        return status;
    if (host->cert_file != NULL)
        return weft__option_error(o, "%s is given twice", host->name);
    host->cert_file = strndup(sign + 1, (size_t)(comma - sign - 1));
    host->key_file = strdup(comma + 1);
    return host->cert_file != NULL && host->key_file != NULL ? 0 : weft__option_memory_error();
}

/*
 * Trust.
 */

/* Check a list of addresses. Return 0, or the exit status after a message. */
static int check_addresses(const command_option *o, const char *value)
{
    weft__cidr_list list;
    int rc = weft__cidr_parse(&list, value);
    if (rc == -ENOMEM)
        return weft__option_memory_error();
    if (rc < 0)
        return weft__option_error(o, "%s is not a list of addresses, address ranges and unix",
                                  value);
    weft__cidr_close(&list);
    return 0;
}

int serve_set_trust(void *settings, const command_option *o, char *value)
{
    ((serve_settings *)settings)->trusted_peers = value;
    return check_addresses(o, value);
}

/* Peers that may send a header of the PROXY protocol, unless the option names others. */
#define PROXY_PROTOCOL_PEERS "127.0.0.0/8,::1,unix"

bool serve_is_address_list(const char *argument)
{
    weft__cidr_list list;
    if (argument[0] == '\0' || weft__cidr_parse(&list, argument) < 0)
        return false;
    weft__cidr_close(&list);
    return true;
}

int serve_set_proxy_protocol(void *settings, const command_option *o, char *value)
{
    ((serve_settings *)settings)->proxy_protocol_peers =
        value != NULL ? value : PROXY_PROTOCOL_PEERS;
    return value != NULL ? check_addresses(o, value) : 0;
}

int serve_set_trust_headers(void *settings, const command_option *o, char *value)
{
    ((serve_settings *)settings)->trusted_headers = value;
    if (weft__trusted_headers_parse(value) > 0)
        return 0;
    return weft__option_error(o,
                              "%s is not a list of X-Forwarded-For, X-Forwarded-Host, "
                              "X-Forwarded-Proto and Forwarded",
                              value);
}

/*
 * The log, caching and error pages.
 */

int serve_set_log_format(void *settings, const command_option *o, char *value)
{
    static const char *const names[] = {[WEFT__LOG_COMBINED] = "combined",
                                        [WEFT__LOG_COMMON] = "common",
                                        [WEFT__LOG_JSON] = "json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(value, names[i]) == 0) {
            ((serve_settings *)settings)->log_format = (weft__log_format)i;
            return 0;
        }
    return weft__option_error(o, "%s is not combined, common or json", value);
}

/*
 * Return the equals sign of "PATTERNS=VALUE". Return NULL if the text is only a value, for example
 * "public, max-age=60". A pattern has one of the characters * ? . and /, and the name of a
 * directive has none of them.
 */
static char *find_end_of_patterns(char *text)
{
    char *sign = strchr(text, '=');
    size_t special = strcspn(text, "*?./");
    return sign != NULL && special < (size_t)(sign - text) ? sign : NULL;
}

int serve_set_cache_control(void *settings, const command_option *o, char *value)
{
    serve_settings *s = settings;
    char *sign = find_end_of_patterns(value), *text = sign != NULL ? sign + 1 : value;
    if (!weft__field_is_value(text, strlen(text)) || value[0] == '=')
        return weft__option_error(o, "%s is not VALUE or PATTERNS=VALUE", value);
    if (sign == NULL && text[0] == '\0')
        return weft__option_error(o, "the value is empty");
    if (sign == NULL && s->cache_control != NULL)
        return weft__option_error(o, "%s: a value without patterns is given twice", value);
    if (sign == NULL) {
        s->cache_control = text;
        return 0;
    }
    if (s->cache_rules_count == SERVE_CACHE_RULES_MAX)
        return weft__option_error(o, "%s: more than %d rules", value, SERVE_CACHE_RULES_MAX);
    *sign = '\0';
    s->cache_rules[s->cache_rules_count++] = (weft_http_cache_rule){value, text};
    return 0;
}

/* Parse 404, 4xx or 5xx. Return the status for weft_http_error_page, or 0. */
static int parse_error_status(const char *text, size_t bytes)
{
    if (bytes != 3 || (text[0] != '4' && text[0] != '5'))
        return 0;
    if (text[1] == 'x' && text[2] == 'x')
        return text[0] - '0';
    return text[1] >= '0' && text[1] <= '9' && text[2] >= '0' && text[2] <= '9' ? atoi(text) : 0;
}

int serve_set_error_page(void *settings, const command_option *o, char *value)
{
    serve_settings *s = settings;
    char *sign = find_equals_sign(value);
    int status = sign != NULL ? parse_error_status(value, (size_t)(sign - value)) : 0;
    if (status == 0)
        return weft__option_error(o, "%s is not STATUS=FILE, with a STATUS such as 404 or 5xx",
                                  value);
    for (size_t i = 0; i < s->error_pages_count; i++)
        if (s->error_pages[i].status == status)
            return weft__option_error(o, "%.3s is given twice", value);
    if (s->error_pages_count == SERVE_ERROR_PAGES_MAX)
        return weft__option_error(o, "%s: more than %d pages", value, SERVE_ERROR_PAGES_MAX);
    s->error_pages[s->error_pages_count++] = (weft_http_error_page){status, sign + 1};
    return 0;
}

/*
 * Proxies.
 */

/* Return what is wrong with the URL of an upstream server, or NULL. */
static const char *upstream_fault(const char *text)
{
    weft_url url;
    if (weft_url_open(&url, text) < 0)
        return "the target is not a URL";
    const char *fault = NULL;
    if (strcmp(url.scheme, "http") != 0 && strcmp(url.scheme, "https") != 0)
        fault = "the target is not http://, https:// or unix:";
    else if (url.has_query || strpbrk(text, "@#") != NULL)
        fault = "the target has a user, a query or a fragment";
    else if (url.port <= 0)
        fault = "the target has no port";
    weft_url_close(&url);
    return fault;
}

/*
 * Split "unix:/run/app.sock:/path" into a socket and the URL "http://localhost/path". Return
 * whether the target has this form.
 */
static bool split_unix_target(serve_proxy_rule *rule, char *target, char *url)
{
    if (strncmp(target, "unix:", 5) != 0 || target[5] == '\0' || target[5] == ':')
        return false;
    char *path = strstr(target + 5, ":/");
    sprintf(url, "http://localhost%s", path != NULL ? path + 1 : "");
    if (path != NULL)
        *path = '\0';
    rule->unix_socket = target + 5;
    rule->url = url;
    return true;
}

/* Return what is wrong with a prefix such as "/api" or "example.org/api", or NULL. */
static const char *prefix_fault(const char *prefix)
{
    const char *path = strchr(prefix, '/');
    char *copy = path != NULL ? strdup(path) : NULL;
    bool is_normal = copy != NULL && strpbrk(path, "%{}?#") == NULL && weft__path_clean(copy) > 0 &&
                     strcmp(copy, path) == 0;
    free(copy);
    return is_normal ? NULL : "the prefix is not a path such as /api";
}

/* Set host and path from "[HOST]/PATH". The text is writable and has a byte before its begin. */
static void set_proxy_prefix(serve_proxy_rule *rule, char *prefix)
{
    char *slash = strchr(prefix, '/'), *end = prefix + strlen(prefix);
    memmove(prefix - 1, prefix, (size_t)(slash - prefix)); /* for the NUL between host and path */
    slash[-1] = '\0';
    rule->host = prefix - 1;
    rule->path = slash;
    while (end - 1 > slash && end[-1] == '/')
        *--end = '\0';
}

int serve_set_proxy(void *settings, const command_option *o, char *value)
{
    serve_settings *s = settings;
    const char *sign = find_equals_sign(value);
    if (sign == NULL)
        return weft__option_error(o, "%s is not PREFIX=URL", value);
    if (s->proxies_count == SERVE_PROXIES_MAX)
        return weft__option_error(o, "%s: more than %d proxies", value, SERVE_PROXIES_MAX);
    size_t bytes = strlen(value) + 1, at = (size_t)(sign - value);
    serve_proxy_rule *rule = &s->proxies[s->proxies_count];
    char *memory = malloc(1 + bytes + bytes + sizeof "http://localhost");
    if (memory == NULL)
        return weft__option_memory_error();
    *rule = (serve_proxy_rule){.memory = memory};
    s->proxies_count++; /* serve_free_options frees the memory */
    char *prefix = memcpy(memory + 1, value, bytes), *target = prefix + at + 1;
    prefix[at] = '\0';
    rule->host = rule->path = "";
    rule->url = target;
    const char *fault = prefix_fault(prefix);
    if (fault == NULL && !split_unix_target(rule, target, prefix + bytes))
        fault = upstream_fault(target);
    if (fault != NULL)
        return weft__option_error(o, "%s: %s", value, fault);
    set_proxy_prefix(rule, prefix);
    for (size_t i = 0; i + 1 < s->proxies_count; i++)
        if (strcmp(s->proxies[i].host, rule->host) == 0 &&
            strcmp(s->proxies[i].path, rule->path) == 0)
            return weft__option_error(o, "%s: the prefix is given twice", value);
    return 0;
}
