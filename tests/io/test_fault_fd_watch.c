/* Fault tests of watches: no event is lost, and nothing is left. */
#include "support/fault_wrap.h"

#include "support/fault.h"
#include "support/suite.h"

#define WATCHES 3

static int runs, drops;

static weft_value count_run(void *arg)
{
    runs++;
    return 0;
}

static void count_drop(void *arg)
{
    drops++;
}

/*
 * Wait until all watches have ended. First let fibers be created while calls fail. weft tries again
 * every 10 ms, and succeeds when the calls do.
 */
static void await_runs(int expected)
{
    for (int i = 0; i < 5 && runs < expected; i++)
        (void)weft_sleep(0.002);
    while (runs < expected)
        WITHOUT_FAULTS(weft_sleep(0.001));
}

/* Open watches. Some end with input, the last with its time. */
static bool watch_all(void)
{
    int fd[WATCHES][2], opened = 0, expected = 0;
    weft_fd_watch watches[WATCHES];
    weft_spin_options o = {.name = "watched", .drop = count_drop};
    runs = drops = 0;
    if (!become_a_cord())
        return false;
    for (; opened < WATCHES; opened++)
        if (!REQUIRE_OR_FAULT(weft_socketpair(fd[opened])))
            break;
    bool is_open[WATCHES] = {false};
    for (int i = 0; i < opened; i++) {
        double timeout_s = i == WATCHES - 1 ? 0.001 : 1000;
        is_open[i] = REQUIRE_OR_FAULT(
            weft_fd_watch_open(&watches[i], fd[i][0], timeout_s, NULL, count_run, NULL, &o));
        WITHOUT_FAULTS(is_open[i] &= i == WATCHES - 1 || weft_write(fd[i][1], "x", 1) == 1);
        expected += is_open[i];
    }
    await_runs(expected);
    for (int i = 0; i < opened; i++) {
        REQUIRE(!is_open[i] || weft_fd_watch_close(&watches[i]) == -EALREADY);
        REQUIRE(weft_close(fd[i][0]) == 0);
        REQUIRE(weft_close(fd[i][1]) == 0);
    }
    REQUIRE(runs == expected && drops == 0);
    return runs == WATCHES;
}

FAULT_TEST(watches_end_although_calls_fail, watch_all, 1)
