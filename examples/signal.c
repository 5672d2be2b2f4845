/* Count until Ctrl-C, then print a farewell. A fiber waits for the signal as for a value. */
#include <weft.h>

#include <signal.h>
#include <stdio.h>

static weft_value count(void *arg)
{
    (void)arg;
    for (int n = 1;; n++) {
        int rc = weft_sleep(1.0);
        if (rc < 0)
            return rc;
        printf("%d\n", n);
    }
}

static weft_value say_good_bye(void *arg)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    int sig = weft_wait_signal(&set);
    if (sig < 0)
        return sig;
    weft_stop((weft_fiber)(uintptr_t)arg, 0);
    printf("\ngood-bye");
    for (int i = 0; i < 3; i++) {
        weft_sleep(0.3); /* in a fiber, not in a signal handler: any call is allowed */
        printf(".");
        fflush(stdout);
    }
    printf("\n");
    return 0;
}

int main(void)
{
    puts("Press Ctrl-C to stop");
    weft_fiber counter = weft_spin(count, NULL);
    weft_fiber last = weft_spin(say_good_bye, (void *)(uintptr_t)counter);
    return weft_await(last) < 0;
}
