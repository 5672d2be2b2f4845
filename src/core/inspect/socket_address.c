/* The addresses of a socket as text. See socket_address.h. */
#include "core/inspect/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
    struct sockaddr_un local;
} socket_address;

static void print_unix(const struct sockaddr_un *a, socklen_t bytes, weft__socket_text *out)
{
    size_t head = offsetof(struct sockaddr_un, sun_path);
    int count = bytes > head ? (int)(bytes - head) : 0;
    bool is_abstract = count > 0 && a->sun_path[0] == '\0';
    if (count > 0)
        snprintf(out->text, sizeof out->text, "unix:%s%.*s", is_abstract ? "@" : "",
                 count - is_abstract, a->sun_path + is_abstract);
    else
        snprintf(out->text, sizeof out->text, "unix");
}

static void print_address(const socket_address *a, socklen_t bytes, weft__socket_text *out)
{
    char host[INET6_ADDRSTRLEN];
    out->text[0] = '\0';
    if (a->any.sa_family == AF_UNIX)
        print_unix(&a->local, bytes, out);
    else if (a->any.sa_family == AF_INET &&
             inet_ntop(AF_INET, &a->ip4.sin_addr, host, sizeof host) != NULL)
        snprintf(out->text, sizeof out->text, "%s:%u", host, ntohs(a->ip4.sin_port));
    else if (a->any.sa_family == AF_INET6 &&
             inet_ntop(AF_INET6, &a->ip6.sin6_addr, host, sizeof host) != NULL)
        snprintf(out->text, sizeof out->text, "[%s]:%u", host, ntohs(a->ip6.sin6_port));
}

bool weft__socket_describe(int fd, weft__socket_text *local, weft__socket_text *peer)
{
    socket_address a = {.any.sa_family = AF_UNSPEC};
    socklen_t bytes = sizeof a;
    if (getsockname(fd, &a.any, &bytes) < 0)
        return false;
    print_address(&a, bytes, local);
    bytes = sizeof a;
    peer->text[0] = '\0';
    if (getpeername(fd, &a.any, &bytes) == 0)
        print_address(&a, bytes, peer);
    return true;
}
