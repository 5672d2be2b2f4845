/* Tests of weft_run, weft_system and weft_popen: input, output and status of programs. */
#include "support/process_support.h"
#include "support/result_support.h"
#include "support/suite.h"

FIXTURE(count_before, assert_none_left)

#define MIB ((size_t)1 << 20)

/* Return bytes with a different value at each offset. */
static char *make_pattern(size_t bytes)
{
    uint32_t *data = malloc(bytes);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = (uint32_t)i * 2654435761u;
    return (char *)data;
}

/* Run a program. Assert its status, and its outputs up to the first NULL. */
static void assert_run(char *const argv[], const char *input, weft_process_options o, int status,
                       const char *out, const char *err)
{
    weft_output got;
    size_t bytes = input != NULL ? strlen(input) : 0;
    ck_assert_int_eq(weft_run(argv, input, bytes, &o, &got), status);
    ck_assert_str_eq(got.out != NULL ? got.out : "none", out != NULL ? out : "none");
    ck_assert_str_eq(got.err != NULL ? got.err : "none", err != NULL ? err : "none");
    ck_assert_uint_eq(got.out_bytes, out != NULL ? strlen(out) : 0);
    ck_assert_uint_eq(got.err_bytes, err != NULL ? strlen(err) : 0);
    if (status >= 0)
        weft_output_free(&got);
    ck_assert_ptr_null(got.out);
}

static int fill_output(void *out, size_t size)
{
    weft_process_options o = {.out = WEFT_STDIO_NULL, .err = WEFT_STDIO_NULL};
    return weft__run(ARGV("true"), NULL, 0, &o, out, size);
}

/* The output of a program with an older header has no field for stderr. */
TEST(the_output_has_the_size_of_the_callers_struct)
{
    struct {
        char *out;
        size_t out_bytes;
        uint64_t canary;
    } got = {.canary = 42};
    weft_process_options o = {.err = WEFT_STDIO_INHERIT};
    size_t size = offsetof(weft_output, err);
    ck_assert_int_eq(weft__run(ARGV("echo", "a"), NULL, 0, &o, (weft_output *)(void *)&got, size),
                     0);
    ck_assert_str_eq(got.out, "a\n");
    weft__output_free((weft_output *)(void *)&got, size);
    ck_assert_ptr_null(got.out);
    ck_assert_uint_eq(got.canary, 42);
    assert_result_is_sized(sizeof(weft_output), fill_output);
}

static const weft_process_options defaults;

