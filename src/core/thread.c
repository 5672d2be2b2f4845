/*
 * Threads that run fibers: how a thread becomes a cord and stops being one, and what happens to its
 * fibers when the process ends.
 */
#include "base/clock.h"
#include "core/end.h"
#include "core/fork.h"
#include "core/overflow.h"
#include "core/port.h"
#include "core/report.h"
#include "core/tenure.h"

#include <weft/scope.h>
#include <weft/time.h>
#include <weft/version.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef __GLIBC__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

__thread weft__cord *weft__cord_self;

/* The C++ runtime's, where the program has one. */
extern void *__cxa_get_globals(void) __attribute__((weak));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static int set_up_error; /* of what is done once; 0: none */
static pid_t owner;      /* the process that did it, or a child that has made it its own */

static bool find_overflown(const void *address, const void *sp, weft__overflow_facts *out)
{
    const weft__cord *c = weft__cord_self;
    if (c == NULL)
        return false;
    const weft__fiber *f = c->current;
    *out = (weft__overflow_facts){f->id, f->name, (void *)f->fn, 0, f->stack.low == NULL};
    if (out->is_thread)
        return weft__overflow_is_of_thread(&c->overflow, address, sp, &out->stack_bytes);
    out->stack_bytes = weft__stack_slot_bytes(&f->stack);
    return weft__stack_guards(&f->stack, address);
}

static void free_cord(weft__cord *c)
{
    weft__records_close(c);
    weft__cord_turn_away(c);
    weft__pad_close(c);
    free(c->reserve.ids);
    weft__top_clear(&c->top);
    weft__ended_close(c);
    weft__runqueue_close(&c->runqueue);
    weft__stack_pool_close(&c->stacks);
    if (c->backend != NULL)
        c->backend->type->close(c->backend);
    while (c->retired != NULL) {
        weft__backend *b = c->retired;
        c->retired = b->retired;
        b->type->close(b);
    }
    weft__overflow_thread_close(&c->overflow);
    free(c);
}

void weft__cord_free(weft__cord *c)
{
    weft__port_close(c, false);
    free_cord(c);
}

void weft__cord_close(weft__cord *c)
{
    weft__tenure *tenure = c->tenure;
    if (tenure != NULL) {
        weft__tenure_settle(tenure, c);
    } else {
        int code = weft__cord_end_fibers(c);
        if (code != 0)
            weft__report_unhandled(c->main->error, code);
    }
    weft__error_set(c->main, NULL);
    weft__error_drop_queue(c->main);
    weft__port_close(c, tenure != NULL);
    weft__cord_turn_away(c); /* here, because what it drops may be closed by the backend */
    weft__cord_self = NULL;
    pthread_setspecific(thread_key, NULL);
    free_cord(c);
    if (tenure != NULL)
        weft__tenure_end(tenure);
}

void weft__thread_stay(void)
{
    WEFT_SHIELD(INFINITY) {
        while (weft_sleep(INFINITY) == 0)
            ;
    }
    for (;;)
        pause(); /* it may not even sleep: then the thread does */
}

/* A thread ends by itself. */
static void close_thread(void *cord)
{
    if (!weft__is_copy && getpid() == owner)
        weft__cord_close(cord);
}

/* What came of main, said if it was not handled: 0, or the error. */
static int end_own_fibers(weft__cord *c, int status)
{
    c->give_up_ns = weft__cord_now(c) + WEFT__EXIT_GRACE_S * (int64_t)WEFT__NS_PER_S;
    int code = weft__cord_end_fibers(c);
    const weft__error *e = c->main->error;
    bool has_climbed = e != NULL && e->path_count > 0;
    if (code == 0 && c->has_given_up)
        return -ETIMEDOUT; /* that has been said already */
    if (code != 0)
        weft__report_unhandled(e, code);
    else if (status == 0 && weft__error_is_unseen(c->main) && !c->main->is_stopped)
        weft__report_unseen(c->main);
    else if (status != 0 && has_climbed && e->path[e->path_count - 1] == c->main->id)
        weft__report_last(e, status);
    return code;
}

