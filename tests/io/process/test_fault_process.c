/*
 * Fault tests of processes: the n-th allocation or system call fails, for each n. A started process
 * is waited for or ended, the failing call returns the error, and no child remains.
 */
#include "support/fault.h"
#include "support/suite.h"

#define INPUT_BYTES ((size_t)200000)

static void require_no_children(void)
{
    siginfo_t info;
    REQUIRE(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD);
}

/* Move more bytes than the pipes hold, in both directions. */
static bool run_filter(void)
{
    static char input[INPUT_BYTES];
    weft_output got;
    memset(input, 'x', sizeof input);
    char *set[] = {"WEFT_FAULT=1", NULL}, *argv[] = {"cat", NULL};
    weft_process_options o = {.set = set, .folder = "/"};
    int status = weft_run(argv, input, sizeof input, &o, &got);
    bool is_done = REQUIRE_OR_FAULT(status);
    if (is_done) {
        REQUIRE(status == 0 && got.out_bytes == sizeof input && got.err_bytes == 0);
        REQUIRE(memcmp(got.out, input, sizeof input) == 0);
        weft_output_free(&got);
    }
    require_no_children();
    return is_done;
}

/* Cancel the wait for a process, then kill and close it. */
static bool end_process(void)
{
    weft_process p;
    char *argv[] = {"sleep", "1000", NULL};
    weft_process_options o = {.in = WEFT_STDIO_NULL, .err = WEFT_STDIO_PIPE};
    int rc = weft_spawn_process(&p, argv, &o);
    if (!REQUIRE_OR_FAULT(rc))
        return false;
    WEFT_MOVE_ON_AFTER(0.001)
        REQUIRE(weft_process_wait(&p) == -ECANCELED);
    rc = weft_process_kill(&p, SIGKILL);
    REQUIRE(rc == 0);
    REQUIRE(weft_process_wait(&p) == SIGKILL);
    REQUIRE(weft_process_close(&p) == SIGKILL);
    require_no_children();
    return true;
}

static bool read_command(void)
{
    weft_stream s;
    char line[16] = "";
    int rc = weft_popen(&s, "echo hello; exit 3", "r");
    if (!REQUIRE_OR_FAULT(rc))
        return false;
    ssize_t n = weft_stream_gets(&s, line, sizeof line);
    bool is_done = REQUIRE_OR_FAULT(n);
    REQUIRE(!is_done || strcmp(line, "hello\n") == 0);
    rc = weft_stream_close(&s); /* the command may not have written yet */
    REQUIRE(rc == 3 << 8 || (!is_done && (rc == 2 << 8 || rc == SIGPIPE)));
    require_no_children();
    return is_done;
}

FAULT_TEST(a_run_completes_or_fails_and_leaves_no_child, run_filter, 2)
FAULT_TEST(a_started_process_can_be_ended, end_process, 1)
FAULT_TEST(an_opened_command_can_be_closed, read_command, 1)
