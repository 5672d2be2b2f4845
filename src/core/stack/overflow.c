/*
 * The handler of faults: tells stack overflows from other faults, reports the former, passes the
 * latter on. Knows no fibers; the core's finder does.
 *
 * The handler runs in the middle of anything, with the faulting stack at its end. It formats into
 * a buffer of its own and calls write; backtrace_symbols_fd is the only thing of the C library
 * beyond the list in signal-safety(7): it looks the symbol up and writes, without malloc.
 */
#include "core/overflow.h"

#include "base/libc.h"
#include "base/text.h"
#include "core/limits.h"

#include <weft/signal.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The dispositions before ours: what faults that are not ours go to. */
static struct sigaction segv_before;
static struct sigaction bus_before;

static weft__overflow_finder *finder_installed;

static void say_who(const weft__overflow_facts *facts)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: stack overflow in fiber #");
    weft__text_add_number(&t, facts->id);
    if (facts->name != NULL && facts->name[0] != '\0') {
        weft__text_add(&t, " '");
        weft__text_add(&t, facts->name);
        weft__text_add(&t, "'");
    }
    weft__text_add(&t, facts->fn != NULL ? ", which runs " : "\n");
    weft__text_write(&t, STDERR_FILENO);
    if (facts->fn != NULL)
        backtrace_symbols_fd(&(void *){facts->fn}, 1, STDERR_FILENO);
}

static void say_what_to_do(const weft__overflow_facts *facts)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: its stack has ");
    weft__text_add_number(&t, facts->stack_bytes >> 10);
    weft__text_add(&t,
                   facts->is_thread
                       ? " KiB; it is the thread's: `ulimit -s` changes that, or let a fiber "
                         "with .stack_bytes do the work\n"
                       : " KiB; give it more: .stack_bytes of weft_spin_options, or WEFT_STACK=");
    if (!facts->is_thread) {
        weft__text_add_number(&t, facts->stack_bytes >> 9);
        weft__text_add(&t, "K in the environment\n");
    }
    weft__text_write(&t, STDERR_FILENO);
}

/*
 * Let the signal strike again, with the disposition before ours. A fault repeats itself when the
 * handler returns; what kill or raise sent has to be sent again.
 */
static void strike_again(int number, const siginfo_t *info, const struct sigaction *before)
{
    sigaction(number, before, NULL);
    if (info->si_code <= 0)
        raise(number); /* blocked until the handler has returned */
}

/* Call the handler before ours as the kernel would have. The mask is undone when ours returns. */
static void hand_over(int number, siginfo_t *info, void *context, struct sigaction *before)
{
    struct sigaction handler = *before;
    if (handler.sa_flags & (int)SA_RESETHAND)
        before->sa_handler = SIG_DFL;
    pthread_sigmask(SIG_BLOCK, &handler.sa_mask, NULL);
    if (handler.sa_flags & SA_NODEFER) {
        sigset_t self;
        sigemptyset(&self);
        sigaddset(&self, number);
        pthread_sigmask(SIG_UNBLOCK, &self, NULL);
    }
    if (handler.sa_flags & SA_SIGINFO)
        handler.sa_sigaction(number, info, context);
    else
        handler.sa_handler(number);
}

/* The stack pointer of what the signal interrupted; NULL: unknown on this machine. */
static const void *interrupted_sp(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (const void *)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (const void *)context->uc_mcontext.sp;
#else
    (void)context;
    return NULL;
#endif
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    struct sigaction *before = number == SIGBUS ? &bus_before : &segv_before;
    weft__overflow_facts facts;
    /* Only a fault has an address; what kill sent has a process id in its place. */
    if (info->si_code > 0 && finder_installed(info->si_addr, interrupted_sp(context), &facts)) {
        say_who(&facts);
        say_what_to_do(&facts);
        strike_again(number, info, before);
    } else if (before->sa_handler == SIG_IGN && info->si_code <= 0) {
        /* Ignored, as before. A fault cannot be: the kernel ends the program then. */
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        strike_again(number, info, before);
    } else {
        hand_over(number, info, context, before);
    }
    errno = saved;
}

/* Guards what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_installed;
static enum { BY_ENVIRONMENT, ON, OFF } wish;

/* The lock is held. */
static bool is_wanted(void)
{
    if (wish != BY_ENVIRONMENT)
        return wish == ON;
    const char *text = getenv("WEFT_CATCH_FAULTS");
    return text == NULL || (strcmp(text, "0") != 0 && strcmp(text, "off") != 0);
}

static bool is_ours(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == on_fault;
}

/* Put our handler in front of the one that is there, which must be known before ours runs. */
static int catch_signal(int number, struct sigaction *before)
{
    if (is_ours(number))
        return 0;
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    bool is_done = sigaction(number, NULL, before) == 0 && sigaction(number, &ours, NULL) == 0;
    return is_done ? 0 : -errno;
}

