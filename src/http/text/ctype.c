/* The table of character classes. See ctype.h. */
#include "http/text/ctype.h"

#define A WEFT__CTYPE_ALPHA
#define D WEFT__CTYPE_DIGIT
#define H WEFT__CTYPE_HEX
#define T WEFT__CTYPE_TOKEN
#define U WEFT__CTYPE_UNRESERVED
#define S WEFT__CTYPE_SUB_DELIM
#define C WEFT__CTYPE_COOKIE
#define V WEFT__CTYPE_VALUE
#define Q WEFT__CTYPE_QUERY
#define P (WEFT__CTYPE_PATH | Q)

/*
 * Control characters except the tab have no kind. Browsers send some characters that RFC 3986
 * forbids. The table therefore allows | [ ] ^ { } and ` in targets. In queries, the table also
 * allows % and the backslash. Browsers never send a quotation mark, < > or # in a target.
 */
const uint16_t weft__ctype_table[256] = {
    ['\t'] = V,
    [' '] = V,
    ['!'] = T | S | C | V | P,
    ['"'] = V,
    ['#'] = T | C | V,
    ['$'] = T | S | C | V | P,
    ['%'] = T | C | V | Q,
    ['&'] = T | S | C | V | P,
    ['\''] = T | S | C | V | P,
    ['('] = S | C | V | P,
    [')'] = S | C | V | P,
    ['*'] = T | S | C | V | P,
    ['+'] = T | S | C | V | P,
    [','] = S | V | P,
    ['-'] = T | U | C | V | P,
    ['.'] = T | U | C | V | P,
    ['/'] = C | V | P,
    ['0' ... '9'] = D | H | T | U | C | V | P,
    [':'] = C | V | P,
    [';'] = S | V | P,
    ['<'] = C | V,
    ['='] = S | C | V | P,
    ['>'] = C | V,
    ['?'] = C | V | Q,
    ['@'] = C | V | P,
    ['A' ... 'F'] = A | H | T | U | C | V | P,
    ['G' ... 'Z'] = A | T | U | C | V | P,
    ['['] = C | V | P,
    ['\\'] = V | Q,
    [']'] = C | V | P,
    ['^'] = T | C | V | P,
    ['_'] = T | U | C | V | P,
    ['`'] = T | C | V | P,
    ['a' ... 'f'] = A | H | T | U | C | V | P,
    ['g' ... 'z'] = A | T | U | C | V | P,
    ['{'] = C | V | P,
    ['|'] = T | C | V | P,
    ['}'] = C | V | P,
    ['~'] = T | U | C | V | P,
    [0x80 ... 0xff] = V,
};
