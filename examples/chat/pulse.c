#include "pulse.h"

#include "house.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* Deliveries since the last beat. */
static struct {
    size_t count;
    double sum_s, max_s;
} deliveries;

void pulse_delivered(double seconds)
{
    deliveries.count++;
    deliveries.sum_s += seconds;
    deliveries.max_s = fmax(deliveries.max_s, seconds);
}

static int64_t resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

weft_value pulse_beat(void *arg)
{
    (void)arg;
    static uint64_t switches; /* at the last beat */
    weft_counters now;
    weft_stats_total(&now);
    json_writer w = {0};
    json_open(&w, '{');
    json_name_string(&w, "t", "pulse");
    json_name_number(&w, "fibers", (int64_t)now.fibers);
    json_name_number(&w, "switches", (int64_t)(now.switches - switches));
    json_name_number(&w, "kib", resident_kib());
    json_name_number(&w, "users", (int64_t)house_users());
    json_name_number(&w, "delivered", (int64_t)deliveries.count);
    if (deliveries.count > 0) {
        json_name_number(&w, "meanMicroseconds",
                         (int64_t)(1e6 * deliveries.sum_s / (double)deliveries.count));
        json_name_number(&w, "maxMicroseconds", (int64_t)(1e6 * deliveries.max_s));
    }
    house_write_rooms(&w);
    json_close(&w, '}');
    switches = now.switches;
    deliveries.count = 0;
    deliveries.sum_s = deliveries.max_s = 0;
    house_tell_all(packet_new(&w));
    return 0;
}
