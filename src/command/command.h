/* The command `weft`: one function a verb, each in a file of its name. */
#ifndef WEFT_COMMAND_COMMAND_H
#define WEFT_COMMAND_COMMAND_H

/* What a verb returns is the exit status. */
enum { EXIT_GOOD = 0, EXIT_MISUSED = 2 };

/* argv[0] is the verb. */
int weft__command_doctor(int argc, char **argv);
int weft__command_serve(int argc, char **argv);

/* Say what is wrong with the command line; EXIT_MISUSED. */
int weft__command_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
