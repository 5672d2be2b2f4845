/* Samples of CPU time. See cpu_sampler.h. */
#include "core/inspect_socket/cpu_sampler.h"

#include "base/clock.h"
#include "base/libc.h"
#include "core/cord/registry.h"

#include <stdlib.h>
#include <time.h>

/* Older versions of the GNU C library do not define the name. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define CORDS_MAX (1u << WEFT__CORDS_BITS)
#define SAMPLE_FRAMES_MAX 64
/* Samples per ring. At 1000 samples per second, a ring is full after 0.25 s. */
#define RING_SAMPLES 256

typedef struct cpu_sample {
    char name[WEFT__NAME_BYTES];
    const void *fn;
    bool is_idle;
    unsigned frames_first; /* index of the first frame that does not belong to the handler */
    unsigned frames_count;
    void *frames[SAMPLE_FRAMES_MAX];
} cpu_sample;

/* A queue from the signal handler of a cord to the thread of the inspection socket. */
typedef struct sample_ring {
    atomic_uint written, read; /* the handler advances written, the reader advances read */
    atomic_uint dropped;       /* samples that did not fit */
    cpu_sample samples[RING_SAMPLES];
} sample_ring;

/*
 * By index of a cord. A ring is never freed, because a late signal may use it. A later cord with
 * the same index uses the same ring.
 */
static struct {
    _Atomic(sample_ring *) ring;
    weft_fiber cord; /* the cord that has the timer; 0: no timer */
    timer_t timer;
    char cord_name[16];
} slots[CORDS_MAX];

static struct {
    bool is_on;
    int signal; /* valid if is_on */
    struct sigaction before;
    struct itimerspec interval;
} sampler;

/* True while handlers may store samples. */
static atomic_bool is_sampling;

/*
 * Return true if the stack of the handler has enough free space for a backtrace. A signal stack
 * always has enough space.
 */
static bool has_sampler_room(const weft__fiber *f, const char *frame)
{
    size_t above = (uintptr_t)frame - (uintptr_t)f->stack.low;
    return f->stack.low == NULL || above >= f->stack.bytes || above >= WEFT__CALL_BYTES;
}

/* Store a sample of the calling thread. frame and caller belong to the signal handler. */
static void sample_take(const weft__cord *c, cpu_sample *s, const char *frame, const void *caller)
{
    const weft__fiber *f = c->current;
    memcpy(s->name, f->name, sizeof s->name);
    s->name[sizeof s->name - 1] = '\0';
    s->fn = (const void *)f->fn;
    /* The idle loop runs on the stack of the fiber that has waited or ended last. */
    s->is_idle = f->waits_in != NULL || f->phase == WEFT__ENDED || f->phase == WEFT__FREE;
    s->frames_first = s->frames_count = 0;
    if (has_sampler_room(f, frame))
        s->frames_count = (unsigned)backtrace(s->frames, SAMPLE_FRAMES_MAX);
    /* The frame after the kernel's trampoline is the interrupted frame. */
    for (unsigned i = 0; i < s->frames_count; i++)
        if (s->frames[i] == caller)
            s->frames_first = i + 1;
}

/* The signal handler, which can interrupt any code of a cord. */
static void on_sample_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    int saved = errno;
    const weft__cord *c = weft__cord_self;
    sample_ring *ring =
        c != NULL && atomic_load(&is_sampling) ? atomic_load(&slots[c->index].ring) : NULL;
    if (ring != NULL) {
        unsigned at = atomic_load_explicit(&ring->written, memory_order_relaxed);
        if (at - atomic_load_explicit(&ring->read, memory_order_acquire) < RING_SAMPLES) {
            sample_take(c, &ring->samples[at % RING_SAMPLES], __builtin_frame_address(0),
                        __builtin_return_address(0));
            atomic_store_explicit(&ring->written, at + 1, memory_order_release);
        } else {
            atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
        }
    }
    errno = saved;
}

/* Reserve an unused real-time signal, like the watchdog (core/debug/watchdog.c). */
static int sample_signal_reserve(void)
{
    struct sigaction ours = {.sa_sigaction = on_sample_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigfillset(&ours.sa_mask);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
        if (sigaction(number, NULL, &sampler.before) < 0 ||
            (sampler.before.sa_flags & SA_SIGINFO) || sampler.before.sa_handler != SIG_DFL)
            continue;
        sampler.signal = number;
        return sigaction(number, &ours, NULL) < 0 ? -errno : 0;
    }
    return -EBUSY;
}