/*
 * No fiber is left to do what others ask of this thread, which is about to wait for them: they are
 * not to wait for it.
 */
static void turn_others_away(weft__cord *c)
{
    weft__port_hide(c);
    weft__cord_turn_away(c);
    if (c->tenure != NULL)
        weft__tenure_exit(c->tenure);
}

/*
 * Make the process end with EXIT_FAILURE if it would end with 0; called by an exit handler. The
 * handlers that were registered before ours (the program's, gcov's, a sanitizer's) have yet to run.
 * glibc takes a handler off its list before it calls it, so another exit goes on with the rest.
 * musl forbids a second exit: there the last destructor has the kernel trap exit_group(0).
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

static void exit_as_failed(int signal)
{
    (void)signal;
    _exit(EXIT_FAILURE);
}

/* The low half of the first argument: exit_group takes an int. */
#define STATUS_AT \
    (offsetof(struct seccomp_data, args) + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0))

/* Send SIGSYS to this thread in place of exit_group(0). False: the kernel refuses. */
static bool trap_success(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, STATUS_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    sigset_t trapped; /* a trap that is blocked kills */
    sigemptyset(&trapped);
    sigaddset(&trapped, SIGSYS);
    return signal(SIGSYS, exit_as_failed) != SIG_ERR &&
           pthread_sigmask(SIG_UNBLOCK, &trapped, NULL) == 0 &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/* Priority 101 makes this destructor the last: no program that a handler starts has the filter. */
__attribute__((destructor(101))) static void end_as_failed(void)
{
    if (!has_failed || trap_success())
        return;
    fflush(NULL);
    _exit(EXIT_FAILURE); /* also in place of another failure: the status is not known */
}
#endif

/*
 * The process ends: main returned, or some fiber called exit. An error that nobody handled must not
 * look like success.
 */
static void close_process(int status, void *arg)
{
    (void)arg;
    weft__cord *c = weft__cord_self; /* NULL: a thread that only ever reached for others */
    if (weft__is_copy || getpid() != owner)
        return;
    weft__tenure *own = c != NULL ? c->tenure : NULL;
    weft__tenures_close(c);
    weft__tenures_cancel(own, c != NULL ? weft_grace() : 0);
    int code = c != NULL ? end_own_fibers(c, status) : 0;
    if (c != NULL)
        turn_others_away(c);
    bool have_cords_failed = weft__tenures_wait(own);
    if ((code != 0 || have_cords_failed) && status == 0)
        fail_process();
}

#ifdef WEFT_HAS_ON_EXIT
static int call_at_exit(void)
{
    return on_exit(close_process, NULL);
}
#else
/* The status is not known; fail_process keeps it unless it is 0. */
static void close_process_as_good(void)
{
    close_process(EXIT_SUCCESS, NULL);
}

static int call_at_exit(void)
{
    return atexit(close_process_as_good);
}
#endif

static void set_up_process(void)
{
    owner = getpid();
    set_up_error = pthread_key_create(&thread_key, close_thread);
    if (set_up_error == 0 && call_at_exit() != 0)
        set_up_error = ENOMEM;
    if (set_up_error == 0)
        set_up_error = pthread_atfork(NULL, NULL, weft__fork_in_child);
    weft__overflow_install(find_overflown);
}

void weft__cord_open_backend(weft__cord *c, const char *name)
{
    if (name == NULL && c->tenure != NULL)
        name = c->tenure->backend;
    weft__backend *b, *none = &c->no_backend.base;
    bool has_none = c->backend == none;
    int rc = weft__backend_open(&b, name, &c->backend_why);
    if (rc < 0 && !has_none)
        weft__backend_none_open(&c->no_backend, rc);
    if (rc < 0) {
        c->no_backend.error = rc;
        b = none;
    } else if (has_none) {
        weft__finished_hand_over(none, b);
    }
    __atomic_store_n(&c->backend, b, __ATOMIC_RELEASE); /* others wake the cord through it */
    b->lost = weft__port_nudge;
    uint64_t random;
    c->is_shuffled = b->type->choose != NULL && b->type->choose(b, &random);
}

static int fill_cord(weft__cord *c)
{
    weft__list_init(&c->bare);
    weft__stack_pool_init(&c->stacks);
    pthread_mutex_init(&c->reserve.lock, NULL);
    c->slice = (weft__slice){WEFT__SLICE_WARN_S, WEFT__SLICE_FAIL_S};
    return weft__runqueue_init(&c->runqueue);
}

static void begin_time(weft__cord *c)
{
    weft__wheel_init(&c->wheel, weft__cord_now(c));
    c->turned_ns = c->polled_ns = c->now_ns;
    c->quick = (weft__quick){0};
    weft__quick_look(&c->quick);
    c->turn_switches = WEFT__TURN_SWITCHES_MAX;
    c->turn_span = c->turn_left = c->is_shuffled ? 1 : c->turn_switches;
    weft__cord_begin_round(c);
}

COLD int weft__cord_new(weft__cord **out)
{
    pthread_once(&once, set_up_process);
    bool may_be = set_up_error == 0 && !weft__is_copy;
    weft__cord *c = may_be ? aligned_alloc(_Alignof(weft__cord), sizeof *c) : NULL;
    if (c == NULL)
        return weft__no_cord();
    memset(c, 0, sizeof *c);
    int rc = fill_cord(c);
    bool has_port = rc == 0 && (rc = weft__port_take(c)) == 0;
    if (has_port)
        rc = weft__cord_add_chunk(c); /* its records know the port */
    if (rc < 0) {
        if (has_port)
            weft__port_free(c->index);
        free_cord(c);
        return rc;
    }
    c->main = c->current = weft__fiber_new_main(c);
    weft__port_open(c);
    *out = c;
    return 0;
}

void weft__cord_settle(weft__cord *c, const char *backend_name)
{
    weft__cord_open_backend(c, backend_name);
    begin_time(c);
    weft__overflow_thread_open(&c->overflow); /* without it an overflow is a bare crash, no worse */
    weft__context_adopt(&c->main->context);
    if (__cxa_get_globals != NULL)
        c->cxx = __cxa_get_globals();
    c->has_more_to_swap = c->cxx != NULL;
    weft__cord_self = c;
    weft__watched_open(&c->watched);
    pthread_setspecific(thread_key, c); /* if this fails, the thread leaks its cord */
    weft__signal_dump_install();
}

COLD void weft__cord_reopen(weft__cord *c)
{
    owner = getpid();
    weft__backend *before = c->backend;
    const char *why = c->backend_why;
    bool had_none = before == &c->no_backend.base;
    if (!had_none)
        before->type->abandon(before, true);
    weft__cord_open_backend(c, had_none ? NULL : before->type->name);
    if (!had_none)
        c->backend->left_behind = before;
    if (c->backend->type == before->type)
        c->backend_why = why;
    if (c->backend->type == before->type && before->type->follow != NULL)
        before->type->follow(c->backend, before);
    begin_time(c);
    c->must_poll = false;
    weft__watched_open(&c->watched);
}

COLD weft__cord *weft__cord_adopt(void)
{
    weft__cord *c;
    if (weft__cord_new(&c) < 0)
        return NULL;
    weft__cord_settle(c, NULL);
    return c;
}

#define TEXT_OF(x) TEXT_OF_RAW(x)
#define TEXT_OF_RAW(x) #x

const char *weft_version(void)
{
    return TEXT_OF(WEFT_VERSION_MAJOR) "." TEXT_OF(WEFT_VERSION_MINOR) "." TEXT_OF(
        WEFT_VERSION_PATCH);
}
