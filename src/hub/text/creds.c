/* Parse the text of a .creds file. See creds.h. */
#include "hub/text/creds.h"

#include <errno.h>

/* Of each end of a line with BEGIN or END. Tools write five or six dashes. */
#define DASHES_MIN 3

static bool is_creds_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '=' || c == '.';
}

/* Remove the first line from *text. Return the line without its end and the blanks before it. */
static weft__slice creds_take_line(weft__slice *text)
{
    const char *lf = text->bytes > 0 ? memchr(text->data, '\n', text->bytes) : NULL;
    weft__slice line = {text->data, lf != NULL ? (size_t)(lf - text->data) : text->bytes};
    size_t taken = line.bytes + (lf != NULL);
    *text = (weft__slice){text->data + taken, text->bytes - taken};
    while (line.bytes > 0 && strchr(" \t\r", line.data[line.bytes - 1]) != NULL)
        line.bytes--;
    return line;
}

/* Remove the dashes at both ends of a line. Returns false if an end has fewer than DASHES_MIN. */
static bool creds_strip_dashes(weft__slice *line)
{
    size_t before = 0, after = 0;
    while (before < line->bytes && line->data[before] == '-')
        before++;
    while (after < line->bytes - before && line->data[line->bytes - after - 1] == '-')
        after++;
    *line = (weft__slice){line->data + before, line->bytes - before - after};
    return before >= DASHES_MIN && after >= DASHES_MIN;
}

/* Return whether a line consists of dashes, a label and dashes. */
static bool is_creds_border(weft__slice line, const char *label)
{
    return creds_strip_dashes(&line) && weft__slice_is(line, label);
}

/* Find the line between the lines BEGIN label and END label. */
static int creds_find(weft__slice text, const char *begin, const char *end, weft__slice *value)
{
    while (text.bytes > 0)
        if (is_creds_border(creds_take_line(&text), begin))
            break;
    *value = creds_take_line(&text);
    for (size_t i = 0; i < value->bytes; i++)
        if (!is_creds_character(value->data[i]))
            return -EINVAL;
    return value->bytes > 0 && is_creds_border(creds_take_line(&text), end) ? 0 : -EINVAL;
}

int weft__creds_parse(weft__creds *creds, weft__slice text)
{
    int rc = creds_find(text, "BEGIN NATS USER JWT", "END NATS USER JWT", &creds->jwt);
    if (rc < 0)
        return rc;
    return creds_find(text, "BEGIN USER NKEY SEED", "END USER NKEY SEED", &creds->seed);
}
