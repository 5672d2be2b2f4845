/*
 * weft profile: find where the time of a process goes. The process samples itself, and sends the
 * stacks through its inspection socket.
 */
#include "command/profile/profile.h"

#include "command/command.h"
#include "command/inspect/target.h"
#include "command/options.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/process.h>
#include <weft/select.h>
#include <weft/time.h>

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_DEFAULT 10.0
#define HZ_DEFAULT 99
#define HZ_MAX 1000
/* Time between two looks for the socket of a started command. */
#define LOOK_S 0.005
/* Time between two reads of a started command. A command that is killed loses this time. */
#define READ_S 1.0
/* Time for a command to end after SIGTERM. */
#define END_S 5.0

/* A longer TMPDIR leaves no room for the name of a socket. */
#define TMPDIR_BYTES_MAX 64

typedef struct profile_settings {
    double seconds; /* 0: the default, or until the command ends */
    unsigned hz;
    bool is_cpu_only, is_wait_only, has_help;
    const char *folded, *svg; /* NULL: none */
} profile_settings;

/* The command that is profiled. All-zero: none. */
typedef struct profile_command {
    weft_process process;
    weft_fiber waiter; /* ends with the process */
    int status;        /* of the process; -1: it runs */
    char folder[96];   /* with its socket */
} profile_command;

static int set_hz(void *settings, const command_option *option, char *value)
{
    profile_settings *p = settings;
    return weft__option_number(option, value, 1, HZ_MAX, &p->hz);
}

#define FIELD(name) offsetof(profile_settings, name)

static const command_option profile_options[] = {
    {"seconds", 's', "SECONDS", weft__option_set_seconds, FIELD(seconds),
     "profile for SECONDS (10; a command: until it ends)", NULL},
    {"cpu", 0, NULL, weft__option_set_flag, FIELD(is_cpu_only), "sample only CPU time", NULL},
    {"wait", 0, NULL, weft__option_set_flag, FIELD(is_wait_only), "sample only waits", NULL},
    {"hz", 0, "N", set_hz, 0, "samples per second of CPU time (99)", NULL},
    {"folded", 0, "FILE", weft__option_set_text, FIELD(folded), "write stacks, one per line", NULL},
    {"svg", 0, "FILE", weft__option_set_text, FIELD(svg), "write a flame graph", NULL},
    {"help", 'h', NULL, weft__option_set_flag, FIELD(has_help), "print this help", NULL},
};

static const command_syntax profile_syntax = {
    .command = "profile",
    .options = profile_options,
    .count = sizeof profile_options / sizeof *profile_options,
};

static void print_profile_help(void)
{
    printf("usage: weft profile [OPTION...] PID|SOCKET\n"
           "       weft profile [OPTION...] -- COMMAND [ARGUMENT...]\n\n"
           "Show the CPU time of a program by fiber and function, and the waits of its fibers by\n"
           "reason. The process must run with WEFT_INSPECT=SOCKET. A command gets a socket.\n\n");
    weft__options_print(&profile_syntax);
    printf(
        "\nIf a profile has both kinds, the waits go to a second file: cpu.svg, cpu-wait.svg.\n");
}

/*
 * Results.
 */

/* Store the name of the file for waits: "-wait" before the extension. */
static void wait_file_name(const char *file, char out[PATH_MAX])
{
    const char *slash = strrchr(file, '/'), *dot = strrchr(file, '.');
    if (dot == NULL || dot == file || (slash != NULL && dot <= slash + 1))
        dot = file + strlen(file);
    snprintf(out, PATH_MAX, "%.*s-wait%s", (int)(dot - file), file, dot);
}

typedef bool profile_writer(const profile_data *p, bool is_wait, FILE *out);

static int write_file(const profile_data *p, bool is_wait, const char *name, profile_writer *writer)
{
    FILE *out = fopen(name, "we");
    if (out == NULL)
        return weft__target_fail("profile", "cannot write %s: %s", name, strerror(errno));
    bool is_good = writer(p, is_wait, out);
    if (fclose(out) != 0 || !is_good)
        return weft__target_fail("profile", "cannot write %s", name);
    return EXIT_SUCCESS;
}

