/*
 * One fiber echoes the input, and another fiber prints clock ticks. Each is plain sequential code:
 * while one fiber waits, the other fiber runs. The clock runs until the end of the input, and for
 * at least three ticks.
 */
#include <weft.h>

#include <stdio.h>
#include <unistd.h>

static bool is_at_end; /* of the input */

static weft_value echo_printer(void *arg)
{
    (void)arg;
    char text[1024];
    ssize_t n;
    while ((n = weft_read(STDIN_FILENO, text, sizeof text)) > 0) {
        printf("Echo: %.*s", (int)n, text);
        fflush(stdout);
    }
    is_at_end = true;
    return n;
}

static weft_value time_printer(void *arg)
{
    double period = *(double *)arg;
    for (int tick = 1; tick <= 3 || !is_at_end; tick++) {
        int rc = weft_sleep(period);
        if (rc < 0)
            return rc;
        printf("Time: tick %d\n", tick);
        fflush(stdout);
    }
    return 0;
}

int main(void)
{
    double period = isatty(STDIN_FILENO) ? 1.0 : 0.1;
    weft_fiber printers[] = {weft_spin(echo_printer, NULL), weft_spin(time_printer, &period)};
    return weft_await_all(printers, 2, NULL) < 0;
}
