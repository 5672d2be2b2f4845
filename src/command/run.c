/*
 * weft run: execute a program with libweft-preload, so that its blocking calls wait with weft. See
 * <weft/posix.h>.
 */
#include "command/command.h"
#include "command/preload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libweft-preload.so"

/* The exit statuses of shells for a program that cannot be executed. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

/* Store the directory of the command. Return false on failure. */
static bool find_own_directory(char *path)
{
    ssize_t bytes = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (bytes < 0)
        return false;
    path[bytes] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

static bool try_directory(char *path, const char *base, const char *directory)
{
    int bytes = snprintf(path, PATH_MAX, "%s%s/" LIBRARY, base, directory);
    return bytes > 0 && bytes < PATH_MAX && access(path, R_OK) == 0;
}

bool weft__preload_find(char *path)
{
    char own[PATH_MAX];
    bool has_own = find_own_directory(own);
    return (has_own && try_directory(path, own, "")) ||
           (has_own && try_directory(path, own, "/" WEFT_LIBDIR_FROM_BINDIR)) ||
           try_directory(path, "", WEFT_LIBDIR);
}

static void print_run_help(void)
{
    printf("usage: weft run [--report] PROGRAM [ARGUMENT...]\n\n"
           "Run a program with libweft-preload. Its blocking calls wait with weft.\n\n"
           "  --report             print the calls of the program that hooks cannot reach\n"
           "  -h, --help           print this help\n");
}

/* Put the library before the libraries in LD_PRELOAD. Return 0, or -1 and set errno. */
static int set_preload(const char *path)
{
    const char *old = getenv("LD_PRELOAD");
    char *value;
    if (old == NULL || old[0] == '\0')
        return setenv("LD_PRELOAD", path, 1);
    if (asprintf(&value, "%s:%s", path, old) < 0)
        return -1;
    int rc = setenv("LD_PRELOAD", value, 1);
    free(value);
    return rc;
}

static int run_program(char **argv, bool has_report)
{
    char path[PATH_MAX];
    if (!weft__preload_find(path)) {
        fprintf(stderr, "weft: run: cannot find " LIBRARY " in " WEFT_LIBDIR "\n");
        return EXIT_FAILURE;
    }
    if (set_preload(path) < 0 || setenv("WEFT_POSIX", "1", 1) < 0 ||
        (has_report && setenv("WEFT_POSIX_REPORT", "1", 1) < 0)) {
        fprintf(stderr, "weft: run: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    execvp(argv[0], argv);
    int error = errno;
    fprintf(stderr, "weft: run: %s: %s\n", argv[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int weft__command_run(int argc, char **argv)
{
    bool has_report = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_run_help();
            return EXIT_SUCCESS;
        }
        if (strcmp(argv[i], "--report") != 0)
            return weft__command_usage_error("run: unknown option: %s", argv[i]);
        has_report = true;
    }
    if (i >= argc)
        return weft__command_usage_error("run: no program (see weft run --help)");
    return run_program(argv + i, has_report);
}
