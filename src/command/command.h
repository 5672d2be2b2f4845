/* The program `weft`. Each command is a function, in a file with the name of the command. */
#ifndef WEFT_COMMAND_COMMAND_H
#define WEFT_COMMAND_COMMAND_H

#include <stdarg.h>

/* The exit status for an invalid command line. */
#define EXIT_USAGE 2

/* Run a command. argv[0] is the name of the command. Return the exit status. */
int weft__command_doctor(int argc, char **argv);
int weft__command_fetch(int argc, char **argv);
int weft__command_hub(int argc, char **argv);
int weft__command_profile(int argc, char **argv);
int weft__command_run(int argc, char **argv);
int weft__command_serve(int argc, char **argv);
int weft__command_top(int argc, char **argv);

/* Print a message of a command on stderr, in one call, so that messages of threads do not mix. */
void weft__command_print(const char *command, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Print an error in the command line. Return EXIT_USAGE. */
int weft__command_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