TEST(a_program_gets_its_input_and_returns_its_outputs_and_its_status)
{
    assert_run(ARGV("tr", "a-z", "A-Z"), "hello", defaults, 0, "HELLO", "");
    assert_run(ARGV("sha256sum"), "abc", defaults, 0,
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  -\n", "");
    assert_run(SHELL("echo out; echo err >&2; exit 3"), NULL, defaults, 3 << 8, "out\n", "err\n");
    assert_run(SHELL("echo out; kill -KILL $$"), NULL, defaults, SIGKILL, "out\n", "");
    assert_run(ARGV("no-such-program"), "x", defaults, -ENOENT, NULL, NULL);
    ck_assert_error(-ENOENT, "no such program: no-such-program");
}

static void run_filter(void)
{
    char *input = make_pattern(MIB);
    weft_output got;
    ck_assert_int_eq(weft_run(ARGV("cat"), input, MIB, NULL, &got), 0);
    ck_assert_uint_eq(got.out_bytes, MIB);
    ck_assert_mem_eq(got.out, input, MIB);
    weft_output_free(&got);
    free(input);
}

TEST(a_mebibyte_flows_in_both_directions_at_once)
{
    run_filter();
}

TEST(a_mebibyte_alternates_between_both_outputs)
{
    weft_output got;
    char *command = "for i in 1 2 3 4; do head -c 262144 /dev/zero;"
                    " head -c 262144 /dev/zero | tr '\\0' e >&2; done";
    ck_assert_int_eq(weft_run(SHELL(command), NULL, 0, NULL, &got), 0);
    ck_assert_uint_eq(got.out_bytes, MIB);
    ck_assert_uint_eq(got.err_bytes, MIB);
    for (size_t i = 0; i < MIB; i++)
        if (got.out[i] != 0 || got.err[i] != 'e')
            ck_abort_msg("byte %zu", i);
    weft_output_free(&got);
}

TEST(a_program_need_not_read_its_input)
{
    char *input = make_pattern(MIB);
    weft_output got;
    ck_assert_int_eq(weft_run(ARGV("head", "-c", "1"), input, MIB, NULL, &got), 0);
    ck_assert_uint_eq(got.out_bytes, 1);
    ck_assert_int_eq(got.out[0], input[0]);
    weft_output_free(&got);
    ck_assert_int_eq(weft_run(ARGV("true"), input, MIB, NULL, &got), 0);
    weft_output_free(&got);
    char *command = "exec <&-; echo closed; exit 2"; /* the program continues without input */
    ck_assert_int_eq(weft_run(SHELL(command), input, MIB, NULL, &got), 2 << 8);
    ck_assert_str_eq(got.out, "closed\n");
    weft_output_free(&got);
    free(input);
}

TEST(a_program_that_writes_too_much_is_ended)
{
    assert_run(ARGV("yes"), NULL, (weft_process_options){.output_bytes_max = 100000}, -EMSGSIZE,
               NULL, NULL);
    ck_assert_error(-EMSGSIZE, "weft_run: an output exceeds 100000 bytes");
    assert_none_left();
    assert_run(ARGV("true"), NULL, (weft_process_options){.output_bytes_max = SIZE_MAX}, 0, "", "");
    weft_process_options five = {.output_bytes_max = 5};
    /* the sixth byte is detected when the program has ended */
    assert_run(SHELL("echo 12345"), NULL, five, -EMSGSIZE, NULL, NULL);
    assert_run(SHELL("echo 1234"), NULL, five, 0, "1234\n", "");
}

TEST(a_run_does_not_wait_for_background_processes)
{
    weft_output got;
    char *command = "sleep 1000 & echo $! >&2; head -c 20000 /dev/zero; exit 3";
    char *input = make_pattern(MIB);
    ck_assert_int_eq(weft_run(SHELL(command), input, MIB, NULL, &got), 3 << 8);
    ck_assert_uint_eq(got.out_bytes, 20000);
    pid_t background_pid = atoi(got.err);
    ck_assert_int_gt(background_pid, 1);
    ck_assert_int_eq(kill(background_pid, SIGKILL), 0);
    weft_output_free(&got);
    free(input);
}

TEST(streams_of_a_run_can_be_redirected)
{
    assert_run(SHELL("echo a; echo b >&2; echo c"), NULL,
               (weft_process_options){.err = WEFT_STDIO_OUT}, 0, "a\nb\nc\n", NULL);
    assert_run(SHELL("echo a; echo b >&2"), NULL, (weft_process_options){.out = WEFT_STDIO_NULL}, 0,
               NULL, "b\n");
    assert_run(ARGV("cat"), "x", (weft_process_options){.in = WEFT_STDIO_NULL}, -EINVAL, NULL,
               NULL);
    ck_assert_any_error(-EINVAL);
    /* without input, the pipe is closed immediately */
    assert_run(ARGV("cat"), NULL, (weft_process_options){.in = WEFT_STDIO_PIPE}, 0, "", "");
    ck_assert_int_eq(weft_run(SHELL("exit 3"), NULL, 0, NULL, NULL), 3 << 8);
}

static weft_value run_until_cancelled(void *arg)
{
    weft_output got;
    int rc = weft_run(arg, "x", 1, NULL, &got);
    return got.out == NULL && got.err == NULL ? rc : -EPROTO; /* no output to free */
}

TEST(an_interrupted_run_ends_the_program_and_returns_the_value)
{
    int rc = 0;
    weft_fiber f[3];
    for (int i = 0; i < 3; i++)
        f[i] = spin_waiting(run_until_cancelled, ARGV("sleep", "1000"));
    ck_assert(!has_no_children());
    weft_cancel(f[0]);
    ck_assert_int_eq(weft_await(f[0]), -ECANCELED);
    ck_assert_int_eq(weft_interrupt(f[1], -42), 0);
    ck_assert_int_eq(weft_await(f[1]), -42);
    weft_raise(f[2], -EIO, "broken");
    ck_assert_int_eq(weft_await(f[2]), -EIO);
    ck_assert_error(-EIO, "broken");
    assert_none_left();
    WEFT_CANCEL_AFTER(0.001, rc)
        ck_assert_int_eq(run_until_cancelled(ARGV("yes")), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(a_cancelled_fiber_starts_no_program)
{
    weft_output got;
    weft_stream s;
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_run(ARGV("true"), NULL, 0, NULL, &got), -ECANCELED);
        ck_assert_int_eq(weft_system("exit 0"), -ECANCELED);
        ck_assert_int_eq(weft_popen(&s, "exit 0", "r"), -ECANCELED);
        ck_assert(has_no_children());
    }
}

static weft_value run_cat(void *arg)
{
    char text[16];
    weft_output got;
    snprintf(text, sizeof text, "%d", (int)(intptr_t)arg);
    int status = weft_run(ARGV("cat"), text, strlen(text), NULL, &got);
    if (status == 0 && strcmp(got.out, text) != 0)
        status = -EPROTO;
    if (status >= 0)
        weft_output_free(&got);
    return status;
}

TEST(programs_can_be_run_after_a_shutdown)
{
    weft_go(sleep_forever, NULL);
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    run_filter();
}

FIBER(shut_down, weft_shutdown_all(*(double *)arg))

TEST(a_run_in_an_ancestor_survives_a_shutdown)
{
    double grace_s = 60;
    weft_fiber f = weft_spin(shut_down, &grace_s);
    run_filter(); /* main is an ancestor of f, so its run is not cancelled */
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(concurrent_runs_do_not_mix_their_data)
{
    weft_fiber fibers[20];
    for (size_t i = 0; i < COUNT_OF(fibers); i++)
        fibers[i] = weft_spin(run_cat, as_arg((weft_value)i));
    await_each_as(fibers, COUNT_OF(fibers), 0);
}

TEST(system_returns_the_status_of_the_command)
{
    ck_assert_int_eq(weft_system("exit 3"), 3 << 8);
    ck_assert_int_eq(weft_system("true"), 0);
    ck_assert_int_eq(weft_system("kill -KILL $$"), SIGKILL);
    ck_assert_int_eq(weft_system("no-such-command 2>/dev/null"), 127 << 8);
    ck_assert_int_eq(weft_system("-x 2>/dev/null"), 127 << 8);
    ck_assert_int_eq(weft_system(NULL), -EINVAL);
}

FIBER(call_system, weft_system(arg))

TEST(a_cancelled_system_ends_the_command)
{
    weft_fiber f = spin_waiting(call_system, "exec sleep 1000");
    weft_fiber runs = weft_spin(mark_and_return, "runs");
    ck_assert_int_eq(weft_await(runs), 0);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
}

TEST(the_output_of_a_command_is_read_as_a_stream)
{
    weft_stream s;
    char line[16];
    ck_assert_int_eq(weft_popen(&s, "echo one; echo two; exit 3", "r"), 0);
    ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), 4);
    ck_assert_str_eq(line, "one\n");
    ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), 4);
    ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), 0);
    ck_assert_int_eq(weft_stream_close(&s), 3 << 8);
}

