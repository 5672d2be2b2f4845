/*
 * Hook of wait(2). This file does not include posix/wait.h, which declares a type with the name of
 * the hook.
 */
#include "posix/hook.h"

pid_t weft__hook_waitpid(pid_t pid, int *status, int options);

HOOK_DEFINE(pid_t, wait, (int *status))
{
    return weft__hook_waitpid(-1, status, 0);
}
