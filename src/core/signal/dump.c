/*
 * WEFT_DUMP_SIGNAL: write the fibers of all cords to stderr when a signal arrives.
 *
 * A thread of its own writes the dump, so that a dump is possible while all cords compute or block.
 * The signal handler only posts a semaphore.
 */
#include "base/libc.h"
#include "base/thread.h"
#include "core/debug/diag.h"
#include "core/signal/signal.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int weft__signal_parse(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end != text)
        return *end == '\0' && number > 0 && number < NSIG ? (int)number : -EINVAL;
    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    for (int sig = 1; sig < NSIG; sig++) {
        const char *name = sigabbrev_np(sig);
        if (name != NULL && strcmp(name, text) == 0)
            return sig;
    }
    return -EINVAL;
}

static sem_t dump_sem; /* posted by the handler */

static bool request_dump(int sig, const siginfo_t *info)
{
    (void)sig, (void)info;
    sem_post(&dump_sem);
    return true;
}

/* request_dump handles all occurrences. */
static void ignore_signal(weft__cord *c, const weft__signal_handler *handler, unsigned times)
{
    (void)c, (void)handler, (void)times;
}

static void *dump_thread_main(void *arg)
{
    pthread_setname_np(pthread_self(), "weft-dump");
    for (;;) {
        while (sem_wait(&dump_sem) < 0)
            continue;
        weft_dump(STDERR_FILENO);
    }
    return arg;
}

static int dump_install(int sig)
{
    weft__signal_handler handler = {.act = ignore_signal, .sig = sig, .in_handler = request_dump};
    sem_init(&dump_sem, 0, 0);
    int rc = weft__signal_set_handler(&handler);
    return rc == 0 ? weft__internal_thread_start_with(dump_thread_main, 0) : rc;
}

void weft__signal_dump_install(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    const char *text = getenv("WEFT_DUMP_SIGNAL");
    if (text == NULL || *text == '\0' || atomic_flag_test_and_set(&is_done))
        return;
    int sig = weft__signal_parse(text);
    int rc = sig < 0 ? sig : dump_install(sig);
    if (rc == -EINVAL)
        weft__diag(LOG_WARNING,
                   "WEFT_DUMP_SIGNAL is ignored, because '%s' is not a signal that can be handled",
                   text);
    else if (rc < 0)
        weft__diag(LOG_WARNING, "WEFT_DUMP_SIGNAL is ignored: %s", weft__error_text(rc));
}
