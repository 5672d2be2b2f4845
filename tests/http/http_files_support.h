/* Helpers for the tests of files over HTTP: a folder with files of many kinds, and requests. */
#ifndef TESTS_HTTP_HTTP_FILES_SUPPORT_H
#define TESTS_HTTP_HTTP_FILES_SUPPORT_H

#include "http/http_support.h"

#include <ftw.h>

/* The server serves tree_folder/root. No request may return tree_folder/secret.txt. */
static char tree_folder[64];

static inline const char *tree_path(const char *name)
{
    return format("%s/%s", tree_folder, name);
}

static inline void create_file_bytes(const char *name, const void *data, size_t bytes)
{
    int fd = open(tree_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static inline void create_file(const char *name, const char *text)
{
    create_file_bytes(name, text, strlen(text));
}

static inline void create_folder(const char *name)
{
    ck_assert_int_eq(mkdir(tree_path(name), 0755), 0);
}

static inline void create_link(const char *target, const char *name)
{
    ck_assert_int_eq(symlink(target, tree_path(name)), 0);
}

static inline void rename_entry(const char *from, const char *to)
{
    ck_assert_int_eq(rename(tree_path(from), tree_path(to)), 0);
}

static inline void remove_file(const char *name)
{
    ck_assert_int_eq(unlink(tree_path(name)), 0);
}

/* Set the time of the last modification. */
static inline void set_mtime_ns(const char *name, time_t seconds, long ns)
{
    struct timespec times[2] = {{seconds, ns}, {seconds, ns}};
    ck_assert_int_eq(utimensat(AT_FDCWD, tree_path(name), times, 0), 0);
}

static inline void set_mtime(const char *name, time_t seconds)
{
    set_mtime_ns(name, seconds, 0);
}

static inline int remove_entry(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    return remove(path);
}

static inline void remove_tree(void)
{
    nftw(tree_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    tree_folder[0] = '\0';
}

static weft_http_files *files;

/* Free the files and the tree if they exist. */
static inline void files_close(void)
{
    weft_http_files_free(files);
    files = NULL;
    if (tree_folder[0] != '\0')
        remove_tree();
}

#define MTIME 784111777 /* Sun, 06 Nov 1994 08:49:37 GMT */

static inline void create_tree(void)
{
    files_close();
    /* A file system in memory makes large directories cheap. */
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(tree_folder, sizeof tree_folder, "%s/weft-files-XXXXXX", parent);
    ck_assert_ptr_nonnull(mkdtemp(tree_folder));
    create_file("secret.txt", "secret");
    create_folder("root");
    create_file("root/index.html", "<h1>Home</h1>");
    create_file("root/a.txt", "0123456789");
    set_mtime("root/a.txt", MTIME);
    create_file("root/empty.bin", "");
    create_folder("root/sub");
    create_file("root/sub/index.html", "<h1>Sub</h1>");
    create_folder("root/list");
    create_file("root/list/b.txt", "b");
    create_folder("root/list/z folder");
    create_file("root/list/\"<b>&'%41 \xc3\xbc:x.txt", "odd");
    create_file("root/list/.hidden", "hidden");
    create_file("root/.hidden", "hidden");
    create_folder("root/.well-known");
    create_file("root/.well-known/a", "known");
    create_file("root/.well-known/.b", "hidden");
    create_link("a.txt", "root/inside");
    create_link("../secret.txt", "root/outside");
    create_link("..", "root/up");
    create_link("loop", "root/loop");
    create_link("sub", "root/link-folder");
    create_link("../../secret.txt", "root/list/outside.txt");
    ck_assert_int_eq(mkfifo(tree_path("root/fifo"), 0644), 0);
    create_link(tree_path("secret.txt"), "root/absolute");
}

/* Replace the files by those with these options, in a new tree. */
static inline void files_open(const weft_http_files_options *options)
{
    create_tree();
    files = weft_http_files_new(tree_path("root"), options);
    ck_assert_ptr_nonnull(files);
}

static inline void files_open_default(void)
{
    files_open(NULL);
}

/* Send a request and return the response. Each line of headers ends with CRLF. */
static inline const char *request_with(const char *method, const char *target, const char *headers)
{
    char text[8192];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n", method, target, headers);
    return client_exchange(&client, weft_http_serve_files, files, NULL, text);
}

static inline const char *get_target(const char *target)
{
    return request_with("GET", target, "");
}

/* Assert the status and the body of the response to a GET. */
#define ck_assert_get(target, expected_status, expected_body)                                      \
    do {                                                                                           \
        const char *ck_response = get_target(target);                                              \
        ck_assert_msg(status_of(ck_response) == (expected_status), "%s: %s", target, ck_response); \
        ck_assert_str_eq(body_of(ck_response), expected_body);                                     \
    } while (0)

/* Assert a GET with status 200. For EACH_PAIR: "target -> body". */
static inline void assert_file(const char *target, const char *body)
{
    ck_assert_get(target, 200, body);
}

/* Assert the status of a GET. For EACH_PAIR: "target -> status". */
static inline void assert_code(const char *target, const char *status)
{
    ck_assert_msg(status_of(get_target(target)) == atoi(status), "%s: %s", target, client.received);
    ck_assert_lacks(client.received, "secret");
}

/* Return the value of a response header, or NULL. The next call overwrites the value. */
static inline char *response_header(const char *name)
{
    static char value[256];
    const char *line = format("\r\n%s: ", name);
    const char *found = strstr(client.received, line);
    if (found == NULL || found > body_of(client.received))
        return NULL;
    found += strlen(line);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(found, "\r"), found);
    return value;
}

/* Assert headers of the last response. For EACH_PAIR: "name -> value". An empty value: none. */
static inline void assert_header(const char *name, const char *value)
{
    const char *actual = response_header(name);
    ck_assert_msg(strcmp(actual != NULL ? actual : "", value) == 0, "%s: %s", name, actual);
}

/* Copy the ETag of the last response. */
static inline void copy_etag(char etag[256])
{
    snprintf(etag, 256, "%s", response_header("ETag"));
}

#endif
