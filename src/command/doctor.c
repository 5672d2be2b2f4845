/*
 * weft doctor: which backend would run here and why, what this kernel's io_uring has, the limits
 * that a program with many fibers meets, and what a fiber costs. It measures and asks; it changes
 * nothing.
 */
#include "backend/backend.h"
#include "command/command.h"
#include "core/guard.h"
#include "core/limits.h"

#ifdef WEFT_HAS_URING
#include "backend/uring.h"
#endif

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Fibers to measure with: enough that one page more or less does not show. */
#define SAMPLE_FIBERS 1000

/* A number from a file of the kernel's; -1: there is none. */
static long read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    long number = -1;
    if (file != NULL) {
        if (fscanf(file, "%ld", &number) != 1)
            number = -1;
        fclose(file);
    }
    return number;
}

static void print_system(void)
{
    struct utsname name;
    if (uname(&name) == 0)
        printf("system       %s %s, %s\n", name.sysname, name.release, name.machine);
    cpu_set_t own;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    printf("processors   %ld, of which this process may use %ld\n", online,
           sched_getaffinity(0, sizeof own, &own) == 0 ? (long)CPU_COUNT(&own) : online);
    printf("weft         %s\n", weft_version());
}

static void print_names(void)
{
#ifdef WEFT_HAS_CARES
    printf("names        by c-ares, and by the C library where nsswitch.conf asks for more\n");
#else
    printf("names        by the C library, on threads: c-ares is not built in\n");
#endif
}

static void print_choice(void)
{
    printf("backend      %s: %s\n", weft_backend_name(), weft_backend_why());
}

static void print_one(const char *name, int rc)
{
    printf("  %-10s %s\n", name, rc == 0 ? "works" : strerror(-rc));
}

static int try_type(const weft__backend_type *type)
{
    weft__backend *b;
    int rc = type->open(&b);
    if (rc == 0)
        type->close(b);
    return rc;
}

#ifdef WEFT_HAS_URING
static const struct wanted {
    int opcode;
    const char *name;
} wanted[] = {
    {IORING_OP_READ, "read"},       {IORING_OP_WRITE, "write"},     {IORING_OP_READV, "readv"},
    {IORING_OP_WRITEV, "writev"},   {IORING_OP_RECV, "recv"},       {IORING_OP_SEND, "send"},
    {IORING_OP_RECVMSG, "recvmsg"}, {IORING_OP_SENDMSG, "sendmsg"}, {IORING_OP_ACCEPT, "accept"},
    {IORING_OP_CONNECT, "connect"}, {IORING_OP_POLL_ADD, "poll"},   {IORING_OP_FSYNC, "fsync"},
};

static const char *yes_or_no(bool is)
{
    return is ? "yes" : "no";
}

static void print_missing(const weft__uring_abilities *a)
{
    printf("             done otherwise:");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (a->opcodes >> wanted[i].opcode & 1)
            continue;
        printf(" %s", wanted[i].name);
    }
    printf(" splice tee sendfile open\n");
}

static int print_uring(void)
{
    struct io_uring ring;
    weft__uring_abilities a;
    int rc = weft__uring_setup(&ring, &a);
    print_one("io_uring", rc);
    if (rc < 0)
        return rc;
    io_uring_queue_exit(&ring);
    printf("             single issuer: %s, deferred task work: %s, registered ring: %s\n",
           yes_or_no(a.setup_flags & IORING_SETUP_SINGLE_ISSUER),
           yes_or_no(a.setup_flags & IORING_SETUP_DEFER_TASKRUN), yes_or_no(a.has_registered_ring));
    printf("             multishot accept: %s, multishot receive: %s, messages between rings: %s\n",
           yes_or_no(a.has_multishot_accept), yes_or_no(a.has_multishot_recv),
           yes_or_no(weft__uring_can_message(&a)));
    print_missing(&a);
    return 0;
}

/* Why it may be forbidden; nothing where it works. */
static void print_uring_advice(int rc)
{
    long disabled = read_number("/proc/sys/kernel/io_uring_disabled");
    if (disabled > 0)
        printf("             kernel.io_uring_disabled is %ld\n", disabled);
    else if (rc == -EPERM || rc == -EACCES)
        printf("             forbidden, by a seccomp filter most likely (containers have one)\n");
}
#endif

static void print_backends(void)
{
#ifdef WEFT_HAS_URING
    print_uring_advice(print_uring());
#else
    printf("  %-10s not built in\n", "io_uring");
#endif
    print_one("epoll", try_type(&weft__backend_epoll));
#ifdef WEFT_HAS_EV
    print_one("libev", try_type(&weft__backend_ev));
#else
    printf("  %-10s not built in\n", "libev");
#endif
    print_one("sim", try_type(&weft__backend_sim));
}

static void print_limit(rlim_t value, rlim_t unit)
{
    if (value == RLIM_INFINITY)
        printf("no limit");
    else
        printf("%ju", (uintmax_t)(value / unit));
}

static void print_rlimit(const char *title, int which, rlim_t unit, const char *what)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) < 0)
        return;
    printf("%-12s ", title);
    print_limit(limit.rlim_cur, unit);
    printf(" (can be raised to ");
    print_limit(limit.rlim_max, unit);
    printf(")%s\n", what);
}

static const char *guard_words(void)
{
    switch (atomic_load(&weft__guard_method)) {
    case WEFT__GUARD_BATCH:
    case WEFT__GUARD_SINGLE:
        return "guards cost none: a million fibers need some 40";
    case WEFT__GUARD_PROTECT:
        return "a guard page takes two: half as many fibers have one";
    default:
        return "no guard pages are to be had";
    }
}

static void print_limits(void)
{
    print_rlimit("descriptors", RLIMIT_NOFILE, 1, "");
    print_rlimit("locked KiB", RLIMIT_MEMLOCK, 1024, "");
    printf("mappings     %ld; %s\n", read_number("/proc/sys/vm/max_map_count"), guard_words());
}

static weft_value wait_for_ever(void *arg)
{
    (void)arg;
    return weft_suspend();
}

/* Pages of this process that are in memory. */
static long resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;
    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages;
}

static void print_cost(void)
{
    static weft_fiber fibers[SAMPLE_FIBERS];
    weft_snooze();
    long before = resident_pages();
    int made = 0;
    while (made < SAMPLE_FIBERS && (fibers[made] = weft_spin(wait_for_ever, NULL)) != 0)
        made++;
    weft_snooze();
    long after = resident_pages();
    weft_terminate_children(0);
    printf("stack        %zu KiB each; ", WEFT__STACK_BYTES_DEFAULT >> 10);
    if (made > 0)
        printf("an idle fiber takes %ld bytes of memory\n",
               (after - before) * sysconf(_SC_PAGESIZE) / made);
    else
        printf("no fiber could be made: %s\n", weft_error()->message);
}

int weft__command_doctor(int argc, char **argv)
{
    if (argc > 1)
        return weft__command_misused("doctor takes no argument: %s", argv[1]);
    print_system();
    print_choice();
    print_backends();
    print_names();
    print_cost();
    print_limits();
    return EXIT_GOOD;
}
