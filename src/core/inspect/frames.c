/* Backtraces of fibers, and the table of equal stacks. See frames.h. */
#include "core/inspect/frames.h"

#include "base/libc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unwind.h>

/*
 * The unwinder of libgcc. backtrace(3) of glibc loads the same library on first use. NULL: not
 * available, and backtrace(3) is used.
 */
static __typeof__(_Unwind_Backtrace) *unwind_backtrace;
static __typeof__(_Unwind_GetIP) *unwind_ip;
static __typeof__(_Unwind_GetCFA) *unwind_cfa;

static void unwinder_load(void)
{
#ifdef WEFT_HAS_BACKTRACE
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    unwind_ip = (__typeof__(unwind_ip))dlsym(library, "_Unwind_GetIP");
    unwind_cfa = (__typeof__(unwind_cfa))dlsym(library, "_Unwind_GetCFA");
    if (unwind_ip != NULL && unwind_cfa != NULL)
        unwind_backtrace = (__typeof__(unwind_backtrace))dlsym(library, "_Unwind_Backtrace");
#endif
}

/* A walk over the frames of one stack. The unwinder runs on this stack. */
typedef struct stack_walk {
    uintptr_t sp;     /* frames below belong to the unwinder, and are omitted */
    uintptr_t *slots; /* the end of the callee of each frame; NULL: not needed */
    void **out;
    int count, count_max;
} stack_walk;

/*
 * The CFA that the unwinder returns is the CFA of the callee, that is, the stack pointer of the
 * frame at its call.
 */
static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *context, void *arg)
{
    stack_walk *walk = arg;
    uintptr_t cfa = (uintptr_t)unwind_cfa(context);
    if (cfa <= walk->sp)
        return _URC_NO_REASON;
    void *address = (void *)unwind_ip(context);
    if (walk->count == walk->count_max || address == NULL)
        return _URC_END_OF_STACK;
    if (walk->slots != NULL)
        walk->slots[walk->count] = cfa;
    walk->out[walk->count++] = address;
    return _URC_NO_REASON;
}

static void walk_run(void *arg)
{
    stack_walk *walk = arg;
    if (unwind_backtrace != NULL)
        unwind_backtrace(walk_frame, walk);
    else
        walk->count = backtrace(walk->out, walk->count_max);
}

/* Return true if the stack of a fiber has enough free space below sp for an unwinder. */
static bool has_unwind_room(const weft__fiber *f, const char *sp)
{
    return f->stack.low == NULL || sp - f->stack.low >= WEFT__CALL_BYTES;
}

/*
 * Unwind a stack. If slots is not NULL, also store where each frame was. Return the number of
 * frames.
 */
static int stack_unwind(weft__cord *c, weft__fiber *f, void **out, uintptr_t *slots, int n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, unwinder_load);
    stack_walk walk = {.slots = slots, .out = out, .count_max = n};
    if (f->phase == WEFT__FRESH || f->phase == WEFT__ENDED || f->phase == WEFT__FREE)
        return 0;
    bool is_current = f == c->current;
    char *sp = is_current ? __builtin_frame_address(0) : f->context.sp;
    if (!has_unwind_room(f, sp))
        return 0;
    walk.sp = (uintptr_t)sp;
    if (is_current)
        walk_run(&walk);
    else if (!weft__context_call(&f->context, walk_run, &walk))
        return 0;
    return walk.count;
}

int weft__frames_unwind(weft__cord *c, weft__fiber *f, void **out, int n)
{
    return stack_unwind(c, f, out, NULL, n);
}

/*
 * The table by content.
 */

