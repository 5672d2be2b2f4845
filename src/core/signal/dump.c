/* WEFT_DUMP_SIGNAL: write a list of fibers to stderr when a signal arrives. */
#include "base/libc.h"
#include "core/debug/diag.h"
#include "core/signal/signal.h"

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

static void dump_on_signal(weft__cord *c, const weft__signal_handler *handler, unsigned times)
{
    (void)c, (void)handler, (void)times;
    weft_dump(STDERR_FILENO);
}

void weft__signal_dump_install(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    const char *text = getenv("WEFT_DUMP_SIGNAL");
    if (text == NULL || *text == '\0' || atomic_flag_test_and_set(&is_done))
        return;
    int sig = weft__signal_parse(text);
    if (sig < 0 ||
        weft__signal_set_handler(&(weft__signal_handler){.act = dump_on_signal, .sig = sig}) < 0)
        weft__diag(LOG_WARNING,
                   "WEFT_DUMP_SIGNAL is ignored, because '%s' is not a signal that can be handled",
                   text);
}
