/* Adoption of modules: which calls are hooked, in which threads and fibers. */
#include "posix/posix_support.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

typedef int sleep_ms_fn(long ms);

/* An entry of the table of sleeper.c. */
typedef struct sleeper_entry {
    const char *name;
    int (*fn)(const struct timespec *time, struct timespec *left);
} sleeper_entry;

/* Load a module of tests/posix/modules. */
static void *load(const char *name, int flags)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lib%s.so", getenv("WEFT_TEST_MODULES"), name);
    void *module = dlopen(path, RTLD_NOW | flags);
    ck_assert_msg(module != NULL, "%s", dlerror());
    return module;
}

static sleep_ms_fn *find(void *module, const char *name)
{
    sleep_ms_fn *fn = (sleep_ms_fn *)(uintptr_t)dlsym(module, name);
    ck_assert_ptr_nonnull((void *)(uintptr_t)fn);
    return fn;
}

/* A call of a module in a fiber. */
typedef struct call {
    sleep_ms_fn *fn;
    long ms;
} call;

static weft_value run_call(void *arg)
{
    const call *c = arg;
    char text[16];
    int rc = c->fn(c->ms);
    snprintf(text, sizeof text, "%ld ", c->ms);
    mark(text);
    return rc;
}

/* Return whether other fibers run while a fiber is in fn. Then the shorter sleep ends first. */
static bool lets_others_run(sleep_ms_fn *fn)
{
    call calls[] = {{fn, 40}, {fn, 10}};
    clear_trail();
    weft_spin(run_call, &calls[0]);
    weft_spin(run_call, &calls[1]);
    ck_assert_int_eq(weft_await_children(), 0);
    return strcmp(trail, "10 40 ") == 0;
}

static int own_sleep(long ms)
{
    return nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

TEST(a_program_adopts_itself)
{
    adopt_program();
    ck_assert(lets_others_run(own_sleep));
    ck_assert_uint_eq(posix_stats().waits, 2);
}

TEST(a_fiber_that_passes_blocks_the_thread_and_others_do_not)
{
    adopt_program();
    weft_spin(run_call, &(call){own_sleep, 1});
    ck_assert_int_eq(weft_posix_pass(true), 1);
    ck_assert_int_eq(weft_posix_pass(true), 2);
    run_call(&(call){own_sleep, 20});
    ck_assert_trail("20 ");
    ck_assert_int_eq(weft_snooze(), 0); /* the other fiber has its own depth */
    ck_assert_uint_eq(posix_stats().waits, 1);
    ck_assert_int_eq(weft_posix_pass(false), 1);
    ck_assert_int_eq(weft_posix_pass(false), 0);
    ck_assert_int_eq(weft_posix_pass(false), -EINVAL);
    ck_assert_int_eq(weft_await_children(), 0);
}

static void *sleep_in_thread(void *arg)
{
    return (void *)(intptr_t)own_sleep(1);
}

TEST(hooks_are_off_in_plain_threads_and_forbidden_sections)
{
    adopt_program();
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, sleep_in_thread, NULL), 0);
    pthread_join(thread, &result);
    ck_assert_ptr_null(result);
    weft_no_switch_begin();
    ck_assert_int_eq(own_sleep(1), 0);
    weft_no_switch_end();
    ck_assert_uint_eq(posix_stats().waits, 0);
}

/* With libweft-preload, every module is hooked without weft_adopt. */
#define SKIP_IF_PRELOADED \
    if (is_preloaded())   \
    return

/* The runtime of a sanitizer ends the process if a module is loaded with RTLD_DEEPBIND. */
#define SKIP_IF_NOT_LOADABLE(flags)              \
    if (is_sanitized() && (flags)&RTLD_DEEPBIND) \
    return

static const int load_flags[] = {RTLD_LOCAL, RTLD_GLOBAL, RTLD_LOCAL | RTLD_DEEPBIND};

TEST_ROWS(calls_and_tables_of_a_module_are_hooked_and_released, load_flags)
{
    SKIP_IF_PRELOADED;
    SKIP_IF_NOT_LOADABLE(load_flags[_i]);
    void *module = load("sleeper", load_flags[_i]);
    sleep_ms_fn *direct = find(module, "sleeper_direct");
    ck_assert(!lets_others_run(direct));
    ck_assert_int_eq(weft_adopt("libsleeper.so", NULL), 2);
    ck_assert_uint_eq(posix_stats().slots, 2);
    ck_assert(lets_others_run(direct));
    ck_assert(lets_others_run(find(module, "sleeper_by_table")));
    ck_assert_int_eq(weft_adopt("libsleeper.so", NULL), 2); /* again: no effect */
    ck_assert_uint_eq(posix_stats().slots, 2);
    ck_assert_int_eq(weft_disown("libsleeper.so"), 2);
    ck_assert(!lets_others_run(direct));
    ck_assert(!lets_others_run(find(module, "sleeper_by_table")));
    ck_assert_int_eq(weft_disown("libsleeper.so"), -ENOENT);
    ck_assert_uint_eq(posix_stats().slots, 0);
}

