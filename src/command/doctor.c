/*
 * weft doctor: print the backend that weft would choose and the reason, the features of the
 * kernel's io_uring, limits for programs with many fibers, and the memory of a fiber. The command
 * changes no settings.
 */
#include "backend/backend.h"
#include "command/command.h"
#include "command/preload.h"
#include "core/limits.h"
#include "core/stack/guard.h"

#ifdef WEFT_HAS_URING
#include "backend/uring/uring.h"
#endif

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The number of fibers to measure. A few additional pages do not change the average. */
#define SAMPLE_FIBERS 1000

/* Read a number from a file in /proc. Return -1 on failure. */
static long read_proc_number(const char *path)
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
    cpu_set_t allowed;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    printf("processors   %ld online, %ld available to this process\n", online,
           sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (long)CPU_COUNT(&allowed)
                                                               : online);
    printf("weft         %s\n", weft_version());
}

static void print_names(void)
{
#ifdef WEFT_HAS_CARES
    printf("names        resolved by c-ares, or by the C library if nsswitch.conf requires it\n");
#else
    printf("names        resolved by the C library in worker threads; c-ares is not built in\n");
#endif
}

static void print_posix(void)
{
#ifdef WEFT_HAS_POSIX
    char path[PATH_MAX];
    if (weft__preload_find(path))
        printf("stock code   weft run uses %s\n", path);
    else
        printf("stock code   weft run does not find libweft-preload.so in %s\n", WEFT_LIBDIR);
#else
    printf("stock code   libweft-posix is not built in\n");
#endif
}

static void print_backend(void)
{
    printf("backend      %s: %s\n", weft_backend_name(), weft_backend_why());
}

static void print_backend_result(const char *name, int rc)
{
    printf("  %-10s %s\n", name, rc == 0 ? "works" : strerror(-rc));
}

static int try_backend(const weft__backend_type *type)
{
    weft__backend *b;
    int rc = type->open(&b);
    if (rc == 0)
        type->close(b);
    return rc;
}

#ifdef WEFT_HAS_URING
static const struct opcode_name {
    int opcode;
    const char *name;
} opcode_names[] = {
    {IORING_OP_READ, "read"},       {IORING_OP_WRITE, "write"},     {IORING_OP_READV, "readv"},
    {IORING_OP_WRITEV, "writev"},   {IORING_OP_RECV, "recv"},       {IORING_OP_SEND, "send"},
    {IORING_OP_RECVMSG, "recvmsg"}, {IORING_OP_SENDMSG, "sendmsg"}, {IORING_OP_ACCEPT, "accept"},
    {IORING_OP_CONNECT, "connect"}, {IORING_OP_POLL_ADD, "poll"},   {IORING_OP_FSYNC, "fsync"},
};

static const char *yes_or_no(bool value)
{
    return value ? "yes" : "no";
}

static void print_calls_without_uring(const weft__uring_abilities *a)
{
    printf("             calls without io_uring:");
    for (size_t i = 0; i < sizeof opcode_names / sizeof *opcode_names; i++) {
        if (a->opcodes >> opcode_names[i].opcode & 1)
            continue;
        printf(" %s", opcode_names[i].name);
    }
    printf(" splice tee sendfile open\n");
}

static int print_uring(void)
{
    struct io_uring ring;
    weft__uring_abilities a;
    int rc = weft__uring_setup(&ring, &a);
    print_backend_result("io_uring", rc);
    if (rc < 0)
        return rc;
    io_uring_queue_exit(&ring);
    printf("             single issuer: %s, deferred task work: %s, registered ring: %s\n",
           yes_or_no(a.setup_flags & IORING_SETUP_SINGLE_ISSUER),
           yes_or_no(a.setup_flags & IORING_SETUP_DEFER_TASKRUN), yes_or_no(a.has_registered_ring));
    printf("             multishot accept: %s, multishot receive: %s, messages between rings: %s\n",
           yes_or_no(a.has_multishot_accept), yes_or_no(a.has_multishot_recv),
           yes_or_no(weft__uring_can_wake_remote(&a)));
    print_calls_without_uring(&a);
    return 0;
}

/* Print why io_uring is forbidden, if it is. */
static void print_uring_advice(int rc)
{
    long disabled = read_proc_number("/proc/sys/kernel/io_uring_disabled");
    if (disabled > 0)
        printf("             kernel.io_uring_disabled is %ld\n", disabled);
    else if (rc == -EPERM || rc == -EACCES)
        printf("             forbidden, probably by the seccomp filter of a container\n");
}
#endif

static void print_backends(void)
{
#ifdef WEFT_HAS_URING
    print_uring_advice(print_uring());
#else
    printf("  %-10s not built in\n", "io_uring");
#endif
    print_backend_result("epoll", try_backend(&weft__backend_epoll));
#ifdef WEFT_HAS_EV
    print_backend_result("libev", try_backend(&weft__backend_ev));
#else
    printf("  %-10s not built in\n", "libev");
#endif
    print_backend_result("sim", try_backend(&weft__backend_sim));
}

static void print_limit(rlim_t value, rlim_t unit)
{
    if (value == RLIM_INFINITY)
        printf("no limit");
    else
        printf("%ju", (uintmax_t)(value / unit));
}

static void print_rlimit(const char *title, int resource, rlim_t unit)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) < 0)
        return;
    printf("%-12s ", title);
    print_limit(limit.rlim_cur, unit);
    printf(" (can be raised to ");
    print_limit(limit.rlim_max, unit);
    printf(")\n");
}

static const char *guard_message(void)
{
    switch (atomic_load(&weft__guard_method)) {
    case WEFT__GUARD_BATCH:
    case WEFT__GUARD_SINGLE:
        return "guard pages need no mappings, a million fibers need about 250";
    case WEFT__GUARD_PROTECT:
        return "a guard page needs 2, so at most half as many fibers have a guard page";
    default:
        return "guard pages are not available";
    }
}

static void print_limits(void)
{
    print_rlimit("descriptors", RLIMIT_NOFILE, 1);
    print_rlimit("locked KiB", RLIMIT_MEMLOCK, 1024);
    printf("mappings     %ld; %s\n", read_proc_number("/proc/sys/vm/max_map_count"),
           guard_message());
}

static weft_value suspend_fiber(void *arg)
{
    (void)arg;
    return weft_suspend();
}

/* Return the number of resident pages of this process. */
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

static void print_fiber_memory(void)
{
    static weft_fiber fibers[SAMPLE_FIBERS];
    weft_snooze();
    long pages_before = resident_pages();
    int count = 0;
    while (count < SAMPLE_FIBERS && (fibers[count] = weft_spin(suspend_fiber, NULL)) != 0)
        count++;
    weft_snooze();
    long pages_after = resident_pages();
    weft_terminate_children(0);
    printf("stack        %zu KiB per fiber; ", WEFT__STACK_BYTES_DEFAULT >> 10);
    if (count > 0)
        printf("an idle fiber needs %ld bytes of memory\n",
               (pages_after - pages_before) * sysconf(_SC_PAGESIZE) / count);
    else
        printf("cannot create a fiber: %s\n", weft_error()->message);
}

int weft__command_doctor(int argc, char **argv)
{
    if (argc > 1)
        return weft__command_usage_error("doctor: unexpected argument: %s", argv[1]);
    print_system();
    print_backend();
    print_backends();
    print_names();
    print_posix();
    print_fiber_memory();
    print_limits();
    return EXIT_SUCCESS;
}
