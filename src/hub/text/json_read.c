/*
 * Read JSON. See json_read.h.
 *
 * The parser is a loop with a stack of open arrays and objects. A step reads one value or closes
 * one array or object.
 */
#include "hub/text/json_read.h"

#include "base/json_text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define NODES_FIRST 16 /* the capacity that most replies need */

typedef struct json_parser {
    weft__json_doc *doc;
    const char *p, *end;
    uint32_t
        open[WEFT__JSON_DEPTH_MAX]; /* indexes of the open arrays and objects, outermost first */
    unsigned depth;
} json_parser;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(json_parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

/* Skip a character if it is next. */
static bool take(json_parser *s, char c)
{
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

/* Skip a text if it is next. */
static bool take_text(json_parser *s, const char *text)
{
    size_t bytes = strlen(text);
    if ((size_t)(s->end - s->p) < bytes || memcmp(s->p, text, bytes) != 0)
        return false;
    s->p += bytes;
    return true;
}

static bool take_digits(json_parser *s)
{
    const char *first = s->p;
    while (s->p < s->end && is_digit(*s->p))
        s->p++;
    return s->p > first;
}

/* RFC 8259, 6. */
static bool take_number(json_parser *s)
{
    take(s, '-');
    if (!take(s, '0') && !take_digits(s))
        return false;
    if (take(s, '.') && !take_digits(s))
        return false;
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+'))
            take(s, '-');
        return take_digits(s);
    }
    return true;
}

/* Return the value of four hexadecimal digits, or UINT32_MAX. */
static uint32_t hex_unit(const char *p, const char *end)
{
    uint32_t unit = 0;
    if (end - p < 4)
        return UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        unsigned digit = is_digit(c)              ? (unsigned)(c - '0')
                         : (c >= 'a' && c <= 'f') ? (unsigned)(c - 'a' + 10)
                         : (c >= 'A' && c <= 'F') ? (unsigned)(c - 'A' + 10)
                                                  : 16;
        if (digit == 16)
            return UINT32_MAX;
        unit = unit << 4 | digit;
    }
    return unit;
}

/*
 * Decode an escape at p, after its backslash. Return its length without the backslash. Return 0 if
 * the escape is not valid: also a surrogate without its pair.
 */
static size_t decode_escape(const char *p, const char *end, uint32_t *character)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (p == end)
        return 0;
    const char *letter = memchr(letters, *p, sizeof letters - 1);
    if (letter != NULL) {
        *character = (unsigned char)values[letter - letters];
        return 1;
    }
    uint32_t high = *p == 'u' ? hex_unit(p + 1, end) : UINT32_MAX;
    *character = high;
    if (high < 0xd800 || (high > 0xdfff && high != UINT32_MAX))
        return 5;
    if (high > 0xdbff || end - p < 7 || p[5] != '\\' || p[6] != 'u')
        return 0;
    uint32_t low = hex_unit(p + 7, end);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *character = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return 11;
}

/* Decode one character of a string at p < end. Return its length in the text, or 0. */
static size_t decode_character(const char *p, const char *end, uint32_t *character)
{
    if (*p == '\\') {
        size_t bytes = decode_escape(p + 1, end, character);
        return bytes == 0 ? 0 : bytes + 1;
    }
    char utf8[5] = {0}; /* with a NUL, which weft__utf8_decode needs */
    memcpy(utf8, p, end - p < 4 ? (size_t)(end - p) : 4);
    return (unsigned char)*p < ' ' ? 0 : weft__utf8_decode(utf8, character);
}

/* Return whether a byte of a string is a whole character. Bytes of UTF-8 are negative. */
static bool is_plain(char c)
{
    return (signed char)c >= ' ' && c != '"' && c != '\\';
}

/* Read a string with its quotes. Store the text between the quotes. */
static bool take_string(json_parser *s, weft__slice *text)
{
    if (!take(s, '"'))
        return false;
    const char *p = s->p, *end = s->end;
    for (;;) {
        while (p < end && is_plain(*p))
            p++;
        if (p == end || *p == '"')
            break;
        uint32_t character;
        size_t bytes = decode_character(p, end, &character);
        if (bytes == 0)
            return false;
        p += bytes;
    }
    *text = (weft__slice){s->p, (size_t)(p - s->p)};
    s->p = p;
    return take(s, '"');
}

