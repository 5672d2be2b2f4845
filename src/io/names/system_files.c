/*
 * Parsing of the files in /etc about names. The parsers find out whether the C library would use
 * more sources than the hosts file and the name servers. They also find the timeouts and the search
 * domains. The files are small and are read as a whole.
 */
#include "io/names/system_files.h"

#include "base/libc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Defaults and limits of the C library, from resolv.conf(5). */
enum { TIMEOUT_S = 5, TIMEOUT_MAX_S = 30, TRIES = 2, TRIES_MAX = 5, NDOTS = 1, NDOTS_MAX = 15 };

/* Files. */

static bool is_same_stat(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool weft__conf_is_stale(const weft__conf *conf, const char *path)
{
    struct stat now;
    if (stat(path, &now) < 0)
        memset(&now, 0, sizeof now);
    return !conf->is_read || !is_same_stat(&conf->read_stat, &now);
}

/*
 * Read a file, and terminate the text with a NUL. Returns NULL if memory is exhausted or the file
 * is unreadable.
 */
static char *read_file(int fd, size_t bytes)
{
    char *text = malloc(bytes + 1);
    size_t used = 0;
    ssize_t n = text != NULL ? 0 : -1;
    while (n >= 0 && used < bytes) {
        n = TEMP_FAILURE_RETRY(read(fd, text + used, bytes - used));
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[used] = '\0';
    for (char *pos = text; (pos += strlen(pos)) < text + used;)
        *pos = '\n'; /* a zero byte would hide the following text */
    return text;
}

static bool is_shortage(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE;
}

int weft__conf_refresh(weft__conf *conf, const char *path)
{
    if (!weft__conf_is_stale(conf, path))
        return 0;
    weft__conf_free(conf);
    /* O_NONBLOCK prevents the call from blocking if the path is a named pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        conf->is_read = !is_shortage(errno);
        return conf->is_read ? 0 : -errno;
    }
    bool is_file = fstat(fd, &conf->read_stat) == 0 && S_ISREG(conf->read_stat.st_mode);
    if (is_file)
        conf->text = read_file(fd, (size_t)conf->read_stat.st_size);
    conf->is_read = !is_file || conf->text != NULL;
    close(fd);
    return conf->is_read ? 0 : -ENOMEM;
}

void weft__conf_free(weft__conf *conf)
{
    free(conf->text);
    *conf = (weft__conf){0};
}

/* Words and lines. */

typedef struct word {
    const char *pos;
    size_t bytes; /* 0: no word is left in the line */
} word;

/*
 * Return the next word of a line. A comment ends the line. The call moves *pos past the word, but
 * not past the end of the line.
 */
static word next_word(const char **pos, const char *comments)
{
    const char *from = *pos + strspn(*pos, " \t\r");
    bool is_comment = *from != '\0' && strchr(comments, *from) != NULL;
    size_t bytes = is_comment ? 0 : strcspn(from, " \t\r\n");
    *pos = from + bytes;
    return (word){from, bytes};
}

static const char *next_line(const char *pos)
{
    pos += strcspn(pos, "\n");
    return *pos == '\n' ? pos + 1 : pos;
}

static bool word_is(word w, const char *text)
{
    return w.bytes == strlen(text) && strncasecmp(w.pos, text, w.bytes) == 0;
}

static bool word_begins_with(word w, const char *text)
{
    return w.bytes >= strlen(text) && strncmp(w.pos, text, strlen(text)) == 0;
}

/* Sources. */

/*
 * Parse the sources in the hosts line of nsswitch.conf. Record the sources that apply only to some
 * names. Any other source except files and dns needs the C library. An action in brackets also
 * needs the C library, unless the action follows a source that applies only to some names.
 */
static void sources_read_hosts_line(const char *pos, weft__sources *s)
{
    bool has_dns = false, was_partial = false;
    for (word w; (w = next_word(&pos, "#")).bytes > 0;) {
        bool is_partial = true;
        if (word_is(w, "mdns4_minimal") || word_is(w, "mdns6_minimal") ||
            word_is(w, "mdns_minimal"))
            s->has_mdns = true;
        else if (word_is(w, "mymachines"))
            s->has_machines = true;
        else if (word_is(w, "myhostname"))
            s->has_host_name = true;
        else
            is_partial = false;
        if (word_is(w, "dns"))
            has_dns = true;
        else if (word_is(w, "files"))
            s->needs_libc |= has_dns; /* files after dns is not supported by dns.c */
        else if (!is_partial && !(was_partial && *w.pos == '['))
            s->needs_libc = true;
        was_partial = is_partial;
    }
    s->needs_libc |= !has_dns;
}

/*
 * Return whether the address of a name server has a zone. c-ares would ignore such a name server.
 */
static bool has_server_with_zone(const char *resolv)
{
    for (const char *pos = resolv; *pos != '\0'; pos = next_line(pos)) {
        const char *rest = pos;
        if (!word_is(next_word(&rest, "#;"), "nameserver"))
            continue;
        word server = next_word(&rest, "#;");
        if (memchr(server.pos, '%', server.bytes) != NULL)
            return true;
    }
    return false;
}

weft__sources weft__sources_read(const char *nsswitch, const char *gai, const char *resolv)
{
    weft__sources s = {0};
    for (const char *pos = nsswitch != NULL ? nsswitch : ""; *pos != '\0'; pos = next_line(pos)) {
        const char *rest = pos;
        word first = next_word(&rest, "#");
        if (word_begins_with(first, "hosts:"))
            sources_read_hosts_line(first.pos + strlen("hosts:"), &s);
    }
    /*
     * Any setting in gai.conf changes the order of addresses. Only the C library implements this
     * order.
     */
    for (const char *pos = gai != NULL ? gai : ""; *pos != '\0'; pos = next_line(pos)) {
        const char *rest = pos;
        s.needs_libc |= next_word(&rest, "#").bytes > 0;
    }
    s.needs_libc |= resolv != NULL && has_server_with_zone(resolv);
    return s;
}

static bool name_ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes >= end_bytes && strcasecmp(name + bytes - end_bytes, end) == 0;
}

static bool is_for_this_machine(const char *name)
{
    char host_name[256] = "";
    if (gethostname(host_name, sizeof host_name - 1) == 0 && strcasecmp(host_name, name) == 0)
        return true;
    return name[0] == '_' || name_ends_with(name, "localhost") ||
           name_ends_with(name, "localhost.") || name_ends_with(name, "localdomain") ||
           name_ends_with(name, "localdomain.");
}

bool weft__sources_suffice(const weft__sources *s, const char *name)
{
    if (s->needs_libc || (s->has_machines && strchr(name, '.') == NULL))
        return false;
    if (s->has_mdns && (name_ends_with(name, ".local") || name_ends_with(name, ".local.")))
        return false;
    return !s->has_host_name || !is_for_this_machine(name);
}

/* Options. */

/*
 * Parse the number after the name of an option, and clamp the number. If there is no number, *out
 * remains unchanged.
 */
static void word_read_number(word w, const char *option, int min, int max, int *out)
{
    if (!word_begins_with(w, option))
        return;
    const char *pos = w.pos + strlen(option);
    long value = 0;
    if (!isdigit((unsigned char)*pos))
        return;
    for (; pos < w.pos + w.bytes && isdigit((unsigned char)*pos) && value <= max; pos++)
        value = 10 * value + (*pos - '0');
    *out = (int)(value < min ? min : value > max ? max : value);
}

static void read_options(const char *pos, weft__resolv_options *options)
{
    for (word w; (w = next_word(&pos, "#;")).bytes > 0;) {
        int timeout_s = 0;
        word_read_number(w, "timeout:", 1, TIMEOUT_MAX_S, &timeout_s);
        if (timeout_s > 0)
            options->timeout_ms = 1000 * timeout_s;
        word_read_number(w, "attempts:", 1, TRIES_MAX, &options->tries);
        word_read_number(w, "ndots:", 0, NDOTS_MAX, &options->ndots);
        options->uses_tcp |= word_is(w, "use-vc");
    }
}

weft__resolv_options weft__resolv_options_read(const char *resolv)
{
    weft__resolv_options options = {.timeout_ms = 1000 * TIMEOUT_S, .tries = TRIES, .ndots = NDOTS};
    for (const char *pos = resolv != NULL ? resolv : ""; *pos != '\0'; pos = next_line(pos)) {
        const char *rest = pos;
        if (word_is(next_word(&rest, "#;"), "options"))
            read_options(rest, &options);
    }
    const char *environment = getenv("RES_OPTIONS");
    if (environment != NULL)
        read_options(environment, &options);
    return options;
}

/* Search domains. */

/*
 * Return the domains in the last search or domain line of resolv.conf. Returns an empty word if
 * there is no such line.
 */
static word find_search_line(const char *resolv)
{
    word found = {"", 0};
    for (const char *pos = resolv; *pos != '\0'; pos = next_line(pos)) {
        const char *rest = pos;
        word first = next_word(&rest, "#;");
        bool is_domain = word_is(first, "domain");
        if (!is_domain && !word_is(first, "search"))
            continue;
        const char *from = rest;
        word domain = next_word(&rest, "#;");
        found = is_domain ? domain : (word){from, strcspn(from, "#;\n")};
    }
    return found;
}

/*
 * Store the words of text in s.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int search_set_domains(weft__search *s, word text)
{
    s->domains = malloc(text.bytes + 2);
    if (s->domains == NULL)
        return -ENOMEM;
    char *out = s->domains;
    const char *end = text.pos + text.bytes;
    for (const char *pos = text.pos; pos < end;) {
        bool is_blank = strchr(" ,\t\r", *pos) != NULL;
        bool begins_word = !is_blank && (pos == text.pos || strchr(" ,\t\r", pos[-1]) != NULL);
        if (begins_word && s->count++ > 0)
            *out++ = '\0';
        if (!is_blank)
            *out++ = *pos;
        pos++;
    }
    *out++ = '\0';
    return 0;
}

int weft__search_read(weft__search *out, const char *domains, const char *resolv)
{
    char name[256] = "";
    const char *local = getenv("LOCALDOMAIN");
    word text = {domains, 0};
    *out = (weft__search){.ndots = weft__resolv_options_read(resolv).ndots};
    if (domains == NULL && local != NULL)
        text.pos = domains = local;
    if (domains != NULL)
        text.bytes = strlen(domains);
    else
        text = find_search_line(resolv != NULL ? resolv : "");
    if (domains == NULL && text.bytes == 0 && gethostname(name, sizeof name - 1) == 0) {
        const char *dot = strchr(name, '.');
        text.pos = dot != NULL ? dot + 1 : "";
        text.bytes = strlen(text.pos);
    }
    return search_set_domains(out, text);
}

void weft__search_free(weft__search *s)
{
    free(s->domains);
    *s = (weft__search){0};
}

const char *weft__search_domain(const weft__search *s, int index)
{
    const char *domain = s->domains;
    while (index-- > 0)
        domain += strlen(domain) + 1;
    return domain;
}
