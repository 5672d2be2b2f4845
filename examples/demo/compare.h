/* Measure sleeping tasks in a process of their own: as fibers, or as threads. */
#ifndef DEMO_COMPARE_H
#define DEMO_COMPARE_H

/* The maximum number of tasks. More threads would take the limits of other programs. */
#define COMPARE_MAX 10000

/*
 * Run `count` tasks of a kind, "fibers" or "threads", for two seconds. Each task sleeps, wakes,
 * counts and sleeps again. Print one line with these numbers:
 *
 *     tasks started, milliseconds to start them, KiB per task, microseconds of CPU per wake-up
 *
 * Return the exit status.
 */
int compare_main(const char *kind, long count);

/* The resident memory of this process. */
long resident_kib(void);

#endif
