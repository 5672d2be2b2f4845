/* Find the inspection socket of a process. See target.h. */
#include "command/inspect/target.h"

#include "command/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "WEFT_INSPECT="

int weft__target_fail(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft__command_print(command, format, args);
    va_end(args);
    return EXIT_FAILURE;
}

/* Find the variable in the environment of a process. Return NULL and set errno on failure. */
static char *read_variable(pid_t pid)
{
    char file[64], *entry = NULL, *found = NULL;
    size_t room = 0;
    snprintf(file, sizeof file, "/proc/%d/environ", (int)pid);
    FILE *environment = fopen(file, "re");
    if (environment == NULL)
        return NULL;
    errno = 0;
    while (found == NULL && getdelim(&entry, &room, '\0', environment) > 0)
        if (strncmp(entry, VARIABLE, sizeof VARIABLE - 1) == 0)
            found = strdup(entry + sizeof VARIABLE - 1);
    int error = ferror(environment) ? errno : ENODATA;
    free(entry);
    fclose(environment);
    errno = error;
    return found;
}

static int report_no_variable(const char *command, int pid, int error)
{
    if (error == ENOENT || error == ESRCH)
        return weft__target_fail(command, "there is no process %d", pid);
    if (error == EACCES || error == EPERM)
        return weft__target_fail(command, "process %d belongs to another user", pid);
    if (error != ENODATA)
        return weft__target_fail(command, "cannot read the environment of process %d: %s", pid,
                                 strerror(error));
    return weft__target_fail(command,
                             "process %d runs without WEFT_INSPECT; start the program like this: "
                             "WEFT_INSPECT=/tmp/weft-%%p PROGRAM",
                             pid);
}

/* Expand the value of the variable. A relative path starts at the directory of the process. */
static int expand(const char *command, int pid, const char *value, char *path)
{
    char absolute[4096];
    bool is_relative = value[0] != '/';
    int bytes = snprintf(absolute, sizeof absolute, is_relative ? "/proc/%d/cwd/%s" : "%.0d%s",
                         is_relative ? pid : 0, value);
    int rc = bytes < (int)sizeof absolute ? weft__socket_path_expand(absolute, pid, path)
                                          : -ENAMETOOLONG;
    if (rc == 0 && value[0] != '\0')
        return 0;
    return weft__target_fail(command, "process %d has an invalid WEFT_INSPECT: %s", pid, value);
}

int weft__target_find(const char *command, const char *target, char path[WEFT__SOCKET_PATH_BYTES])
{
    char *end;
    errno = 0;
    long pid = strtol(target, &end, 10);
    if (*end != '\0' || end == target) {
        if (strlen(target) < WEFT__SOCKET_PATH_BYTES) {
            memcpy(path, target, strlen(target) + 1);
            return 0;
        }
        return weft__target_fail(command, "the path has more than %zu bytes: %s",
                                 WEFT__SOCKET_PATH_BYTES - 1, target);
    }
    if (pid <= 0 || errno != 0 || pid > 1 << 30)
        return weft__command_usage_error("%s: %s is not a process id", command, target);
    char *value = read_variable((pid_t)pid);
    if (value == NULL)
        return report_no_variable(command, (int)pid, errno);
    int status = expand(command, (int)pid, value, path);
    free(value);
    return status;
}
