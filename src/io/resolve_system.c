/*
 * The files of /etc that names depend on: whether the C library would ask more than files and name
 * servers, and how patient it would be. Text in, decisions out; small files, read in one go.
 */
#include "io/resolve_system.h"

#include "base/libc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* As resolv.conf(5) has it: the defaults of the C library, and its limits. */
enum { TIMEOUT_S = 5, TIMEOUT_MAX_S = 30, TRIES = 2, TRIES_MAX = 5, NDOTS = 1, NDOTS_MAX = 15 };

/*
 * A file as it was.
 */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool weft__conf_is_old(const weft__conf *conf, const char *path)
{
    struct stat now;
    if (stat(path, &now) < 0)
        memset(&now, 0, sizeof now);
    return !conf->is_read || !is_same(&conf->then, &now);
}

/* All of it, with a zero behind; NULL: no memory, or it cannot be read. */
static char *read_whole(int fd, size_t bytes)
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
    for (char *at = text; (at += strlen(at)) < text + used;)
        *at = '\n'; /* it would hide what comes behind it */
    return text;
}

static bool is_shortage(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE;
}

int weft__conf_refresh(weft__conf *conf, const char *path)
{
    if (!weft__conf_is_old(conf, path))
        return 0;
    weft__conf_free(conf);
    /* Not one that would have to be waited for: a pipe, say. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        conf->is_read = !is_shortage(errno);
        return conf->is_read ? 0 : -errno;
    }
    bool is_file = fstat(fd, &conf->then) == 0 && S_ISREG(conf->then.st_mode);
    if (is_file)
        conf->text = read_whole(fd, (size_t)conf->then.st_size);
    conf->is_read = !is_file || conf->text != NULL;
    close(fd);
    return conf->is_read ? 0 : -ENOMEM;
}

void weft__conf_free(weft__conf *conf)
{
    free(conf->text);
    *conf = (weft__conf){0};
}

/*
 * Words and lines.
 */

typedef struct word {
    const char *at;
    size_t bytes; /* 0: there is none left in the line */
} word;

/* The next word of a line; a comment ends it. *at moves behind it, not over the line's end. */
static word next_word(const char **at, const char *comments)
{
    const char *from = *at + strspn(*at, " \t\r");
    bool is_comment = *from != '\0' && strchr(comments, *from) != NULL;
    size_t bytes = is_comment ? 0 : strcspn(from, " \t\r\n");
    *at = from + bytes;
    return (word){from, bytes};
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at == '\n' ? at + 1 : at;
}

static bool is_word(word w, const char *text)
{
    return w.bytes == strlen(text) && strncasecmp(w.at, text, w.bytes) == 0;
}

static bool begins_with(word w, const char *text)
{
    return w.bytes >= strlen(text) && strncmp(w.at, text, strlen(text)) == 0;
}

/*
 * Who is to be asked.
 */

/*
 * The sources of the hosts line. Those that are for some names only are noted; any other, or a
 * condition on how one is followed by the next, is left to the C library. (What follows mdns in
 * brackets is about the names that it is for.)
 */
static void read_hosts_line(const char *at, weft__sources *s)
{
    bool has_dns = false, may_have_condition = false;
    for (word w; (w = next_word(&at, "#")).bytes > 0;) {
        bool is_for_some = true;
        if (is_word(w, "mdns4_minimal") || is_word(w, "mdns6_minimal") ||
            is_word(w, "mdns_minimal"))
            s->has_mdns = true;
        else if (is_word(w, "mymachines"))
            s->has_machines = true;
        else if (is_word(w, "myhostname"))
            s->has_host_name = true;
        else
            is_for_some = false;
        if (is_word(w, "dns"))
            has_dns = true;
        else if (is_word(w, "files"))
            s->is_foreign |= has_dns; /* the other order */
        else if (!is_for_some && !(may_have_condition && *w.at == '['))
            s->is_foreign = true;
        may_have_condition = is_for_some;
    }
    s->is_foreign |= !has_dns;
}

/* A server's address with a zone: c-ares would leave it out. */
static bool has_zone(const char *resolv)
{
    for (const char *at = resolv; *at != '\0'; at = next_line(at)) {
        const char *rest = at;
        if (!is_word(next_word(&rest, "#;"), "nameserver"))
            continue;
        word server = next_word(&rest, "#;");
        if (memchr(server.at, '%', server.bytes) != NULL)
            return true;
    }
    return false;
}

weft__sources weft__sources_read(const char *nsswitch, const char *gai, const char *resolv)
{
    weft__sources s = {0};
    for (const char *at = nsswitch != NULL ? nsswitch : ""; *at != '\0'; at = next_line(at)) {
        const char *rest = at;
        word first = next_word(&rest, "#");
        if (begins_with(first, "hosts:"))
            read_hosts_line(first.at + strlen("hosts:"), &s);
    }
    /* An order of the administrator's own. */
    for (const char *at = gai != NULL ? gai : ""; *at != '\0'; at = next_line(at)) {
        const char *rest = at;
        s.is_foreign |= next_word(&rest, "#").bytes > 0;
    }
    s.is_foreign |= resolv != NULL && has_zone(resolv);
    return s;
}

static bool ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes >= end_bytes && strcasecmp(name + bytes - end_bytes, end) == 0;
}

