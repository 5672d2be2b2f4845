/* The table of characters. */
#include "http/chars.h"

#define A WEFT__CHAR_ALPHA
#define D WEFT__CHAR_DIGIT
#define H WEFT__CHAR_HEX
#define T WEFT__CHAR_TOKEN
#define U WEFT__CHAR_UNRESERVED
#define S WEFT__CHAR_SUB_DELIM
#define C WEFT__CHAR_COOKIE
#define V WEFT__CHAR_VALUE
#define Q WEFT__CHAR_QUERY
#define P (WEFT__CHAR_PATH | Q)

/*
 * What is not named here, the controls, is of no kind. Beyond RFC 3986, browsers send | [ ] ^ { }
 * and ` in targets as they are, in queries % and the backslash, too, and so they pass. A quotation
 * mark, < > and # they never send.
 */
const uint16_t weft__chars[256] = {
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
