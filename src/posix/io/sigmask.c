/* Signal masks during waits, see sigmask.h. */
#include "posix/io/sigmask.h"

#include "posix/hook.h"
#include "posix/io/seconds.h"

#include <weft/time.h>

#include <math.h>

bool weft__mask_unblocks(const sigset_t *mask)
{
    sigset_t current;
    if (mask == NULL || pthread_sigmask(SIG_SETMASK, NULL, &current) != 0)
        return false;
    for (int signal = 1; signal < NSIG; signal++)
        if (sigismember(&current, signal) == 1 && sigismember(mask, signal) == 0)
            return true;
    return false;
}

/* ppoll(2) handles signals even if it does not wait. epoll_pwait(2) does not. */
int weft__mask_handle(const sigset_t *mask)
{
    static const struct timespec no_wait;
    return REAL(ppoll)(NULL, 0, &no_wait, mask) < 0 ? -errno : 0;
}

int weft__mask_wait(const sigset_t *mask, double timeout_s, int (*wait)(void *context, double s),
                    void *context)
{
    if (!weft__mask_unblocks(mask))
        return wait(context, timeout_s);
    double end = weft_now() + timeout_s;
    for (;;) {
        int rc = weft__mask_handle(mask);
        if (rc < 0)
            return rc;
        double left_s = weft__seconds_left(end, weft_now());
        rc = wait(context, weft__seconds_min(left_s, WEFT__MASK_CHECK_S));
        if (rc != 0 || left_s == 0)
            return rc;
    }
}