TEST(adoption_takes_the_needed_libraries_along_unless_alone)
{
    SKIP_IF_PRELOADED;
    sleep_ms_fn *user = find(load("user", 0), "user_sleep");
    ck_assert_int_ge(weft_adopt("libuser.so", &(weft_adopt_options){.is_alone = true}), 0);
    ck_assert(!lets_others_run(user));
    ck_assert_int_gt(weft_adopt("libuser.so", NULL), 0);
    ck_assert(lets_others_run(user));
}

TEST(adopting_everything_spares_weft_and_modules_with_system_calls)
{
    SKIP_IF_PRELOADED;
    sleep_ms_fn *direct = find(load("sleeper", 0), "sleeper_direct");
    sleep_ms_fn *raw = find(load("raw", 0), "raw_sleep");
    ck_assert_int_gt(weft_adopt_all(NULL), 2);
    ck_assert(lets_others_run(direct));
    ck_assert(lets_others_run(own_sleep));
    ck_assert_int_eq(raw(0), 0);
    ck_assert_uint_eq(posix_stats().waits, 4);
}

TEST(a_module_with_system_calls_is_refused_unless_forced)
{
    SKIP_IF_PRELOADED;
    load("raw", 0);
    ck_assert_int_eq(weft_adopt("libraw.so", NULL), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(weft_error()->message, "syscall"));
    ck_assert_uint_eq(posix_stats().slots, 0);
    ck_assert_int_gt(weft_adopt("libraw.so", &(weft_adopt_options){.is_forced = true}), 0);
}

TEST(a_needed_library_with_system_calls_is_skipped_unless_forced)
{
    SKIP_IF_PRELOADED;
    load("raw_user", 0);
    ck_assert_int_eq(weft_adopt("libraw_user.so", NULL), 1);
    ck_assert_int_eq(weft_disown("libraw.so"), -ENOENT);
    ck_assert_int_eq(weft_adopt("libraw_user.so", &(weft_adopt_options){.is_forced = true}), 2);
    ck_assert_int_eq(weft_disown("libraw.so"), 1);
}

/* std::condition_variable waits inside the library. */
TEST(the_runtime_of_cxx_is_adopted_although_it_makes_system_calls)
{
    SKIP_IF_PRELOADED;
    if (dlopen("libstdc++.so.6", RTLD_NOW) != NULL)
        ck_assert_int_gt(weft_adopt("libstdc++.so.6", NULL), 0);
}

TEST(weft_libc_and_unknown_modules_are_refused)
{
    ck_assert_int_eq(weft_adopt(NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_disown(NULL), -EINVAL);
    ck_assert_int_eq(weft_adopt("libnothing.so.1", NULL), -ENOENT);
    ck_assert_int_eq(weft_adopt("libweft.so.0", NULL), -ENOTSUP);
    ck_assert_int_eq(weft_adopt("libc.so.6", NULL), -ENOTSUP);
    ck_assert_int_eq(weft_disown("libc.so.6"), -ENOENT);
}

TEST(a_function_that_a_module_defines_itself_is_not_hooked)
{
    SKIP_IF_PRELOADED;
    SKIP_IF_NOT_LOADABLE(RTLD_DEEPBIND);
    sleep_ms_fn *own = find(load("own", RTLD_DEEPBIND), "own_calls");
    ck_assert_int_eq(own(1), 42);
    ck_assert_int_eq(weft_adopt("libown.so", NULL), 0);
    ck_assert_int_eq(own(1), 42);
}

static int sleeps_in_table;

static int count_sleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    return ++sleeps_in_table;
}

/* sqlite3 and others let the program replace the functions in their tables. */
TEST(a_table_that_the_program_has_changed_keeps_its_function)
{
    SKIP_IF_PRELOADED;
    void *module = load("sleeper", 0);
    sleep_ms_fn *by_table = find(module, "sleeper_by_table");
    sleeper_entry *table = dlsym(module, "sleeper_table"), entry = *table;
    table->fn = count_sleep;
    ck_assert_int_eq(weft_adopt("libsleeper.so", NULL), 1);
    ck_assert_int_eq(by_table(1), 1);
    *table = entry;
    ck_assert_int_eq(weft_adopt("libsleeper.so", NULL), 2);
    table->fn = count_sleep;
    ck_assert_int_eq(weft_disown("libsleeper.so"), 2);
    ck_assert_int_eq(by_table(1), 2);
}

