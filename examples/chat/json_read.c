#include "json.h"

#include <errno.h>
#include <string.h>

typedef struct reader {
    const char *at, *end;
    json_value *values;
    size_t count, max;
} reader;

static int read_value(reader *r, int depth);

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take(reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* Return the number of bytes of the character of UTF-8 at this place (RFC 3629), or 0. */
static size_t utf8_bytes(const unsigned char *c, size_t left)
{
    static const unsigned char low[] = {[0] = 0x80, [0xe0 - 0xc0] = 0xa0, [0xf0 - 0xc0] = 0x90};
    if (c[0] < 0x80)
        return 1;
    size_t bytes = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4 || left < bytes)
        return 0;
    size_t row = (size_t)(c[0] - 0xc0);
    unsigned char first = row < sizeof low && low[row] != 0 ? low[row] : 0x80; /* not overlong */
    unsigned char last = c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;     /* no surrogate */
    if (c[1] < first || c[1] > last)
        return 0;
    for (size_t i = 2; i < bytes; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

/* Return the value of four hexadecimal digits, or -1. */
static int32_t hex4(const char *at, const char *end)
{
    int32_t value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = at[i] | 0x20; /* lower case */
        int digit = at[i] >= '0' && at[i] <= '9' ? at[i] - '0'
                    : c >= 'a' && c <= 'f'       ? c - 'a' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/*
 * Get the character of the escape after a backslash, and go beyond it. Two escapes of surrogates
 * are one character. Returns the character, or -1.
 */
static int32_t read_escape(const char **at, const char *end)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (*at == end)
        return -1;
    char c = *(*at)++;
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    if (name != NULL)
        return meanings[name - names];
    int32_t unit = c == 'u' ? hex4(*at, end) : -1;
    if (unit <= 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return -1;
    *at += 4;
    if (unit < 0xd800 || unit > 0xdbff)
        return unit;
    if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return -1;
    int32_t low = hex4(*at + 2, end);
    if (low < 0xdc00 || low > 0xdfff)
        return -1;
    *at += 6;
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

static size_t utf8_encode(int32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const int lead[] = {[2] = 0xc0, [3] = 0xe0, [4] = 0xf0};
    for (size_t i = bytes - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[bytes] | c);
    return bytes;
}

/* Decode the next character of a string that has been read. Returns its bytes, 0 at the end. */
static size_t next_char(const char **at, const char *end, char out[4])
{
    if (*at == end)
        return 0;
    if (**at == '\\') {
        ++*at;
        return utf8_encode(read_escape(at, end), out);
    }
    size_t bytes = utf8_bytes((const unsigned char *)*at, (size_t)(end - *at));
    memcpy(out, *at, bytes);
    *at += bytes;
    return bytes;
}

/* True if two strings have the same characters, whether escaped or not. */
static bool is_same_string(const json_value *a, const json_value *b)
{
    const char *at[2] = {a->at, b->at};
    char out[2][4];
    size_t bytes[2];
    do {
        bytes[0] = next_char(&at[0], a->at + a->bytes, out[0]);
        bytes[1] = next_char(&at[1], b->at + b->bytes, out[1]);
        if (bytes[0] != bytes[1] || memcmp(out[0], out[1], bytes[0]) != 0)
            return false;
    } while (bytes[0] > 0);
    return true;
}

/* True if a string has the characters of text, which has no escapes. */
static bool is_decoded_as(const json_value *v, const char *text)
{
    const char *at = v->at;
    char out[4];
    size_t bytes;
    while ((bytes = next_char(&at, v->at + v->bytes, out)) > 0) {
        if (strncmp(text, out, bytes) != 0)
            return false;
        text += bytes;
    }
    return *text == '\0';
}

static int read_string(reader *r, json_value *v)
{
    v->kind = JSON_STRING;
    v->at = ++r->at;
    while (r->at < r->end && *r->at != '"') {
        if ((unsigned char)*r->at < 0x20)
            return -EBADMSG;
        if (*r->at == '\\') {
            r->at++;
            if (read_escape(&r->at, r->end) < 0)
                return -EBADMSG;
            continue;
        }
        size_t bytes = utf8_bytes((const unsigned char *)r->at, (size_t)(r->end - r->at));
        if (bytes == 0)
            return -EBADMSG;
        r->at += bytes;
    }
    v->bytes = (size_t)(r->at - v->at);
    return take(r, '"') ? 0 : -EBADMSG;
}

static bool skip_digits(reader *r)
{
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > begin;
}

static int read_number(reader *r, json_value *v)
{
    v->kind = JSON_NUMBER;
    v->at = r->at;
    take(r, '-');
    if (!take(r, '0') && !skip_digits(r)) /* no zero before other digits */
        return -EBADMSG;
    if (take(r, '.') && !skip_digits(r))
        return -EBADMSG;
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '+'))
            take(r, '-');
        if (!skip_digits(r))
            return -EBADMSG;
    }
    v->bytes = (size_t)(r->at - v->at);
    return 0;
}

static int read_word(reader *r, json_value *v)
{
    static const char *const words[] = {"null", "false", "true"}; /* the order of json_kind */
    for (int i = 0; i < 3; i++) {
        size_t bytes = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= bytes && memcmp(r->at, words[i], bytes) == 0) {
            *v = (json_value){(json_kind)i, r->at, bytes, 0};
            r->at += bytes;
            return 0;
        }
    }
    return -EBADMSG;
}

