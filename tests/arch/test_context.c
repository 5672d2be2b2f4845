/*
 * Tests of contexts: switches, the registers that they preserve, and backtraces.
 *
 * Uses no test framework, because it also runs under an emulator for machines without one. Each
 * test is a function that counts its checks. A failed check ends the program.
 */
#include "arch/context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

#define NOINLINE_USED __attribute__((noinline, used))
#define STACK_BYTES (64 << 10)
#define DEEP_BYTES (512 << 10)

static unsigned checks;

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);                                 \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, __func__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static char *stack_new(size_t bytes)
{
    char *low = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(low != MAP_FAILED);
    return low;
}

static weft__context home, other;

static void context_new(weft__context *context, char *low, size_t bytes, weft__entry *entry)
{
    weft__context_register_stack(context, low, bytes);
    weft__context_make(context, low, bytes, entry);
}

static char *stack; /* of other */

static void other_new(weft__entry *entry)
{
    stack = stack_new(STACK_BYTES);
    memset(stack, 0x5a, STACK_BYTES); /* a walk past the entry reads garbage, not zeros */
    context_new(&other, stack, STACK_BYTES, entry);
}

static void other_free(void)
{
    weft__context_drop(&other);
    munmap(stack, STACK_BYTES);
}

static void leave_for_home(intptr_t value)
{
    weft__context_unregister_stack(&other);
    weft__context_leave(&other, &home, value);
}

/* Not inlined: the assembly below calls it, and its caller needs a frame. */
NOINLINE_USED intptr_t change(weft__context *from, weft__context *to, intptr_t value)
{
    return weft__context_switch(from, to, value);
}

/* Values. */

static void echo_inverted(intptr_t value)
{
    for (;;)
        value = weft__context_switch(&other, &home, ~value);
}

static void values_are_passed_in_both_directions(void)
{
    static const intptr_t values[] = {0, 1, -1, INTPTR_MIN, INTPTR_MAX, 0x123456789abcdef};
    other_new(echo_inverted);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        CHECK(weft__context_switch(&home, &other, values[i]) == ~values[i]);
    other_free();
}

/* Registers: fill all callee-saved registers, switch, and store them again. */

#if defined(__x86_64__)
#define REGISTERS 6
void fill_and_change(const uint64_t *in, uint64_t *out, weft__context *from, weft__context *to);
__asm__(".text\n"
        ".type fill_and_change, @function\n"
        "fill_and_change:\n"
        "    push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "    push %rsi\n"
        "    mov (%rdi), %rbx; mov 8(%rdi), %rbp; mov 16(%rdi), %r12\n"
        "    mov 24(%rdi), %r13; mov 32(%rdi), %r14; mov 40(%rdi), %r15\n"
        "    mov %rdx, %rdi; mov %rcx, %rsi; xor %edx, %edx\n"
        "    call change\n"
        "    pop %rsi\n"
        "    mov %rbx, (%rsi); mov %rbp, 8(%rsi); mov %r12, 16(%rsi)\n"
        "    mov %r13, 24(%rsi); mov %r14, 32(%rsi); mov %r15, 40(%rsi)\n"
        "    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
        "    ret\n"
        ".size fill_and_change, . - fill_and_change\n");
#elif defined(__aarch64__)
#define REGISTERS 19
void fill_and_change(const uint64_t *in, uint64_t *out, weft__context *from, weft__context *to);
__asm__(".text\n"
        ".type fill_and_change, %function\n"
        "fill_and_change:\n"
        "    sub sp, sp, #176\n"
        "    stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]; stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]; str x1, [sp, #160]\n"
        "    ldp x19, x20, [x0]; ldp x21, x22, [x0, #16]; ldp x23, x24, [x0, #32]\n"
        "    ldp x25, x26, [x0, #48]; ldp x27, x28, [x0, #64]; ldr x29, [x0, #80]\n"
        "    ldp d8, d9, [x0, #88]; ldp d10, d11, [x0, #104]; ldp d12, d13, [x0, #120]\n"
        "    ldp d14, d15, [x0, #136]\n"
        "    mov x0, x2; mov x1, x3; mov x2, #0\n"
        "    bl change\n"
        "    ldr x1, [sp, #160]\n"
        "    stp x19, x20, [x1]; stp x21, x22, [x1, #16]; stp x23, x24, [x1, #32]\n"
        "    stp x25, x26, [x1, #48]; stp x27, x28, [x1, #64]; str x29, [x1, #80]\n"
        "    stp d8, d9, [x1, #88]; stp d10, d11, [x1, #104]; stp d12, d13, [x1, #120]\n"
        "    stp d14, d15, [x1, #136]\n"
        "    ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #176\n"
        "    ret\n"
        ".size fill_and_change, . - fill_and_change\n");
