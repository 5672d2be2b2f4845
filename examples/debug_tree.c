/*
 * Named fibers that wait for different events. Main lists them with weft_walk, and then waits for
 * input. docs/debugging.md inspects the waiting program with gdb and with WEFT_DUMP_SIGNAL.
 */
#include <weft.h>

#include <stdio.h>

static int input[2]; /* a pipe that no fiber writes to */

static weft_value reader(void *jobs)
{
    char line[80];
    ssize_t n = weft_read(input[0], line, sizeof line);
    return n > 0 ? weft_chan_send(jobs, n) : n;
}

static weft_value worker(void *jobs)
{
    weft_value job;
    while (!weft_is_error(job = weft_chan_recv(jobs)))
        printf("%d bytes\n", (int)job);
    return job;
}

static weft_value ticker(void *arg)
{
    (void)arg;
    return weft_sleep(3600.0);
}

static int print_fiber(const weft_info *info, void *context)
{
    (void)context;
    const char *state = info->state == WEFT_WAITING ? "waits for " : "runs";
    printf("%-6s %s%s\n", info->name, state, info->waits_for);
    return 0;
}

int main(void)
{
    weft_chan *jobs = weft_chan_new(0);
    if (jobs == NULL || weft_pipe(input) < 0)
        return 1;
    weft_spin_with(reader, jobs, &(weft_spin_options){.name = "reader"});
    weft_spin_with(worker, jobs, &(weft_spin_options){.name = "worker"});
    weft_spin_with(ticker, NULL, &(weft_spin_options){.name = "ticker"});
    weft_snooze(); /* the fibers run until they wait */
    weft_walk(print_fiber, NULL);

    puts("Press return to stop");
    fflush(stdout);
    char line[64];
    weft_read(0, line, sizeof line);
    weft_terminate_children(1.0); /* the fibers use jobs */
    weft_chan_free(jobs);
}
