/* Tests of weft_selector_wait_process. */
#include "selector/selector_support.h"

#include <limits.h>
#include <signal.h>

FIXTURE(open_selector, close_selector)

static weft_selector_op op;
static int status;

/* Start a child that exits with this status after end_child. */
static pid_t start_child(int code, int *release)
{
    int fd[2];
    new_pipe(fd);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[1]);
        (void)!read(fd[0], (char[1]){0}, 1);
        _exit(code);
    }
    ck_assert_int_gt(pid, 0);
    close(fd[0]);
    *release = fd[1];
    return pid;
}

static void end_child(int release)
{
    put(release, "x");
    close(release);
}

static weft_value start_wait(pid_t pid, int options)
{
    status = -1;
    return weft_selector_wait_process(selector, &op, pid, options, &status);
}

/* The argument for a child, as in waitpid(2). */
typedef enum selection { BY_PID, ANY, OWN_GROUP, GROUP, SELECTIONS } selection;

static pid_t select_child(selection how, pid_t pid)
{
    if (how == GROUP)
        ck_assert_int_eq(setpgid(pid, pid), 0);
    const pid_t all[] = {pid, -1, 0, -pid};
    return all[how];
}

TEST_LOOP(a_wait_returns_the_pid_and_the_status, SELECTIONS)
{
    int release;
    pid_t pid = start_child(7, &release), selected = select_child(_i, pid);
    ck_assert_int_eq(start_wait(selected, WNOHANG), 0);
    ck_assert(start_wait(selected, 0) == PENDING);
    assert_none_completes();
    end_child(release);
    ck_assert_int_eq(finish(&op, PENDING), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    ck_assert_int_eq(start_wait(selected, 0), -ECHILD);
    ck_assert_int_eq(start_wait(selected, WNOHANG), -ECHILD);
}

TEST(a_child_that_has_ended_is_returned_at_once)
{
    int release;
    pid_t pid = start_child(3, &release);
    end_child(release);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(start_wait(pid, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 3);
}

TEST_LOOP(a_cancelled_or_late_wait_takes_no_status, SELECTIONS)
{
    for (int late = 0; late < 2; late++) {
        int release;
        pid_t pid = start_child(5, &release), selected = select_child(_i, pid);
        ck_assert(start_wait(selected, 0) == PENDING);
        assert_none_completes();
        if (late) {
            ck_assert_int_eq(weft_selector_limit(selector, &op, 0), 0);
            ck_assert_int_eq(finish(&op, PENDING), -ETIMEDOUT);
        }
        end_child(release);
        while (!late && weft_selector_poll(selector, INFINITY) == 0)
            continue;
        if (!late) { /* the wait has completed, but the status was not taken */
            ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
            ck_assert_int_eq(op.result, -ECANCELED);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(WEXITSTATUS(status), 5);
    }
}

TEST(two_waits_for_any_child_get_one_child_each)
{
    weft_selector_op ops[2] = {{0}};
    int release[2], statuses[2];
    pid_t first = start_child(1, &release[0]), second = start_child(2, &release[1]);
    for (int i = 0; i < 2; i++)
        ck_assert(weft_selector_wait_process(selector, &ops[i], -1, 0, &statuses[i]) == PENDING);
    end_child(release[0]);
    weft_selector_op *taken = next_op(selector);
    ck_assert_int_eq(taken->result, first);
    ck_assert_int_eq(WEXITSTATUS(statuses[taken - ops]), 1);
    end_child(release[1]);
    taken = next_op(selector);
    ck_assert_int_eq(taken->result, second);
    ck_assert_int_eq(WEXITSTATUS(statuses[taken - ops]), 2);
}

TEST(other_code_may_take_the_status)
{
    int release;
    pid_t pid = start_child(0, &release);
    ck_assert(start_wait(pid, 0) == PENDING);
    end_child(release);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(finish(&op, PENDING), -ECHILD);
}

TEST(stopped_and_continued_children_are_reported)
{
    int release;
    pid_t pid = start_child(0, &release);
    ck_assert(start_wait(pid, WUNTRACED | WCONTINUED) == PENDING);
    kill(pid, SIGSTOP);
    ck_assert_int_eq(finish(&op, PENDING), pid);
    ck_assert(WIFSTOPPED(status));
    ck_assert(start_wait(pid, WUNTRACED | WCONTINUED) == PENDING);
    kill(pid, SIGCONT);
    ck_assert_int_eq(finish(&op, PENDING), pid);
    ck_assert(WIFCONTINUED(status));
    end_child(release);
    ck_assert_int_eq(finish(&op, start_wait(pid, 0)), pid);
}

TEST(bad_arguments_are_errors_and_no_descriptor_remains)
{
    ck_assert_int_eq(start_wait(getpid(), 0), -ECHILD);
    ck_assert_int_eq(start_wait(-1, 0), -ECHILD);
    ck_assert_int_eq(start_wait(INT_MIN, 0), -ECHILD);
    ck_assert_int_eq(start_wait(-1, WNOWAIT), -EINVAL);
    int next = dup(0);
    close(next);
    for (int i = 0; i < 20; i++) {
        int release;
        pid_t pid = start_child(0, &release);
        ck_assert(weft_selector_wait_process(selector, &op, pid, 0, NULL) == PENDING);
        if (i % 2 == 0)
            ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
        end_child(release);
        ck_assert_int_eq(i % 2 == 0 ? waitpid(pid, NULL, 0) : finish(&op, PENDING), pid);
    }
    ck_assert_int_eq(dup(0), next);
    close(next);
}
