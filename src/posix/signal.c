/*
 * Hooks of functions that install or leave signal handlers.
 *
 * The kernel calls a handler of this file, which calls the handler of the program. Hooks are off in
 * the handler of the program, because a handler must not switch. Afterwards, waits of hooks in this
 * thread end with EINTR, as system calls do. A handler cannot switch to these fibers. So the
 * handler posts a message to its own thread.
 *
 * The order of events makes the message safe: the cord sets is_asleep before it checks its inbox,
 * and the handler pushes the message before it reads is_asleep. A signal between the check and the
 * wait of the backend finds is_asleep set, and writes to the eventfd, which ends the wait.
 */
#include "posix/adopt.h"
#include "posix/hook.h"
#include "posix/wait.h"

#include "core/cord/remote_wait.h"

#include <signal.h>
#include <stdint.h>

typedef void plain_handler(int signal);
typedef void info_handler(int signal, siginfo_t *info, void *context);

/*
 * The handlers of the program. Two tables, because a signal may arrive while the program replaces a
 * handler by one of the other form.
 */
static _Atomic(plain_handler *) plain_handlers[_NSIG];
static _Atomic(info_handler *) info_handlers[_NSIG];

/* A running handler, in the frame of the wrapper. */
typedef struct handler_frame {
    struct handler_frame *outer; /* the handler that this handler has interrupted; NULL: none */
    uintptr_t address;           /* of the stack frame */
    int depth;                   /* the number of outer handlers */
    weft__hook_wait *wait;       /* the wait that the handler has interrupted; NULL: none */
    jmp_buf back;                /* to the wrapper; set if wait is not NULL */
} handler_frame;

static __thread handler_frame *innermost;

/*
 * Interruption of the waits of the thread.
 */

/* The message of a thread to itself. */
static __thread struct {
    weft__remote_msg msg;
    _Atomic(bool) is_posted;
} notice;

static void notice_deliver(weft__cord *c, weft__remote_msg *msg)
{
    (void)msg; /* of this thread: the cord rejects its messages in its own thread, too */
    atomic_store(&notice.is_posted, false);
    if (c != NULL)
        weft__hook_waits_interrupt();
}

static void notice_post(void)
{
    const weft__cord *c = weft__cord_self;
    if (c == NULL || c->main == NULL || !weft__hook_waits_exist())
        return;
    if (atomic_exchange(&notice.is_posted, true))
        return; /* the delivery will see this signal */
    notice.msg = (weft__remote_msg){NULL, notice_deliver, c->main->id, 0, 0};
    if (weft__cord_post_in_handler(&notice.msg) < 0)
        atomic_store(&notice.is_posted, false);
}

/* weft_fork discards the messages of the thread in the child. */
static void notice_after_fork(void)
{
    atomic_store(&notice.is_posted, false);
}

__attribute__((constructor)) static void notice_prepare(void)
{
    (void)pthread_atfork(NULL, NULL, notice_after_fork);
}

/* Return whether the action of the signal has SA_RESTART. siginterrupt(3) may have changed it. */
static bool signal_restarts(int signal)
{
    struct sigaction action;
    return REAL(sigaction)(signal, NULL, &action) == 0 && (action.sa_flags & SA_RESTART) != 0;
}

/*
 * The handlers that the kernel calls.
 */

static void handler_begin(handler_frame *frame, int signal, uintptr_t address)
{
    int error = errno;
    weft__hook_thread *t = &weft__hook_thread_self;
    frame->outer = innermost;
    frame->address = address;
    frame->depth = t->handlers;
    frame->wait = innermost == NULL ? weft__hook_wait_of_handler() : NULL;
    innermost = frame;
    t->handlers++;
    if (weft__cord_self != NULL) {
        atomic_fetch_add(&t->signals, 1);
        atomic_fetch_add(&t->interrupting_signals, !signal_restarts(signal));
    }
    errno = error;
}

