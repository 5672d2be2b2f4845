/* The command `weft top`: its text, its errors, and its screen in tmux. */
#include "command/inspect_target.h"

static bool has_tmux_server;

static char *tmux_socket(void)
{
    return folder_path("tmux");
}

static void end_top(void)
{
    weft_output_free(&output);
    if (has_tmux_server)
        (void)weft_run(ARGV("tmux", "-S", tmux_socket(), "kill-server"), "", 0, NULL, &output);
    target_stop();
    weft_output_free(&output);
    remove_folder();
}

FIXTURE(create_target_folder, end_top)

/* Return the text after the last line break before `part`: the line with this part. */
static const char *line_with(const char *part)
{
    static char line[512];
    const char *at = strstr(output.out, part);
    ck_assert_msg(at != NULL, "no \"%s\" in:\n%s%s", part, output.out, output.err);
    while (at > output.out && at[-1] != '\n')
        at--;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

TEST(once_prints_the_fibers_with_states_reasons_and_the_busiest_first)
{
    target_start_inspected("shop");
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.3", target_pid), 0);
    ck_assert_str_eq(output.err, "");
    ck_assert_ptr_nonnull(strstr(line_with("posting"), "waiting"));
    ck_assert_ptr_nonnull(strstr(line_with("posting"), "a mutex held by #4294967296"));
    ck_assert_ptr_nonnull(strstr(line_with("audit"), "the end of #4294967297"));
    ck_assert_ptr_nonnull(strstr(line_with(" main "), "read"));
    ck_assert_output_has("6 fibers  sort cpu");
    ck_assert(strstr(output.out, "large") < strstr(output.out, "posting"));
    ck_assert(strstr(output.out, "small") < strstr(output.out, "posting"));
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", "-s", "wait", target_pid), 0);
    ck_assert(strstr(output.out, "posting") < strstr(output.out, "small"));
}

TEST(control_characters_of_names_are_escaped)
{
    target_start_inspected("shop");
    setenv("LC_ALL", "C.UTF-8", 1);
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", target_pid), 0);
    ck_assert_output_has("s\xc3\xb6me \\x1B[31mred");
    ck_assert_ptr_null(strchr(output.out, '\x1b'));
    setenv("LC_ALL", "C", 1);
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", target_pid), 0);
    ck_assert_output_has("s?me \\x1B[31mred");
}

TEST(a_tree_and_a_filter_can_be_printed)
{
    target_start_inspected("shop");
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", "--tree", target_pid), 0);
    ck_assert_output_has(" main ");
    ck_assert_output_has("   posting ");
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", "-f", "mutex", target_pid), 0);
    ck_assert_output_has("posting");
    ck_assert_ptr_null(strstr(output.out, "large"));
}

TEST(more_than_200_fibers_are_grouped_unless_the_user_objects)
{
    target_start_inspected("crowd");
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", target_pid), 0);
    ck_assert_ptr_nonnull(strstr(line_with("connection"), " 1000 "));
    ck_assert_int_eq(WEFT("top", "--once", "-d", "0.1", "--no-group", target_pid), 0);
    ck_assert_ptr_null(strstr(line_with("connection"), " 1000 "));
}

TEST(the_path_of_a_socket_is_accepted_too)
{
    target_start_inspected("crowd");
    ck_assert_int_eq(
        WEFT("top", "--once", "-d", "0.1", folder_path(format("socket-%s", target_pid))), 0);
    ck_assert_output_has("connection");
}

TEST(errors_say_what_to_do)
{
    target_start("crowd", NULL);
    ck_assert_int_eq(WEFT("top", "--once", target_pid), 1);
    ck_assert_error_has("runs without WEFT_INSPECT; start the program like this: "
                        "WEFT_INSPECT=/tmp/weft-%p PROGRAM");
    ck_assert_int_eq(WEFT("top", "--once", "999999999"), 1);
    ck_assert_error_has("there is no process 999999999");
    ck_assert_int_eq(WEFT("top", "--once", folder_path("none")), 1);
    ck_assert_error_has("there is no socket");
    create_text_file("file", "text");
    ck_assert_int_eq(WEFT("top", "--once", folder_path("file")), 1);
    ck_assert_error_has("no process listens on");
    ck_assert_int_eq(WEFT("top"), 2);
    ck_assert_int_eq(WEFT("top", "1", "2"), 2);
    ck_assert_int_eq(WEFT("top", "--sort", "size", "1"), 2);
    ck_assert_int_eq(WEFT("top", "--unknown", "1"), 2);
    ck_assert_int_eq(WEFT("top", "--help"), 0);
    ck_assert_output_has("usage: weft top");
}

TEST(without_a_terminal_only_once_works)
{
    target_start_inspected("crowd");
    ck_assert_int_eq(WEFT("top", target_pid), 1);
    ck_assert_error_has("not a terminal; use --once");
}

/*
 * tmux.
 */

#define TMUX(...)                                                                               \
    do {                                                                                        \
        weft_output_free(&output);                                                              \
        ck_assert_int_eq(                                                                       \
            weft_run(ARGV("tmux", "-S", tmux_socket(), __VA_ARGS__), "", 0, NULL, &output), 0); \
    } while (0)

/* Wait until the screen contains, or lacks, a text. The time limit of the test ends the wait. */
static void wait_for_screen(const char *text, bool is_expected)
{
    for (;;) {
        TMUX("capture-pane", "-p", "-t", "top");
        if ((strstr(output.out, text) != NULL) == is_expected)
            return;
        weft_sleep(0.02);
    }
}

#define KEYS(...) TMUX("send-keys", "-t", "top", __VA_ARGS__)

/* Start a shell in tmux, note the state of its terminal, and start the command. */
static bool start_in_tmux(const char *size)
{
    if (access("/usr/bin/tmux", X_OK) < 0)
        return false;
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("TMUX");
    TMUX("-f", "/dev/null", "new-session", "-d", "-s", "top", "-x", (char *)(uintptr_t)size, "-y",
         "24", "env", "PS1=prompt$ ", "sh");
    has_tmux_server = true;
    KEYS(format("stty -g >%s; clear; %s top -d 0.2 %s; echo status=$?", folder_path("before"),
                command_path(), target_pid),
         "Enter");
    wait_for_screen("WAITS FOR", true);
    return true;
}

/* After the end of the command: the terminal has its earlier state, and shows the shell. */
static void expect_restored(const char *status)
{
    wait_for_screen(status, true);
    ck_assert_ptr_null(strstr(output.out, "WAITS FOR"));
    KEYS(format("stty -g >%s; echo do''ne", folder_path("after")), "Enter");
    wait_for_screen("done", true);
    char *before = strdup(read_file("before"));
    ck_assert_str_eq(before, read_file("after"));
    free(before);
}

TEST(keys_sort_filter_group_and_show_the_tree)
{
    target_start_inspected("shop");
    if (!start_in_tmux("120"))
        return;
    wait_for_screen("sort cpu", true);
    KEYS("w");
    wait_for_screen("sort wait", true);
    KEYS("s");
    wait_for_screen("sort stack", true);
    KEYS("x");
    wait_for_screen("sort switches", true);
    KEYS("t");
    wait_for_screen("   posting", true);
    KEYS("g", "c");
    wait_for_screen("sort cpu  grouped", true);
    KEYS("/");
    wait_for_screen("filter: _", true);
    KEYS("-l", "mutey");
    KEYS("BSpace", "x");
    wait_for_screen("filter: mutex_", true);
    KEYS("Enter");
    wait_for_screen("large", false);
    wait_for_screen("posting", true);
    KEYS("/", "Escape");
    wait_for_screen("large", true);
    KEYS("p");
    wait_for_screen("paused", true);
    KEYS("q");
    expect_restored("status=0");
}

TEST(enter_shows_the_backtrace_of_the_selected_fiber)
{
    target_start_inspected("shop");
    if (!start_in_tmux("120"))
        return;
    KEYS("/", "p", "o", "s", "t", "i", "n", "g", "Enter");
    wait_for_screen("large", false);
    KEYS("Enter");
    wait_for_screen("posting waiting for a mutex", true);
    wait_for_screen("post_entry", true);
    KEYS("q");
    wait_for_screen("WAITS FOR", true);
    KEYS("q");
    expect_restored("status=0");
}

TEST(the_screen_follows_the_size_of_the_terminal)
{
    target_start_inspected("crowd");
    if (!start_in_tmux("120"))
        return;
    wait_for_screen("SWITCHES", true);
    TMUX("resize-window", "-t", "top", "-x", "60", "-y", "12");
    wait_for_screen("SWITCHES", false);
    wait_for_screen("connection", true);
    TMUX("resize-window", "-t", "top", "-x", "150", "-y", "30");
    wait_for_screen("SWITCHES", true);
    KEYS("g"); /* more rows than lines */
    wait_for_screen("1-", true);
    KEYS("End");
    wait_for_screen("-1002 of 1002", true);
    KEYS("Home");
    wait_for_screen("1-", true);
    KEYS("q");
    expect_restored("status=0");
}

/* Return the process id of the command, from the list of processes of the terminal. */
static pid_t pid_of_command(void)
{
    weft_output_free(&output);
    ck_assert_int_eq(weft_run(SHELL(format("ps -eo pid,args | grep -F 'top -d 0.2 %s' | grep -v "
                                           "-e grep -e 'sh -c'",
                                           target_pid)),
                              "", 0, NULL, &output),
                     0);
    return (pid_t)strtol(output.out, NULL, 10);
}

TEST(a_signal_restores_the_terminal)
{
    target_start_inspected("crowd");
    if (!start_in_tmux("100"))
        return;
    pid_t pid = pid_of_command();
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    expect_restored("status=143");
}

TEST(the_end_of_the_process_restores_the_terminal)
{
    target_start_inspected("crowd");
    if (!start_in_tmux("100"))
        return;
    target_stop();
    expect_restored("has ended");
}
