/* Command lines, described by tables (options.h). */
#include "command/options.h"
#include "command/command.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MIN 0.001
#define SECONDS_MAX 1e9
/* The largest number of options of a command. */
#define OPTIONS_MAX 64
/* The value of getopt_long for the first option of a table. Letters have lower values. */
#define LONG_BASE 256
/* The column of the texts in the help. */
#define HELP_COLUMN 34

static const char *current_command = ""; /* for messages */

int weft__option_error(const command_option *option, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return weft__command_usage_error("%s: --%s: %s", current_command, option->name, text);
}

int weft__option_memory_error(void)
{
    fprintf(stderr, "weft: %s: memory is exhausted\n", current_command);
    return EXIT_FAILURE;
}

int weft__option_set_flag(void *settings, const command_option *option, char *value)
{
    (void)value;
    *(bool *)weft__option_field(settings, option) = true;
    return 0;
}

int weft__option_set_text(void *settings, const command_option *option, char *value)
{
    *(const char **)weft__option_field(settings, option) = value;
    return value[0] != '\0' ? 0 : weft__option_error(option, "the value is empty");
}

int weft__option_set_seconds(void *settings, const command_option *option, char *value)
{
    double *seconds = weft__option_field(settings, option);
    char *end;
    *seconds = strtod(value, &end);
    if (end != value && *end == '\0' && *seconds >= 0 && *seconds <= SECONDS_MAX) {
        *seconds = *seconds > 0 ? *seconds : SECONDS_MIN;
        return 0;
    }
    return weft__option_error(option, "%s is not in 0..%g", value, SECONDS_MAX);
}

/* Parse a number with an optional unit: k is 1024, m is 1024^2, g is 1024^3. */
static bool parse_size(const char *text, uint64_t *size)
{
    static const char units[] = "kmg";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || text[0] == '-' || errno != 0 || number == 0)
        return false;
    int shift = 0;
    if (*end != '\0') {
        const char *unit = strchr(units, *end | ' ');
        if (unit == NULL || end[1] != '\0')
            return false;
        shift = 10 * (int)(unit - units + 1);
    }
    *size = (uint64_t)number << shift;
    return *size >> shift == number;
}

int weft__option_set_size(void *settings, const command_option *option, char *value)
{
    if (parse_size(value, weft__option_field(settings, option)))
        return 0;
    return weft__option_error(
        option, "%s is not a positive 64-bit number with an optional k, m or g", value);
}

int weft__option_number(const command_option *option, const char *value, unsigned first,
                        unsigned last, unsigned *number)
{
    char *end;
    unsigned long parsed = strtoul(value, &end, 10);
    *number = (unsigned)parsed;
    if (end != value && *end == '\0' && value[0] != '-' && parsed >= first && parsed <= last)
        return 0;
    return weft__option_error(option, "%s is not in %u..%u", value, first, last);
}

void weft__options_print(const command_syntax *syntax)
{
    for (size_t i = 0; i < syntax->count; i++) {
        const command_option *o = &syntax->options[i];
        char left[64], letter[8] = "";
        if (o->name == NULL) {
            printf("%s%s:\n", i > 0 ? "\n" : "", o->help);
            continue;
        }
        if (o->letter != '\0')
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, o->takes != NULL ? "%s--%s [%s]" : "%s--%s %s", letter, o->name,
                 o->value != NULL ? o->value : "");
        printf("  %-*s %s\n", HELP_COLUMN - 3, left, o->help);
    }
}

/* Report an argument that getopt_long refused with `refused`. Return the exit status. */
static int report_refused(const command_syntax *syntax, int refused, char **argv)
{
    const char *arg = argv[optind - 1];
    const command_option *found = NULL;
    for (size_t i = 0; i < syntax->count; i++)
        if (optopt == LONG_BASE + (int)i ||
            (optopt != 0 && syntax->options[i].letter == (char)optopt))
            found = &syntax->options[i];
    if (found == NULL && optopt > 0 && optopt < LONG_BASE)
        return weft__command_usage_error("%s: unknown option: -%c (see weft %s --help)",
                                         syntax->command, optopt, syntax->command);
    if (found != NULL && refused == ':')
        return weft__command_usage_error("%s: %s needs a value: %s", syntax->command, arg,
                                         found->value);
    if (found != NULL)
        return weft__command_usage_error("%s: %s: --%s takes no value", syntax->command, arg,
                                         found->name);
    return weft__command_usage_error("%s: unknown option: %s (see weft %s --help)", syntax->command,
                                     arg, syntax->command);
}

static const command_option *option_of(const command_syntax *syntax, int found)
{
    size_t i = found >= LONG_BASE ? (size_t)(found - LONG_BASE) : 0;
    while (found < LONG_BASE && syntax->options[i].letter != (char)found)
        i++;
    return &syntax->options[i];
}

/* Fill in the tables of getopt_long. short_names begins with ":", to get missing values as ':'. */
static void describe_options(const command_syntax *syntax, struct option *known, char *short_names)
{
    *short_names++ = ':';
    for (size_t i = 0; i < syntax->count; i++) {
        const command_option *o = &syntax->options[i];
        if (o->name == NULL)
            continue;
        *known++ = (struct option){
            .name = o->name,
            .has_arg = o->value == NULL   ? no_argument
                       : o->takes != NULL ? optional_argument
                                          : required_argument,
            .val = LONG_BASE + (int)i,
        };
        if (o->letter != '\0') {
            *short_names++ = o->letter;
            *short_names = ':';
            short_names += o->value != NULL;
        }
    }
    *short_names = '\0';
}

int weft__options_read(const command_syntax *syntax, void *settings, int argc, char **argv)
{
    struct option known[OPTIONS_MAX + 1] = {0};
    char short_names[2 * OPTIONS_MAX + 2];
    int found;
    if (syntax->count > OPTIONS_MAX)
        abort();
    current_command = syntax->command;
    describe_options(syntax, known, short_names);
    opterr = 0;
    while ((found = getopt_long(argc, argv, short_names, known, NULL)) != -1) {
        if (found == '?' || found == ':')
            return report_refused(syntax, found, argv);
        const command_option *o = option_of(syntax, found);
        char *value = optarg;
        if (value == NULL && o->takes != NULL && optind < argc && o->takes(argv[optind]))
            value = argv[optind++];
        int status = o->set(settings, o, value);
        if (status != 0)
            return status;
    }
    return 0;
}
