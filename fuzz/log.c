/*
 * Fuzz a line of the access log. The result is one printable line with the right number of quotes.
 * Escapes of JSON are valid, and surrogates come in pairs.
 */
#include "http/text/log.h"

#include <stdbool.h>
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

static void check(const char *line, size_t bytes, unsigned expected_quotes)
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
    if (quotes != expected_quotes)
        abort();
}

static bool is_pair(const char *escape)
{
    return (escape[2] == 'd' && strchr("89ab", escape[3]) != NULL) && escape[6] == '\\' &&
           escape[7] == 'u' && escape[8] == 'd' && strchr("cdef", escape[9]) != NULL;
}

static void check_json(const char *line, size_t bytes)
{
    if (line[0] != '{' || line[bytes - 2] != '}')
        abort();
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (line[i] != '\\')
            continue;
        const char *escape = &line[i++];
        if (strchr("\"\\u", escape[1]) == NULL)
            abort();
        if (escape[1] != 'u')
            continue;
        if (strspn(escape + 2, "0123456789abcdef") < 4)
            abort();
        if ((escape[2] == 'd' && strchr("89abcdef", escape[3]) != NULL) && !is_pair(escape))
            abort();
        if (is_pair(escape))
            i += 6;
    }
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
    const char *now = "16/Nov/2026:11:12:13 +0000";
    check(line, weft__log_line(line, WEFT__LOG_COMBINED, &r, now), 6);
    check(line, weft__log_line(line, WEFT__LOG_COMMON, &r, now), 2);
    size_t length = weft__log_line(line, WEFT__LOG_JSON, &r, now);
    check(line, length, 2 * 12 + 2 * 9);
    check_json(line, length);
    free(text);
    return 0;
}