/* True if an earlier member of the object has the name of the last member. */
static bool is_repeated(const reader *r, size_t object, size_t name)
{
    for (size_t i = object + 1; i < name; i += 1 + r->values[i + 1].count)
        if (is_same_string(&r->values[i], &r->values[name]))
            return true;
    return false;
}

/* Read the name of a member, and the colon after it. */
static int read_name(reader *r, size_t object)
{
    size_t name = r->count;
    skip_space(r);
    if (r->at == r->end || *r->at != '"')
        return -EBADMSG;
    int rc = read_value(r, 0);
    if (rc < 0)
        return rc;
    skip_space(r);
    return is_repeated(r, object, name) || !take(r, ':') ? -EBADMSG : 0;
}

/* Read the values of an array or an object. */
static int read_inside(reader *r, size_t outer, int depth)
{
    bool is_object = *r->at == '{';
    char end = is_object ? '}' : ']';
    r->values[outer].kind = is_object ? JSON_OBJECT : JSON_ARRAY;
    r->values[outer].at = r->at++;
    skip_space(r);
    if (take(r, end))
        return 0;
    do {
        int rc = is_object ? read_name(r, outer) : 0;
        if (rc == 0)
            rc = read_value(r, depth + 1);
        if (rc < 0)
            return rc;
        skip_space(r);
    } while (take(r, ','));
    return take(r, end) ? 0 : -EBADMSG;
}

static int read_value(reader *r, int depth)
{
    skip_space(r);
    if (r->at == r->end)
        return -EBADMSG;
    if (r->count == r->max || depth == JSON_DEPTH_MAX)
        return -EMSGSIZE;
    size_t index = r->count++;
    json_value *v = &r->values[index];
    bool has_inside = *r->at == '{' || *r->at == '[';
    int rc = has_inside                                          ? read_inside(r, index, depth)
             : *r->at == '"'                                     ? read_string(r, v)
             : *r->at == '-' || (*r->at >= '0' && *r->at <= '9') ? read_number(r, v)
                                                                 : read_word(r, v);
    if (has_inside)
        v->bytes = (size_t)(r->at - v->at);
    v->count = r->count - index;
    return rc;
}

ssize_t json_read(json_value *values, size_t values_max, const char *text, size_t bytes)
{
    reader r = {.at = text, .end = text + bytes, .values = values, .max = values_max};
    int rc = read_value(&r, 0);
    if (rc < 0)
        return rc;
    skip_space(&r);
    return r.at == r.end ? (ssize_t)r.count : -EBADMSG;
}

const json_value *json_member(const json_value *object, const char *name)
{
    if (object->kind != JSON_OBJECT)
        return NULL;
    for (size_t i = 1; i < object->count; i += 1 + object[i + 1].count)
        if (is_decoded_as(&object[i], name))
            return &object[i + 1];
    return NULL;
}

ssize_t json_decode(const json_value *value, char *out, size_t capacity)
{
    if (value == NULL || value->kind != JSON_STRING)
        return -EINVAL;
    const char *at = value->at;
    char c[4];
    size_t bytes, length = 0;
    while ((bytes = next_char(&at, value->at + value->bytes, c)) > 0) {
        if (length + bytes >= capacity)
            return -EMSGSIZE;
        memcpy(out + length, c, bytes);
        length += bytes;
    }
    if (length >= capacity)
        return -EMSGSIZE;
    out[length] = '\0';
    return (ssize_t)length;
}

int json_integer(const json_value *value, int64_t *out)
{
    if (value == NULL || value->kind != JSON_NUMBER)
        return -EINVAL;
    bool is_negative = value->at[0] == '-';
    int64_t n = 0;
    for (size_t i = is_negative; i < value->bytes; i++) {
        if (value->at[i] < '0' || value->at[i] > '9')
            return -EINVAL; /* a fraction or an exponent */
        n = n * 10 + (value->at[i] - '0');
        if (n > JSON_INTEGER_MAX)
            return -EINVAL;
    }
    *out = is_negative ? -n : n;
    return 0;
}
