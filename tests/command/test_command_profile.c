/* The command `weft profile`: tables, folded stacks, flame graphs, and commands. */
#include "command/inspect_target.h"

static void end_profile(void)
{
    target_stop();
    weft_output_free(&output);
    remove_folder();
}

FIXTURE(create_target_folder, end_profile)

/* Return the sum of the values of the folded stacks that contain a text. */
static unsigned long sum_folded(const char *file, const char *part)
{
    char line[8192];
    unsigned long sum = 0;
    FILE *in = fopen(folder_path(file), "re");
    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof line, in) != NULL)
        if (strstr(line, part) != NULL)
            sum += strtoul(strrchr(line, ' '), NULL, 10);
    fclose(in);
    return sum;
}

/* Run a target as the command of a profile, with an option and its file. Return the status. */
static int profile_target(const char *name, char *option, char *file)
{
    ck_assert_int_eq(setenv("TEST_TARGET", name, 1), 0);
    ck_assert_int_eq(setenv("TMPDIR", folder, 1), 0);
    int status = WEFT("profile", option, file, "--", format("/proc/%d/exe", (int)getpid()));
    unsetenv("TEST_TARGET");
    return status;
}

TEST(the_folded_stacks_have_the_names_and_the_busiest_fiber_leads)
{
    ck_assert_int_eq(profile_target("day", "--folded", folder_path("p.folded")), 7);
    ck_assert_str_eq(output.err, "");
    unsigned long large = sum_folded("p.folded", ";large;price_large;compute_prices");
    unsigned long small = sum_folded("p.folded", ";small;price_small;compute_prices");
    ck_assert_uint_gt(small, 0);
    ck_assert_uint_gt(large, small);
    ck_assert_uint_gt(sum_folded("p-wait.folded", ";posting;post_entry"), 0);
    ck_assert_uint_gt(sum_folded("p-wait.folded", "[a mutex]"), 0);
    ck_assert_uint_eq(sum_folded("p-wait.folded", ";large"), 0);
    ck_assert_output_has("compute_prices");
    ck_assert(strstr(output.out, "large") < strstr(output.out, "small"));
    ck_assert_output_has("a mutex");
}

TEST(a_command_leaves_only_the_results)
{
    ck_assert_int_eq(profile_target("day", "--folded", folder_path("p")), 7);
    weft_output_free(&output);
    ck_assert_int_eq(weft_run(ARGV("ls", folder), "", 0, NULL, &output), 0);
    ck_assert_str_eq(output.out, "p\np-wait\n");
}

TEST(one_kind_can_be_chosen)
{
    target_start_inspected("shop");
    ck_assert_int_eq(
        WEFT("profile", "-s", "0.3", "--wait", "--folded", folder_path("w"), target_pid), 0);
    ck_assert_uint_gt(sum_folded("w", "[a mutex]"), 0);
    ck_assert_uint_eq(sum_folded("w", "compute_prices"), 0);
    ck_assert_ptr_null(strstr(output.out, "CPU:"));
    ck_assert_int_eq(
        WEFT("profile", "-s", "0.3", "--cpu", "--folded", folder_path("c"), target_pid), 0);
    ck_assert_uint_eq(sum_folded("c", "[a mutex]"), 0);
    ck_assert_ptr_null(strstr(output.out, "Waits:"));
    ck_assert_int_lt(access(folder_path("c-wait"), F_OK), 0);
}

TEST(a_flame_graph_is_valid_xml_with_escaped_names)
{
    ck_assert_int_eq(profile_target("day", "--svg", folder_path("p.svg")), 7);
    weft_output_free(&output);
    ck_assert_int_eq(
        weft_run(ARGV("python3", "-c",
                      "import sys, xml.dom.minidom as d\n"
                      "for f in sys.argv[1:]:\n"
                      "    g = d.parse(f).getElementsByTagName('title')\n"
                      "    print([t.firstChild.data for t in g])\n"
                      "    assert 'http' not in open(f).read().replace('http://www.w3.org', '')\n",
                      folder_path("p.svg"), folder_path("p-wait.svg")),
                 "", 0, NULL, &output),
        0);
    ck_assert_output_has("'large (");
    ck_assert_output_has("'compute_prices (");
    ck_assert_output_has("'[a mutex] (");
    ck_assert_output_has("me ?[31mred");
}

TEST(a_command_without_weft_is_reported)
{
    ck_assert_int_eq(profile_target("plain", "--folded", folder_path("p.folded")), 1);
    ck_assert_error_has("the command has ended without using weft");
}

TEST(invalid_arguments_are_reported)
{
    ck_assert_int_eq(WEFT("profile"), 2);
    ck_assert_int_eq(WEFT("profile", "--"), 2);
    ck_assert_int_eq(WEFT("profile", "--hz", "0", "1"), 2);
    ck_assert_int_eq(WEFT("profile", "--", "/nonexistent/program"), 1);
    ck_assert_error_has("cannot run /nonexistent/program");
    ck_assert_int_eq(WEFT("profile", "999999999"), 1);
    ck_assert_int_eq(WEFT("profile", "--help"), 0);
}

/* Return the CPU time that the target has used, in ticks of 10 ms. */
static unsigned long target_ticks(void)
{
    unsigned long user = 0, system = 0;
    FILE *stat = fopen(format("/proc/%s/stat", target_pid), "re");
    ck_assert_ptr_nonnull(stat);
    ck_assert_int_eq(fscanf(stat,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    fclose(stat);
    return user + system;
}

TEST(a_target_that_ends_still_gives_its_profile)
{
    target_start_inspected("shop");
    weft_process profile = spawn(ARGV(command_path(), "profile", "--cpu", "-s", "60", "--folded",
                                      folder_path("p.folded"), target_pid),
                                 (weft_process_options){.out = WEFT_STDIO_NULL});
    /* The profile has begun when the target handles one more signal. */
    for (int handled = 0; handled == 0; weft_sleep(0.01))
        handled = weft_system(format("grep -q 'SigCgt:.*[4-7c-f][0-9a-f]\\{15\\}' /proc/%s/status",
                                     target_pid)) == 0;
    for (unsigned long before = target_ticks(); target_ticks() < before + 20;)
        weft_sleep(0.01);
    target_stop();
    ck_assert_int_eq(weft_process_wait(&profile), 0);
    weft_process_close(&profile);
    ck_assert_uint_gt(sum_folded("p.folded", ";large;"), 0);
}