static void handler_end(const handler_frame *frame)
{
    int error = errno;
    innermost = frame->outer;
    weft__hook_thread_self.handlers = frame->depth; /* a jump may have left this handler */
    notice_post();
    errno = error;
}

static void on_plain_signal(int signal)
{
    handler_frame frame;
    handler_begin(&frame, signal, (uintptr_t)__builtin_frame_address(0));
    if (frame.wait == NULL || setjmp(frame.back) == 0)
        atomic_load (&plain_handlers[signal])(signal);
    handler_end(&frame);
}

static void on_info_signal(int signal, siginfo_t *info, void *context)
{
    handler_frame frame;
    handler_begin(&frame, signal, (uintptr_t)__builtin_frame_address(0));
    if (frame.wait == NULL || setjmp(frame.back) == 0)
        atomic_load (&info_handlers[signal])(signal, info, context);
    handler_end(&frame);
}

/*
 * Installation of handlers.
 */

/* The handlers of a signal. */
typedef struct handler_pair {
    plain_handler *plain;
    info_handler *info;
} handler_pair;

static bool is_wrapped(int signal)
{
    return !weft__hooks_are_off && signal > 0 && signal < _NSIG;
}

static handler_pair handlers_load(int signal)
{
    return (handler_pair){atomic_load(&plain_handlers[signal]),
                          atomic_load(&info_handlers[signal])};
}

static void handlers_store(int signal, handler_pair pair)
{
    atomic_store(&plain_handlers[signal], pair.plain);
    atomic_store(&info_handlers[signal], pair.info);
}

/*
 * Return whether the value is a function of the program. A module that is not adopted may have
 * saved a function of this file, which needs no wrapper.
 */
static bool is_program_handler(plain_handler *handler)
{
    return handler != SIG_DFL && handler != SIG_IGN && handler != SIG_ERR &&
           handler != on_plain_signal && (uintptr_t)handler != (uintptr_t)on_info_signal;
}

static void action_wrap(int signal, struct sigaction *action)
{
    if (!is_program_handler(action->sa_handler))
        return;
    if (action->sa_flags & SA_SIGINFO) {
        atomic_store(&info_handlers[signal], action->sa_sigaction);
        action->sa_sigaction = on_info_signal;
    } else {
        atomic_store(&plain_handlers[signal], action->sa_handler);
        action->sa_handler = on_plain_signal;
    }
}

static void action_unwrap(struct sigaction *action, handler_pair pair)
{
    if (action->sa_handler == on_plain_signal)
        action->sa_handler = pair.plain;
    else if ((uintptr_t)action->sa_handler == (uintptr_t)on_info_signal)
        action->sa_sigaction = pair.info;
}

HOOK_DEFINE(int, sigaction, (int signal, const struct sigaction *action, struct sigaction *old))
{
    if (!is_wrapped(signal))
        return REAL(sigaction)(signal, action, old);
    handler_pair pair = handlers_load(signal);
    struct sigaction wrapped;
    if (action != NULL) {
        wrapped = *action;
        action_wrap(signal, &wrapped);
    }
    int rc = REAL(sigaction)(signal, action != NULL ? &wrapped : NULL, old);
    if (rc < 0)
        handlers_store(signal, pair);
    else if (old != NULL)
        action_unwrap(old, pair);
    return rc;
}

/*
 * Wrap handlers that were installed before the adoption of their module. If another thread replaces
 * a handler at the same time, the replacement may be lost.
 */
void weft__signals_wrap(bool (*is_adopted)(const void *handler))
{
    for (int signal = 1; is_wrapped(signal); signal++) {
        struct sigaction action;
        if (REAL(sigaction)(signal, NULL, &action) < 0 || !is_program_handler(action.sa_handler) ||
            !is_adopted((const void *)(uintptr_t)action.sa_handler))
            continue;
        action_wrap(signal, &action);
        (void)REAL(sigaction)(signal, &action, NULL);
    }
}

