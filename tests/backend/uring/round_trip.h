/*
 * Run all fault scenarios in sequence, in one process and without a fault. They cover every
 * blocking call.
 */
#ifndef TESTS_BACKEND_URING_ROUND_TRIP_H
#define TESTS_BACKEND_URING_ROUND_TRIP_H

#include "support/fault_file.h"
#include "support/fault_net.h"

static inline int run_all_scenarios(void)
{
    static const struct {
        const char *name;
        scenario *run;
    } all[] = {
        {"waiting_on_pipes", wait_on_pipes},
        {"waiting_on_sockets", wait_on_sockets},
        {"writing_into_full", write_into_full},
        {"connecting", connect_twice},
        {"accepting_in_a_loop", run_accept_loop},
        {"receiving_in_a_loop", run_recv_loop},
        {"naming", dial_and_resolve},
        {"using_files", use_files},
        {"streaming_lines", stream_lines},
        {"copying", copy_all},
        {"splicing", splice_and_tee},
        {"chaining", run_chains},
    };
    signal(SIGALRM, SIG_DFL);
    alarm(IS_SLOW ? 60 : 10);
    size_t open_before = count_open(false);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        snprintf(own_verdict->text, sizeof own_verdict->text, "%s",
                 all[i].name); /* identifies a scenario that hangs */
        bool is_done = all[i].run();
        if (!is_done)
            return 2;
        require_nothing_left();
        require_open(open_before);
    }
    snprintf(own_verdict->backend, sizeof own_verdict->backend, "%s", weft_backend_name());
    snprintf(own_verdict->text, sizeof own_verdict->text, "%s", weft_backend_why());
    return 0;
}

/* Assert that the program succeeds, prints nothing, and runs on this backend. */
static inline void assert_scenarios_pass(int (*program)(void), const char *what,
                                         const char *backend)
{
    share_verdict();
    const outcome *o = run_apart(program);
    ck_assert_msg(o->status == 0 && o->text[0] == '\0', "%s: status %d, %s %.300s", what, o->status,
                  own_verdict->text, o->text);
    ck_assert_msg(strcmp(own_verdict->backend, backend) == 0, "%s: the backend was %s", what,
                  own_verdict->backend);
}

#endif
