/*
 * Repair heads of responses: folded lines (RFC 9112, 5.2), and repeated equal values of
 * Content-Length (RFC 9110, 8.6). A server must reject both in requests, so the parser rejects
 * both. The client repairs a head only after the parser has rejected the head.
 */
#include "http/client/fetch.h"
#include "http/text/ctype.h"
#include "http/text/field.h"

#include <errno.h>
#include <string.h>

#define LENGTH_NAME "content-length"
#define LENGTH_NAME_BYTES (sizeof LENGTH_NAME - 1)

/*
 * Return the offset after the newline of the line at start. If the line has no newline, return
 * bytes.
 */
static size_t line_end(const char *head, size_t start, size_t bytes)
{
    const char *end = memchr(head + start, '\n', bytes - start);
    return end != NULL ? (size_t)(end + 1 - head) : bytes;
}

static bool is_length_line(const char *line, size_t bytes)
{
    return bytes > LENGTH_NAME_BYTES && line[LENGTH_NAME_BYTES] == ':' &&
           weft__ctype_match(line, LENGTH_NAME, LENGTH_NAME_BYTES);
}

bool weft__head_is_repairable(const char *head, size_t bytes)
{
    for (size_t start = line_end(head, 0, bytes); start < bytes;
         start = line_end(head, start, bytes))
        if (weft__ctype_is_blank(head[start]) || is_length_line(head + start, bytes - start))
            return true;
    return false;
}

/*
 * Replace each line break before a blank with two spaces. White space directly after the first line
 * does not continue a field. The function keeps this white space, so that the parser rejects the
 * head (RFC 9112, 2.2).
 */
static void unfold_lines(char *head, size_t bytes)
{
    size_t first_field = line_end(head, 0, bytes);
    for (size_t start = line_end(head, first_field, bytes); start < bytes;
         start = line_end(head, start, bytes))
        if (weft__ctype_is_blank(head[start]) && head[start - 2] == '\r')
            head[start - 2] = head[start - 1] = ' ';
}

static bool span_is_same(weft__span a, weft__span b)
{
    return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

/*
 * Keep the first of several equal lengths in a value, and overwrite the others with blanks. *length
 * is a length that an earlier field has, or empty. Return false if two lengths differ or a length
 * is empty.
 */
static bool merge_value(char *value, size_t bytes, weft__span *length)
{
    weft__span list = {value, bytes}, element;
    weft__span first = {NULL, 0};
    while (weft__field_element(&list, &element)) {
        if (length->bytes == 0)
            *length = element;
        if (element.bytes == 0 || !span_is_same(element, *length))
            return false;
        first = first.bytes == 0 ? element : first;
    }
    size_t end = (size_t)(first.at + first.bytes - value);
    memset(value + end, ' ', bytes - end);
    return true;
}

/* Return the length of a line without its line break. */
static size_t line_bytes_trimmed(const char *line, size_t bytes)
{
    while (bytes > 0 && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r'))
        bytes--;
    return bytes;
}

/*
 * Merge all Content-Length fields into one field. Return the new length of the head. Return
 * -EBADMSG if two lengths differ.
 */
static ssize_t merge_lengths(char *head, size_t bytes)
{
    weft__span length = {NULL, 0};
    for (size_t start = line_end(head, 0, bytes), end; start < bytes; start = end) {
        char *line = head + start;
        end = line_end(head, start, bytes);
        if (!is_length_line(line, end - start))
            continue;
        bool is_repeated = length.bytes > 0;
        size_t name = LENGTH_NAME_BYTES + 1;
        if (!merge_value(line + name, line_bytes_trimmed(line, end - start) - name, &length))
            return -EBADMSG;
        if (is_repeated) {
            memmove(line, head + end, bytes - end);
            bytes -= end - start;
            end = start;
        }
    }
    return (ssize_t)bytes;
}

ssize_t weft__head_repair(char *head, size_t bytes)
{
    unfold_lines(head, bytes);
    return merge_lengths(head, bytes);
}