#endif

#ifdef REGISTERS
static void fill_and_check(weft__context *from, weft__context *to, uint64_t seed)
{
    uint64_t in[REGISTERS], out[REGISTERS];
    for (size_t i = 0; i < REGISTERS; i++)
        in[i] = (seed << 32) + i + 1;
    memset(out, 0, sizeof out);
    fill_and_change(in, out, from, to);
    for (size_t i = 0; i < REGISTERS; i++)
        CHECK(out[i] == in[i]);
}

static void fill_repeatedly(intptr_t value)
{
    (void)value;
    for (uint64_t round = 1;; round++)
        fill_and_check(&other, &home, 1000 + round);
}

static void callee_saved_registers_survive_a_switch(void)
{
    other_new(fill_repeatedly);
    for (uint64_t round = 1; round <= 5; round++)
        fill_and_check(&home, &other, round);
    other_free();
}
#else
static void callee_saved_registers_survive_a_switch(void)
{
}
#endif

/* Alignment. */

NOINLINE_USED int is_aligned(void)
{
    return ((uintptr_t)__builtin_frame_address(0) & 15) == 0;
}

static void report_alignment(intptr_t value)
{
    char text[64];
    /* The C library saves vector registers with aligned stores when it formats doubles. */
    snprintf(text, sizeof text, "%.1f", (double)value / 2);
    CHECK(strcmp(text, "2.5") == 0);
    leave_for_home(is_aligned());
}

static void the_stack_is_aligned_at_entry_for_any_top(void)
{
    stack = stack_new(STACK_BYTES);
    for (size_t less = 0; less < 80; less += 8) {
        context_new(&other, stack, STACK_BYTES - less, report_alignment);
        CHECK(weft__context_switch(&home, &other, 5) == 1);
    }
    munmap(stack, STACK_BYTES);
}

/* Many contexts. */

#define RING 1000
#define LAPS 20

typedef struct ring {
    weft__context contexts[RING];
    weft__context home;
} ring;

static __thread ring *current_ring;

static void switch_to_next(intptr_t value)
{
    ring *r = current_ring;
    size_t self = (size_t)value % RING;
    for (;;) {
        weft__context *next = value == RING * LAPS ? &r->home : &r->contexts[(self + 1) % RING];

        value = weft__context_switch(&r->contexts[self], next, value + 1);
        CHECK((size_t)value % RING == self);
    }
}

static void *run_ring(void *unused)
{
    ring *r = calloc(1, sizeof *r);
    char *stacks = stack_new((size_t)RING * STACK_BYTES);
    CHECK(r != NULL);
    current_ring = r;
    weft__context_adopt(&r->home);
    for (size_t i = 0; i < RING; i++)
        context_new(&r->contexts[i], stacks + i * STACK_BYTES, STACK_BYTES, switch_to_next);
    CHECK(weft__context_switch(&r->home, &r->contexts[0], 0) == RING * LAPS + 1);
    for (size_t i = 0; i < RING; i++)
        weft__context_drop(&r->contexts[i]);
    weft__context_drop(&r->home);
    munmap(stacks, (size_t)RING * STACK_BYTES);
    free(r);
    return unused;
}

