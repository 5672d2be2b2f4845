/*
 * Command lines of the commands, described by tables. A table has an option per line. Each option
 * has a function that stores its value in the settings of the command.
 */
#ifndef WEFT_COMMAND_OPTIONS_H
#define WEFT_COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct command_option command_option;

/* Store the value of an option in settings. Return 0, or the exit status after a message. */
typedef int command_option_set(void *settings, const command_option *option, char *value);

struct command_option {
    const char *name;  /* without "--"; NULL: the line is a heading of the help */
    char letter;       /* the short option; 0: none */
    const char *value; /* the name of the value in the help; NULL: the option has no value */
    command_option_set *set;
    size_t offset;    /* of the setting, for the functions below */
    const char *help; /* or the text of the heading */
    /* Return whether an argument is the optional value of the option. NULL: the value is needed. */
    bool (*takes)(const char *argument);
};

typedef struct command_syntax {
    const char *command; /* "serve" */
    const command_option *options;
    size_t count;
} command_syntax;

/*
 * Parse the options, and set optind to the first argument that is not an option. argv[0] is the
 * command. Return 0, or the exit status after a message.
 */
int weft__options_read(const command_syntax *syntax, void *settings, int argc, char **argv);

/* Print the options for a help text. */
void weft__options_print(const command_syntax *syntax);

/* Print an error in the value of an option: "weft: serve: --cords: ...". Return EXIT_USAGE. */
int weft__option_error(const command_option *option, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print that memory is exhausted. Return EXIT_FAILURE. */
int weft__option_memory_error(void);

/* Functions that store a value at the offset of the option. */
int weft__option_set_flag(void *settings, const command_option *option, char *value); /* bool */
int weft__option_set_text(void *settings, const command_option *option, char *value); /* char * */
/* A double. 0 becomes a millisecond, because 0 means the default in the options of weft. */
int weft__option_set_seconds(void *settings, const command_option *option, char *value);
/* A uint64_t with an optional k, m or g. */
int weft__option_set_size(void *settings, const command_option *option, char *value);

/* Parse a whole number in a range. Return 0, or the exit status after a message. */
int weft__option_number(const command_option *option, const char *value, unsigned first,
                        unsigned last, unsigned *number);

/* Return the setting of an option. */
static inline void *weft__option_field(void *settings, const command_option *option)
{
    return (char *)settings + option->offset;
}

#endif
