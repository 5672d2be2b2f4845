/*
 * Interrupt a thread that waits in its backend by a signal, if the eventfd that wakes it was
 * closed: the wait fails with EINTR, and the thread checks its backend.
 */
#include "backend/backend.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A signal that arrives just before the thread waits has no effect: repeat it. A thread that
 * computes meanwhile checks before its next wait. A thread that blocks the signal is not
 * interrupted.
 */
#define TRIES 40
#define TRY_US 500

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int signal_number; /* 0: none is free */

static void do_nothing(int number)
{
    (void)number;
}

/* Take the highest real-time signal that the program does not use, and keep it. */
static void claim_signal(void)
{
    struct sigaction ours = {.sa_handler = do_nothing, .sa_flags = SA_ONSTACK}, now;
    sigemptyset(&ours.sa_mask);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN && signal_number == 0; number--)
        if (sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
            now.sa_handler == SIG_DFL && sigaction(number, &ours, NULL) == 0)
            signal_number = number;
}

void weft__backend_interrupt(weft__backend *b)
{
    atomic_store(&b->must_check, true);
    if (gettid() == b->thread)
        return;
    pthread_once(&once, claim_signal);
    for (int i = 0; i < TRIES && signal_number != 0 && atomic_load(&b->must_check); i++) {
        if (syscall(SYS_tgkill, getpid(), b->thread, signal_number) < 0)
            return;
        usleep(TRY_US);
    }
}