/*
 * Append a node. Returns its index, or:
 * -EMSGSIZE if the document has too many nodes
 * -ENOMEM if memory is exhausted
 */
static int node_add(weft__json_doc *doc, weft__json_node node)
{
    if (doc->count == WEFT__JSON_NODES_MAX)
        return -EMSGSIZE;
    if (doc->count == doc->capacity) {
        uint32_t capacity = doc->capacity == 0 ? NODES_FIRST : 2 * doc->capacity;
        weft__json_node *nodes = realloc(doc->nodes, capacity * sizeof *nodes);
        if (nodes == NULL)
            return -ENOMEM;
        doc->nodes = nodes;
        doc->capacity = capacity;
    }
    node.end = doc->count + 1;
    doc->nodes[doc->count] = node;
    return (int)doc->count++;
}

/* Read a scalar, or the bracket of an array or object. Returns false if the text is not JSON. */
static bool take_value(json_parser *s, weft__json_node *node)
{
    const char *first = s->p;
    switch (first < s->end ? *first : '\0') {
    case '"':
        node->kind = WEFT__JSON_STRING;
        return take_string(s, &node->text);
    case '{':
        node->kind = WEFT__JSON_OBJECT;
        return take(s, '{');
    case '[':
        node->kind = WEFT__JSON_ARRAY;
        return take(s, '[');
    case 'n':
        node->kind = WEFT__JSON_NULL;
        return take_text(s, "null");
    case 't':
        node->kind = WEFT__JSON_TRUE;
        return take_text(s, "true");
    case 'f':
        node->kind = WEFT__JSON_FALSE;
        return take_text(s, "false");
    default:
        node->kind = WEFT__JSON_NUMBER;
        bool is_number = take_number(s);
        node->text = (weft__slice){first, (size_t)(s->p - first)};
        return is_number;
    }
}

static weft__json_node *innermost(const json_parser *s)
{
    return s->depth == 0 ? NULL : &s->doc->nodes[s->open[s->depth - 1]];
}

/* Close the innermost array or object if its bracket is next. Returns whether it was closed. */
static bool take_close(json_parser *s)
{
    weft__json_node *parent = innermost(s);
    if (!take(s, parent->kind == WEFT__JSON_OBJECT ? '}' : ']'))
        return false;
    parent->end = s->doc->count;
    s->depth--;
    return true;
}

/* Read the name of a member and its colon. */
static bool take_name(json_parser *s, weft__slice *name)
{
    skip_blanks(s);
    if (!take_string(s, name))
        return false;
    skip_blanks(s);
    return take(s, ':');
}

/* Read one value. An array or object stays open. Returns 0 or an error of weft__json_parse. */
static int value_read(json_parser *s)
{
    weft__json_node node = {0};
    const weft__json_node *parent = innermost(s);
    if (parent != NULL && parent->kind == WEFT__JSON_OBJECT && !take_name(s, &node.name))
        return -EBADMSG;
    skip_blanks(s);
    if (!take_value(s, &node))
        return -EBADMSG;
    bool is_open = node.kind == WEFT__JSON_ARRAY || node.kind == WEFT__JSON_OBJECT;
    if (is_open && s->depth == WEFT__JSON_DEPTH_MAX)
        return -EMSGSIZE;
    int index = node_add(s->doc, node);
    if (index < 0)
        return index;
    if (is_open)
        s->open[s->depth++] = (uint32_t)index;
    return 0;
}

/* Read the root and everything in it. */
static int document_read(json_parser *s)
{
    int rc = value_read(s);
    /* The last value was a bracket that opens: no comma is needed before the next value. */
    bool is_first = true;
    while (rc == 0 && s->depth > 0) {
        skip_blanks(s);
        if (take_close(s)) {
            is_first = false;
            continue;
        }
        if (!is_first && !take(s, ','))
            return -EBADMSG;
        unsigned depth = s->depth;
        rc = value_read(s);
        is_first = s->depth > depth;
    }
    if (rc < 0)
        return rc;
    skip_blanks(s);
    return s->p == s->end ? 0 : -EBADMSG;
}

