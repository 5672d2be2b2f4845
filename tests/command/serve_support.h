/*
 * Helpers for the tests of `weft serve`: a folder to serve, the command in a separate process, and
 * curl as the client.
 */
#ifndef TESTS_COMMAND_SERVE_SUPPORT_H
#define TESTS_COMMAND_SERVE_SUPPORT_H

#include "command/command_support.h"

/* Create the folder with site/index.html, "the site", and other/index.html, "the other". */
static inline void create_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(mkdir(folder_path("site"), 0755), 0);
    ck_assert_int_eq(mkdir(folder_path("other"), 0755), 0);
    create_text_file("site/index.html", "the site\n");
    create_text_file("other/index.html", "the other\n");
}

/* The server of the test. */
static struct {
    weft_process process;
    weft_stream out, err;
    char origin[128]; /* "http://127.0.0.1:8080" */
    int port;
} server;

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
static inline void start_serving(char *const args[])
{
    char *argv[20] = {command_path(), "serve", "--listen=127.0.0.1:0", "--access-log=/dev/null"};
    char line[512];
    weft_stream *from = &server.out;
    for (int i = 0; args[i] != NULL; i++) {
        if (strcmp(args[i], "--access-log=-") == 0)
            from = &server.err;
        argv[4 + i] = args[i];
    }
    server.process =
        spawn(argv, (weft_process_options){.out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_PIPE});
    ck_assert_int_eq(weft_stream_open(&server.out, server.process.out), 0);
    ck_assert_int_eq(weft_stream_open(&server.err, server.process.err), 0);
    server.process.out = server.process.err = -1;
    do
        ck_assert_int_gt(weft_stream_gets(from, line, sizeof line), 0);
    while (strstr(line, "://") == NULL);
    ck_assert_int_eq(sscanf(line, "%127[^ ]", server.origin), 1);
    server.origin[strlen(server.origin) - 1] = '\0';
    server.port = atoi(strrchr(server.origin, ':') + 1);
}

/* Serve the directory site. */
#define SERVE_SITE(...) start_serving(ARGV(__VA_ARGS__, folder_path("site")))

static inline void signal_server(int number)
{
    ck_assert_int_eq(weft_process_kill(&server.process, number), 0);
}

/* Wait for the end of the server. Return its status. */
static inline int await_server(void)
{
    int status = weft_process_wait(&server.process);
    weft_stream_close(&server.out); /* -EBADF if the test has closed it */
    weft_stream_close(&server.err);
    weft_process_close(&server.process);
    return status;
}

/* Stop the server with SIGTERM. Assert the status 0. */
static inline void stop_serving(void)
{
    signal_server(SIGTERM);
    ck_assert_int_eq(await_server(), 0);
}

/* The end of a test. */
static inline void end_serving(void)
{
    if (server.process.pid != 0)
        stop_serving();
    remove_folder();
}

static inline int dial_server(void)
{
    return weft_dial("tcp", strstr(server.origin, "://") + 3);
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
static inline char *url_of(const char *path)
{
    static char urls[2][256];
    static int next;
    char *url = urls[next++ % 2];
    snprintf(url, sizeof urls[0], "%s%s", server.origin, path);
    return url;
}

/* Assert the first page of the server, with options of curl. */
#define ck_assert_page(text, ...) \
    ck_assert_str_eq(curl(ARGV("-s", ##__VA_ARGS__, url_of("/"))), text)

/* Assert that the command ends with this status and prints one line that contains text. */
static inline void expect_failure(int status, const char *text, char *const args[])
{
    char *argv[16] = {command_path(), "serve"};
    weft_output output;
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 2] = args[i];
    int ended = weft_run(argv, NULL, 0, NULL, &output);
    ck_assert_msg(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "%s: status %d", text, ended);
    ck_assert_msg(strstr(output.err, text) != NULL, "'%s' is not in: %s", text, output.err);
    ck_assert_ptr_eq(strchr(output.err, '\n'), output.err + output.err_bytes - 1);
    ck_assert_str_eq(output.out, "");
    weft_output_free(&output);
}

#endif
