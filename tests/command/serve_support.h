/*
 * What the tests of `weft serve` share: a folder to serve, the command as a process of its own, and
 * curl as its client. WEFT_COMMAND in the environment names the program.
 */
#ifndef TESTS_SERVE_SUPPORT_H
#define TESTS_SERVE_SUPPORT_H

#include "process_support.h"

#include <sys/stat.h>

static char folder[] = "/tmp/weft-serve-XXXXXX";

/* A path in the folder; four at a time. */
static inline char *in_folder(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void put_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* A certificate for some names, NAME.pem, with its key, NAME.key, in files of the folder. */
static inline void put_certificate(const char *name, const char *names)
{
    char *cert, *key, file[64];
    ck_assert_int_eq(weft_tls_self_signed(names, 2, &cert, &key), 0);
    snprintf(file, sizeof file, "%s.pem", name);
    put_file(file, cert);
    snprintf(file, sizeof file, "%s.key", name);
    put_file(file, key);
    free(cert);
    free(key);
}

static inline const char *text_of(const char *name)
{
    static char text[8192];
    FILE *file = fopen(in_folder(name), "re");
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

/* site/index.html says "the site", other/index.html "the other". */
static inline void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(mkdir(in_folder("site"), 0755), 0);
    ck_assert_int_eq(mkdir(in_folder("other"), 0755), 0);
    put_file("site/index.html", "the site\n");
    put_file("other/index.html", "the other\n");
}

/* A server that runs. */
typedef struct served {
    weft_process process;
    weft_stream out, err;
    char origin[128]; /* "http://127.0.0.1:8080" */
    int port;
} served;

static inline char *command_path(void)
{
    char *path = getenv("WEFT_COMMAND");
    ck_assert_msg(path != NULL, "WEFT_COMMAND is to name the program");
    return path;
}

/* Wait until it says something that has this in it. */
static inline void expect_said(weft_stream *from, const char *words)
{
    char line[512];
    do
        ck_assert_int_gt(weft_stream_gets(from, line, sizeof line), 0);
    while (strstr(line, words) == NULL);
}

/*
 * At any free port, with up to twelve words more; returns when it says that it is ready. There is
 * always a log: who writes it wakes the main thread each second, without which TSan may never come
 * to run the handler of a signal.
 */
static inline void start_serving(served *s, char *const words[])
{
    char *argv[20] = {command_path(), "serve", "--listen=127.0.0.1:0", "--access-log=/dev/null"};
    char line[512];
    int n = 4;
    bool logs_to_out = false;
    for (int i = 0; words[i] != NULL; i++) {
        logs_to_out |= strcmp(words[i], "--access-log=-") == 0;
        argv[n++] = words[i];
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

/* It has ended; nothing is left of it. */
static inline void forget_serving(served *s)
{
    weft_stream_close(&s->out); /* -EBADF if the test has done so */
    weft_stream_close(&s->err);
    weft_process_close(&s->process);
    remove_folder();
}

/* It ends in order when it is told to. */
static inline void stop_serving(served *s)
{
    ck_assert_int_eq(weft_process_kill(&s->process, SIGTERM), 0);
    ck_assert_int_eq(weft_process_wait(&s->process), 0);
    forget_serving(s);
}

/* What curl gets, "" if it fails; until the next call. */
static inline const char *curl(char *const words[])
{
    static weft_output got;
    char *argv[20] = {"curl", "-s", "--max-time", "10", "--noproxy", "*"};
    int n = 6;
    for (int i = 0; words[i] != NULL; i++)
        argv[n++] = words[i];
    weft_output_free(&got);
    int status = weft_run(argv, NULL, 0, NULL, &got);
    ck_assert_msg(status >= 0, "curl could not be run");
    return status == 0 ? got.out : "";
}

/* The site's origin with a path behind it; two at a time. */
static inline char *url_of(const served *s, const char *path)
{
    static char urls[2][256];
    static int turn;
    char *url = urls[turn++ % 2];
    snprintf(url, sizeof urls[0], "%s%s", s->origin, path);
    return url;
}

#endif
