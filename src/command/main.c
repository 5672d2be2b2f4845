/* The program `weft`: find a command by its name and run it. */
#include "command/command.h"

#include <weft/version.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"doctor", weft__command_doctor, "print the backend and the limits of this system"},
#ifdef WEFT_HAS_HTTP
    {"fetch", weft__command_fetch, "fetch URLs over HTTP or HTTPS"},
#endif
#ifdef WEFT_HAS_HUB
    {"hub", weft__command_hub, "use the queues, keys and names of NATS servers"},
#endif
    {"profile", weft__command_profile, "find where the time of a program goes"},
#ifdef WEFT_HAS_POSIX
    {"run", weft__command_run, "run a program whose blocking calls wait with weft"},
#endif
#ifdef WEFT_HAS_HTTP
    {"serve", weft__command_serve, "serve the files of a directory over HTTP or HTTPS"},
#endif
    {"top", weft__command_top, "show the fibers of a running process"},
};
#define COMMANDS_COUNT (sizeof commands / sizeof *commands)

static void print_usage(FILE *out)
{
    fprintf(out, "usage: weft COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "  %-10s print the version\n", "--version");
}

void weft__command_print(const char *command, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "weft: %s: %s\n", command, text);
}

int weft__command_usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("weft: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

/*
 * Open closed standard streams, so that no socket gets their numbers: the output would be sent to
 * the peer. Reading and writing them then still fails with EBADF.
 */
static void hold_standard_streams(void)
{
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags[fd]) != fd)
            abort(); /* the lowest free number is fd */
    }
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name == NULL) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(name, "--version") == 0) {
        printf("weft %s\n", weft_version());
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return weft__command_usage_error("unknown command: %s (see weft --help)", name);
}
