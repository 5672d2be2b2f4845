/*
 * A small name server for the tests, on loopback, for UDP and TCP at the same port. The server runs
 * in a separate process, answers from a table, and uses only system calls. The number of queries is
 * in memory shared with the test.
 */
#ifndef TESTS_SUPPORT_DNS_SERVER_H
#define TESTS_SUPPORT_DNS_SERVER_H

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DNS_A = 1, DNS_CNAME = 5, DNS_AAAA = 28 };
enum { DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_REFUSED = 5 };

/* How the server answers a query. */
typedef enum dns_manner {
    DNS_GOOD,
    DNS_SILENT,     /* no answer */
    DNS_HELD,       /* after the next query for another name: first this answer, then the other */
    DNS_BY_TCP,     /* over UDP the answer is truncated */
    DNS_ONLY_AAAA,  /* no answer for A */
    DNS_WRONG_ID,   /* an answer with a wrong id */
    DNS_NOISE,      /* bytes that are not a DNS message */
    DNS_BROKEN,     /* an answer with a record that exceeds the message */
    DNS_OTHER_NAME, /* an answer to a different question */
    DNS_HANGING_UP, /* truncated, and the TCP connection is closed without an answer */
} dns_manner;

/* The answer for one name. The answer for a name that is not in the table is NXDOMAIN. */
typedef struct dns_entry {
    const char *name;
    const char *a, *aaaa; /* addresses separated by spaces; NULL: none */
    const char *cname;    /* NULL: not an alias */
    dns_manner manner;
    int rcode;
    int dropped; /* number of queries to drop before the first answer */
} dns_entry;

#define DNS_ENTRIES_MAX 32
#define DNS_BYTES_MAX 4096

typedef struct dns_counts {
    atomic_int udp, tcp;
    atomic_int of[DNS_ENTRIES_MAX]; /* by index in the table */
} dns_counts;

typedef struct dns_server {
    const dns_entry *table;
    size_t count;
    int udp, tcp, port;
    pid_t pid;
    dns_counts *asked;
    char address[32]; /* for weft_set_resolver */
} dns_server;

/* A message under construction, or one that waits to be sent. */
typedef struct dns_message {
    unsigned char bytes[DNS_BYTES_MAX];
    size_t used;
    struct sockaddr_in to;
} dns_message;

static inline void dns_put(dns_message *m, const void *bytes, size_t count)
{
    if (m->used + count > sizeof m->bytes)
        _exit(3);
    memcpy(m->bytes + m->used, bytes, count);
    m->used += count;
}

static inline void dns_put_16(dns_message *m, unsigned value)
{
    dns_put(m, (unsigned char[]){(unsigned char)(value >> 8), (unsigned char)value}, 2);
}

static inline void dns_put_name(dns_message *m, const char *name)
{
    while (*name != '\0') {
        unsigned char bytes = (unsigned char)strcspn(name, ".");
        dns_put(m, &bytes, 1);
        dns_put(m, name, bytes);
        name += bytes;
        name += *name == '.';
    }
    dns_put(m, "", 1);
}

static inline void dns_put_record(dns_message *m, const char *name, int type, const void *data,
                                  size_t bytes)
{
    dns_put_name(m, name);
    dns_put_16(m, (unsigned)type);
    dns_put_16(m, 1);
    dns_put(m, "\0\0\0\7", 4);
    dns_put_16(m, (unsigned)bytes);
    dns_put(m, data, bytes);
    m->bytes[7]++;
}

static inline void dns_put_addresses(dns_message *m, const char *name, int type, const char *list)
{
    char text[DNS_BYTES_MAX], *rest;
    if (list == NULL)
        return;
    snprintf(text, sizeof text, "%s", list);
    for (char *one = strtok_r(text, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest)) {
        unsigned char data[16];
        if (inet_pton(type == DNS_A ? AF_INET : AF_INET6, one, data) != 1)
            _exit(4);
        dns_put_record(m, name, type, data, type == DNS_A ? 4 : 16);
    }
}

static inline const dns_entry *dns_find(const dns_server *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcasecmp(s->table[i].name, name) == 0)
            return &s->table[i];
    return NULL;
}

