/*
 * What a parked fiber costs: bytes of memory and of page tables, and nanoseconds to make it and
 * run it to where it waits, on stacks that were never used before. The kernel's own figures,
 * from /proc/self.
 *
 * The budget is one page of stack plus 600 bytes; page tables come on top.
 *
 * NUMBER: fibers; 100,000 unless given.
 */
#include "rounds.h"

#include <weft.h>

typedef struct usage {
    double resident_bytes;
    double table_bytes;
    double mappings;
} usage;

/* A line of /proc/self/status, in bytes; the kernel gives kB. */
static double status_bytes(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    bench_require(line != NULL, "a line is missing in /proc/self/status");
    return strtod(line + strlen(key), NULL) * 1024;
}

static usage usage_now(void)
{
    usage u = {0};
    char text[8192];
    FILE *status = fopen("/proc/self/status", "r");
    bench_require(status != NULL, "no /proc");
    text[fread(text, 1, sizeof text - 1, status)] = '\0';
    fclose(status);
    u.resident_bytes = status_bytes(text, "VmRSS:");
    u.table_bytes = status_bytes(text, "VmPTE:");

    FILE *maps = fopen("/proc/self/maps", "r");
    bench_require(maps != NULL, "no /proc");
    while (fgets(text, sizeof text, maps) != NULL)
        u.mappings++;
    fclose(maps);
    return u;
}

static weft_value wait(void *arg)
{
    (void)arg;
    return weft_suspend();
}

int main(int argc, char **argv)
{
    size_t n = bench_start(argc, argv, 100000);
    weft_snooze();
    usage before = usage_now();
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i++)
        bench_require(weft_spin(wait, NULL) != 0, "weft_spin");
    double spun = bench_now_ns();
    weft_snooze();
    double parked = bench_now_ns();
    usage after = usage_now();
    weft_counters counters;
    weft_stats(&counters);

    double each = 1 / (double)n;
    bench_print_one("parked fibers", "", (double)counters.fibers);
    bench_print_one("memory, each", "bytes", (after.resident_bytes - before.resident_bytes) * each);
    bench_print_one("page tables, each", "bytes", (after.table_bytes - before.table_bytes) * each);
    bench_print_one("mappings, all", "", after.mappings);
    bench_print_one("stacks without a guard", "", (double)counters.stacks_unguarded);
    bench_print_one("to make one, cold", "ns", (spun - began) * each);
    bench_print_one("its first run, cold", "ns", (parked - spun) * each);
    return 0;
}
