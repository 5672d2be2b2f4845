/*
 * The handler of SIGSEGV and SIGBUS. The handler reports stack overflows, and passes other faults
 * on to the earlier handler. The finder (core/cord/thread.c) maps a fault to a fiber.
 *
 * The handler can interrupt any code, and the faulting stack is full. Therefore the handler formats
 * into a local buffer and calls write. The names of functions are read from the symbol tables of
 * ELF files (core/inspect/symbol.h), without malloc and without libdw. The search for the module
 * takes the lock of the dynamic linker, like backtrace_symbols_fd.
 */
#include "core/stack/overflow.h"

#include "base/text.h"
#include "core/inspect/symbol.h"
#include "core/limits.h"

#include <weft/signal.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * The dispositions before these handlers were installed. They handle faults that are not stack
 * overflows.
 */
static struct sigaction segv_before;
static struct sigaction bus_before;

static weft__overflow_finder *finder_installed;

/* Add the function and the module of a code address, for example "main in server(+0x1234)". */
static void add_function(weft__text *t, uintptr_t address)
{
    static weft__module module; /* too large for a signal stack that the program has installed */
    static atomic_flag is_used = ATOMIC_FLAG_INIT;
    char name[96];
    if (atomic_flag_test_and_set(&is_used)) {
        weft__text_add(t, "0x"); /* another thread prints a report */
        weft__text_add_hex(t, address);
        return;
    }
    if (!weft__module_find(address, &module))
        module = (weft__module){.base = 0};
    if (weft__elf_find(&module, address, name, sizeof name)) {
        weft__text_add(t, name);
        weft__text_add(t, " in ");
    }
    const char *slash = strrchr(module.path, '/');
    weft__text_add(t, slash != NULL ? slash + 1 : module.path);
    weft__text_add(t, "(+0x");
    weft__text_add_hex(t, address - module.base);
    weft__text_add(t, ")");
    atomic_flag_clear(&is_used);
}

static void print_overflow(const weft__overflow_details *details)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: stack overflow in fiber #");
    weft__text_add_number(&t, details->id);
    if (details->name != NULL && details->name[0] != '\0') {
        weft__text_add(&t, " '");
        weft__text_add(&t, details->name);
        weft__text_add(&t, "'");
    }
    if (details->fn != NULL) {
        weft__text_add(&t, ", which runs ");
        add_function(&t, (uintptr_t)details->fn);
    }
    weft__text_add(&t, "\n");
    weft__text_write(&t, STDERR_FILENO);
}

/* Print the function that needed more stack. */
static void print_place(uintptr_t pc)
{
    weft__text t = {.count = 0};
    if (pc == 0)
        return;
    weft__text_add(&t, "weft: the stack was exceeded by ");
    add_function(&t, pc);
    weft__text_add(&t, "\n");
    weft__text_write(&t, STDERR_FILENO);
}

static void print_advice(const weft__overflow_details *details)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: the stack has ");
    weft__text_add_number(&t, details->stack_bytes >> 10);
    weft__text_add(
        &t, details->is_thread
                ? " KiB and belongs to the thread; raise the limit with `ulimit -s`, or use a "
                  "fiber with a larger .stack_bytes\n"
                : " KiB; set a larger .stack_bytes in weft_spin_options, or WEFT_STACK=");
    if (!details->is_thread) {
        weft__text_add_number(&t, details->stack_bytes >> 9);
        weft__text_add(&t, "K in the environment\n");
    }
    weft__text_write(&t, STDERR_FILENO);
}

/*
 * Repeat the signal with the earlier disposition. When the handler returns, a fault occurs again. A
 * signal from kill or raise must be raised again.
 */
static void signal_repeat(int number, const siginfo_t *info, const struct sigaction *before)
{
    sigaction(number, before, NULL);
    if (info->si_code <= 0)
        raise(number); /* blocked until the handler returns */
}

/*
 * Call the earlier handler as the kernel would. When the current handler returns, the kernel
 * restores the signal mask.
 */
static void call_previous_handler(int number, siginfo_t *info, void *context,
                                  struct sigaction *before)
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

/* The registers of the interrupted code. Both are 0 on machines other than x86-64 and aarch64. */
typedef struct fault_place {
    uintptr_t pc, sp;
} fault_place;

static fault_place place_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    const greg_t *registers = context->uc_mcontext.gregs;
    return (fault_place){(uintptr_t)registers[REG_RIP], (uintptr_t)registers[REG_RSP]};
#elif defined(__aarch64__)
    return (fault_place){context->uc_mcontext.pc, context->uc_mcontext.sp};
#else
    (void)context;
    return (fault_place){0, 0};
#endif
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    struct sigaction *before = number == SIGBUS ? &bus_before : &segv_before;
    weft__overflow_details details;
    fault_place place = place_of(context);
    /*
     * Only a fault has an address. For a signal from kill, the union field holds a process id
     * instead.
     */
    if (info->si_code > 0 && finder_installed(info->si_addr, (void *)place.sp, &details)) {
        print_overflow(&details);
        print_place(place.pc);
        print_advice(&details);
        signal_repeat(number, info, before);
    } else if (before->sa_handler == SIG_IGN && info->si_code <= 0) {
        /* The signal remains ignored. Only faults cannot be ignored. */
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        signal_repeat(number, info, before);
    } else {
        call_previous_handler(number, info, context, before);
    }
    errno = saved;
}

