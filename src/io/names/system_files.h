/* Parsers for the system files about names. They cover the parts that c-ares does not parse. */
#ifndef WEFT_IO_NAMES_SYSTEM_FILES_H
#define WEFT_IO_NAMES_SYSTEM_FILES_H

#include "io/names/resolve.h"

#include <sys/stat.h>

/* A file and its state when it was last read. All-zero: not read. */
typedef struct weft__conf {
    char *text; /* NULL: the file does not exist or is unreadable */
    struct stat read_stat;
    bool is_read;
} weft__conf;

/*
 * Read a file if it has changed. A file that cannot be opened for another reason than those below
 * counts as missing.
 *
 * Returns 0, or:
 * -EMFILE if the process has too many open descriptors
 * -ENFILE if the system has too many open files
 * -ENOMEM if memory is exhausted
 * -ENOMEM if reading the file fails
 */
int weft__conf_refresh(weft__conf *conf, const char *path);

/* Return whether the file was replaced or has changed since it was read. */
bool weft__conf_is_stale(const weft__conf *conf, const char *path);
void weft__conf_free(weft__conf *conf);

/* The names that need a source other than the hosts file and the name servers. */
typedef struct weft__sources {
    bool needs_libc;    /* all names */
    bool has_mdns;      /* names in .local */
    bool has_machines;  /* names without a dot */
    bool has_host_name; /* the host name of this machine, and its aliases */
} weft__sources;

/* Parse nsswitch.conf, gai.conf and resolv.conf. Each text may be NULL. */
weft__sources weft__sources_read(const char *nsswitch, const char *gai, const char *resolv);

/* Return whether the hosts file and the name servers suffice for a name. */
bool weft__sources_suffice(const weft__sources *s, const char *name);

/* The options of resolv.conf for queries. */
typedef struct weft__resolv_options {
    int timeout_ms, tries, ndots;
    bool uses_tcp;
} weft__resolv_options;

/*
 * Parse the options of resolv.conf and RES_OPTIONS. resolv is the text of resolv.conf, or NULL. The
 * defaults are equal to the defaults of the C library.
 */
weft__resolv_options weft__resolv_options_read(const char *resolv);

/* The domains to append to a name. */
typedef struct weft__search {
    char *domains; /* consecutive NUL-terminated strings; NULL: not read */
    int count;
    int ndots; /* a name with at least this many dots is first tried without a domain */
} weft__search;

/*
 * Read the search domains from domains, a text like "a.org b.org". If domains is NULL, read
 * LOCALDOMAIN, resolv.conf or the name of this machine, as the C library does. resolv is the text
 * of resolv.conf, or NULL. The call reads ndots from resolv.conf and RES_OPTIONS.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__search_read(weft__search *out, const char *domains, const char *resolv);
void weft__search_free(weft__search *s);

/* Return the domain with an index. index must be less than count. */
const char *weft__search_domain(const weft__search *s, int index);

/*
 * Find the addresses of a name in the text of a hosts file. text may be NULL. family may be
 * AF_UNSPEC. The call stores the first name of the first matching line in *canonical. The caller
 * must free *canonical.
 *
 * Returns 0, or:
 * -ENOENT if the name is not found
 * -ENOMEM if memory is exhausted
 */
int weft__hosts_find(const char *text, const char *name, int family, weft__ip_addrs *out,
                     char **canonical);

/*
 * Apply AI_ADDRCONFIG. Returns the family to look up. Returns -1 if this machine has no address of
 * the family.
 */
int weft__local_family(int family);

#endif