/* Append the records of a name, and of the names that it is an alias of. */
static inline void dns_put_answers(const dns_server *s, dns_message *m, const dns_entry *e,
                                   int type)
{
    for (; e != NULL && e->cname != NULL; e = dns_find(s, e->cname)) {
        dns_message name = {.used = 0};
        dns_put_name(&name, e->cname);
        dns_put_record(m, e->name, DNS_CNAME, name.bytes, name.used);
    }
    if (e != NULL && (type == DNS_A || type == DNS_AAAA))
        dns_put_addresses(m, e->name, type, type == DNS_A ? e->a : e->aaaa);
}

/*
 * Parse the name and the type of a question. Return the size of the question, 0 if it is malformed.
 */
static inline size_t dns_parse(const unsigned char *query, size_t bytes, char *name, int *type)
{
    size_t at = 12, used = 0;
    while (at < bytes && query[at] != 0) {
        size_t label = query[at++];
        if (label > 63 || at + label > bytes || used + label + 1 > 255)
            return 0;
        memcpy(name + used, query + at, label);
        used += label;
        name[used++] = '.';
        at += label;
    }
    name[used > 0 ? used - 1 : 0] = '\0';
    if (at + 5 > bytes)
        return 0;
    *type = query[at + 1] << 8 | query[at + 2];
    return at + 5 - 12;
}

static inline void dns_spoil(dns_message *m, dns_manner manner)
{
    switch (manner) {
    case DNS_WRONG_ID:
        m->bytes[0] ^= 0x55;
        break;
    case DNS_NOISE:
        m->used = 0;
        dns_put(m, "noise", 5);
        break;
    case DNS_BROKEN:
        m->used -= 2;
        break;
    case DNS_OTHER_NAME:
        m->bytes[13] ^= 1;
        break;
    default:
        break;
    }
}

/* Build the answer to a query. Return false if there is none. */
static inline bool dns_answer(const dns_server *s, const unsigned char *query, size_t bytes,
                              bool is_tcp, dns_message *m, const dns_entry **entry)
{
    char name[256];
    int type;
    size_t question = bytes > 12 ? dns_parse(query, bytes, name, &type) : 0;
    if (question == 0)
        return false;
    const dns_entry *e = *entry = dns_find(s, name);
    atomic_fetch_add(is_tcp ? &s->asked->tcp : &s->asked->udp, 1);
    int before = e != NULL ? atomic_fetch_add(&s->asked->of[e - s->table], 1) : 0;
    if (e != NULL && (e->manner == DNS_SILENT || before < e->dropped ||
                      (e->manner == DNS_ONLY_AAAA && type != DNS_AAAA)))
        return false;
    bool is_cut = e != NULL && !is_tcp && (e->manner == DNS_BY_TCP || e->manner == DNS_HANGING_UP);
    m->used = 0;
    dns_put(m, query, 2);
    dns_put_16(m,
               0x8180u | (is_cut ? 0x200u : 0) | (unsigned)(e != NULL ? e->rcode : DNS_NXDOMAIN));
    dns_put(m, "\0\1\0\0\0\0\0\0", 8);
    dns_put(m, query + 12, question);
    if (!is_cut && (e == NULL || e->rcode == 0))
        dns_put_answers(s, m, e, type);
    if (e != NULL)
        dns_spoil(m, e->manner);
    return true;
}

static inline void dns_send(const dns_server *s, const dns_message *m)
{
    (void)sendto(s->udp, m->bytes, m->used, 0, (const struct sockaddr *)&m->to, sizeof m->to);
}

#define DNS_HELD_MAX 8

static inline void dns_serve_udp(const dns_server *s)
{
    static dns_message held[DNS_HELD_MAX], m;
    static size_t held_count;
    unsigned char query[512];
    socklen_t to_bytes = sizeof m.to;
    ssize_t n = recvfrom(s->udp, query, sizeof query, 0, (struct sockaddr *)&m.to, &to_bytes);
    const dns_entry *e;
    if (n <= 0 || !dns_answer(s, query, (size_t)n, false, &m, &e))
        return;
    if (e != NULL && e->manner == DNS_HELD && held_count < DNS_HELD_MAX) {
        held[held_count++] = m;
        return;
    }
    for (size_t i = 0; i < held_count; i++)
        dns_send(s, &held[i]);
    held_count = 0;
    dns_send(s, &m);
}

