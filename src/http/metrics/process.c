/* Metrics of the process, with the names that Prometheus clients use. */
#include "base/clock.h"
#include "http/metrics/text.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The number of fields between the end of the name and the start time in /proc/self/stat. */
#define FIELDS_BEFORE_START 20

/* Read a file of /proc as text. These reads never wait. Returns false on failure. */
static bool read_proc(const char *path, char *out, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, bytes - 1);
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static double clock_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Return the time at which the process started, in seconds since the epoch. 0: not known. */
static double start_time_s(void)
{
    char stat[1024];
    /* The name of the process is in parentheses, and may contain spaces and parentheses. */
    const char *at = read_proc("/proc/self/stat", stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    for (int i = 0; at != NULL && i < FIELDS_BEFORE_START; i++)
        at = strchr(at + 1, ' ');
    unsigned long long ticks;
    if (at == NULL || sscanf(at, "%llu", &ticks) != 1)
        return 0;
    double age_s = clock_s(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return clock_s(CLOCK_REALTIME) - age_s;
}

/* Return the resident memory of the process. 0: not known. */
static uint64_t resident_bytes(void)
{
    char statm[256];
    unsigned long long pages;
    if (!read_proc("/proc/self/statm", statm, sizeof statm) ||
        sscanf(statm, "%*u %llu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t ns_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_usec * 1000;
}

void weft__metrics_add_process(weft__metrics *m)
{
    /* Computed once, because a change of the clock would make a new start time. */
    static _Atomic double started_s;
    double start_s = atomic_load(&started_s);
    if (start_s == 0)
        atomic_store(&started_s, start_s = start_time_s());
    if (start_s > 0) {
        weft__metrics_begin(m, "process_start_time_seconds", "gauge",
                            "Start time of the process since the epoch.");
        weft__metrics_add_seconds(m, "process_start_time_seconds", "", (uint64_t)(start_s * 1e9));
    }
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        weft__metrics_begin(m, "process_cpu_seconds_total", "counter",
                            "User and system CPU time of the process.");
        weft__metrics_add_seconds(m, "process_cpu_seconds_total", "",
                                  ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime));
    }
    uint64_t resident = resident_bytes();
    if (resident > 0)
        weft__metrics_gauge(m, "process_resident_memory_bytes", "Resident memory of the process.",
                            resident);
}
