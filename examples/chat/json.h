/*
 * A strict reader and a writer for JSON (RFC 8259).
 *
 * The reader allocates no memory: the caller provides an array of values, and the values point into
 * the text. Beyond the RFC, the reader refuses what readers disagree about:
 * - text that is not UTF-8, and escapes of lone surrogates
 * - the escape \u0000, because strings of C end there
 * - two members of an object with the same name
 * - more than JSON_DEPTH_MAX values inside each other
 */
#ifndef CHAT_JSON_H
#define CHAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JSON_DEPTH_MAX 16
#define JSON_INTEGER_MAX ((int64_t)9007199254740991) /* 2^53 - 1, exact in every reader */

typedef enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
} json_kind;

/*
 * A value. The values inside of an array or an object follow it in the array of values. A member of
 * an object is two values: its name, and the value itself.
 */
typedef struct json_value {
    json_kind kind;
    const char *at; /* the text of the value; of a string: without its quotes, not decoded */
    size_t bytes;
    size_t count; /* the number of values that follow in the array and are inside, plus 1 */
} json_value;

/*
 * Read a text that is one JSON value. values[0] is the value.
 *
 * Returns the number of values, or:
 * -EBADMSG if the text is not JSON as described above
 * -EMSGSIZE if the text has more than values_max values, or too many inside each other
 */
ssize_t json_read(json_value *values, size_t values_max, const char *text, size_t bytes);

/* Return the member of an object with this name, or NULL. object is in the array of values. */
const json_value *json_member(const json_value *object, const char *name);

/*
 * Decode a string and append a NUL. value may be NULL.
 *
 * Returns the length without the NUL, or:
 * -EINVAL if value is not a string
 * -EMSGSIZE if the string and its NUL need more than capacity bytes
 */
ssize_t json_decode(const json_value *value, char *out, size_t capacity);

/*
 * Get an integer. value may be NULL. Returns 0, or:
 * -EINVAL if value is not a number, has a fraction or an exponent, or exceeds JSON_INTEGER_MAX
 */
int json_integer(const json_value *value, int64_t *out);

/*
 * A writer. All-zero is an empty text. A call that fails sets has_failed, and later calls do
 * nothing. The caller frees text.
 */
typedef struct json_writer {
    char *text; /* NUL-terminated; NULL: empty */
    size_t bytes;
    size_t capacity;
    bool needs_comma;
    bool has_failed; /* memory is exhausted */
} json_writer;

/* Write '{' or '['. */
void json_open(json_writer *w, char bracket);

/* Write '}' or ']'. */
void json_close(json_writer *w, char bracket);

/* Write the name of the next member. */
void json_name(json_writer *w, const char *name);

/* Write a string. text must be UTF-8. */
void json_string(json_writer *w, const char *text);

void json_number(json_writer *w, int64_t number);
void json_bool(json_writer *w, bool is_true);

/* Write a member: its name and its value. */
static inline void json_name_string(json_writer *w, const char *name, const char *text)
{
    json_name(w, name);
    json_string(w, text);
}

static inline void json_name_number(json_writer *w, const char *name, int64_t number)
{
    json_name(w, name);
    json_number(w, number);
}

static inline void json_name_bool(json_writer *w, const char *name, bool is_true)
{
    json_name(w, name);
    json_bool(w, is_true);
}

/* Write a line break, between the values of a text of several lines. */
void json_line(json_writer *w);

#endif
