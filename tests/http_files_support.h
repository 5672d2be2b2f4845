/* What the tests of files over HTTP share: a folder with a bit of everything, and asking for it. */
#ifndef TESTS_HTTP_FILES_SUPPORT_H
#define TESTS_HTTP_FILES_SUPPORT_H

#include "http_support.h"

#include <ftw.h>

/* BASE/root is served; BASE/secret.txt is not to be had. */
static char base[64];
static char path_memory[4][512];

/* A path below the base; good for four calls. */
static inline const char *at(const char *name)
{
    static unsigned next;
    char *path = path_memory[next++ % 4];
    snprintf(path, sizeof path_memory[0], "%s/%s", base, name);
    return path;
}

static inline void make_bytes(const char *name, const void *data, size_t bytes)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static inline void make_file(const char *name, const char *text)
{
    make_bytes(name, text, strlen(text));
}

static inline void make_folder(const char *name)
{
    ck_assert_int_eq(mkdir(at(name), 0755), 0);
}

static inline void make_link(const char *target, const char *name)
{
    ck_assert_int_eq(symlink(target, at(name)), 0);
}

/* Its last change was so many seconds after 1970. */
static inline void set_time(const char *name, time_t seconds)
{
    struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ck_assert_int_eq(utimensat(AT_FDCWD, at(name), times, 0), 0);
}

static inline int remove_one(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    return remove(path);
}

static inline void remove_tree(void)
{
    nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define A_TIME 784111777 /* Sun, 06 Nov 1994 08:49:37 GMT */

static inline void make_tree(void)
{
    snprintf(base, sizeof base, "/tmp/weft-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    make_file("secret.txt", "secret");
    make_folder("root");
    make_file("root/index.html", "<h1>Home</h1>");
    make_file("root/a.txt", "0123456789");
    set_time("root/a.txt", A_TIME);
    make_file("root/empty.bin", "");
    make_folder("root/sub");
    make_file("root/sub/index.html", "<h1>Sub</h1>");
    make_folder("root/list");
    make_file("root/list/b.txt", "b");
    make_folder("root/list/z folder");
    make_file("root/list/\"<b>&'%41 \xc3\xbc:x.txt", "odd");
    make_file("root/list/.hidden", "hidden");
    make_file("root/.hidden", "hidden");
    make_folder("root/.well-known");
    make_file("root/.well-known/a", "known");
    make_file("root/.well-known/.b", "hidden");
    make_link("a.txt", "root/inside");
    make_link("../secret.txt", "root/outside");
    make_link("..", "root/up");
    make_link("loop", "root/loop");
    make_link("sub", "root/link-folder");
    make_link("../../secret.txt", "root/list/outside.txt");
    ck_assert_int_eq(mkfifo(at("root/fifo"), 0644), 0);
    /* Absolute, and back into the folder at that: links are relative to where they are. */
    make_link(at("secret.txt"), "root/absolute");
}

static talk t;
static weft_http_files *files;

static inline void files_open(const weft_http_files_options *options)
{
    make_tree();
    files = weft_http_files_new(at("root"), options);
    ck_assert_ptr_nonnull(files);
}

static inline void files_close(void)
{
    weft_http_files_free(files);
    remove_tree();
}

/* The whole reply to a request with these lines of headers, each with its end. */
static inline const char *ask_with(const char *method, const char *target, const char *headers)
{
    char text[8192];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n", method, target, headers);
    return talk_once(&t, weft_http_serve_files, files, NULL, text);
}

static inline const char *get(const char *target)
{
    return ask_with("GET", target, "");
}

static inline void assert_heard(const char *line)
{
    ck_assert_msg(strstr(t.heard, line) != NULL, "\"%s\" is not in \"%s\"", line, t.heard);
}

static inline void assert_not_heard(const char *line)
{
    ck_assert_msg(strstr(t.heard, line) == NULL, "\"%s\" is in \"%s\"", line, t.heard);
}

/* A GET of this target has this status and body. */
#define ck_assert_get(target, expected_status, expected_body)                                \
    do {                                                                                     \
        const char *ck_reply = get(target);                                                  \
        ck_assert_msg(status_of(ck_reply) == (expected_status), "%s: %s", target, ck_reply); \
        ck_assert_str_eq(body_of(ck_reply), expected_body);                                  \
    } while (0)

#define ck_assert_get_status(target, expected_status)                                        \
    do {                                                                                     \
        const char *ck_reply = get(target);                                                  \
        ck_assert_msg(status_of(ck_reply) == (expected_status), "%s: %s", target, ck_reply); \
        assert_not_heard("secret");                                                          \
    } while (0)

/* The value of a header that was heard, copied; NULL: it was not. */
static inline char *heard_header(const char *name)
{
    static char value[256];
    char line[128];
    snprintf(line, sizeof line, "\r\n%s: ", name);
    const char *found = strstr(t.heard, line);
    if (found == NULL || found > body_of(t.heard))
        return NULL;
    found += strlen(line);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(found, "\r"), found);
    return value;
}

#endif
