/* Helpers for the tests with other programs: a directory, shell commands, and nginx. */
#ifndef TESTS_SUPPORT_PEER_SUPPORT_H
#define TESTS_SUPPORT_PEER_SUPPORT_H

#include "support/cases.h"
#include "support/net_support.h"

#include <weft/web.h>

/* The directory in which the programs run. Created by open_folder. */
static char peer_folder[32];
static int peer_port; /* $PORT for the commands */
static weft_output output;

static inline void open_folder(void)
{
    snprintf(peer_folder, sizeof peer_folder, "/tmp/weft-peer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(peer_folder));
}

static inline void create_peer_file(const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", peer_folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void create_peer_text(const char *name, const char *text)
{
    create_peer_file(name, text, strlen(text));
}

/* Run a shell command in the directory. Return its status. Store its output. */
static inline int try_run(const char *command)
{
    char port[32];
    snprintf(port, sizeof port, "PORT=%d", peer_port);
    char *const set[] = {port, NULL};
    char *const argv[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    const weft_process_options o = {.set = set, .folder = peer_folder, .has_group = true};
    weft_output_free(&output);
    output = (weft_output){0};
    return weft_run(argv, NULL, 0, &o, &output);
}

/* Run a shell command that must succeed. Return its standard output. */
static inline const char *run_command(const char *command)
{
    int rc = try_run(command);
    ck_assert_msg(rc == 0, "%s: status %d: %.300s %.300s", command, rc, output.out, output.err);
    return output.out;
}

/* Assert the standard output of each command "command -> output". */
static inline void assert_command(const char *command, const char *expected)
{
    ck_assert_str_eq(run_command(command), expected);
}

static inline void assert_command_fails(const char *command)
{
    ck_assert_msg(try_run(command) != 0, "%s", command);
}

static inline void close_folder(void)
{
    run_command("rm -r \"$PWD\"");
    weft_output_free(&output);
}

/* Return whether a tool is installed. `tools/deps test` installs all of them. */
static inline bool has_tool(const char *tool)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s", tool);
    if (try_run(command) == 0)
        return true;
    printf("%s is not installed: skipped\n", tool);
    return false;
}

#define CURL "curl -q -sS --noproxy '*' --max-time 15 "
#define URL "http://127.0.0.1:$PORT"

/* Return a port that is free now. Another program may take it. */
static inline int free_port(void)
{
    endpoint p;
    close(listen_tcp(&p, 1));
    return ntohs(p.u.in.sin_port);
}

/* An nginx that serves the directory. */
typedef struct nginx {
    weft_process process;
    bool has_http2;                           /* set before start_nginx, for TLS only */
    int port, tls_port, h2_port, h2_tls_port; /* 0: not served */
} nginx;

static inline void choose_ports(nginx *n, bool has_tls)
{
    n->port = free_port();
    n->tls_port = has_tls ? free_port() : 0;
    n->h2_port = n->has_http2 ? free_port() : 0;
    n->h2_tls_port = n->has_http2 ? free_port() : 0;
}

/* Write the configuration. server has the directives of the server. */
static inline void write_conf(const nginx *n, const char *server)
{
    char conf[4096], tls[128] = "", http2[128] = "";
    if (n->tls_port != 0)
        snprintf(tls, sizeof tls,
                 "listen 127.0.0.1:%d ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem;",
                 n->tls_port);
    if (n->has_http2)
        snprintf(http2, sizeof http2, "listen 127.0.0.1:%d http2; listen 127.0.0.1:%d ssl http2;",
                 n->h2_port, n->h2_tls_port);
    snprintf(
        conf, sizeof conf,
        "daemon off; master_process off; pid pid; error_log error.log;\n"
        "events { worker_connections 64; }\n"
        "http {\n"
        "  access_log off; default_type text/plain; types { text/plain txt; text/html shtml; }\n"
        "  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;\n"
        "  uwsgi_temp_path tmp; scgi_temp_path tmp;\n"
        "  gzip on; gzip_min_length 1; gzip_types text/plain; gzip_proxied any;\n"
        "  keepalive_requests 4;\n"
        "  server { listen 127.0.0.1:%d; %s %s root %s;\n%s }\n"
        "}\n",
        n->port, tls, http2, peer_folder, server);
    create_peer_text("nginx.conf", conf);
}

/* Return whether nginx has written its process id. Before, it listens on all its ports. */
static inline bool has_nginx_started(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/pid", peer_folder);
    return access(path, F_OK) == 0;
}

/*
 * Start nginx. Try other ports if a program has taken a port. Print a message and return false if
 * nginx is not installed.
 */
static inline bool start_nginx(nginx *n, bool has_tls, const char *server)
{
    const char *usual = "/usr/sbin/nginx"; /* often not in PATH */
    const weft_process_options o = {.path = access(usual, X_OK) == 0 ? usual : NULL};
    char *const argv[] = {"nginx", "-p", peer_folder, "-c", "nginx.conf", "-e", "error.log", NULL};
    for (int tries = 0; tries < 5; tries++) {
        int ended = -ECANCELED;
        choose_ports(n, has_tls);
        write_conf(n, server);
        if (weft_spawn_process(&n->process, argv, &o) < 0) {
            printf("skipped: nginx is not installed\n");
            return false;
        }
        while (ended == -ECANCELED && !has_nginx_started())
            WEFT_MOVE_ON_AFTER(0.01)
                ended = weft_process_wait(&n->process);
        if (ended == -ECANCELED)
            return true;
        weft_process_close(&n->process);
    }
    ck_abort_msg("nginx does not start");
}

static inline void stop_process(weft_process *p)
{
    weft_process_end(p, 5);
    weft_process_close(p);
}

#endif
