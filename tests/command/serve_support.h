/*
 * Helpers for the tests of `weft serve`: a folder to serve, the command in a separate process, and
 * curl as the client. The variable WEFT_COMMAND names the program.
 */
#ifndef TESTS_COMMAND_SERVE_SUPPORT_H
#define TESTS_COMMAND_SERVE_SUPPORT_H

#include "support/process_support.h"

#include <weft/web.h>

#include <sys/stat.h>

static char folder[] = "/tmp/weft-serve-XXXXXX";

/* Return a path in the folder. The last 4 results are valid. */
static inline char *folder_path(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void create_text_file(const char *name, const char *text)
{
    FILE *file = fopen(folder_path(name), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Create a certificate NAME.pem for names, with its key NAME.key, in the folder. */
static inline void create_certificate(const char *name, const char *names)
{
    char *cert, *key, file[64];
    ck_assert_int_eq(weft_tls_self_signed(names, 2, &cert, &key), 0);
    snprintf(file, sizeof file, "%s.pem", name);
    create_text_file(file, cert);
    snprintf(file, sizeof file, "%s.key", name);
    create_text_file(file, key);
    free(cert);
    free(key);
}

static inline const char *read_file(const char *name)
{
    static char text[8192];
    FILE *file = fopen(folder_path(name), "re");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static inline void remove_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)weft_system(command);
}

/* Create the folder with site/index.html, "the site", and other/index.html, "the other". */
static inline void create_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(mkdir(folder_path("site"), 0755), 0);
    ck_assert_int_eq(mkdir(folder_path("other"), 0755), 0);
    create_text_file("site/index.html", "the site\n");
    create_text_file("other/index.html", "the other\n");
}

/* A running server. */
typedef struct serve_process {
    weft_process process;
    weft_stream out, err;
    char origin[128]; /* "http://127.0.0.1:8080" */
    int port;
} serve_process;

static inline char *command_path(void)
{
    char *path = getenv("WEFT_COMMAND");
    ck_assert_msg(path != NULL, "WEFT_COMMAND is not set");
    return path;
}

/* Read lines until one contains text. */
static inline void expect_line_with(weft_stream *from, const char *text)
{
    char line[512];
    do
        ck_assert_int_gt(weft_stream_gets(from, line, sizeof line), 0);
    while (strstr(line, text) == NULL);
}

/*
 * Start the server at a free port, with up to 12 more arguments. Return when it is ready. There is
 * always a log, because the log wakes the main thread every second. Without it TSan may never run
 * a signal handler.
 */
static inline void start_serving(serve_process *s, char *const args[])
{
    char *argv[20] = {command_path(), "serve", "--listen=127.0.0.1:0", "--access-log=/dev/null"};
    char line[512];
    int n = 4;
    bool logs_to_out = false;
    for (int i = 0; args[i] != NULL; i++) {
        logs_to_out |= strcmp(args[i], "--access-log=-") == 0;
        argv[n++] = args[i];
    }
    s->process =
        spawn(argv, (weft_process_options){.out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_PIPE});
    ck_assert_int_eq(weft_stream_open(&s->out, s->process.out), 0);
    ck_assert_int_eq(weft_stream_open(&s->err, s->process.err), 0);
    s->process.out = s->process.err = -1;
    do {
        ck_assert_int_gt(weft_stream_gets(logs_to_out ? &s->err : &s->out, line, sizeof line), 0);
    } while (strstr(line, "://") == NULL);
    ck_assert_int_eq(sscanf(line, "%127[^ ]", s->origin), 1);
    s->origin[strlen(s->origin) - 1] = '\0';
    s->port = atoi(strrchr(s->origin, ':') + 1);
}

/* Release a server that has ended, and remove the folder. */
static inline void release_serving(serve_process *s)
{
    weft_stream_close(&s->out); /* -EBADF if the test has closed it */
    weft_stream_close(&s->err);
    weft_process_close(&s->process);
    remove_folder();
}

/* Stop the server with SIGTERM. Assert the status 0. */
static inline void stop_serving(serve_process *s)
{
    ck_assert_int_eq(weft_process_kill(&s->process, SIGTERM), 0);
    ck_assert_int_eq(weft_process_wait(&s->process), 0);
    release_serving(s);
}

/* Return the output of curl, or "" if it fails. The next call overwrites the output. */
static inline const char *curl(char *const args[])
{
    static weft_output output;
    char *argv[20] = {"curl", "-s", "--max-time", "10", "--noproxy", "*"};
    int n = 6;
    for (int i = 0; args[i] != NULL; i++)
        argv[n++] = args[i];
    weft_output_free(&output);
    int status = weft_run(argv, NULL, 0, NULL, &output);
    ck_assert_msg(status >= 0, "cannot run curl");
    return status == 0 ? output.out : "";
}

/* Return a URL of the server. The last 2 results are valid. */
static inline char *url_of(const serve_process *s, const char *path)
{
    static char urls[2][256];
    static int next;
    char *url = urls[next++ % 2];
    snprintf(url, sizeof urls[0], "%s%s", s->origin, path);
    return url;
}

#endif