static bool is_for_this_machine(const char *name)
{
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) == 0 && strcasecmp(own, name) == 0)
        return true;
    return name[0] == '_' || ends_with(name, "localhost") || ends_with(name, "localhost.") ||
           ends_with(name, "localdomain") || ends_with(name, "localdomain.");
}

bool weft__sources_are_enough(const weft__sources *s, const char *name)
{
    if (s->is_foreign || (s->has_machines && strchr(name, '.') == NULL))
        return false;
    if (s->has_mdns && (ends_with(name, ".local") || ends_with(name, ".local.")))
        return false;
    return !s->has_host_name || !is_for_this_machine(name);
}

/*
 * How patiently.
 */

/* The number behind an option's name, within limits; what is none stays. */
static void read_number(word w, const char *option, int least, int most, int *out)
{
    if (!begins_with(w, option))
        return;
    const char *at = w.at + strlen(option);
    long value = 0;
    if (!isdigit((unsigned char)*at))
        return;
    for (; at < w.at + w.bytes && isdigit((unsigned char)*at) && value <= most; at++)
        value = 10 * value + (*at - '0');
    *out = (int)(value < least ? least : value > most ? most : value);
}

static void read_options(const char *at, weft__patience *p)
{
    for (word w; (w = next_word(&at, "#;")).bytes > 0;) {
        int timeout_s = 0;
        read_number(w, "timeout:", 1, TIMEOUT_MAX_S, &timeout_s);
        if (timeout_s > 0)
            p->timeout_ms = 1000 * timeout_s;
        read_number(w, "attempts:", 1, TRIES_MAX, &p->tries);
        read_number(w, "ndots:", 0, NDOTS_MAX, &p->ndots);
        p->is_by_tcp |= is_word(w, "use-vc");
    }
}

weft__patience weft__patience_read(const char *resolv)
{
    weft__patience p = {.timeout_ms = 1000 * TIMEOUT_S, .tries = TRIES, .ndots = NDOTS};
    for (const char *at = resolv != NULL ? resolv : ""; *at != '\0'; at = next_line(at)) {
        const char *rest = at;
        if (is_word(next_word(&rest, "#;"), "options"))
            read_options(rest, &p);
    }
    const char *environment = getenv("RES_OPTIONS");
    if (environment != NULL)
        read_options(environment, &p);
    return p;
}

/*
 * Which domains.
 */

/* The domains of resolv.conf: of its last line that names some. Empty: there is none. */
static word find_search(const char *resolv)
{
    word found = {"", 0};
    for (const char *at = resolv; *at != '\0'; at = next_line(at)) {
        const char *rest = at;
        word first = next_word(&rest, "#;");
        bool is_domain = is_word(first, "domain");
        if (!is_domain && !is_word(first, "search"))
            continue;
        const char *from = rest;
        word domain = next_word(&rest, "#;");
        found = is_domain ? domain : (word){from, strcspn(from, "#;\n")};
    }
    return found;
}

/* The words of a text that has an end, one after the other. -ENOMEM, or 0. */
static int take_domains(weft__search *s, word text)
{
    s->domains = malloc(text.bytes + 2);
    if (s->domains == NULL)
        return -ENOMEM;
    char *out = s->domains;
    const char *end = text.at + text.bytes;
    for (const char *at = text.at; at < end;) {
        bool is_blank = strchr(" ,\t\r", *at) != NULL;
        bool begins_word = !is_blank && (at == text.at || strchr(" ,\t\r", at[-1]) != NULL);
        if (begins_word && s->count++ > 0)
            *out++ = '\0';
        if (!is_blank)
            *out++ = *at;
        at++;
    }
    *out++ = '\0';
    return 0;
}

int weft__search_read(weft__search *out, const char *own, const char *resolv)
{
    char name[256] = "";
    const char *local = getenv("LOCALDOMAIN");
    word text = {own, 0};
    *out = (weft__search){.ndots = weft__patience_read(resolv).ndots};
    if (own == NULL && local != NULL)
        text.at = own = local;
    if (own != NULL)
        text.bytes = strlen(own);
    else
        text = find_search(resolv != NULL ? resolv : "");
    if (own == NULL && text.bytes == 0 && gethostname(name, sizeof name - 1) == 0) {
        const char *dot = strchr(name, '.');
        text.at = dot != NULL ? dot + 1 : "";
        text.bytes = strlen(text.at);
    }
    return take_domains(out, text);
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
