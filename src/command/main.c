/* The command: which verb it is. */
#include "command/command.h"

#include <weft/version.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} verbs[] = {
    {"doctor", weft__command_doctor, "say which backend would run here, and what the limits are"},
#ifdef WEFT_HAS_HTTP
    {"serve", weft__command_serve, "serve the files of a folder over HTTP or HTTPS"},
#endif
};
#define VERBS_COUNT (sizeof verbs / sizeof *verbs)

static void print_usage(FILE *out)
{
    fprintf(out, "usage: weft VERB [ARGUMENT...]\n\n");
    for (size_t i = 0; i < VERBS_COUNT; i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(out, "  %-10s print the version\n", "--version");
}

int weft__command_misused(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("weft: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    return EXIT_MISUSED;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name == NULL) {
        print_usage(stderr);
        return EXIT_MISUSED;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return EXIT_GOOD;
    }
    if (strcmp(name, "--version") == 0) {
        printf("weft %s\n", weft_version());
        return EXIT_GOOD;
    }
    for (size_t i = 0; i < VERBS_COUNT; i++)
        if (strcmp(name, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    return weft__command_misused("no such verb: %s (weft --help lists them)", name);
}
