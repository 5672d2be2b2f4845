/* `weft hub`: use a hub from the shell. Each subcommand is a function. */
#ifndef WEFT_COMMAND_HUB_HUB_H
#define WEFT_COMMAND_HUB_HUB_H

#include <weft/hub.h>

typedef struct hub_settings {
    const char *url;         /* NULL: WEFT_HUB, or the default */
    const char *credentials; /* NULL: those of the URL */
    const char *ca_file;     /* NULL: the CAs of the system */
    double timeout_s;        /* of the whole subcommand, except for work and dev */
    const char *id;          /* of put; NULL: none */
    uint64_t revision;       /* of set and delete; WEFT_HUB_ANY_REVISION: any */
    unsigned at_once;        /* of work */
    unsigned items_max;      /* of work; 0: until a signal */
    weft_hub_queue_options queue;
    unsigned port;    /* of dev */
    bool is_embedded; /* dev: do not look for nats-server */
    bool is_verbose;
    bool has_help;
} hub_settings;

/* A run of a subcommand. */
typedef struct hub_run {
    const hub_settings *settings;
    const char *name; /* of the subcommand */
    weft_hub *hub;    /* NULL: the subcommand needs none */
    char **args;      /* after the subcommand, with NULL at the end */
    int args_count;
} hub_run;

/* Run a subcommand. Return the exit status. */
int weft__hub_command_call(hub_run *run);
int weft__hub_command_delete(hub_run *run);
int weft__hub_command_dev(hub_run *run);
int weft__hub_command_get(hub_run *run);
int weft__hub_command_put(hub_run *run);
int weft__hub_command_queue(hub_run *run);
int weft__hub_command_set(hub_run *run);
int weft__hub_command_status(hub_run *run);
int weft__hub_command_tell(hub_run *run);
int weft__hub_command_work(hub_run *run);

/* Print "weft: hub: SUBCOMMAND ARGUMENT: " and the message of an error. Return EXIT_FAILURE. */
int weft__hub_command_fail(const hub_run *run, int rc);

/* Print "weft: hub: SUBCOMMAND: " and a text. Return EXIT_FAILURE. */
int weft__hub_command_say(const hub_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
