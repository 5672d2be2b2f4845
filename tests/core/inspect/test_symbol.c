/*
 * Tests of the names of code addresses: with libdw, without libdw, in a stripped program, in shared
 * libraries, and in several threads.
 */
#include "support/cases.h"
#include "support/cord_support.h"
#include "support/process_support.h"

#include "support/suite.h"

#include <weft/snapshot.h>

#include <dlfcn.h>
#include <sys/resource.h>

static weft_symbol find(const void *address)
{
    weft_symbol s;
    ck_assert_int_eq(weft_symbol_find(address, &s), 0);
    return s;
}

static __attribute__((noinline)) void *return_address(void)
{
    return __builtin_return_address(0);
}

static void *line_above;
static unsigned line_number;

static __attribute__((noinline)) void record_line(void)
{
    line_above = return_address();
    line_number = __LINE__ - 1;
}

static bool has_libdw(void)
{
    return dlopen("libdw.so.1", RTLD_NOW) != NULL;
}

TEST(a_static_function_has_its_name_and_its_line)
{
    record_line();
    weft_symbol s = find((char *)line_above - 1);
    ck_assert_str_eq(s.function, "record_line");
    ck_assert_has(s.module, "test_symbol");
    ck_assert_uint_gt(s.offset, 0);
    if (has_libdw()) {
        ck_assert_has(s.file, "test_symbol.c");
        ck_assert_uint_eq(s.line, line_number);
    }
    weft_symbol again = find((char *)line_above - 1);
    ck_assert_ptr_eq(s.function, again.function); /* remembered */
}

TEST_LOOP(without_libdw_functions_have_names_and_no_lines, 2)
{
    setenv("WEFT_LIBDW", _i == 0 ? "" : "libdoes-not-exist.so", 1);
    record_line();
    weft_symbol s = find((char *)line_above - 1);
    ck_assert_str_eq(s.function, "record_line");
    ck_assert_str_eq(s.file, "");
    ck_assert_uint_eq(s.line, 0);
}

TEST(functions_of_shared_libraries_have_names)
{
    weft_symbol s = find(dlsym(RTLD_DEFAULT, "getsubopt"));
    ck_assert_has(s.function, "getsubopt");
    ck_assert_has(s.module, "libc");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Limit the address space to its present size and some more bytes. */
static void limit_memory(rlim_t more_bytes)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    struct rlimit limit = {pages * 4096 + more_bytes, RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

static rlim_t room_bytes;

static int find_with_little_memory(void)
{
    weft_symbol s;
    const char *in_libc = dlsym(RTLD_DEFAULT, "getsubopt");
    weft_self();
    limit_memory(room_bytes);
    int rc = 0;
    for (int i = 0; i < 20 && (rc == 0 || rc == -ENOMEM); i++)
        rc = weft_symbol_find(in_libc + i, &s);
    return rc == 0 || rc == -ENOMEM ? 0 : 1;
}

TEST_LOOP(a_lookup_with_little_memory_does_not_end_the_process, 40)
{ /* without memory, libdw calls exit */
    room_bytes = (rlim_t)_i << 22;
    const outcome *o = run_apart(find_with_little_memory);
    ck_assert_msg(o->status == 0, "status %d, room %d MiB: %s", o->status, _i * 4, o->text);
}
#endif

TEST(an_address_outside_of_all_modules_has_no_name)
{
    weft_symbol s;
    int local = 0;
    ck_assert_int_eq(weft_symbol_find(&local, &s), -ENOENT);
    ck_assert_str_eq(s.function, "");
    ck_assert_str_eq(s.file, "");
    ck_assert_str_eq(s.module, "");
    ck_assert_int_eq(weft_symbol_find(NULL, &s), -ENOENT);
}

static weft_value find_many(void *arg)
{
    for (int i = 0; i < 100; i++)
        ck_assert_str_eq(find((const char *)find_many + i % 16).function, "find_many");
    return 0;
}

TEST(cords_find_names_at_the_same_time)
{
    weft_cord cords[3];
    for (size_t i = 0; i < 3; i++)
        cords[i] = weft_cord_start(find_many, NULL, NULL);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

/* A stripped copy of this program runs again, and prints the name of a function. */

static void print_name_if_asked(void) __attribute__((constructor));

static void print_name_if_asked(void)
{
    if (getenv("TEST_SYMBOL_STRIPPED") == NULL)
        return;
    weft_symbol s, exported;
    int rc = weft_symbol_find((const void *)find_many, &s);
    weft_symbol_find(dlsym(RTLD_DEFAULT, "getsubopt"), &exported);
    printf("%d '%s' %d %s\n", rc, s.function, s.offset > 0, exported.function);
    fflush(stdout);
    _exit(0);
}

TEST(a_stripped_program_has_offsets_and_the_names_of_shared_libraries)
{
    char path[4096], command[16384], line[256] = "";
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    ck_assert_int_gt(bytes, 0);
    path[bytes] = '\0';
    char copy[] = "/tmp/test_symbol_XXXXXX";
    int fd = mkstemp(copy);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(command, sizeof command,
             "strip -o %s %s 2>/dev/null && chmod +x %s && TEST_SYMBOL_STRIPPED=1 %s", copy, path,
             copy, copy);
    FILE *output = popen(command, "r");
    bool is_stripped = fgets(line, sizeof line, output) != NULL;
    int status = pclose(output);
    unlink(copy);
    if (!is_stripped && status != 0)
        return; /* strip is not installed */
    ck_assert_has(line, "0 '' 1 getsubopt");
}