static void a_thousand_contexts_of_each_thread_pass_a_value_around(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, run_ring, NULL) == 0);
    run_ring(NULL);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/*
 * For each kind of end more contexts than TSan has fibers (8128), and in total more frames than its
 * shadow stack holds.
 */
#define REUSES 30000

/* Make the compiler treat the array as used. */
#define USE(array) __asm__ volatile("" : : "r"(array) : "memory")

/* Fill most of the stack, to hit red zones that an earlier context left poisoned. */
NOINLINE_USED void use_half_of_the_stack(intptr_t value)
{
    char big[STACK_BYTES / 2];
    memset(big, (char)value, sizeof big);
    USE(big);
}

NOINLINE_USED intptr_t wait_in_a_frame(intptr_t value)
{
    volatile char some[100];
    some[0] = (char)value;
    USE(some);
    value = weft__context_switch(&other, &home, value);
    return value + some[0];
}

static void run_and_leave(intptr_t value)
{
    use_half_of_the_stack(value);
    leave_for_home(wait_in_a_frame(value));
}

static void run_until_dropped(intptr_t value)
{
    use_half_of_the_stack(value);
    for (;;)
        value = wait_in_a_frame(value);
}

static size_t mapped_pages(void)
{
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%zu", &pages) == 1);
    fclose(statm);
    return pages;
}

static void many_contexts_use_one_stack_one_after_the_other(void)
{
    stack = stack_new(STACK_BYTES);
    size_t pages = mapped_pages();
    for (int i = 0; i < REUSES; i++) {
        bool is_leaving = i % 2 == 0;

        context_new(&other, stack, STACK_BYTES, is_leaving ? run_and_leave : run_until_dropped);
        CHECK(weft__context_switch(&home, &other, 7) == 7);
        if (is_leaving)
            CHECK(weft__context_switch(&home, &other, 1) == 8);
        else
            weft__context_drop(&other);
    }
    /* A leak of ASan's fake stacks, which are larger than the stack, would exceed this limit. */
    CHECK(mapped_pages() < pages + (size_t)REUSES * STACK_BYTES / 4096);
    munmap(stack, STACK_BYTES);
}

/* Depth. */

NOINLINE_USED uintptr_t descend(const char *low, uintptr_t depth)
{
    volatile uintptr_t here[16];
    here[depth % 16] = depth;
    if ((const char *)__builtin_frame_address(0) - low < (16 << 10))
        return depth;
    uintptr_t deepest = descend(low, depth + 1);
    return here[depth % 16] == depth ? deepest : 0;
}

static char *deep_stack;

static void descend_to_the_bottom(intptr_t value)
{
    (void)value;
    leave_for_home((intptr_t)descend(deep_stack, 1));
}

static void deep_recursion_uses_the_whole_stack(void)
{
    deep_stack = stack_new(DEEP_BYTES);
    context_new(&other, deep_stack, DEEP_BYTES, descend_to_the_bottom);
    CHECK(weft__context_switch(&home, &other, 0) > 100);
    munmap(deep_stack, DEEP_BYTES);
}

/* Unwinding: the start address of the function of each frame, innermost first. */

#define FRAMES_MAX 64

typedef struct walk {
    uintptr_t frames[FRAMES_MAX];
    int count;
    const char *at; /* an address on the stack of the walk */
    int was_aligned;
} walk;

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *frame, void *arg)
{
    walk *w = arg;
    if (_Unwind_GetIP(frame) == 0) /* libgcc marks the outermost frame this way */
        return _URC_NO_REASON;
    if (w->count == FRAMES_MAX)
        return _URC_NORMAL_STOP;
    w->frames[w->count++] = (uintptr_t)_Unwind_GetRegionStart(frame);
    return _URC_NO_REASON;
}

/* The empty assembly, here and below, prevents a tail call. */
NOINLINE_USED void walk_stack(void *arg)
{
    walk *w = arg;
    w->count = 0;
    w->at = __builtin_frame_address(0);
    w->was_aligned = is_aligned();
    _Unwind_Backtrace(note_frame, w);
    __asm__ volatile("");
}

