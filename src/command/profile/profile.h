/*
 * weft profile: where the time of a program goes. A profile has stacks of CPU time, in samples, and
 * stacks of waits, in microseconds.
 */
#ifndef WEFT_COMMAND_PROFILE_PROFILE_H
#define WEFT_COMMAND_PROFILE_PROFILE_H

#include "command/inspect/client.h"

#include <stdint.h>
#include <stdio.h>

/* The names of a stack, the outermost first: the cord, the fiber, functions, the reason. */
typedef struct profile_stack {
    bool is_wait;
    uint64_t value;
    char **names; /* names[0] is the cord, names[1] the fiber */
    size_t count; /* at least 2 */
    char *reason; /* of a wait; "": none; also the last name, as "[reason]" */
} profile_stack;

/* All-zero is empty. */
typedef struct profile_data {
    double seconds;
    unsigned hz;
    uint64_t wait_samples, lost;
    profile_stack *stacks;
    size_t count, capacity;
    bool has_failed; /* memory is exhausted */
    char program[64];
    int pid;
} profile_data;

/* Add a line of a reply (core/inspect_socket/profile.h). */
void weft__profile_take_line(void *profile, const inspect_line *line);

/* Merge equal stacks, and sort the largest first. */
void weft__profile_merge(profile_data *p);
void weft__profile_free(profile_data *p);

/* Write the stacks as lines "NAME;NAME;... VALUE". Returns false after a failure of the file. */
bool weft__profile_write_folded(const profile_data *p, bool is_wait, FILE *out);

/* Write a flame graph. Returns false after a failure of the file, or if memory is exhausted. */
bool weft__profile_write_svg(const profile_data *p, bool is_wait, FILE *out);

/* Print tables: time by fiber, by function and by the reason of waits. */
void weft__profile_print(const profile_data *p, bool has_cpu, bool has_waits, FILE *out);

#endif
