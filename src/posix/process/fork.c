/*
 * Hook of vfork. A child of vfork shares the memory of its parent until it executes a program.
 * Calls of the child, for example close, would change the state of weft in the parent. So make the
 * child by fork. A child of fork has a copy of the memory, and its hooks are off.
 */
#include "posix/hook.h"

HOOK_DEFINE(pid_t, vfork, (void))
{
    return fork();
}