/* The lock is held. */
static int install_handlers(void)
{
    int rc = catch_signal(SIGSEGV, &segv_before);
    if (rc == 0)
        rc = catch_signal(SIGBUS, &bus_before);
    is_installed = rc == 0;
    return rc;
}

/* The lock is held. What the program has installed over ours stays. */
static void uninstall_handlers(void)
{
    if (is_ours(SIGSEGV))
        sigaction(SIGSEGV, &segv_before, NULL);
    if (is_ours(SIGBUS))
        sigaction(SIGBUS, &bus_before, NULL);
    is_installed = false;
}

int weft__overflow_install(weft__overflow_finder *finder)
{
    pthread_mutex_lock(&lock);
    bool is_first = finder_installed == NULL;
    if (is_first)
        finder_installed = finder;
    int rc = is_first && is_wanted() ? install_handlers() : 0;
    pthread_mutex_unlock(&lock);
    return rc;
}

int weft_catch_faults(bool is_on)
{
    pthread_mutex_lock(&lock);
    wish = is_on ? ON : OFF;
    int rc = 0;
    if (is_on && finder_installed != NULL)
        rc = install_handlers(); /* again, if the program has replaced ours since */
    else if (!is_on && is_installed)
        uninstall_handlers();
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Does a thread need a stack for the handler? */
static bool is_stack_wanted(void)
{
    pthread_mutex_lock(&lock);
    bool is = is_wanted();
    pthread_mutex_unlock(&lock);
    return is;
}

/*
 * Note where the thread's own stack is. The C library reads /proc for the first thread's, so that
 * one is told by its rlimit when it is full.
 */
static void note_own_stack(weft__overflow_thread *thread)
{
    thread->high = __builtin_frame_address(0);
    pthread_attr_t attributes;
    if (getpid() == syscall(SYS_gettid) || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    void *low;
    size_t bytes, guard;
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0 &&
        pthread_attr_getguardsize(&attributes, &guard) == 0) {
        thread->low = low;
        thread->high = thread->low + bytes;
        thread->guard_bytes = guard;
    }
    pthread_attr_destroy(&attributes);
}

/*
 * The first thread's stack is full where the kernel does not extend it any further: there is no
 * page at the address, which is beside the stack pointer, and the stack pointer is in the lower
 * half of what the limit allows (what lies above thread->high is at most a quarter).
 */
static bool is_beyond_limit(const char *high, const char *address, const char *sp, size_t *bytes)
{
    struct rlimit limit;
    if (high == NULL || sp == NULL || getrlimit(RLIMIT_STACK, &limit) < 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return false;
    *bytes = (size_t)limit.rlim_cur;
    size_t near = WEFT__GUARD_BYTES_MAX < *bytes / 4 ? WEFT__GUARD_BYTES_MAX : *bytes / 4;
    if (sp > high || (size_t)(high - sp) < *bytes / 2 || address > sp + near || address + near < sp)
        return false;
    unsigned char resident;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)((uintptr_t)address & ~(page - 1)), 1, &resident) < 0;
}

bool weft__overflow_is_of_thread(const weft__overflow_thread *thread, const void *address,
                                 const void *sp, size_t *bytes)
{
    const char *at = address;
    if (thread->low == NULL)
        return is_beyond_limit(thread->high, at, sp, bytes);
    *bytes = (size_t)(thread->high - thread->low);
    return at < thread->low && at >= thread->low - thread->guard_bytes;
}

int weft__overflow_thread_open(weft__overflow_thread *thread)
{
    *thread = (weft__overflow_thread){0};
    if (!is_stack_wanted())
        return 0;
    note_own_stack(thread);
    stack_t present;
    if (sigaltstack(NULL, &present) == 0 && !(present.ss_flags & SS_DISABLE))
        return 0;
    /* What the kernel saves there depends on the processor: AVX-512 alone takes 2.5 KiB. */
    size_t least = getauxval(AT_MINSIGSTKSZ); /* 0: a kernel before 5.14 */
    size_t bytes = WEFT__SIGNAL_STACK_BYTES + (least > 0 ? least : MINSIGSTKSZ);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    if (sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = bytes}, NULL) < 0) {
        munmap(memory, bytes);
        return -ENOMEM;
    }
    thread->memory = memory;
    thread->bytes = bytes;
    return 0;
}

void weft__overflow_thread_close(weft__overflow_thread *thread)
{
    if (thread->memory == NULL)
        return;
    stack_t present;
    bool is_ours = sigaltstack(NULL, &present) == 0 && present.ss_sp == thread->memory;
    /* It refuses while a handler runs on it; the memory has to stay then. */
    if (is_ours && sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL) < 0)
        return;
    munmap(thread->memory, thread->bytes);
    thread->memory = NULL;
}
