/* Read the headers of NATS messages. See header.h. */
#include "hub/text/header.h"

#define VERSION "NATS/1.0"
#define VERSION_BYTES (sizeof VERSION - 1)
#define STATUS_DIGITS 3

static bool is_header_blank(char c)
{
    return c == ' ' || c == '\t';
}

static weft__slice header_trim(weft__slice s)
{
    while (s.bytes > 0 && is_header_blank(s.data[0])) {
        s.data++;
        s.bytes--;
    }
    while (s.bytes > 0 && is_header_blank(s.data[s.bytes - 1]))
        s.bytes--;
    return s;
}

/*
 * Remove the first line from *block, and store it in *line without its CRLF. Returns false if the
 * block has no further line.
 */
static bool header_take_line(weft__slice *block, weft__slice *line)
{
    const char *lf = block->bytes > 0 ? memchr(block->data, '\n', block->bytes) : NULL;
    if (lf == NULL || lf == block->data || lf[-1] != '\r')
        return false;
    size_t bytes = (size_t)(lf + 1 - block->data);
    *line = (weft__slice){block->data, bytes - 2};
    *block = (weft__slice){lf + 1, block->bytes - bytes};
    return true;
}

/* Return the first line after the version. data NULL: the block does not start with a version. */
static weft__slice header_status_line(weft__slice headers)
{
    weft__slice line;
    if (!header_take_line(&headers, &line) || line.bytes < VERSION_BYTES ||
        memcmp(line.data, VERSION, VERSION_BYTES) != 0)
        return (weft__slice){NULL, 0};
    return header_trim((weft__slice){line.data + VERSION_BYTES, line.bytes - VERSION_BYTES});
}

static bool is_header_name(weft__slice name)
{
    for (size_t i = 0; i < name.bytes; i++)
        if ((unsigned char)name.data[i] <= ' ' || (unsigned char)name.data[i] >= 0x7f)
            return false;
    return name.bytes > 0;
}

/* Return whether text has no control characters except for tabs. */
static bool is_header_text(weft__slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool header_split_field(weft__slice line, weft__slice *name, weft__slice *value)
{
    const char *colon = line.bytes > 0 ? memchr(line.data, ':', line.bytes) : NULL;
    if (colon == NULL)
        return false;
    *name = (weft__slice){line.data, (size_t)(colon - line.data)};
    *value = header_trim((weft__slice){colon + 1, line.bytes - name->bytes - 1});
    return true;
}

static bool header_status_line_is_valid(weft__slice headers)
{
    weft__slice line = header_status_line(headers);
    if (line.data == NULL)
        return false;
    bool has_blank = is_header_blank(headers.data[VERSION_BYTES]);
    return line.bytes == 0 ||
           (has_blank && weft__header_status(headers) != 0 && is_header_text(line));
}

bool weft__header_is_valid(weft__slice headers)
{
    if (!header_status_line_is_valid(headers))
        return false;
    weft__slice line, name, value;
    header_take_line(&headers, &line);
    while (header_take_line(&headers, &line) && line.bytes > 0)
        if (!header_split_field(line, &name, &value) || !is_header_name(name) ||
            !is_header_text(value))
            return false;
    /* The last line is the empty line, and nothing follows. */
    return line.bytes == 0 && headers.bytes == 0;
}

int weft__header_status(weft__slice headers)
{
    weft__slice line = header_status_line(headers);
    if (line.bytes < STATUS_DIGITS ||
        (line.bytes > STATUS_DIGITS && !is_header_blank(line.data[STATUS_DIGITS])))
        return 0;
    int status = 0;
    for (int i = 0; i < STATUS_DIGITS; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return 0;
        status = status * 10 + (line.data[i] - '0');
    }
    return status >= 100 ? status : 0;
}

weft__slice weft__header_status_text(weft__slice headers)
{
    if (weft__header_status(headers) == 0)
        return (weft__slice){NULL, 0};
    weft__slice line = header_status_line(headers);
    return header_trim((weft__slice){line.data + STATUS_DIGITS, line.bytes - STATUS_DIGITS});
}

static char header_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool header_names_are_equal(weft__slice a, const char *b)
{
    if (a.bytes != strlen(b))
        return false;
    for (size_t i = 0; i < a.bytes; i++)
        if (header_lower(a.data[i]) != header_lower(b[i]))
            return false;
    return true;
}

weft__slice weft__header_find(weft__slice headers, const char *name)
{
    weft__slice line, found, value;
    header_take_line(&headers, &line); /* the line with the status */
    while (header_take_line(&headers, &line) && line.bytes > 0)
        if (header_split_field(line, &found, &value) && header_names_are_equal(found, name))
            return value;
    return (weft__slice){NULL, 0};
}

uint64_t weft__header_number(weft__slice headers, const char *name, uint64_t otherwise)
{
    weft__slice value = weft__header_find(headers, name);
    uint64_t number = 0;
    for (size_t i = 0; i < value.bytes; i++) {
        unsigned digit = (unsigned char)value.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return otherwise;
    }
    return value.bytes > 0 ? number : otherwise;
}
