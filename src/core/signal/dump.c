/* WEFT_DUMP_SIGNAL: a signal that writes the fibers to stderr. */
#include "base/libc.h"
#include "core/report.h"
#include "io/signal.h"

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

static void dump(weft__cord *c, const weft__signal_order *order, unsigned times)
{
    (void)c, (void)order, (void)times;
    weft_dump(STDERR_FILENO);
}

void weft__signal_dump_install(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    const char *text = getenv("WEFT_DUMP_SIGNAL");
    if (text == NULL || *text == '\0' || atomic_flag_test_and_set(&is_done))
        return;
    int sig = weft__signal_parse(text);
    if (sig < 0 || weft__signal_handle(&(weft__signal_order){.act = dump, .sig = sig}) < 0)
        weft__report("WEFT_DUMP_SIGNAL=%s: no signal that can be handled; ignored", text);
}
