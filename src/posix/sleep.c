/* Hooks of sleeps. */
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/time.h>

HOOK_DEFINE(int, nanosleep, (const struct timespec *time, struct timespec *left))
{
    if (!weft__hook_is_on() || time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec > 999999999)
        return REAL(nanosleep)(time, left);
    (void)left;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_NEVER_RESTARTS, WEFT__HOOK_FOREVER);
    int rc = weft_sleep(weft__seconds_of_timespec(time));
    return (int)weft__hook_result(weft__hook_wait_end(&w, rc));
}
