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

/* What is not named here, the controls, is of no kind. */
const unsigned char weft__chars[256] = {
    ['\t'] = V,
    [' '] = V,
    ['!'] = T | S | C | V,
    ['"'] = V,
    ['#'] = T | C | V,
    ['$'] = T | S | C | V,
    ['%'] = T | C | V,
    ['&'] = T | S | C | V,
    ['\''] = T | S | C | V,
    ['('] = S | C | V,
    [')'] = S | C | V,
    ['*'] = T | S | C | V,
    ['+'] = T | S | C | V,
    [','] = S | V,
    ['-'] = T | U | C | V,
    ['.'] = T | U | C | V,
    ['/'] = C | V,
    ['0' ... '9'] = D | H | T | U | C | V,
    [':'] = C | V,
    [';'] = S | V,
    ['<'] = C | V,
    ['='] = S | C | V,
    ['>'] = C | V,
    ['?'] = C | V,
    ['@'] = C | V,
    ['A' ... 'F'] = A | H | T | U | C | V,
    ['G' ... 'Z'] = A | T | U | C | V,
    ['['] = C | V,
    ['\\'] = V,
    [']'] = C | V,
    ['^'] = T | C | V,
    ['_'] = T | U | C | V,
    ['`'] = T | C | V,
    ['a' ... 'f'] = A | H | T | U | C | V,
    ['g' ... 'z'] = A | T | U | C | V,
    ['{'] = C | V,
    ['|'] = T | C | V,
    ['}'] = C | V,
    ['~'] = T | U | C | V,
    [0x80 ... 0xff] = V,
};
