/*
 * The exit of threads that run fibers, and of the process. End fibers and cords, and set the exit
 * status. The handlers are installed once per process.
 */
#include "core/cord/thread.h"

#include "base/clock.h"
#include "core/cord/fork.h"
#include "core/cord/handle.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/inspect/stack_advice.h"
#include "core/lifetime/exit.h"
#include "core/trace/trace.h"

#include <weft/scope.h>
#include <weft/time.h>
#include <weft/version.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef __GLIBC__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

static pthread_key_t thread_key; /* the cord of a thread; the destructor closes the cord */
static bool is_initialised;      /* all handlers are installed */
static pid_t owner_pid;          /* the process in which the handlers are active */

void weft__thread_wait_forever(void)
{
    WEFT_SHIELD(INFINITY) {
        while (weft_sleep(INFINITY) == 0)
            ;
    }
    for (;;)
        pause(); /* weft_sleep has failed, so block the thread */
}

/* The destructor of thread_key. */
static void close_thread(void *cord)
{
    if (!weft__is_copy && getpid() == owner_pid)
        weft__cord_close(cord);
}

/*
 * End the fibers of the thread that ends the process. Report an unhandled error. Return the error,
 * or 0 if there is none. status is the current exit status of the process.
 */
static int end_own_fibers(weft__cord *c, int status)
{
    c->give_up_ns = weft__cord_now(c) + WEFT__EXIT_GRACE_S * (int64_t)WEFT__NS_PER_S;
    int code = weft__cord_end_fibers(c);
    const weft__error *e = c->main->error;
    bool was_propagated = e != NULL && e->path_count > 0;
    if (code == 0 && c->has_given_up)
        return -ETIMEDOUT; /* weft__tree_give_up has reported the fiber */
    if (code != 0)
        weft__diag_unhandled(e, code);
    else if (status == 0 && weft__error_is_unseen(c->main) && !c->main->is_stopped)
        weft__diag_unseen(c->main);
    else if (status != 0 && was_propagated && e->path[e->path_count - 1] == c->main->id)
        weft__diag_last(e, status);
    return code;
}

/*
 * Reject messages of other threads. The calling thread has no fibers left, and waits for other
 * threads next. Other threads must not wait for the calling thread.
 */
static void cord_reject_others(weft__cord *c)
{
    weft__registry_unpublish(c);
    weft__inbox_reject_all(c);
    if (c->handle != NULL)
        weft__cord_handle_exit(c->handle);
}

/*
 * Make the process end with EXIT_FAILURE instead of 0. An exit handler calls this function.
 * Handlers that were registered earlier must still run, for example handlers of the program, gcov
 * or a sanitizer. glibc removes a handler from its list before it calls the handler. So a second
 * exit runs only the remaining handlers. musl forbids a second exit. With musl, the last destructor
 * installs a filter that traps exit_group(0).
 */
#ifdef __GLIBC__
static void fail_process(void)
{
    exit(EXIT_FAILURE);
}
#else
static bool has_failed;

static void fail_process(void)
{
    has_failed = true;
}

static void exit_with_failure(int signal)
{
    (void)signal;
    _exit(EXIT_FAILURE);
}

/*
 * The offset of the exit status. exit_group takes an int, which is the low half of the first
 * argument.
 */
#define STATUS_OFFSET \
    (offsetof(struct seccomp_data, args) + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0))

/*
 * Install a filter that sends SIGSYS to this thread instead of running exit_group(0). Return false
 * if the filter cannot be installed.
 */
static bool trap_success(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, STATUS_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    /* Unblock SIGSYS, because a trap kills the process while SIGSYS is blocked. */
    sigset_t trapped;
    sigemptyset(&trapped);
    sigaddset(&trapped, SIGSYS);
    return signal(SIGSYS, exit_with_failure) != SIG_ERR &&
           pthread_sigmask(SIG_UNBLOCK, &trapped, NULL) == 0 &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/*
 * The last destructor, because of its priority 101. Programs that an exit handler starts must not
 * inherit the filter.
 */
__attribute__((destructor(101))) static void exit_if_failed(void)
{
    if (!has_failed || trap_success())
        return;
    fflush(NULL);
    /* The status is not known, so this call may replace another nonzero status. */
    _exit(EXIT_FAILURE);
}
#endif

/*
 * End all fibers and cords, because main has returned or a fiber has called exit. After an
 * unhandled error, the exit status is not 0.
 */
static void close_process(int status, void *arg)
{
    (void)arg;
    weft__cord *c = weft__cord_self; /* NULL: the calling thread is not a cord */
    if (weft__is_copy || getpid() != owner_pid)
        return;
    weft__cord_handle *own = c != NULL ? c->handle : NULL;
    weft__cord_handles_begin_exit(c);
    weft__cord_handles_cancel(own, c != NULL ? weft_grace() : 0);
    int code = c != NULL ? end_own_fibers(c, status) : 0;
    if (c != NULL)
        cord_reject_others(c);
    bool have_cords_failed = weft__cord_handles_end_all(own);
    weft__stack_advice_at_exit();
    weft__trace_process_end();
    if ((code != 0 || have_cords_failed) && status == 0)
        fail_process();
}

#ifdef WEFT_HAS_ON_EXIT
static int call_at_exit(void)
{
    return on_exit(close_process, NULL);
}
#else
/*
 * The exit status is not known, because on_exit is not available. fail_process changes the status
 * only if it is 0.
 */
static void close_process_at_exit(void)
{
    close_process(EXIT_SUCCESS, NULL);
}

static int call_at_exit(void)
{
    return atexit(close_process_at_exit);
}
#endif

/* Return true if the fault at address is an overflow of the current fiber's stack. */
static bool find_overflow(const void *address, const void *sp, weft__overflow_details *out)
{
    const weft__cord *c = weft__cord_self;
    if (c == NULL)
        return false;
    const weft__fiber *f = c->current;
    *out = (weft__overflow_details){f->id, f->name, (void *)f->fn, 0, f->stack.low == NULL};
    if (out->is_thread)
        return weft__overflow_hit_thread_stack(&c->overflow, address, sp, &out->stack_bytes);
    out->stack_bytes = weft__stack_slot_bytes(&f->stack);
    return weft__stack_guard_contains(&f->stack, address);
}

static void process_install(void)
{
    owner_pid = getpid();
    is_initialised = pthread_key_create(&thread_key, close_thread) == 0 && call_at_exit() == 0 &&
                     pthread_atfork(NULL, NULL, weft__fork_in_child) == 0;
    weft__overflow_install(find_overflow);
}

bool weft__process_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, process_install);
    return is_initialised;
}

void weft__process_set_owner(void)
{
    owner_pid = getpid();
}

void weft__thread_close_at_exit(weft__cord *c)
{
    pthread_setspecific(thread_key, c); /* if this fails, the cord is leaked */
}

#define STRINGIFY(x) STRINGIFY_TOKEN(x)
#define STRINGIFY_TOKEN(x) #x

const char *weft_version(void)
{
    return STRINGIFY(WEFT_VERSION_MAJOR) "." STRINGIFY(WEFT_VERSION_MINOR) "." STRINGIFY(
        WEFT_VERSION_PATCH);
}