int weft__json_parse(weft__json_doc *doc, const char *text, size_t bytes)
{
    if (bytes == 0)
        return -EBADMSG;
    json_parser s = {.doc = doc, .p = text, .end = text + bytes};
    doc->count = 0;
    skip_blanks(&s);
    int rc = document_read(&s);
    if (rc < 0)
        doc->count = 0;
    return rc;
}

void weft__json_free(weft__json_doc *doc)
{
    free(doc->nodes);
    *doc = (weft__json_doc){0};
}

const weft__json_node *weft__json_first(const weft__json_doc *doc, const weft__json_node *parent)
{
    const weft__json_node *first = parent + 1;
    return first < doc->nodes + parent->end ? first : NULL;
}

const weft__json_node *weft__json_next(const weft__json_doc *doc, const weft__json_node *parent,
                                       const weft__json_node *child)
{
    return child->end < parent->end ? doc->nodes + child->end : NULL;
}

static const weft__json_node *member_find(const weft__json_doc *doc, const weft__json_node *object,
                                          const char *name, size_t name_bytes)
{
    const weft__json_node *found = NULL;
    if (object->kind != WEFT__JSON_OBJECT)
        return NULL;
    for (const weft__json_node *m = weft__json_first(doc, object); m != NULL;
         m = weft__json_next(doc, object, m))
        if (m->name.bytes == name_bytes && memcmp(m->name.data, name, name_bytes) == 0)
            found = m;
    return found;
}

const weft__json_node *weft__json_find_in(const weft__json_doc *doc, const weft__json_node *object,
                                          const char *path)
{
    for (;;) {
        size_t bytes = strcspn(path, ".");
        object = member_find(doc, object, path, bytes);
        if (object == NULL || path[bytes] == '\0')
            return object;
        path += bytes + 1;
    }
}

const weft__json_node *weft__json_find(const weft__json_doc *doc, const char *path)
{
    return doc->count == 0 ? NULL : weft__json_find_in(doc, doc->nodes, path);
}

int64_t weft__json_integer(const weft__json_doc *doc, const char *path, int64_t otherwise)
{
    const weft__json_node *node = weft__json_find(doc, path);
    if (node == NULL || node->kind != WEFT__JSON_NUMBER)
        return otherwise;
    bool is_negative = node->text.data[0] == '-';
    int64_t number = 0;
    for (size_t i = is_negative; i < node->text.bytes; i++) {
        int digit = node->text.data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, is_negative ? -digit : digit, &number))
            return otherwise;
    }
    return number;
}

bool weft__json_is_true(const weft__json_doc *doc, const char *path)
{
    const weft__json_node *node = weft__json_find(doc, path);
    return node != NULL && node->kind == WEFT__JSON_TRUE;
}

/* Write a character as UTF-8. Return its length. */
static size_t encode_utf8(uint32_t c, char out[4])
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(bytes == 1 ? c : first[bytes] | c);
    return bytes;
}

int weft__json_copy_text(const weft__json_node *node, char *out, size_t room)
{
    if (node == NULL || node->kind != WEFT__JSON_STRING)
        return -ENOENT;
    const char *p = node->text.data, *end = p + node->text.bytes;
    size_t length = 0;
    while (p < end) {
        uint32_t character = 0;
        char utf8[4];
        p += decode_character(p, end, &character); /* the parser has checked the string */
        size_t bytes = encode_utf8(character, utf8);
        if (character == 0)
            return -EBADMSG;
        if (length + bytes >= room || length + bytes > INT_MAX)
            return -EMSGSIZE;
        memcpy(out + length, utf8, bytes);
        length += bytes;
    }
    if (room == 0)
        return -EMSGSIZE;
    out[length] = '\0';
    return (int)length;
}

int weft__json_copy_string(const weft__json_doc *doc, const char *path, char *out, size_t room)
{
    return weft__json_copy_text(weft__json_find(doc, path), out, room);
}
