/* Table of workloads of the contender `bare`, which shows the limits of the machine. */
#include "works.h"

static const bench_work works[] = {
    {"switch", work_switch},
#ifdef __x86_64__
    {"switch-control", work_switch_control},
#endif
    {"switch-ucontext", work_switch_ucontext},
    {"snooze", work_snooze},
    {"snooze-linked", work_snooze_linked},
    {"spin", work_spin},
    {"rendezvous", work_rendezvous},
    {"buffered", work_buffered},
    {"flow", work_flow},
    {"echo-epoll", work_echo_epoll},
#ifdef BENCH_HAS_URING
    {"echo-uring", work_echo_uring},
#endif
};

BENCH_MAIN(works)