static int write_files(const profile_data *p, const profile_settings *s, const char *name,
                       profile_writer *writer)
{
    char second[PATH_MAX];
    if (name == NULL)
        return EXIT_SUCCESS;
    if (s->is_wait_only || s->is_cpu_only)
        return write_file(p, s->is_wait_only, name, writer);
    wait_file_name(name, second);
    int status = write_file(p, false, name, writer);
    return status == EXIT_SUCCESS ? write_file(p, true, second, writer) : status;
}

static int profile_output(profile_data *p, const profile_settings *s)
{
    if (p->has_failed)
        return weft__target_fail("profile", "memory is exhausted");
    weft__profile_merge(p);
    weft__profile_print(p, !s->is_wait_only, !s->is_cpu_only, stdout);
    int status = write_files(p, s, s->folded, weft__profile_write_folded);
    int svg_status = write_files(p, s, s->svg, weft__profile_write_svg);
    return status != EXIT_SUCCESS ? status : svg_status;
}

/*
 * The command.
 */

/* Remove the folder and the sockets that processes have left in it. */
static int remove_entry(const char *name, int type, void *folder)
{
    char path[PATH_MAX];
    (void)type;
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, name);
    (void)weft_unlink(path);
    return 0;
}

static void folder_remove(char *folder)
{
    if (folder[0] == '\0')
        return;
    (void)weft_scan_dir(folder, remove_entry, folder);
    (void)weft_rmdir(folder);
}

static weft_value wait_for_command(void *arg)
{
    profile_command *command = arg;
    command->status = weft_process_wait(&command->process);
    return 0;
}

/* Start the command with a socket in a private folder. Return 0, or the exit status. */
static int command_start(profile_command *command, char **argv)
{
    char setting[128];
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0' || strlen(base) > TMPDIR_BYTES_MAX)
        base = "/tmp";
    snprintf(command->folder, sizeof command->folder, "%s/weft-profile-XXXXXX", base);
    command->status = -1;
    if (mkdtemp(command->folder) == NULL) {
        command->folder[0] = '\0';
        return weft__target_fail("profile", "cannot create a directory in %s: %s", base,
                                 strerror(errno));
    }
    snprintf(setting, sizeof setting, "WEFT_INSPECT=%s/%%p", command->folder);
    weft_process_options options = {.set = (char *[]){setting, NULL}, .keeps_fds = true};
    int rc = weft_spawn_process(&command->process, argv, &options);
    if (rc < 0)
        return weft__target_fail("profile", "cannot run %s: %s", argv[0], strerror(-rc));
    command->waiter = weft_spin(wait_for_command, command);
    return 0;
}

/* Find a socket in the folder, preferably that of the command itself. */
static int find_socket(const char *name, int type, void *path)
{
    char *end = strrchr(path, '/');
    (void)type;
    if (name[0] != '.')
        snprintf(end + 1, WEFT__SOCKET_PATH_BYTES - (size_t)(end + 1 - (char *)path), "%s", name);
    return 0;
}

/* Connect to the command as soon as it has a socket. Return 0, or the exit status. */
static int command_connect(profile_command *command, inspect_client *client)
{
    char path[WEFT__SOCKET_PATH_BYTES];
    for (;;) {
        bool has_ended = command->status >= 0;
        snprintf(path, sizeof path, "%s/%d", command->folder, (int)command->process.pid);
        int rc = weft__inspect_try_connect(client, path);
        if (rc < 0) {
            snprintf(path, sizeof path, "%s/", command->folder);
            (void)weft_scan_dir(command->folder, find_socket, path);
            if (path[strlen(path) - 1] != '/')
                rc = weft__inspect_try_connect(client, path);
        }
        if (rc == 0)
            return 0;
        if (has_ended)
            return weft__target_fail("profile", "the command has ended without using weft");
        if (weft_sleep(LOOK_S) < 0)
            return EXIT_FAILURE;
    }
}

