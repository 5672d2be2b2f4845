/*
 * Interrupt a waiting backend by a signal if its eventfd was closed. The wait fails with EINTR. The
 * thread then checks its backend.
 */
#include "backend/backend.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The number of signals, and the pause between them. A signal that arrives just before the wait has
 * no effect. Therefore weft sends the signal repeatedly. A thread that does not wait checks its
 * backend before its next wait. A thread that blocks the signal is not interrupted.
 */
#define TRIES 40
#define TRY_US 500

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int signal_number; /* 0: not reserved yet, or no signal is free */

static void do_nothing(int number)
{
    (void)number;
}

/* Reserve the highest real-time signal below SIGRTMAX that has the default action. */
static void reserve_signal(void)
{
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_ONSTACK}, current;
    sigemptyset(&action.sa_mask);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN && signal_number == 0; number--)
        if (sigaction(number, NULL, &current) == 0 && !(current.sa_flags & SA_SIGINFO) &&
            current.sa_handler == SIG_DFL && sigaction(number, &action, NULL) == 0)
            signal_number = number;
}

void weft__backend_interrupt(weft__backend *b)
{
    atomic_store(&b->must_check, true);
    if (gettid() == b->thread)
        return;
    pthread_once(&once, reserve_signal);
    for (int i = 0; i < TRIES && signal_number != 0 && atomic_load(&b->must_check); i++) {
        if (syscall(SYS_tgkill, getpid(), b->thread, signal_number) < 0)
            return;
        usleep(TRY_US);
    }
}