/* Install a handler by one of the functions below. */
static plain_handler *handler_install(int signal, plain_handler *handler,
                                      plain_handler *(*real)(int, plain_handler *))
{
    if (!is_wrapped(signal))
        return real(signal, handler);
    handler_pair pair = handlers_load(signal);
    bool has_wrapper = is_program_handler(handler);
    if (has_wrapper)
        atomic_store(&plain_handlers[signal], handler);
    plain_handler *old = real(signal, has_wrapper ? on_plain_signal : handler);
    if (old == SIG_ERR)
        handlers_store(signal, pair);
    if (old == on_plain_signal)
        return pair.plain;
    bool is_info = (uintptr_t)old == (uintptr_t)on_info_signal;
    return is_info ? (plain_handler *)(uintptr_t)pair.info : old;
}

HOOK_DEFINE(plain_handler *, signal, (int signal, plain_handler *handler))
{
    return handler_install(signal, handler, REAL(signal));
}

HOOK_DEFINE(plain_handler *, bsd_signal, (int signal, plain_handler *handler))
{
    return handler_install(signal, handler, REAL(bsd_signal));
}

HOOK_DEFINE(plain_handler *, ssignal, (int signal, plain_handler *handler))
{
    return handler_install(signal, handler, REAL(ssignal));
}

HOOK_DEFINE(plain_handler *, sysv_signal, (int signal, plain_handler *handler))
{
    return handler_install(signal, handler, REAL(sysv_signal));
}

HOOK_DEFINE(plain_handler *, __sysv_signal, (int signal, plain_handler *handler))
{
    return handler_install(signal, handler, REAL(__sysv_signal));
}

/*
 * Jumps. A handler may end by a jump, for example out of a wait for a child. If the handler has
 * interrupted a wait of a hook, the state of weft would not be consistent after the jump. So the
 * handler returns, the wait ends, and then the hook jumps.
 */

/*
 * Leave the handlers that a jump leaves. Return the outermost of them, or NULL. If the buffer of
 * the jump is in a frame of the handler, the jump does not leave the handler. A jump to a static
 * buffer leaves all handlers.
 */
static handler_frame *handlers_leave(const void *buffer)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), target = (uintptr_t)buffer;
    handler_frame *left = NULL;
    while (innermost != NULL && !(target > here && target < innermost->address)) {
        left = innermost;
        innermost = left->outer;
        weft__hook_thread_self.handlers = left->depth;
    }
    return left;
}

static void jump_out(weft__hook_jump jump)
{
    handler_frame *left = handlers_leave(jump.buffer);
    if (left == NULL || left->wait == NULL)
        return;
    left->wait->jump = jump;
    innermost = left;
    REAL(_longjmp)(left->back, 1);
}

HOOK_DEFINE(_Noreturn void, longjmp, (jmp_buf buffer, int value))
{
    jump_out((weft__hook_jump){REAL(longjmp), buffer, value});
    REAL(longjmp)(buffer, value);
    __builtin_unreachable();
}

HOOK_DEFINE(_Noreturn void, _longjmp, (jmp_buf buffer, int value))
{
    jump_out((weft__hook_jump){REAL(_longjmp), buffer, value});
    REAL(_longjmp)(buffer, value);
    __builtin_unreachable();
}

HOOK_DEFINE(_Noreturn void, siglongjmp, (sigjmp_buf buffer, int value))
{
    jump_out((weft__hook_jump){REAL(siglongjmp), buffer, value});
    REAL(siglongjmp)(buffer, value);
    __builtin_unreachable();
}

HOOK_DEFINE(_Noreturn void, __longjmp_chk, (jmp_buf buffer, int value))
{
    jump_out((weft__hook_jump){REAL(__longjmp_chk), buffer, value});
    REAL(__longjmp_chk)(buffer, value);
    __builtin_unreachable();
}
