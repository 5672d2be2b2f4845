/* weft__open_beneath with each kind of link handling: no path opens a file outside of the root. */
#include "http/files/open_beneath.h"
#include "http/http_files_support.h"
#include "support/suite.h"

static int root;

static void open_root(void)
{
    create_tree();
    root = open(tree_path("root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(root, 0);
}

static void close_root(void)
{
    close(root);
    remove_tree();
}

FIXTURE(open_root, close_root)

static int try_open(const char *path, weft__open_beneath_kind kind)
{
    int fd = weft__open_beneath(root, path, O_RDONLY | O_NONBLOCK, kind, false);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static const weft__open_beneath_kind kinds[] = {WEFT__OPEN_BENEATH, WEFT__OPEN_BENEATH_NO_LINKS,
                                                WEFT__OPEN_BENEATH_ALL_LINKS};

TEST(existing_files_are_opened_with_every_kind)
{
    static const char *const paths[] = {
        "a.txt",         "",        "sub", "sub/", "sub/index.html", "sub//index.html",
        "list/z folder", "./a.txt", "fifo"};
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t i = 0; i < COUNT_OF(paths); i++) {
            int rc = try_open(paths[i], kinds[k]);
            ck_assert_msg(rc == 0, "%s: %d, kind %zu", paths[i], rc, k);
        }
}

TEST(missing_files_are_an_error_with_every_kind)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {{"none", -ENOENT},
                 {"none/x", -ENOENT},
                 {"a.txt/", -ENOTDIR},
                 {"a.txt/x", -ENOTDIR},
                 {"sub/none", -ENOENT}};
    char too_long[300] = "";
    memset(too_long, 'n', 256);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        for (size_t i = 0; i < COUNT_OF(cases); i++)
            ck_assert_int_eq(try_open(cases[i].path, kinds[k]), cases[i].error);
        ck_assert_int_eq(try_open(too_long, kinds[k]), -ENAMETOOLONG);
    }
}

TEST(dots_and_slashes_do_not_lead_outside_with_any_kind)
{
    static const char *const paths[] = {"..",          "../secret.txt", "sub/../../secret.txt",
                                        "/etc/passwd", "sub/..",        "../root/a.txt"};
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t i = 0; i < COUNT_OF(paths); i++)
            ck_assert_int_eq(try_open(paths[i], kinds[k]), -EXDEV);
}

TEST(links_do_not_lead_outside_and_no_links_follows_none)
{
    static const char *const out[] = {"outside", "up", "up/secret.txt", "absolute", "loop"};
    for (size_t i = 0; i < COUNT_OF(out); i++) {
        ck_assert_int_lt(try_open(out[i], WEFT__OPEN_BENEATH), 0);
        ck_assert_int_lt(try_open(out[i], WEFT__OPEN_BENEATH_NO_LINKS), 0);
    }
    ck_assert_int_eq(try_open("inside", WEFT__OPEN_BENEATH), 0);
    ck_assert_int_eq(try_open("link-folder/index.html", WEFT__OPEN_BENEATH), 0);
    ck_assert_int_eq(try_open("inside", WEFT__OPEN_BENEATH_NO_LINKS), -ELOOP);
    ck_assert_int_lt(try_open("link-folder/index.html", WEFT__OPEN_BENEATH_NO_LINKS), 0);
    ck_assert_int_eq(try_open("up/secret.txt", WEFT__OPEN_BENEATH_ALL_LINKS), 0);
}

TEST(magic_links_of_proc_are_not_followed)
{
    create_link("/proc/self/root/etc", "root/magic");
    ck_assert_int_lt(try_open("magic", WEFT__OPEN_BENEATH), 0);
    ck_assert_int_lt(try_open("magic", WEFT__OPEN_BENEATH_NO_LINKS), 0);
    if (weft__open_beneath_choose(root) == WEFT__OPEN_BENEATH)
        ck_assert_int_eq(try_open("magic", WEFT__OPEN_BENEATH_ALL_LINKS), -ELOOP);
}

TEST(no_descriptor_stays_open_after_a_walk)
{
    size_t before = count_descriptors();
    static const char *const paths[] = {"sub/index.html", "sub/none/x", "list/outside.txt/x",
                                        "sub/..", "a.txt/x/y"};
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        try_open(paths[i], WEFT__OPEN_BENEATH_NO_LINKS);
    ck_assert_uint_eq(count_descriptors(), before);
}