TEST(a_module_that_was_unloaded_is_forgotten)
{
    SKIP_IF_PRELOADED;
    void *module = load("sleeper", 0);
    ck_assert_int_eq(weft_adopt("libsleeper.so", NULL), 2);
    ck_assert_int_eq(dlclose(module), 0);
    module = load("sleeper2", 0); /* most likely at the same address */
    ck_assert_int_eq(weft_disown("libsleeper2.so"), -ENOENT);
    ck_assert_uint_eq(posix_stats().slots, 0);
    ck_assert(!lets_others_run(find(module, "sleeper_direct")));
    ck_assert_int_eq(weft_adopt("libsleeper2.so", NULL), 2);
    ck_assert(lets_others_run(find(module, "sleeper_direct")));
    ck_assert(lets_others_run(find(module, "sleeper_by_table")));
}

#ifndef __SANITIZE_THREAD__ /* TSan does not see the lock of the loader */

#define ADOPTIONS 1000

static void *load_and_unload(void *arg)
{
    while (!*(atomic_bool *)arg)
        dlclose(load("user", 0));
    return NULL;
}

TEST(another_thread_may_unload_modules_during_an_adoption)
{
    SKIP_IF_PRELOADED;
    atomic_bool is_over = false;
    pthread_t thread = start_thread(load_and_unload, &is_over);
    for (int i = 0; i < ADOPTIONS; i++)
        ck_assert_int_ge(weft_adopt_all(NULL), 0);
    is_over = true;
    ck_assert_ptr_null(join_thread(thread));
}

#endif

#ifdef __x86_64__

TEST(calls_by_relocations_of_code_remain_calls_of_libc)
{
    SKIP_IF_PRELOADED;
    sleep_ms_fn *sleep_ms = find(load("textrel", 0), "textrel_sleep");
    ck_assert_int_eq(weft_adopt("libtextrel.so", NULL), 0);
    ck_assert_int_eq(sleep_ms(1), 0);
}

#endif

static int handled;

static void note_signal(int signal)
{
    (void)signal;
    handled++;
}

static weft_value raise_usr1(void *arg)
{
    return raise(SIGUSR1);
}

TEST(handlers_that_were_installed_before_the_adoption_end_waits)
{
    struct sigaction action = {.sa_handler = note_signal}, old;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    adopt_program();
    weft_spin(raise_usr1, NULL);
    ck_assert_int_eq(poll(NULL, 0, -1), -1);
    ck_assert_int_eq(errno, EINTR);
    ck_assert_int_eq(handled, 1);
    ck_assert_int_eq(sigaction(SIGUSR1, NULL, &old), 0);
    ck_assert(old.sa_handler == note_signal);
}

/* libc holds locks of its own while it calls such a module, for example in getpwnam. */
TEST(modules_of_the_name_service_switch_are_refused)
{
    SKIP_IF_PRELOADED;
    load("nss_sleeper", 0);
    ck_assert_int_eq(weft_adopt("libnss_sleeper.so", NULL), -ENOTSUP);
    ck_assert_int_ge(weft_adopt_all(NULL), 0);
    ck_assert_int_eq(weft_disown("libnss_sleeper.so"), -ENOENT);
}

TEST(a_name_without_a_version_means_any_version)
{
    ck_assert_int_eq(weft_adopt("libweft.so", NULL), -ENOTSUP);
    ck_assert_int_eq(weft_adopt("libweft", NULL), -ENOENT);
    ck_assert_int_eq(weft_adopt("libweft.s", NULL), -ENOENT);
    ck_assert_int_eq(weft_adopt(".so", NULL), -ENOENT);
}

static void change_errno(void *arg)
{
    errno = EEXIST;
}

TEST(errno_is_unchanged_after_system_calls_of_an_idle_thread)
{
    adopt_program();
    weft_on_idle(change_errno, NULL);
    errno = EIO;
    ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(errno, EIO);
}

static weft_value disown_while_waiting(void *arg)
{
    return -weft_disown(""); /* an error would interrupt the parent */
}

TEST(a_module_is_not_released_while_a_fiber_waits_in_it)
{
    SKIP_IF_PRELOADED;
    adopt_program();
    weft_fiber f = weft_spin(disown_while_waiting, NULL);
    ck_assert_int_eq(own_sleep(10), 0);
    ck_assert_int_eq(weft_await(f), EBUSY);
    ck_assert_int_gt(weft_disown(""), 0);
}
