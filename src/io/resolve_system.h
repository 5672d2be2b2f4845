/* What the system's files say about names: read here, as far as c-ares does not do it. */
#ifndef WEFT_IO_RESOLVE_SYSTEM_H
#define WEFT_IO_RESOLVE_SYSTEM_H

#include "io/resolve.h"

#include <sys/stat.h>

/* A file as it was when it was last read. All-zero: not yet. */
typedef struct weft__conf {
    char *text; /* NULL: there is no such file, or it could not be read */
    struct stat then;
    bool is_read;
} weft__conf;

/*
 * Read it, unless it is what was read before. 0; -ENOMEM, -EMFILE, -ENFILE: just now that is not
 * known. A file that cannot be read for other reasons is none.
 */
int weft__conf_refresh(weft__conf *conf, const char *path);

/* Is it another file, or has it changed, since it was read? */
bool weft__conf_is_old(const weft__conf *conf, const char *path);
void weft__conf_free(weft__conf *conf);

/* For which names somebody else than the files and the name server is to be asked. */
typedef struct weft__sources {
    bool is_foreign;    /* for all */
    bool has_mdns;      /* those in .local */
    bool has_machines;  /* those without a dot */
    bool has_host_name; /* this machine's own, and those that stand for it */
} weft__sources;

/* As nsswitch.conf and gai.conf say, and as resolv.conf can be read by c-ares. */
weft__sources weft__sources_read(const char *nsswitch, const char *gai, const char *resolv);

/* Can a name be looked up in the files and by the name server alone? */
bool weft__sources_are_enough(const weft__sources *s, const char *name);

/* How often and how long a name server is asked. */
typedef struct weft__patience {
    int timeout_ms, tries, ndots;
    bool is_by_tcp;
} weft__patience;

/* As the options in resolv.conf say (text may be NULL), and RES_OPTIONS; else as the C library. */
weft__patience weft__patience_read(const char *resolv);

/* The domains to try behind a name. */
typedef struct weft__search {
    char *domains; /* NUL-terminated, one behind the other; NULL: not read yet */
    int count;
    int ndots; /* a name with so many dots is tried as it is first */
} weft__search;

/*
 * Read the domains from a text like "a.org b.org"; if that is NULL, as the C library does: from
 * LOCALDOMAIN, from resolv.conf (whose text may be NULL), from the name of this machine. ndots is
 * that of resolv.conf and RES_OPTIONS. 0, or -ENOMEM.
 */
int weft__search_read(weft__search *out, const char *own, const char *resolv);
void weft__search_free(weft__search *s);

/* The domain at an index below count. */
const char *weft__search_domain(const weft__search *s, int index);

/*
 * The addresses of a name in the text of a hosts file (may be NULL), of a family or of both. 0;
 * *canonical is the first name of the first such line, to be freed. -ENOENT; -ENOMEM.
 */
int weft__hosts_find(const char *text, const char *name, int family, weft__ips *out,
                     char **canonical);

/* AI_ADDRCONFIG: the family to ask for; -1: this machine has no address of the one that is. */
int weft__family_here(int family);

#endif
