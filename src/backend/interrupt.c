/*
 * A thread that waits in its backend, and whose descriptor to be woken by has been closed under it,
 * is interrupted by a signal: the wait fails with EINTR, and the thread looks at its backend.
 */
#include "backend/backend.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A signal that comes just before the thread waits is without effect, so it is sent again. A thread
 * that computes by now notices later; one that blocks the signal does not.
 */
#define TRIES 40
#define TRY_US 500

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int signal_number; /* 0: none is free */

static void do_nothing(int number)
{
    (void)number;
}

/* The highest real-time signal that the program leaves alone. It is kept. */
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
