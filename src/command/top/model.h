/*
 * What `weft top` shows: the process, its cords, a page of rows and the backtrace of a fiber, as
 * the inspection socket has sent them.
 */
#ifndef WEFT_COMMAND_TOP_MODEL_H
#define WEFT_COMMAND_TOP_MODEL_H

#include "command/inspect/client.h"

#include <stdint.h>

typedef struct top_cord {
    uint64_t id;
    int thread_id;
    bool has_replied;
    double stalled_s;
    uint64_t fibers, runnable, switches, polls, ops, timers;
    double idle_share, cpu_s;
    char backend[16], name[32];
} top_cord;

typedef struct top_row {
    uint64_t id, count;
    unsigned cord, depth;
    char state[12];
    double cpu_share, cpu_s, waiting_s;
    uint64_t switches, stack_used, stack_bytes;
    int fd;
    double deadline_s; /* -1: none */
    uint64_t holder;   /* 0: none */
    char flags[4], reason[48], name[64], function[96], local[112], peer[112];
} top_row;

#define TOP_CORDS_MAX 1024
#define TOP_FRAMES_MAX 128

/* A reply to a view. */
typedef struct top_view {
    int pid;
    double uptime_s, taken_s;
    size_t fibers;              /* of the process */
    size_t rows_all, row_first; /* rows without a limit, and the index of the first row here */
    char program[64];
    top_cord *cords;
    size_t cords_count, cords_capacity;
    top_row *rows;
    size_t rows_count, rows_capacity;
    bool has_failed; /* memory is exhausted */
} top_view;

typedef enum top_sort {
    TOP_SORT_CPU,
    TOP_SORT_WAIT,
    TOP_SORT_STACK,
    TOP_SORT_SWITCHES,
    TOP_SORT_ID,
    TOP_SORTS,
} top_sort;

extern const char *const weft__top_sort_names[TOP_SORTS];

typedef struct top_query {
    top_sort sort;
    bool is_tree, has_groups;
    size_t offset, limit;
    char filter[64]; /* "": all fibers */
} top_query;

/*
 * Request a view, and replace the content of *view. Returns 0, -ENOMEM, or an error of
 * weft__inspect_request.
 */
int weft__top_view_get(inspect_client *client, const top_query *query, top_view *view);
void weft__top_view_free(top_view *view);

/* The cord of a view with this id, or NULL. */
const top_cord *weft__top_cord_find(const top_view *view, uint64_t id);

typedef struct top_frame {
    char function[160], file[256], module[128], offset[24];
    unsigned line;
} top_frame;

typedef struct top_backtrace {
    top_row fiber;
    top_frame frames[TOP_FRAMES_MAX];
    size_t count;
} top_backtrace;

/* Request the backtrace of a fiber. */
int weft__top_backtrace_get(inspect_client *client, uint64_t id, top_backtrace *backtrace);

#endif
