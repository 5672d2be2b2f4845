/* Table of workloads of the contender `threads`, which uses only POSIX threads. */
#include "works.h"

static const bench_work works[] = {
    {"spin", work_spin},
    {"mutex", work_mutex},
    {"condition", work_condition},
    {"cords", work_cords},
    {"cords-eventfd", work_cords_eventfd},
    {"flow", work_flow},
    {"flow-eventfd", work_flow_eventfd},
    {"offload", work_offload},
};

BENCH_MAIN(works)
