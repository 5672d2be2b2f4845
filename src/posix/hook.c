/* The state of hooks, see hook.h. */
#include "posix/hook.h"

#include "base/result.h"
#include "core/cord/remote_wait.h"
#include "core/sched/thread_state.h"
#include "posix/adopt.h"

#include <weft/error.h>
#include <weft/posix.h>

__thread weft__hook_thread weft__hook_thread_self;
weft__hook_counts weft__hook_counts_all;
bool weft__hooks_are_off;

bool weft__hook_is_on_in_cord(void)
{
    const weft__hook_thread *t = &weft__hook_thread_self;
    if (weft__hooks_are_off || t->passes > 0 || t->handlers > 0 || !weft__fiber_can_wait())
        return false;
    /* A callback of an adopted library may switch before the next tick of the thread. */
    if (UNLIKELY(!weft__cord_self->has_thread_states))
        weft__cord_use_thread_states(weft__cord_self);
    return true;
}

int weft_posix_pass(bool is_off)
{
    int *passes = &weft__hook_thread_self.passes;
    if (!is_off && *passes == 0)
        return weft_fail(-EINVAL, "weft_posix_pass: the hooks are on");
    *passes += is_off ? 1 : -1;
    return *passes;
}

int weft__posix_stats(weft_posix_counters *out, size_t size)
{
    const weft__hook_counts *all = &weft__hook_counts_all;
    weft_posix_counters counters = {
        .slots = weft__adopt_slots(),
        .waits = atomic_load(&all->waits),
        .lock_waits = atomic_load(&all->lock_waits),
        .handovers = atomic_load(&all->handovers),
        .offloads = atomic_load(&all->offloads),
        .interrupts = atomic_load(&all->interrupts),
    };
    weft__result_copy(out, size, &counters, sizeof counters);
    return 0;
}
