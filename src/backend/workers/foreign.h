/*
 * Foreign threads: threads of the process that do not run fibers, but may wake a fiber. Deadlock
 * detection must consider foreign threads.
 */
#ifndef WEFT_BACKEND_WORKERS_FOREIGN_H
#define WEFT_BACKEND_WORKERS_FOREIGN_H

#include <stdbool.h>

/*
 * Record that the watchdog's thread runs, or that it is about to end. Only the watchdog's thread,
 * or a child after fork, may call this function.
 */
void weft__foreign_set_watchdog(bool is_running);

/*
 * Return whether the process has foreign threads. cords is the number of threads that run fibers.
 * Returns true if the threads cannot be counted. These threads are not foreign:
 *   - the watchdog and internal threads
 *   - threads of io_uring and of a sanitizer
 *   - worker threads that do not run a function of the program
 *   - threads that have ended
 */
bool weft__foreign_threads_exist(unsigned cords);

#endif
