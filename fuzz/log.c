/*
 * Fuzz a line of the access log. The result is one printable line with the right number of quotes.
 */
#include "http/text/log.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Return the next string of the input, up to a NUL. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;
    *at += strlen(text) + (*at + strlen(text) < end);
    return text;
}

static void check(const char *line, size_t bytes)
{
    unsigned quotes = 0;
    if (bytes > WEFT__LOG_LINE_BYTES_MAX || line[bytes - 1] != '\n')
        abort();
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (line[i] < ' ' || line[i] > '~')
            abort();
        if (line[i] == '\\')
            i++; /* skip the escaped character */
        else
            quotes += line[i] == '"';
    }
    if (quotes != 6)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char line[WEFT__LOG_LINE_BYTES_MAX];
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return 0;
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    const char *at = text, *end = text + bytes;
    weft_http_record r = {.status = (int)(bytes % 1000), .bytes = bytes, .version = 11};
    r.peer = next_text(&at, end);
    r.method = next_text(&at, end);
    r.target = next_text(&at, end);
    r.referer = next_text(&at, end);
    r.user_agent = next_text(&at, end);
    check(line, weft__log_line(line, &r, "16/Nov/2026:11:12:13 +0000"));
    free(text);
    return 0;
}