static inline bool dns_read_full(int fd, unsigned char *to, size_t bytes)
{
    for (size_t used = 0; used < bytes;) {
        ssize_t n = read(fd, to + used, bytes - used);
        if (n <= 0)
            return false;
        used += (size_t)n;
    }
    return true;
}

/* Answer one query of a connection, in several writes. Return false to close the connection. */
static inline bool dns_serve_tcp(const dns_server *s, int fd)
{
    unsigned char head[2], query[512];
    static dns_message m;
    const dns_entry *e = NULL;
    if (!dns_read_full(fd, head, 2))
        return false;
    size_t bytes = (size_t)(head[0] << 8 | head[1]);
    if (bytes > sizeof query || !dns_read_full(fd, query, bytes) ||
        !dns_answer(s, query, bytes, true, &m, &e) || (e != NULL && e->manner == DNS_HANGING_UP))
        return false;
    unsigned char length[] = {(unsigned char)(m.used >> 8), (unsigned char)m.used};
    return write(fd, length, 1) == 1 && write(fd, length + 1, 1) == 1 &&
           write(fd, m.bytes, 20) == 20 &&
           write(fd, m.bytes + 20, m.used - 20) == (ssize_t)(m.used - 20);
}

#define DNS_CONNS_MAX 16

static inline void dns_serve(const dns_server *s)
{
    struct pollfd sources[2 + DNS_CONNS_MAX] = {{.fd = s->udp, .events = POLLIN},
                                                {.fd = s->tcp, .events = POLLIN}};
    for (size_t i = 2; i < 2 + DNS_CONNS_MAX; i++)
        sources[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        poll(sources, 2 + DNS_CONNS_MAX, -1);
        if (sources[0].revents)
            dns_serve_udp(s);
        for (size_t i = 2; i < 2 + DNS_CONNS_MAX; i++) {
            if (sources[i].fd < 0 && sources[1].revents) {
                sources[i].fd = accept(s->tcp, NULL, NULL);
                sources[1].revents = 0;
            } else if (sources[i].fd >= 0 && sources[i].revents &&
                       !dns_serve_tcp(s, sources[i].fd)) {
                close(sources[i].fd);
                sources[i].fd = -1;
            }
        }
    }
}

static inline void dns_bind(dns_server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    for (int tries = 0; tries < 20; tries++) { /* the port may be in use for TCP */
        at.sin_port = 0;
        s->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        s->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(s->udp, (struct sockaddr *)&at, sizeof at), 0);
        ck_assert_int_eq(getsockname(s->udp, (struct sockaddr *)&at, &bytes), 0);
        if (bind(s->tcp, (struct sockaddr *)&at, sizeof at) == 0 && listen(s->tcp, 50) == 0) {
            s->port = ntohs(at.sin_port);
            return;
        }
        close(s->udp);
        close(s->tcp);
    }
    ck_abort_msg("no port for a name server");
}

/* Call this before the process becomes a cord. */
static inline void dns_start(dns_server *s, const dns_entry *table, size_t count)
{
    ck_assert_uint_le(count, DNS_ENTRIES_MAX);
    *s = (dns_server){.table = table, .count = count};
    s->asked =
        mmap(NULL, sizeof *s->asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(s->asked, MAP_FAILED);
    dns_bind(s);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%d", s->port);
    s->pid = fork();
    ck_assert_int_ge(s->pid, 0);
    if (s->pid == 0) {
        dns_serve(s);
        _exit(0);
    }
    close(s->udp);
    close(s->tcp);
}

static inline void dns_stop(dns_server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    munmap(s->asked, sizeof *s->asked);
}

/* Return the number of queries for a name, or -1 if it is not in the table. */
static inline int dns_queries(const dns_server *s, const char *name)
{
    const dns_entry *e = dns_find(s, name);
    return e != NULL ? atomic_load(&s->asked->of[e - s->table]) : -1;
}

#endif
