/*
 * The parts of contexts that are not assembly: the stack of a thread, switches with sanitizers, and
 * ucontext for machines without assembly.
 */
#include "arch/context.h"

#include <pthread.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(WEFT_UCONTEXT)
#define WEFT_UCONTEXT 1
#endif

/*
 * Get the stack of the calling thread. On failure, set *low to NULL. The reports of sanitizers and
 * Valgrind are then less precise.
 */
static void thread_stack_bounds(void **low, size_t *bytes)
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
#ifdef WEFT__SANITIZED
    weft__sanitizer_drop(&context->sanitizer);
#else
    weft__context_unregister_stack(context);
#endif
}

#ifdef WEFT__SANITIZED

void weft__context_adopt(weft__context *context)
{
    void *low;
    size_t bytes;

    thread_stack_bounds(&low, &bytes);
    context->sp = NULL;
    weft__sanitizer_adopt(&context->sanitizer, low, bytes);
}

/*
 * The target of the switch in progress. The first function of a new context reads its own context
 * from this variable.
 */
static __thread weft__context *switch_target;

WEFT__UNSANITIZED static void sanitized_entry(intptr_t value)
{
    weft__context *self = switch_target;

    weft__sanitizer_finish_switch(&self->sanitizer);
    self->sanitizer.entry(value);
}

void weft__context_make(weft__context *context, void *low, size_t bytes, weft__entry *entry)
{
    weft__sanitizer_make(&context->sanitizer, low, bytes);
    context->sanitizer.entry = entry;
    weft__frame_make(context, low, bytes, sanitized_entry);
}

WEFT__UNSANITIZED intptr_t weft__context_switch(weft__context *from, weft__context *to,
                                                intptr_t value)
{
    switch_target = to;
    weft__sanitizer_start_switch(&from->sanitizer, &to->sanitizer);
    value = weft__context_swap(from, to, value);
    weft__sanitizer_finish_switch(&from->sanitizer);
    return value;
}

WEFT__UNSANITIZED void weft__context_leave(weft__context *from, weft__context *to, intptr_t value)
{
    switch_target = to;
    weft__sanitizer_leave(&from->sanitizer, &to->sanitizer);
    weft__context_jump(to, value);
}

#ifndef WEFT_UCONTEXT

/*
 * A call on another stack, which is reported to the sanitizers as a switch to that stack and a
 * switch back.
 */
typedef struct stack_call {
    weft__sanitizer_state target; /* the other stack */
    weft__sanitizer_state caller; /* the caller's stack, as the sanitizers return it */
    void (*fn)(void *);
    void *arg;
} stack_call;

WEFT__UNSANITIZED static void stack_call_run(void *arg)
{
    stack_call *call = arg;

#ifdef WEFT__ASAN
    __sanitizer_finish_switch_fiber(call->target.fake, &call->caller.low, &call->caller.bytes);
#endif
    call->fn(call->arg);
    weft__sanitizer_start_switch(&call->target, &call->caller);
}

WEFT__UNSANITIZED bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg)
{
    stack_call call = {.target = context->sanitizer, .fn = fn, .arg = arg};

#ifdef WEFT__TSAN
    call.caller.fiber = __tsan_get_current_fiber();
#endif
    weft__sanitizer_start_switch(&call.caller, &call.target);
    weft__frame_call(context->sp, stack_call_run, &call);
    weft__sanitizer_finish_switch(&call.caller);
    context->sanitizer.fake = call.target.fake;
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

#define STACK_UNREGISTERED ((unsigned)-1)
#define SAVED_BYTES 128 /* the red zone below sp, with the saved registers */

bool weft__on_valgrind;

__attribute__((constructor)) static void detect_valgrind(void)
{
    weft__on_valgrind = RUNNING_ON_VALGRIND;
}

__attribute__((cold)) void weft__valgrind_register(weft__sanitizer_state *sanitizer, void *low,
                                                   size_t bytes)
{
    sanitizer->stack_id = VALGRIND_STACK_REGISTER(low, (char *)low + bytes - 1);
}

__attribute__((cold)) void weft__valgrind_unregister(weft__sanitizer_state *sanitizer)
{
    if (sanitizer->stack_id != STACK_UNREGISTERED)
        VALGRIND_STACK_DEREGISTER(sanitizer->stack_id);
    sanitizer->stack_id = STACK_UNREGISTERED;
}

void weft__context_adopt(weft__context *context)
{
    void *low;
    size_t bytes;

    context->sp = NULL;
    context->sanitizer.stack_id = STACK_UNREGISTERED;
    /*
     * Valgrind tracks the stack of the main thread. If that stack were registered, Valgrind would
     * no longer track its growth.
     */
    if (!weft__on_valgrind || gettid() == getpid())
        return;
    thread_stack_bounds(&low, &bytes);
    if (low != NULL)
        weft__valgrind_register(&context->sanitizer, low, bytes);
}

#ifndef WEFT_UCONTEXT
bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg)
{
    /* For Valgrind, memory below the sp of a suspended stack is unaddressable. */
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

/* The frame at sp of a suspended context. */
typedef struct ucontext_frame {
    ucontext_t machine;
    intptr_t value;     /* passed by the switch to the context */
    weft__entry *entry; /* undefined after the first switch to the context */
} ucontext_frame;

/* makecontext passes only ints, so the pointer is passed in two halves. */
static void context_first_call(unsigned high, unsigned low)
{
    ucontext_frame *self = (ucontext_frame *)((uintptr_t)(((uint64_t)high << 32) | low));

    fesetenv(FE_DFL_ENV); /* with ucontext, each context has its own FPU environment */
    self->entry(self->value);
    __builtin_trap();
}

void weft__frame_make(weft__context *context, void *low, size_t bytes, weft__entry *entry)
{
    uintptr_t address = ((uintptr_t)low + bytes - sizeof(ucontext_frame)) & ~(uintptr_t)63;
    ucontext_frame *self = (ucontext_frame *)address;

    getcontext(&self->machine);
    self->machine.uc_link = NULL;
    self->machine.uc_stack.ss_sp = low;
    self->machine.uc_stack.ss_size = address - (uintptr_t)low;
    self->entry = entry;
    makecontext(&self->machine, (void (*)(void))context_first_call, 2,
                (unsigned)((uint64_t)address >> 32), (unsigned)address);
    context->sp = self;
}

intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value)
{
    ucontext_frame from_frame;
    ucontext_frame *to_frame = to->sp;

    from->sp = &from_frame;
    to_frame->value = value;
    swapcontext(&from_frame.machine, &to_frame->machine);
    return from_frame.value;
}

void weft__context_jump(weft__context *to, intptr_t value)
{
    ucontext_frame *to_frame = to->sp;

    to_frame->value = value;
    setcontext(&to_frame->machine);
    __builtin_unreachable();
}

bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg)
{
    (void)context, (void)fn, (void)arg;
    return false;
}

#endif