/* End the command, and remove its folder. Return its exit status, as a shell does. */
static int command_end(profile_command *command)
{
    if (command->process.pid != 0) {
        if (command->status < 0)
            command->status = weft_process_end(&command->process, END_S);
        weft_await(command->waiter);
        weft_process_close(&command->process);
    }
    folder_remove(command->folder);
    int status = command->status;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * Collect.
 */

/*
 * Wait for the end of the profile: a time, a signal, or the end of the command. Read the stacks of
 * a command from time to time. Return 0, or -EPIPE if the process has ended.
 */
static int profile_wait(inspect_client *client, profile_command *command, double seconds,
                        profile_data *data)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    double end = seconds > 0 ? weft_now() + seconds : INFINITY;
    bool has_command = command->waiter != 0;
    int rc = 0, ready = 2;
    while (rc == 0 && ready == 2 && weft_now() < end) {
        double left = end - weft_now();
        weft_clause clauses[] = {
            weft_clause_signal(&signals),
            has_command ? weft_clause_ended(command->waiter)
                        : weft_clause_fd(weft_stream_fd(&client->stream), POLLIN),
            weft_clause_time(left > READ_S ? READ_S
                             : left > 0    ? left
                                           : 0),
        };
        ready = weft_select(clauses, 3);
        if (ready == 2 && has_command)
            rc = weft__inspect_request(client, "profile read", weft__profile_take_line, data);
    }
    return rc;
}

static int profile_collect(inspect_client *client, profile_command *command,
                           const profile_settings *s, profile_data *data)
{
    char request[64];
    snprintf(request, sizeof request, "profile start%s%s hz=%u", s->is_wait_only ? "" : " cpu",
             s->is_cpu_only ? "" : " wait", s->hz);
    data->pid = client->pid;
    snprintf(data->program, sizeof data->program, "%s", client->program);
    int rc = weft__inspect_request(client, request, NULL, NULL);
    if (rc < 0)
        return rc;
    double seconds = s->seconds > 0 || command->waiter != 0 ? s->seconds : SECONDS_DEFAULT;
    rc = profile_wait(client, command, seconds, data);
    if (rc == 0)
        rc = weft__inspect_request(client, "profile stop", weft__profile_take_line, data);
    /* After the end of the process, the stacks that it has sent before are the result. */
    return rc == -EPIPE && data->count > 0 ? 0 : rc;
}

static int profile_connected(inspect_client *client, profile_command *command,
                             const profile_settings *s)
{
    profile_data data = {0};
    int rc = profile_collect(client, command, s, &data), status = EXIT_FAILURE;
    if (rc == 0)
        status = profile_output(&data, s);
    else if (rc == -EBADMSG)
        weft__target_fail("profile", "%s", client->error);
    else if (rc == -EPIPE)
        weft__target_fail("profile", "%s (%d) has ended", client->program, client->pid);
    else
        weft__target_fail("profile", "%s", strerror(-rc));
    weft__profile_free(&data);
    weft__inspect_close(client);
    return status;
}

static int profile_process(const profile_settings *s, const char *target)
{
    char path[WEFT__SOCKET_PATH_BYTES];
    inspect_client client;
    int status = weft__target_find("profile", target, path);
    if (status == 0)
        status = weft__inspect_connect(&client, "profile", path);
    return status == 0 ? profile_connected(&client, &(profile_command){0}, s) : status;
}

static int profile_command_run(const profile_settings *s, char **argv)
{
    static profile_command command;
    inspect_client client;
    int status = command_start(&command, argv);
    if (status == 0)
        status = command_connect(&command, &client);
    if (status == 0)
        status = profile_connected(&client, &command, s);
    int command_status = command_end(&command);
    return status != 0 ? status : command_status;
}

int weft__command_profile(int argc, char **argv)
{
    profile_settings settings = {.hz = HZ_DEFAULT};
    unsetenv("WEFT_INSPECT"); /* of the process to profile, not of this one */
    int status = weft__options_read(&profile_syntax, &settings, argc, argv);
    if (status != 0)
        return status;
    if (settings.has_help) {
        print_profile_help();
        return EXIT_SUCCESS;
    }
    if (settings.is_cpu_only && settings.is_wait_only)
        settings.is_cpu_only = settings.is_wait_only = false;
    bool has_command = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
    if (has_command && optind < argc)
        return profile_command_run(&settings, argv + optind);
    if (has_command || argc - optind != 1)
        return weft__command_usage_error("profile: expected a process id, a socket, or -- COMMAND "
                                         "(see weft profile --help)");
    return profile_process(&settings, argv[optind]);
}
