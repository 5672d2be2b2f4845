/* Table of workloads of the contender `weft`. */
#include "works.h"

#include <weft.h>

#include <stdbool.h>

static const bench_work works[] = {
    /* Compared with other contenders. */
    {"switch", work_switch},
    {"snooze", work_snooze},
    {"spin", work_spin},
    {"rendezvous", work_rendezvous},
    {"buffered", work_buffered},
    {"select", work_select},
    {"mutex", work_mutex},
    {"condition", work_condition},
    {"mailbox", work_mailbox},
    {"cords", work_cords},
    {"flow", work_flow},
    {"offload", work_offload},
    {"timeout", work_timeout},
    {"parked", work_parked},
    {"sleepers", work_sleepers},
    {"echo", work_echo},
    /* Compared only with earlier runs of weft. */
    {"transfer", work_transfer},
    {"spin-batch", work_spin_batch},
    {"go", work_go},
    {"new", work_new},
    {"rendezvous-shared", work_rendezvous_shared},
    {"buffered-shared", work_buffered_shared},
    {"mailbox-stream", work_mailbox_stream},
    {"select-ready", work_select_ready},
    {"selector", work_selector},
    {"mutex-free", work_mutex_free},
    {"timeout-wait", work_timeout_wait},
    {"trace-mark", work_trace_mark},
    {"cords-woken", work_cords_woken},
    {"cords-chan", work_cords_chan},
    {"flow-chan", work_flow_chan},
    {"call", work_call},
    {"cord-spin", work_cord_spin},
    {"cord-start", work_cord_start},
    {"flood", work_flood},
    {"echo-loop", work_echo_loop},
};

/*
 * Return false if weft does not run on the requested backend. The figures would then belong to
 * another backend.
 */
static bool has_backend(void)
{
    const char *wanted = getenv("WEFT_BACKEND");
    if (wanted == NULL || strcmp(wanted, weft_backend_name()) == 0)
        return true;
    fprintf(stderr, "%s\n", weft_backend_why());
    return false;
}

int main(int argc, char **argv)
{
    if (argc == 1 && !has_backend())
        return 1;
    return bench_main(works, sizeof(works) / sizeof(works)[0], argc, argv);
}
