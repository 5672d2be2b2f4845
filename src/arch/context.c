/*
 * The parts of a context that are not assembly: the thread's own stack, switches that the
 * sanitizers are told of, and ucontext for machines that have no assembly here.
 */
#include "arch/context.h"

#include <pthread.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(WEFT_UCONTEXT)
#define WEFT_UCONTEXT 1
#endif

/* The stack of the calling thread; on failure empty, which only costs the tools some precision. */
static void own_stack(void **low, size_t *bytes)
{
    pthread_attr_t attributes;

    *low = NULL;
    *bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    pthread_attr_getstack(&attributes, low, bytes);
    pthread_attr_destroy(&attributes);
}

void weft__context_drop(weft__context *context)
{
#ifdef WEFT__ANNOTATED
    weft__annotate_drop(&context->note);
#else
    weft__context_forget_stack(context);
#endif
}

#ifdef WEFT__ANNOTATED

void weft__context_adopt(weft__context *context)
{
    void *low;
    size_t bytes;

    own_stack(&low, &bytes);
    context->sp = NULL;
    weft__annotate_adopt(&context->note, low, bytes);
}

/* Where the switch under way goes: how a new context finds itself. */
static __thread weft__context *arriving;

WEFT__UNSANITIZED static void annotated_entry(intptr_t value)
{
    weft__context *self = arriving;

    weft__annotate_arrive(&self->note);
    self->note.entry(value);
}

void weft__context_make(weft__context *context, void *low, size_t bytes, weft__entry *entry)
{
    weft__annotate_make(&context->note, low, bytes);
    context->note.entry = entry;
    weft__frame_make(context, low, bytes, annotated_entry);
}

WEFT__UNSANITIZED intptr_t weft__context_switch(weft__context *from, weft__context *to,
                                                intptr_t value)
{
    arriving = to;
    weft__annotate_depart(&from->note, &to->note);
    value = weft__context_swap(from, to, value);
    weft__annotate_arrive(&from->note);
    return value;
}

WEFT__UNSANITIZED void weft__context_leave(weft__context *from, weft__context *to, intptr_t value)
{
    arriving = to;
    weft__annotate_leave(&from->note, &to->note);
    weft__context_jump(to, value);
}

#ifndef WEFT_UCONTEXT

/* A call on another stack: a switch there and back in the sanitizers' eyes. */
typedef struct visit {
    weft__annotation host;  /* the stack that is visited */
    weft__annotation guest; /* the caller's, as far as the sanitizers told */
    void (*fn)(void *);
    void *arg;
} visit;

WEFT__UNSANITIZED static void run_visit(void *arg)
{
    visit *v = arg;

#ifdef WEFT__ASAN
    __sanitizer_finish_switch_fiber(v->host.fake, &v->guest.low, &v->guest.bytes);
#endif
    v->fn(v->arg);
    weft__annotate_depart(&v->host, &v->guest);
}

WEFT__UNSANITIZED bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg)
{
    visit v = {.host = context->note, .fn = fn, .arg = arg};

#ifdef WEFT__TSAN
    v.guest.fiber = __tsan_get_current_fiber();
#endif
    weft__annotate_depart(&v.guest, &v.host);
    weft__frame_call(context->sp, run_visit, &v);
    weft__annotate_arrive(&v.guest);
    context->note.fake = v.host.fake;
    return true;
}

#endif

#else

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_STACK_REGISTER(low, last) ((void)(low), (void)(last), 0)
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#define VALGRIND_MAKE_MEM_UNDEFINED(from, bytes) ((void)(from), (void)(bytes))
#endif

#define STACK_UNTOLD ((unsigned)-1)
#define SAVED_BYTES 128 /* just below the pointer: the red zone, where the switch saves */

bool weft__on_valgrind;

__attribute__((constructor)) static void look_for_valgrind(void)
{
    weft__on_valgrind = RUNNING_ON_VALGRIND;
}

__attribute__((cold)) void weft__valgrind_tell(weft__annotation *note, void *low, size_t bytes)
{
    note->stack_id = VALGRIND_STACK_REGISTER(low, (char *)low + bytes - 1);
}

__attribute__((cold)) void weft__valgrind_forget(weft__annotation *note)
{
    if (note->stack_id != STACK_UNTOLD)
        VALGRIND_STACK_DEREGISTER(note->stack_id);
    note->stack_id = STACK_UNTOLD;
}

void weft__context_adopt(weft__context *context)
{
    void *low;
    size_t bytes;

    context->sp = NULL;
    context->note.stack_id = STACK_UNTOLD;
    /* Valgrind knows the main thread's stack, and loses track of its growth if told again. */
    if (!weft__on_valgrind || gettid() == getpid())
        return;
    own_stack(&low, &bytes);
    if (low != NULL)
        weft__valgrind_tell(&context->note, low, bytes);
}

#ifndef WEFT_UCONTEXT
bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg)
{
    /* What lies below the pointer of a stack that is not running is nobody's to Valgrind. */
    if (weft__on_valgrind)
        VALGRIND_MAKE_MEM_UNDEFINED((char *)context->sp - WEFT__CALL_BYTES,
                                    WEFT__CALL_BYTES - SAVED_BYTES);
    weft__frame_call(context->sp, fn, arg);
    return true;
}
#endif

#endif

#ifdef WEFT_UCONTEXT

#include <fenv.h>
#include <ucontext.h>

/* What sp points at: on the stack of the context, as the frame of the assembly is. */
typedef struct record {
    ucontext_t machine;
    intptr_t value;     /* what the switch to it passes */
    weft__entry *entry; /* of a new one */
} record;

/* makecontext passes ints only. */
static void first_call(unsigned high, unsigned low)
{
    record *self = (record *)((uintptr_t)(((uint64_t)high << 32) | low));

    fesetenv(FE_DFL_ENV); /* each context has modes of its own here: not those of its maker */
    self->entry(self->value);
    __builtin_trap();
}

void weft__frame_make(weft__context *context, void *low, size_t bytes, weft__entry *entry)
{
    uintptr_t at = ((uintptr_t)low + bytes - sizeof(record)) & ~(uintptr_t)63;
    record *self = (record *)at;

    getcontext(&self->machine);
    self->machine.uc_link = NULL;
    self->machine.uc_stack.ss_sp = low;
    self->machine.uc_stack.ss_size = at - (uintptr_t)low;
    self->entry = entry;
    makecontext(&self->machine, (void (*)(void))first_call, 2, (unsigned)((uint64_t)at >> 32),
                (unsigned)at);
    context->sp = self;
}

intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value)
{
    record here;
    record *there = to->sp;

    from->sp = &here;
    there->value = value;
    swapcontext(&here.machine, &there->machine);
    return here.value;
}

void weft__context_jump(weft__context *to, intptr_t value)
{
    record *there = to->sp;

    there->value = value;
    setcontext(&there->machine);
    __builtin_unreachable();
}

bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg)
{
    (void)context, (void)fn, (void)arg;
    return false;
}

#endif
