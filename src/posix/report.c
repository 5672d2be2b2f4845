/*
 * The report on adopted modules: hooked calls, and calls that hooks cannot reach. The report goes
 * to a descriptor without stdio, because a report may be needed while stdio blocks.
 */
#include "posix/adopt.h"
#include "posix/elf.h"
#include "posix/hook.h"

#include <weft/posix.h>

#include <stdarg.h>
#include <string.h>

#define LINE_BYTES_MAX 100
#define INDENT "    "

/*
 * Functions that block the thread. libc calls its own functions without import slots, so a hook of
 * read does not reach fread.
 */
static const char *const blocking_names[] = {
    /* stdio */
    "fgetc",
    "fgets",
    "fgetwc",
    "fgetws",
    "fread",
    "fread_unlocked",
    "fscanf",
    "getc",
    "getchar",
    "getdelim",
    "getline",
    "gets",
    "getwc",
    "scanf",
    "vfscanf",
    "vscanf",
    "__fgets_chk",
    "__fread_chk",
    "__isoc99_fscanf",
    "__isoc99_scanf",
    "__isoc99_vfscanf",
    "__getdelim",
    "__isoc23_fscanf",
    "__isoc23_scanf",
    /* signals */
    "pause",
    "sigpause",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    /* System V and POSIX message queues, asynchronous I/O */
    "aio_suspend",
    "lio_listio",
    "mq_receive",
    "mq_send",
    "mq_timedreceive",
    "mq_timedsend",
    "msgrcv",
    "msgsnd",
    "semop",
    "semtimedop",
    /* terminals, system calls */
    "tcdrain",
    "syscall",
};

/* The output. */
typedef struct report {
    int fd;
    int error; /* of the first write that failed; 0: none */
    unsigned modules;
    size_t column; /* of the list of names; 0: no list */
} report;

static void report_bytes(report *r, const char *text, size_t bytes)
{
    while (r->error == 0 && bytes > 0) {
        ssize_t n = REAL(write)(r->fd, text, bytes);
        if (n < 0 && errno != EINTR)
            r->error = -errno;
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
}

__attribute__((format(printf, 2, 3))) static void report_text(report *r, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report_bytes(r, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static bool is_blocking(const char *symbol)
{
    for (size_t i = 0; i < sizeof blocking_names / sizeof *blocking_names; i++)
        if (strcmp(symbol, blocking_names[i]) == 0)
            return true;
    return false;
}

/* Add a name to the list of a module. Break long lines. */
static void report_name(report *r, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (r->column == 0)
        report_text(r, INDENT "not reached:");
    else if (r->column + bytes > LINE_BYTES_MAX)
        report_text(r, "\n" INDENT "            ");
    if (r->column == 0 || r->column + bytes > LINE_BYTES_MAX)
        r->column = strlen(INDENT "not reached:");
    report_text(r, " %s", name);
    r->column += bytes;
}

static void report_import(void *context, const char *symbol, void **at)
{
    (void)at;
    if (is_blocking(symbol))
        report_name(context, symbol);
}

static void report_module(void *context, const weft__elf_module *m, weft__adopt_info info)
{
    report *r = context;
    const char *name = m->path[0] != '\0' ? weft__elf_file_name(m) : "the program";
    if (!info.is_adopted && !info.is_refused)
        return;
    if (info.is_adopted)
        report_text(r, "%s: %zu calls hooked\n", name, info.slots);
    else
        report_text(r, "%s: not adopted, because it calls syscall(2)\n", name);
    r->modules += info.is_adopted;
    r->column = 0;
    if (info.is_adopted)
        weft__elf_each_slot(m, report_import, r);
    if (r->column > 0)
        report_text(r, "\n");
}

int weft_posix_report(int fd)
{
    report r = {.fd = fd};
    weft__adopt_each(report_module, &r);
    if (r.modules == 0)
        report_text(&r, "no module is adopted\n");
    return r.error;
}
