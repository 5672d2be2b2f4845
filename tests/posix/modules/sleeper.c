/* A stock library that sleeps: by a direct call, and by a table of functions like SQLite's. */
#include <time.h>

typedef int sleep_fn(const struct timespec *time, struct timespec *left);

/* Not static: the compiler must not replace the calls by direct calls. */
struct {
    const char *name;
    sleep_fn *fn; /* an absolute relocation in the data of the module */
} sleeper_table[] = {{"nanosleep", nanosleep}};

int sleeper_direct(long ms);
int sleeper_by_table(long ms);

int sleeper_direct(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    return nanosleep(&time, NULL);
}

int sleeper_by_table(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    return sleeper_table[0].fn(&time, NULL);
}