static unsigned addresses_hash(void *const *addresses, unsigned count)
{
    uint64_t hash = count;
    for (unsigned i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)addresses[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(hash >> 32) % WEFT__FRAMES_BUCKETS;
}

static bool frames_are_equal(const weft__frames *frames, void *const *addresses, unsigned count)
{
    return frames->count == count &&
           memcmp(frames->addresses, addresses, count * sizeof *addresses) == 0;
}

/* Return the frames with these addresses. Return NULL if memory is exhausted. */
static weft__frames *frames_intern(weft__frames_table *table, void *const *addresses,
                                   unsigned count)
{
    weft__frames **bucket = &table->by_hash[addresses_hash(addresses, count)];
    for (weft__frames *known = *bucket; known != NULL; known = known->next_of_hash)
        if (frames_are_equal(known, addresses, count))
            return known;
    weft__frames *frames = malloc(sizeof *frames + count * sizeof *addresses);
    if (frames == NULL)
        return NULL;
    frames->count = count;
    memcpy(frames->addresses, addresses, count * sizeof *addresses);
    frames->next_of_hash = *bucket;
    *bucket = frames;
    frames->next_of_all = table->all;
    table->all = frames;
    return frames;
}

/*
 * Known stacks. On x86-64, the return address of a call is below the CFA of the callee.
 */

typedef struct stack_probe {
    struct stack_probe *next;
    weft_fn *fn;
    size_t depth; /* bytes between sp and the end of the stack */
    weft__frames *frames;
    uint32_t slots[]; /* of each return address: the distance from sp */
} stack_probe;

#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)
#define SLOT_BYTES sizeof(void *)
#endif

/* A stack that may equal a known stack. */
typedef struct parked_stack {
    char *sp;
    size_t depth;
    unsigned hash;
} parked_stack;

/* Read a word of the stack of a waiting fiber. */
WEFT__UNSANITIZED static void *stack_word(const char *at)
{
    return *(void *const volatile *)at;
}

/* Return false if the stack of the fiber cannot be compared with known stacks. */
static bool parked_stack_of(const weft__cord *c, const weft__fiber *f, parked_stack *out)
{
#ifdef SLOT_BYTES
    if (f == c->current || f->stack.low == NULL || f->phase == WEFT__FRESH)
        return false;
    out->sp = f->context.sp;
    out->depth = (size_t)(f->stack.low + f->stack.bytes - out->sp);
    uint64_t hash = (uintptr_t)f->fn ^ (uintptr_t)stack_word(out->sp) ^ (out->depth << 20);
    out->hash = (unsigned)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % WEFT__FRAMES_BUCKETS;
    return true;
#else
    (void)c, (void)f, (void)out;
    return false;
#endif
}

static bool probe_matches(const stack_probe *p, const weft__fiber *f, const parked_stack *s)
{
    if (p->fn != f->fn || p->depth != s->depth)
        return false;
    for (uint32_t i = 0; i < p->frames->count; i++)
        if (stack_word(s->sp + p->slots[i]) != p->frames->addresses[i])
            return false;
    return true;
}

/*
 * Remember a stack. If an address is not at its slot, or memory is exhausted, the stack is not
 * remembered, and further equal stacks are unwound.
 */
static void probe_add(weft__frames_table *table, const weft__fiber *f, const parked_stack *s,
                      weft__frames *frames, const uintptr_t *ends)
{
#ifdef SLOT_BYTES
    stack_probe *p = malloc(sizeof *p + frames->count * sizeof *p->slots);
    if (p == NULL)
        return;
    *p = (stack_probe){.fn = f->fn, .depth = s->depth, .frames = frames};
    for (uint32_t i = 0; i < frames->count; i++) {
        size_t slot = ends[i] - SLOT_BYTES - (uintptr_t)s->sp;
        if (slot > s->depth - SLOT_BYTES || stack_word(s->sp + slot) != frames->addresses[i]) {
            free(p);
            return;
        }
        p->slots[i] = (uint32_t)slot;
    }
    p->next = table->probes[s->hash];
    table->probes[s->hash] = p;
#else
    (void)table, (void)f, (void)s, (void)frames, (void)ends;
#endif
}

int weft__frames_find(weft__frames_table *table, weft__cord *c, weft__fiber *f, weft__frames **out)
{
    parked_stack s = {0};
    bool is_comparable = parked_stack_of(c, f, &s);
    *out = NULL;
    if (is_comparable)
        for (stack_probe *p = table->probes[s.hash]; p != NULL; p = p->next)
            if (probe_matches(p, f, &s)) {
                *out = p->frames;
                return 0;
            }
    int count = stack_unwind(c, f, table->addresses, table->ends, (int)table->frames_max);
    if (count == 0)
        return 0;
    *out = frames_intern(table, table->addresses, (unsigned)count);
    if (*out == NULL)
        return -ENOMEM;
    if (is_comparable)
        probe_add(table, f, &s, *out, table->ends);
    return 0;
}

void weft__frames_table_close(weft__frames_table *table)
{
    for (unsigned i = 0; i < WEFT__FRAMES_BUCKETS; i++)
        while (table->probes[i] != NULL) {
            stack_probe *p = table->probes[i];
            table->probes[i] = p->next;
            free(p);
        }
}

void weft__frames_free(weft__frames *all)
{
    while (all != NULL) {
        weft__frames *next = all->next_of_all;
        free(all);
        all = next;
    }
}