/* Protects is_installed, setting, and writes to finder_installed and the dispositions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_installed;
static enum { BY_ENVIRONMENT, ON, OFF } setting;

/* The caller must hold the lock. */
static bool is_handler_wanted(void)
{
    if (setting != BY_ENVIRONMENT)
        return setting == ON;
    const char *text = getenv("WEFT_CATCH_FAULTS");
    return text == NULL || (strcmp(text, "0") != 0 && strcmp(text, "off") != 0);
}

static bool is_our_fault_handler(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == on_fault;
}

/*
 * Install the handler. Store the earlier disposition first, because the new handler may run at
 * once.
 */
static int catch_signal(int number, struct sigaction *before)
{
    if (is_our_fault_handler(number))
        return 0;
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    bool is_done = sigaction(number, NULL, before) == 0 && sigaction(number, &ours, NULL) == 0;
    return is_done ? 0 : -errno;
}

/* The caller must hold the lock. */
static int install_handlers(void)
{
    int rc = catch_signal(SIGSEGV, &segv_before);
    if (rc == 0)
        rc = catch_signal(SIGBUS, &bus_before);
    is_installed = rc == 0;
    return rc;
}

/*
 * Restore the dispositions, unless the program has replaced the handlers. The caller must hold the
 * lock.
 */
static void uninstall_handlers(void)
{
    if (is_our_fault_handler(SIGSEGV))
        sigaction(SIGSEGV, &segv_before, NULL);
    if (is_our_fault_handler(SIGBUS))
        sigaction(SIGBUS, &bus_before, NULL);
    is_installed = false;
}

int weft__overflow_install(weft__overflow_finder *finder)
{
    pthread_mutex_lock(&lock);
    bool is_first = finder_installed == NULL;
    if (is_first)
        finder_installed = finder;
    int rc = is_first && is_handler_wanted() ? install_handlers() : 0;
    pthread_mutex_unlock(&lock);
    return rc;
}

int weft_catch_faults(bool is_on)
{
    pthread_mutex_lock(&lock);
    setting = is_on ? ON : OFF;
    int rc = 0;
    if (is_on && finder_installed != NULL)
        rc = install_handlers(); /* even if the program has replaced the handlers */
    else if (!is_on && is_installed)
        uninstall_handlers();
    pthread_mutex_unlock(&lock);
    return rc;
}

static bool is_signal_stack_wanted(void)
{
    pthread_mutex_lock(&lock);
    bool is_wanted = is_handler_wanted();
    pthread_mutex_unlock(&lock);
    return is_wanted;
}

/*
 * Record the bounds of the thread's own stack. For the first thread, pthread_getattr_np would read
 * /proc, so the lower bound remains unknown. is_beyond_limit uses RLIMIT_STACK instead.
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
 * Return true if the first thread's stack has reached its limit, so that the kernel does not extend
 * the stack. In this case, the address is near the stack pointer and has no page, and the stack
 * pointer is in the lower half of the limit. The kernel limits the memory above thread->high to a
 * quarter of the limit.
 */
static bool is_beyond_limit(const char *high, const char *address, const char *sp, size_t *bytes)
{
    struct rlimit limit;
    if (high == NULL || sp == NULL || getrlimit(RLIMIT_STACK, &limit) < 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return false;
    *bytes = (size_t)limit.rlim_cur;
    size_t margin = WEFT__GUARD_BYTES_MAX < *bytes / 4 ? WEFT__GUARD_BYTES_MAX : *bytes / 4;
    if (sp > high || (size_t)(high - sp) < *bytes / 2 || address > sp + margin ||
        address + margin < sp)
        return false;
    unsigned char resident;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)((uintptr_t)address & ~(page - 1)), 1, &resident) < 0;
}

bool weft__overflow_hit_thread_stack(const weft__overflow_thread *thread, const void *address,
                                     const void *sp, size_t *bytes)
{
    const char *fault = address;
    if (thread->low == NULL)
        return is_beyond_limit(thread->high, fault, sp, bytes);
    *bytes = (size_t)(thread->high - thread->low);
    return fault < thread->low && fault >= thread->low - thread->guard_bytes;
}

int weft__overflow_thread_open(weft__overflow_thread *thread)
{
    *thread = (weft__overflow_thread){0};
    if (!is_signal_stack_wanted())
        return 0;
    note_own_stack(thread);
    stack_t present;
    if (sigaltstack(NULL, &present) == 0 && !(present.ss_flags & SS_DISABLE))
        return 0;
    /*
     * The size of the kernel's frame depends on the processor. For example, AVX-512 state takes 2.5
     * KiB.
     */
    size_t frame_bytes = getauxval(AT_MINSIGSTKSZ); /* 0: before Linux 5.14 */
    size_t bytes = WEFT__SIGNAL_STACK_BYTES + (frame_bytes > 0 ? frame_bytes : MINSIGSTKSZ);
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
    /* sigaltstack fails while a handler runs on the signal stack. The memory is then not freed. */
    if (is_ours && sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL) < 0)
        return;
    munmap(thread->memory, thread->bytes);
    thread->memory = NULL;
}
