/*
 * Tests of USDT probes with readelf, gdb and bpftrace. The test program runs itself under these
 * tools. The environment variable PROBED makes it the program with the probes.
 */
#include "support/cases.h"
#include "support/suite.h"

static weft_value sleep_often(void *arg)
{
    for (int i = 0; i < 1000; i++)
        weft_sleep(0.001);
    return 0;
}

__attribute__((constructor)) static void run_probed(void)
{
    if (getenv("PROBED") == NULL)
        return;
    weft_spin_with(sleep_often, NULL, &(weft_spin_options){.name = "sleeper"});
    weft_sleep(10);
    exit(0);
}

/* Run a command of the shell. Return its output. */
static const char *output_of(const char *command)
{
    static char text[1 << 16];
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = '\0';
    pclose(pipe);
    return text;
}

static const char *own_path(void)
{
    static char path[4096];
    ck_assert_int_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
    return path;
}

static bool has_tool(const char *name)
{
#ifndef WEFT_HAS_SDT
    printf("skipped: weft was built without sys/sdt.h\n");
    return false;
#endif
    if (output_of(format("command -v %s", name))[0] != '\0')
        return true;
    printf("skipped: %s is not installed\n", name);
    return false;
}

TEST(the_program_lists_a_probe_for_each_kind_of_event)
{
    static const char *const names[] = {"spin", "wait",   "run",      "wake",  "cancel",
                                        "end",  "submit", "complete", "send",  "receive",
                                        "idle", "busy",   "mark",     "begin", "stop"};
    if (!has_tool("readelf"))
        return;
    const char *notes = output_of(format("readelf -n %s", own_path()));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        ck_assert_msg(strstr(notes, format("Name: %s\n", names[i])) != NULL, "%s", names[i]);
    ck_assert_uint_eq(count_in(notes, "Provider: weft"), COUNT_OF(names));
    ck_assert_ptr_null(strstr(notes, "Semaphore: 0x0000000000000000"));
}

TEST(a_debugger_stops_at_a_probe_and_sees_its_arguments)
{
    if (!has_tool("gdb"))
        return;
    const char *text = output_of(format(
        "PROBED=1 WEFT_BACKEND=epoll ASAN_OPTIONS=detect_leaks=0 timeout 60 gdb -nx -q -batch "
        "-ex 'set debuginfod enabled off' -ex 'break -probe-stap weft:wait' -ex run "
        "-ex 'print (char *)$_probe_arg2' -ex 'print $_probe_argc' -ex kill %s 2>&1",
        own_path()));
    if (strstr(text, "ptrace") != NULL || strstr(text, "not permitted") != NULL) {
        printf("skipped: gdb cannot trace processes here\n");
        return;
    }
    ck_assert_msg(strstr(text, "\"sleep\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "= 8\n") != NULL, "%s", text);
}

TEST(bpftrace_lists_the_probes_and_counts_the_reasons_of_waits)
{
    if (!has_tool("bpftrace"))
        return;
    const char *list = output_of(format("bpftrace -l 'usdt:%s:weft:*' 2>&1", own_path()));
    if (strstr(list, "needs to be run as root") != NULL || strstr(list, "only supports") != NULL) {
        printf("skipped: bpftrace needs root\n");
        return;
    }
    ck_assert_has(list, ":weft:wait", ":weft:wake", ":weft:cancel");
    const char *counts = output_of(
        format("PROBED=1 WEFT_BACKEND=epoll ASAN_OPTIONS=detect_leaks=0 timeout 60 bpftrace -c %s "
               "-e 'usdt:%s:weft:wait /arg2/ { @[str(arg2)] = count(); } interval:s:2 { exit(); }' "
               "2>&1",
               own_path(), own_path()));
    if (strstr(counts, "@[") == NULL) {
        printf("skipped: the kernel does not allow probes here: %.200s\n", counts);
        return;
    }
    ck_assert_has(counts, "@[sleep]: ");
}