/*
 * Restore the disposition of the signal. First ignore the signal, which discards pending instances.
 * With the default disposition, a pending instance would end the process.
 */
static void sample_signal_release(void)
{
    struct sigaction now;
    if (sigaction(sampler.signal, NULL, &now) < 0 || !(now.sa_flags & SA_SIGINFO) ||
        now.sa_sigaction != on_sample_signal)
        return; /* the program has replaced the handler */
    sigaction(sampler.signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    sigaction(sampler.signal, &sampler.before, NULL);
}

static void slot_stop(uint32_t index)
{
    if (slots[index].cord != 0)
        timer_delete(slots[index].timer);
    slots[index].cord = 0;
}

/* Start the timer of a cord. Failures only lose the samples of this cord. */
static void slot_start(const weft__cord *c)
{
    clockid_t clock;
    if (atomic_load(&slots[c->index].ring) == NULL)
        atomic_store(&slots[c->index].ring, calloc(1, sizeof(sample_ring)));
    if (atomic_load(&slots[c->index].ring) == NULL ||
        pthread_getcpuclockid(c->watchdog.thread, &clock) != 0)
        return;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sampler.signal};
    event.sigev_notify_thread_id = c->watchdog.thread_id;
    if (timer_create(clock, &event, &slots[c->index].timer) < 0)
        return;
    slots[c->index].cord = c->main->id;
    if (pthread_getname_np(c->watchdog.thread, slots[c->index].cord_name,
                           sizeof slots[c->index].cord_name) != 0)
        slots[c->index].cord_name[0] = '\0';
    timer_settime(slots[c->index].timer, 0, &sampler.interval, NULL);
}

/* Give a new cord a timer. The caller holds the cord, so its thread exists. */
static void cord_attach(weft__cord *c, void *arg)
{
    if (slots[c->index].cord == c->main->id || atomic_load(&c->watchdog.process) != *(pid_t *)arg)
        return;
    slot_stop(c->index);
    slot_start(c);
}

static void attach_cords(void)
{
    pid_t process = getpid();
    weft__registry_each(cord_attach, &process);
}

int weft__cpu_sampler_start(unsigned hz)
{
    int rc = sample_signal_reserve();
    if (rc < 0)
        return rc;
    /* The first backtrace loads a library, which a signal handler must not do. */
    backtrace(&(void *){NULL}, 1);
    sampler.is_on = true;
    sampler.interval.it_interval = weft__clock_spec(WEFT__NS_PER_S / hz);
    sampler.interval.it_value = sampler.interval.it_interval;
    atomic_store(&is_sampling, true);
    attach_cords();
    return 0;
}

static void ring_read(uint32_t index, sample_ring *ring, weft__stack_table *t)
{
    unsigned at = atomic_load_explicit(&ring->read, memory_order_relaxed);
    unsigned end = atomic_load_explicit(&ring->written, memory_order_acquire);
    for (; at != end; at++) {
        const cpu_sample *s = &ring->samples[at % RING_SAMPLES];
        weft__stack_key key = {.is_idle = s->is_idle, .fn = s->name[0] == '\0' ? s->fn : NULL};
        weft__stack_name_set(key.cord, slots[index].cord_name);
        if (!s->is_idle)
            weft__stack_name_set(key.fiber, s->name);
        else
            key.fn = NULL;
        weft__stack_table_add(t, &key, s->frames + s->frames_first,
                              s->frames_count - s->frames_first, 1);
    }
    atomic_store_explicit(&ring->read, at, memory_order_release);
}

uint64_t weft__cpu_sampler_read(weft__stack_table *t)
{
    uint64_t dropped = 0;
    if (!sampler.is_on)
        return 0;
    for (uint32_t i = 0; i < CORDS_MAX; i++) {
        sample_ring *ring = atomic_load(&slots[i].ring);
        if (ring == NULL)
            continue;
        ring_read(i, ring, t);
        dropped += atomic_exchange(&ring->dropped, 0);
    }
    attach_cords();
    return dropped;
}

void weft__cpu_sampler_stop(void)
{
    if (!sampler.is_on)
        return;
    atomic_store(&is_sampling, false);
    for (uint32_t i = 0; i < CORDS_MAX; i++)
        slot_stop(i);
    sample_signal_release();
    sampler.is_on = false;
}

void weft__cpu_sampler_after_fork(void)
{
    atomic_store(&is_sampling, false);
    for (uint32_t i = 0; i < CORDS_MAX; i++)
        slots[i].cord = 0;
    if (sampler.is_on)
        sample_signal_release();
    sampler.is_on = false;
}
