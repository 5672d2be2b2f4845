/* Opening below a folder, in each of the ways that there are: nothing else can be opened. */
#include "http/beneath.h"
#include "http_files_support.h"

static int root;

static void set_up(void)
{
    make_tree();
    root = open(at("root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(root, 0);
}

static void tear_down(void)
{
    close(root);
    remove_tree();
}

static int try_open(const char *path, weft__beneath_kind kind)
{
    int fd = weft__beneath_open(root, path, O_RDONLY | O_NONBLOCK, kind, false);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static const weft__beneath_kind kinds[] = {WEFT__BENEATH, WEFT__BENEATH_WALK, WEFT__BENEATH_OPEN};

START_TEST(what_is_there_is_opened_in_every_way)
{
    static const char *const paths[] = {
        "a.txt",         "",        "sub", "sub/", "sub/index.html", "sub//index.html",
        "list/z folder", "./a.txt", "fifo"};
    set_up();
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t i = 0; i < COUNT_OF(paths); i++) {
            int rc = try_open(paths[i], kinds[k]);
            ck_assert_msg(rc == 0, "%s: %d, way %zu", paths[i], rc, k);
        }
    tear_down();
}
END_TEST

START_TEST(what_is_not_there_is_not)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {{"none", -ENOENT},
                 {"none/x", -ENOENT},
                 {"a.txt/", -ENOTDIR},
                 {"a.txt/x", -ENOTDIR},
                 {"sub/none", -ENOENT}};
    char longest[300] = "";
    set_up();
    memset(longest, 'n', 256);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        for (size_t i = 0; i < COUNT_OF(cases); i++)
            ck_assert_int_eq(try_open(cases[i].path, kinds[k]), cases[i].error);
        ck_assert_int_eq(try_open(longest, kinds[k]), -ENAMETOOLONG);
    }
    tear_down();
}
END_TEST

START_TEST(dots_and_slashes_do_not_lead_out_in_any_way)
{
    static const char *const paths[] = {"..",          "../secret.txt", "sub/../../secret.txt",
                                        "/etc/passwd", "sub/..",        "../root/a.txt"};
    set_up();
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t i = 0; i < COUNT_OF(paths); i++)
            ck_assert_int_eq(try_open(paths[i], kinds[k]), -EXDEV);
    tear_down();
}
END_TEST

START_TEST(links_do_not_lead_out_and_without_the_kernels_help_not_at_all)
{
    static const char *const out[] = {"outside", "up", "up/secret.txt", "absolute", "loop"};
    set_up();
    for (size_t i = 0; i < COUNT_OF(out); i++) {
        ck_assert_int_lt(try_open(out[i], WEFT__BENEATH), 0);
        ck_assert_int_lt(try_open(out[i], WEFT__BENEATH_WALK), 0);
    }
    ck_assert_int_eq(try_open("inside", WEFT__BENEATH), 0);
    ck_assert_int_eq(try_open("link-folder/index.html", WEFT__BENEATH), 0);
    ck_assert_int_eq(try_open("inside", WEFT__BENEATH_WALK), -ELOOP);
    ck_assert_int_lt(try_open("link-folder/index.html", WEFT__BENEATH_WALK), 0);
    ck_assert_int_eq(try_open("up/secret.txt", WEFT__BENEATH_OPEN), 0);
    tear_down();
}
END_TEST

START_TEST(links_of_proc_are_not_followed)
{
    set_up();
    make_link("/proc/self/root/etc", "root/magic");
    ck_assert_int_lt(try_open("magic", WEFT__BENEATH), 0);
    ck_assert_int_lt(try_open("magic", WEFT__BENEATH_WALK), 0);
    if (weft__beneath_choose(root) == WEFT__BENEATH)
        ck_assert_int_eq(try_open("magic", WEFT__BENEATH_OPEN), -ELOOP);
    tear_down();
}
END_TEST

START_TEST(nothing_stays_open_after_a_walk)
{
    set_up();
    size_t before = count_descriptors();
    static const char *const paths[] = {"sub/index.html", "sub/none/x", "list/outside.txt/x",
                                        "sub/..", "a.txt/x/y"};
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        try_open(paths[i], WEFT__BENEATH_WALK);
    ck_assert_uint_eq(count_descriptors(), before);
    tear_down();
}
END_TEST

static const TTest *const *const tests[] = {
    &what_is_there_is_opened_in_every_way,
    &what_is_not_there_is_not,
    &dots_and_slashes_do_not_lead_out_in_any_way,
    &links_do_not_lead_out_and_without_the_kernels_help_not_at_all,
    &links_of_proc_are_not_followed,
    &nothing_stays_open_after_a_walk,
};

int main(void)
{
    return run_suite("http_beneath", tests, COUNT_OF(tests));
}
