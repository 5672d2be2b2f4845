/*
 * A chat, and the program of `make run`.
 *
 * Read room.c first: a room is an actor with supervised restarts. Then user.c: a connection is two
 * fibers of sequential code. house.c has the supervisor. With --hub, several processes share the
 * rooms: room_link.c owns a room or follows its owner, and room_owner.c writes the durable log.
 */
#include "cluster.h"
#include "house.h"
#include "pages.h"
#include "pulse.h"
#include "text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: chat [OPTION]... [DIRECTORY OF THE PAGE]\n"
    "  --listen=ADDRESS   default 127.0.0.1:8080, or any free port if 8080 is in use\n"
    "  --hub=URL          share the rooms with other processes through a NATS server\n"
    "  --name=NAME        the name of this process for users; default: host and pid\n"
    "  --self-signed      use HTTPS with a certificate that exists only for this run\n"
    "  --tls-cert=FILE    use HTTPS with this certificate\n"
    "  --tls-key=FILE     and this key\n";

typedef struct settings {
    const char *listen; /* NULL: the default */
    const char *dir;
    const char *tls_cert, *tls_key;
    const char *hub;  /* NULL: one process */
    const char *name; /* NULL: the default */
    bool is_self_signed;
} settings;

/* Returns 0, or the exit status of the program. */
static int read_settings(settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},   {"self-signed", no_argument, NULL, 's'},
        {"tls-cert", required_argument, NULL, 'c'}, {"tls-key", required_argument, NULL, 'k'},
        {"hub", required_argument, NULL, 'u'},      {"name", required_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},           {0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'l':
            s->listen = optarg;
            break;
        case 's':
            s->is_self_signed = true;
            break;
        case 'c':
            s->tls_cert = optarg;
            break;
        case 'k':
            s->tls_key = optarg;
            break;
        case 'u':
            s->hub = optarg;
            break;
        case 'n':
            s->name = optarg;
            break;
        default:
            fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? -1 : 2;
        }
    }
    s->dir = optind < argc ? argv[optind] : "examples/chat";
    return 0;
}

/* Returns NULL for plain HTTP. Sets *rc on failure. */
static weft_tls *open_tls(const settings *s, int *rc)
{
    weft_tls_options options = {.alpn = weft_http_alpn(),
                                .identity = {.cert_file = s->tls_cert, .key_file = s->tls_key}};
    char *cert = NULL, *key = NULL;
    weft_tls *tls = NULL;
    if (s->is_self_signed) {
        *rc = weft_tls_self_signed("localhost,127.0.0.1", 30, &cert, &key);
        options.identity = (weft_tls_identity){.cert_pem = cert, .key_pem = key};
    }
    if (*rc == 0 && (s->is_self_signed || s->tls_cert != NULL)) {
        tls = weft_tls_server_new(&options);
        *rc = tls == NULL ? weft_error()->code : 0;
    }
    free(cert);
    free(key);
    return tls;
}

/* Returns 0, also if the chat runs in one process, or an error. */
static int join_cluster(const settings *s)
{
    char host[13] = "", name[NAME_BYTES];
    if (s->hub == NULL)
        return 0;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s-%d", host, getpid());
    if (s->name != NULL && !text_is_name(s->name))
        return weft_fail(-EINVAL, "the name of a process has at most %d visible characters",
                         NAME_CHARS_MAX);
    return cluster_open(s->hub, s->name != NULL ? s->name : name);
}

/* Listen, and print the URL. Returns the socket or an error. */
static int listen_somewhere(const settings *s, bool has_tls)
{
    int fd = weft_listen("tcp", s->listen != NULL ? s->listen : "127.0.0.1:8080");
    if (fd == -EADDRINUSE && s->listen == NULL)
        fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd < 0)
        return fd;
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    char host[INET_ADDRSTRLEN] = "localhost";
    getsockname(fd, (struct sockaddr *)&at, &bytes);
    if (at.sin_family == AF_INET && at.sin_addr.s_addr != htonl(INADDR_ANY))
        inet_ntop(AF_INET, &at.sin_addr, host, sizeof host);
    printf("Open %s://%s:%d/ in a browser, preferably in two windows. Press Ctrl-C to stop.\n",
           has_tls ? "https" : "http", host,
           ntohs(at.sin_port)); /* the port is at the same place for IPv6 */
    fflush(stdout);
    return fd;
}

/* Serve until a signal arrives. Returns -ECANCELED, or an error. */
static int serve(const settings *s, weft_tls *tls, const pages *p)
{
    int listener = listen_somewhere(s, tls != NULL);
    if (listener < 0)
        return listener;
    const weft_http_options options = {
        .tls = tls, .gzip_level = 5, .drain_s = 0.5, .closes_listener = true};
    return weft_http_serve_fd(listener, weft_http_serve_routes, p->routes, &options);
}

int main(int argc, char **argv)
{
    settings s = {0};
    int rc = read_settings(&s, argc, argv);
    if (rc != 0)
        return rc < 0 ? 0 : rc;
    pages p = {0};
    weft_tls *tls = open_tls(&s, &rc);
    if (rc == 0 && (rc = pages_open(&p, s.dir)) == 0 && (rc = join_cluster(&s)) == 0 &&
        (rc = house_open()) == 0 && (rc = weft_shutdown_on_signals(5.0)) == 0)
        rc = weft_every(1.0, pulse_beat, NULL) != 0 ? serve(&s, tls, &p) : weft_error()->code;
    if (rc != -ECANCELED)
        fprintf(stderr, "chat: %s\n", weft_error() != NULL ? weft_error()->message : strerror(-rc));
    house_close();
    cluster_close();
    pages_close(&p);
    weft_tls_free(tls);
    return rc != -ECANCELED;
}
