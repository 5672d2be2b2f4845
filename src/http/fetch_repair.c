/*
 * Repair heads of answers: folded lines (RFC 9112, 5.2), and a Content-Length that is repeated with
 * the same value (RFC 9110, 8.6). The parser refuses both, so that the server refuses them in
 * requests. The client repairs a head after the parser has refused it.
 */
#include "http/chars.h"
#include "http/fetch.h"
#include "http/field.h"

#include <errno.h>
#include <string.h>

#define LENGTH_NAME "content-length"
#define LENGTH_NAME_BYTES (sizeof LENGTH_NAME - 1)

/* Where the line that begins at an offset ends, behind its newline. */
static size_t line_end(const char *head, size_t at, size_t bytes)
{
    const char *end = memchr(head + at, '\n', bytes - at);
    return end != NULL ? (size_t)(end + 1 - head) : bytes;
}

static bool is_length_line(const char *line, size_t bytes)
{
    return bytes > LENGTH_NAME_BYTES && line[LENGTH_NAME_BYTES] == ':' &&
           weft__chars_match(line, LENGTH_NAME, LENGTH_NAME_BYTES);
}

bool weft__head_is_repairable(const char *head, size_t bytes)
{
    for (size_t at = line_end(head, 0, bytes); at < bytes; at = line_end(head, at, bytes))
        if (weft__char_is_blank(head[at]) || is_length_line(head + at, bytes - at))
            return true;
    return false;
}

/*
 * Replace each line break before a blank by two spaces. White space behind the first line continues
 * no field: it stays, and the parser refuses it (RFC 9112, 2.2).
 */
static void unfold(char *head, size_t bytes)
{
    size_t first_field = line_end(head, 0, bytes);
    for (size_t at = line_end(head, first_field, bytes); at < bytes; at = line_end(head, at, bytes))
        if (weft__char_is_blank(head[at]) && head[at - 2] == '\r')
            head[at - 2] = head[at - 1] = ' ';
}

static bool is_same(weft__piece a, weft__piece b)
{
    return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

/*
 * Leave one of equal lengths in a value, and blanks in place of the others. *length is the length
 * that was found before, or empty. False if they differ.
 */
static bool merge_value(char *value, size_t bytes, weft__piece *length)
{
    weft__piece list = {value, bytes}, element;
    weft__piece kept = {NULL, 0};
    while (weft__field_element(&list, &element)) {
        if (length->bytes == 0)
            *length = element;
        if (element.bytes == 0 || !is_same(element, *length))
            return false;
        kept = kept.bytes == 0 ? element : kept;
    }
    size_t end = (size_t)(kept.at + kept.bytes - value);
    memset(value + end, ' ', bytes - end);
    return true;
}

/* Without the bytes that end the line. */
static size_t without_break(const char *line, size_t bytes)
{
    while (bytes > 0 && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r'))
        bytes--;
    return bytes;
}

/* Leave one Content-Length: the head's new length, or -EBADMSG if they differ. */
static ssize_t merge_lengths(char *head, size_t bytes)
{
    weft__piece length = {NULL, 0};
    for (size_t at = line_end(head, 0, bytes), end; at < bytes; at = end) {
        char *line = head + at;
        end = line_end(head, at, bytes);
        if (!is_length_line(line, end - at))
            continue;
        bool is_repeated = length.bytes > 0;
        size_t name = LENGTH_NAME_BYTES + 1;
        if (!merge_value(line + name, without_break(line, end - at) - name, &length))
            return -EBADMSG;
        if (is_repeated) {
            memmove(line, head + end, bytes - end);
            bytes -= end - at;
            end = at;
        }
    }
    return (ssize_t)bytes;
}

ssize_t weft__head_repair(char *head, size_t bytes)
{
    unfold(head, bytes);
    return merge_lengths(head, bytes);
}
