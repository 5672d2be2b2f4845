/* All scenarios in a row, without a fault: everything that blocks, once, in its own process. */
#ifndef TESTS_ROUND_TRIP_H
#define TESTS_ROUND_TRIP_H

#include "fault_file.h"
#include "fault_net.h"

static inline int go_round(void)
{
    static const struct {
        const char *name;
        scenario *run;
    } all[] = {
        {"waiting_on_pipes", waiting_on_pipes},
        {"waiting_on_sockets", waiting_on_sockets},
        {"writing_into_full", writing_into_full},
        {"connecting", connecting},
        {"accepting_in_a_loop", accepting_in_a_loop},
        {"receiving_in_a_loop", receiving_in_a_loop},
        {"naming", naming},
        {"using_files", using_files},
        {"streaming_lines", streaming_lines},
        {"copying", copying},
        {"splicing", splicing},
        {"chaining", chaining},
    };
    signal(SIGALRM, SIG_DFL);
    alarm(IS_SLOW ? 60 : 10);
    size_t open_before = count_open(false);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        snprintf(told->text, sizeof told->text, "%s", all[i].name); /* where it hangs, if it does */
        bool is_done = all[i].run();
        if (!is_done)
            return 2;
        require_nothing_left();
        require_open(open_before);
    }
    snprintf(told->backend, sizeof told->backend, "%s", weft_backend_name());
    snprintf(told->text, sizeof told->text, "%s", weft_backend_why());
    return 0;
}

/* All of it works, nothing is said, and this is the backend. */
static inline void assert_round(int (*program)(void), const char *what, const char *backend)
{
    share_verdict();
    const outcome *o = run_apart(program);
    ck_assert_msg(o->status == 0 && o->text[0] == '\0', "%s: status %d, %s %.300s", what, o->status,
                  told->text, o->text);
    ck_assert_msg(strcmp(told->backend, backend) == 0, "%s: it ran on %s", what, told->backend);
}

#endif
