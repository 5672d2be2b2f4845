/*
 * Hooks of initialisations that run once: pthread_once, call_once, and static variables of
 * functions in C++ (__cxa_guard_*). The real functions decide which caller initialises. A fiber
 * that meets a running initialisation waits until it has ended. An exception may end an
 * initialisation out of sight, so a waiting fiber looks again after a delay (gate.c).
 */
#include "posix/hook.h"
#include "posix/lock/gate.h"
#include "posix/lock/holders.h"

/* The state of an initialisation. */
typedef enum once_state { ONCE_NEW, ONCE_RUNNING, ONCE_DONE } once_state;

/* C++: the first byte is set when the variable is initialised. Other bits: the constructor runs. */
static once_state guard_state(const void *guard)
{
    uint32_t word = __atomic_load_n((const uint32_t *)guard, __ATOMIC_ACQUIRE);
    if ((word & 0xff) != 0)
        return ONCE_DONE;
    return word != 0 ? ONCE_RUNNING : ONCE_NEW;
}

#ifdef WEFT__TSAN

/* TSan implements pthread_once with the same values as guards of C++. */
static once_state control_state(const void *control)
{
    return guard_state(control);
}

#else

/* Values of a pthread_once_t in glibc. Higher bits: the fork generation of a running function. */
#define CONTROL_STATE 3 /* a mask */
#define CONTROL_RUNNING 1
#define CONTROL_DONE 2

static __thread int probe_value;
static __thread pthread_once_t probe;

static void probe_read(void)
{
    probe_value = __atomic_load_n(&probe, __ATOMIC_RELAXED);
}

/* Return the value of a control whose function runs in this process. */
static int value_while_running(void)
{
    probe = PTHREAD_ONCE_INIT;
    REAL(pthread_once)(&probe, probe_read);
    return probe_value;
}

/* A function that ran during fork(2) does not run in the child, and glibc starts it again. */
static once_state control_state(const void *control)
{
    int value = __atomic_load_n((const int *)control, __ATOMIC_ACQUIRE);
    if ((value & CONTROL_STATE) == CONTROL_DONE)
        return ONCE_DONE;
    bool is_running = (value & CONTROL_STATE) == CONTROL_RUNNING && value == value_while_running();
    return is_running ? ONCE_RUNNING : ONCE_NEW;
}

#endif

static int control_attempt(void *control)
{
    return control_state(control) == ONCE_RUNNING ? EBUSY : 0;
}

static int guard_attempt(void *guard)
{
    return guard_state(guard) == ONCE_RUNNING ? EBUSY : 0;
}

static const weft__wait_kind waits_once = {.name = "the function of pthread_once",
                                           .is_left_at_exit = true,
                                           .leave = weft__remote_wait_leave,
                                           .describe = weft__lock_describe};
static const weft__wait_kind waits_guard = {.name = "the constructor of a static variable",
                                            .is_left_at_exit = true,
                                            .leave = weft__remote_wait_leave,
                                            .describe = weft__lock_describe};
static const weft__gate once_gate = {&waits_once, control_attempt, true, false};
static const weft__gate guard_gate = {&waits_guard, guard_attempt, true, false};

/*
 * pthread_once.
 */

HOOK_DEFINE(int, pthread_once, (pthread_once_t * control, void (*fn)(void)))
{
    once_state state;
    while ((state = control_state(control)) == ONCE_RUNNING && weft__hook_is_on())
        (void)weft__gate_wait(&once_gate, control, WEFT__NO_LIMIT);
    if (state == ONCE_DONE)
        return 0;
    int rc = REAL(pthread_once)(control, fn);
    weft__waiters_poke_slow(control, false);
    return rc;
}

/* A once_flag of glibc is a pthread_once_t. */
HOOK_DEFINE(void, call_once, (once_flag * flag, void (*fn)(void)))
{
    _Static_assert(sizeof *flag == sizeof(pthread_once_t), "a flag is a control");
    (void)weft__hook_pthread_once((pthread_once_t *)flag, fn);
}

/*
 * C++. If a constructor needs its own variable, the real function reports or blocks, as without
 * weft.
 */

HOOK_DEFINE(int, __cxa_guard_acquire, (uint64_t * guard))
{
    weft__cord *c = weft__cord_self;
    if (c == NULL)
        return REAL(__cxa_guard_acquire)(guard);
    while (guard_state(guard) == ONCE_RUNNING && weft__holder_get(guard) != c->current->id &&
           weft__hook_is_on())
        (void)weft__gate_wait(&guard_gate, guard, WEFT__NO_LIMIT);
    int must_run = REAL(__cxa_guard_acquire)(guard);
    if (must_run != 0)
        weft__holder_set(guard, c->current->id);
    return must_run;
}

static void guard_end(uint64_t *guard)
{
    if (weft__cord_self != NULL)
        weft__holder_remove(guard);
    weft__waiters_poke_slow(guard, false);
}

HOOK_DEFINE(void, __cxa_guard_release, (uint64_t * guard))
{
    REAL(__cxa_guard_release)(guard);
    guard_end(guard);
}

HOOK_DEFINE(void, __cxa_guard_abort, (uint64_t * guard))
{
    REAL(__cxa_guard_abort)(guard);
    guard_end(guard);
}