static int frame_of(const walk *w, void (*function)(void))
{
    for (int i = 0; i < w->count; i++)
        if (w->frames[i] == (uintptr_t)function)
            return i;
    return -1;
}

#define FRAME_OF(w, function) frame_of((w), (void (*)(void))(function))

static walk seen_inside;

NOINLINE_USED intptr_t inner(intptr_t value)
{
    if (value == 1)
        walk_stack(&seen_inside);
    value = change(&other, &home, value + 1);
    __asm__ volatile("");
    return value;
}

NOINLINE_USED intptr_t outer(intptr_t value)
{
    value = inner(value);
    __asm__ volatile("");
    return value * 2;
}

NOINLINE_USED void enter(intptr_t value)
{
    for (;;) {
        value = outer(value);
        __asm__ volatile("");
    }
}

static void check_walk(const walk *w)
{
    int at = FRAME_OF(w, inner);
    CHECK(at >= 0);
    CHECK(FRAME_OF(w, outer) == at + 1);
    CHECK(FRAME_OF(w, enter) == at + 2);
    /* Outer frames: one of the assembly or two of ucontext, and one of the sanitizers. */
    CHECK(w->count > at + 2 && w->count <= at + 6);
}

static void a_backtrace_in_a_context_ends_at_its_entry(void)
{
    other_new(enter);
    CHECK(weft__context_switch(&home, &other, 1) == 2);
    check_walk(&seen_inside);
    other_free();
}

static void a_call_on_a_switched_out_context_sees_its_frames(void)
{
    walk w = {.count = 0};
    other_new(enter);
    CHECK(weft__context_switch(&home, &other, 2) == 3);
    for (int i = 0; i < 3; i++) {
        if (!weft__context_call(&other, walk_stack, &w))
            break;
        check_walk(&w);
        CHECK(FRAME_OF(&w, walk_stack) == 0);
        CHECK(w.at > stack && w.at < stack + STACK_BYTES);
        CHECK(w.was_aligned);
        CHECK(weft__context_switch(&home, &other, 10) == 21);
    }
    other_free();
}

static void a_call_on_a_context_that_never_ran_leaves_it_fresh(void)
{
    walk w = {.count = 0};
    other_new(enter);
    if (weft__context_call(&other, walk_stack, &w)) {
        CHECK(FRAME_OF(&w, walk_stack) == 0);
        /* libgcc attributes a frame without a known function to the previous function. */
        CHECK(w.count >= 3 && w.count <= 4 && w.frames[w.count - 1] != w.frames[w.count - 2]);
        CHECK(w.was_aligned);
    }
    CHECK(weft__context_switch(&home, &other, 2) == 3);
    other_free();
}

NOINLINE_USED void overwrite_stack(void *arg)
{
    volatile char room[4096];
    memset((char *)room, 0xee, sizeof room);
    *(char *)arg = room[17];
}

static void a_call_preserves_the_state_of_the_context(void)
{
    char result = 0;
    other_new(echo_inverted);
    CHECK(weft__context_switch(&home, &other, 1) == ~1);
    for (int i = 0; i < 3; i++) {
        if (weft__context_call(&other, overwrite_stack, &result))
            CHECK(result == (char)0xee);
        CHECK(weft__context_switch(&home, &other, i) == ~(intptr_t)i);
    }
    other_free();
}

int main(void)
{
    weft__context_adopt(&home);
    values_are_passed_in_both_directions();
    callee_saved_registers_survive_a_switch();
    the_stack_is_aligned_at_entry_for_any_top();
    a_thousand_contexts_of_each_thread_pass_a_value_around();
    many_contexts_use_one_stack_one_after_the_other();
    deep_recursion_uses_the_whole_stack();
    a_backtrace_in_a_context_ends_at_its_entry();
    a_call_on_a_switched_out_context_sees_its_frames();
    a_call_on_a_context_that_never_ran_leaves_it_fresh();
    a_call_preserves_the_state_of_the_context();
    printf("ok %u checks\n", checks);
    return 0;
}
