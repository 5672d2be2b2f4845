/*
 * Trace two cords: the worker squares the numbers that a fiber of the main cord sends. The program
 * writes the trace to a file, or to the file in its argument. Open it with https://ui.perfetto.dev.
 */
#include <stdio.h>
#include <weft.h>

static weft_value square(void *arg)
{
    weft_fiber client = *(weft_fiber *)arg;
    weft_value number;
    while ((number = weft_receive()) > 0)
        weft_tell(client, number * number);
    return 0;
}

static weft_value ask(void *arg)
{
    weft_cord worker = *(weft_cord *)arg;
    for (weft_value number = 1; number <= 3; number++) {
        weft_trace_begin("one number");
        weft_tell(worker, number);
        printf("%d\n", (int)weft_receive());
        weft_trace_end();
        weft_sleep(0.001);
    }
    weft_trace_mark("all numbers done");
    return weft_tell(worker, 0);
}

int main(int argc, char **argv)
{
    static weft_fiber client;
    static weft_cord worker;
    if (weft_trace_start(argc > 1 ? argv[1] : "/dev/null") < 0)
        return 1;
    client = weft_spin_with(ask, &worker, &(weft_spin_options){.name = "client"});
    worker = weft_cord_start(square, &client, &(weft_cord_options){.name = "worker"});
    if (weft_await(client) < 0 || weft_cord_join(worker) < 0)
        return 1;
    return weft_trace_stop() < 0;
}