TEST(closing_a_command_with_unread_output_does_not_hang)
{
    weft_stream s;
    char line[16];
    ck_assert_int_eq(weft_popen(&s, "exec yes", "r"), 0);
    ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), 2);
    ck_assert_int_eq(weft_stream_close(&s), SIGPIPE);
}

TEST(the_input_of_a_command_is_written_as_a_stream)
{
    char path[] = "/tmp/weft-popen-XXXXXX", text[16] = "";
    int fd = mkstemp(path);
    const char *command = format("sort >%s; exit 4", path);
    weft_stream s;
    ck_assert_int_eq(weft_popen(&s, command, "w"), 0);
    ck_assert_int_eq(weft_stream_puts(&s, "b\na\n"), 4);
    ck_assert_int_eq(weft_stream_close(&s), 4 << 8);
    ck_assert_int_eq(read(fd, text, sizeof text - 1), 4);
    ck_assert_str_eq(text, "a\nb\n");
    close(fd);
    unlink(path);
}

TEST(writing_to_a_command_that_closed_its_input_gives_EPIPE)
{
    weft_stream s;
    ck_assert_int_eq(weft_popen(&s, "exec <&-; kill -STOP $$", "w"), 0);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_ALL, 0, &info, WSTOPPED | WNOWAIT), 0);
    ck_assert_int_eq(weft_stream_puts(&s, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&s), -EPIPE);
    kill(info.si_pid, SIGCONT);
    ck_assert_int_eq(weft_stream_close(&s), -EPIPE); /* the buffered byte was not written */
}

TEST(closing_a_command_in_a_cancelled_fiber_ends_it)
{
    weft_stream s;
    ck_assert_int_eq(weft_popen(&s, "exec sleep 1000", "r"), 0);
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_stream_close(&s), -ECANCELED);
}

TEST(a_command_is_opened_for_reading_or_for_writing)
{
    weft_stream s;
    ck_assert_fails(weft_popen(&s, "exit 0", "rw"), -EINVAL);
    ck_assert_int_eq(weft_popen(&s, "exit 0", NULL), -EINVAL);
    ck_assert_int_eq(weft_popen(&s, NULL, "r"), -EINVAL);
}
