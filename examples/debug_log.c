/*
 * Messages of weft go to a log function, which writes each message as a line of JSON. The fiber
 * "import" ends before an error was delivered, and weft warns.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* Print a string of JSON. A report has several lines. */
static void print_json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", *text);
        else
            putc(*text, out);
    putc('"', out);
}

static void log_json(int level, const char *text, void *arg)
{
    FILE *out = arg;
    flockfile(out); /* several threads may log at the same time */
    fprintf(out, "{\"level\": %d, \"text\": ", level);
    print_json_string(out, text);
    fputs("}\n", out);
    funlockfile(out);
}

static weft_value import(void *arg)
{
    (void)arg;
    return 0;
}

int main(void)
{
    weft_set_log(log_json, stdout);
    weft_fiber f = weft_spin_with(import, NULL, &(weft_spin_options){.name = "import"});
    weft_raise(f, -ENOSPC, "the disk \"data\" is full");
    return weft_await(f) < 0;
}
