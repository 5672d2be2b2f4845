/* Check and match subjects of NATS. See subject.h. */
#include "hub/text/subject.h"

static bool is_token_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '=';
}

/*
 * Remove the first token and its dot from *rest. Without a dot, *rest becomes empty without data.
 */
static weft__slice subject_token(weft__slice *rest)
{
    const char *dot = rest->bytes > 0 ? memchr(rest->data, '.', rest->bytes) : NULL;
    if (dot == NULL) {
        weft__slice last = *rest;
        *rest = (weft__slice){NULL, 0};
        return last;
    }
    weft__slice token = {rest->data, (size_t)(dot - rest->data)};
    *rest = (weft__slice){dot + 1, rest->bytes - token.bytes - 1};
    return token;
}

static bool is_reserved(const char *text)
{
    return strncmp(text, "weft.", 5) == 0;
}

bool weft__name_is_valid(const char *text)
{
    if (text == NULL || is_reserved(text))
        return false;
    char before = '.';
    size_t i = 0;
    for (; text[i] != '\0' && i <= WEFT__NAME_BYTES_MAX; before = text[i++])
        if (!is_token_character(text[i]) && (text[i] != '.' || before == '.'))
            return false;
    return before != '.' && i <= WEFT__NAME_BYTES_MAX;
}

bool weft__token_is_valid(const char *text)
{
    size_t i = 0;
    while (text != NULL && i <= WEFT__TOKEN_BYTES_MAX && is_token_character(text[i]))
        i++;
    return i > 0 && i <= WEFT__TOKEN_BYTES_MAX && text[i] == '\0';
}

static bool subject_token_is_valid(weft__slice token, bool is_last, bool may_have_wildcards)
{
    for (size_t i = 0; i < token.bytes; i++)
        if ((unsigned char)token.data[i] <= ' ' || token.data[i] == 0x7f)
            return false;
    if (weft__slice_is(token, "*"))
        return may_have_wildcards;
    if (weft__slice_is(token, ">"))
        return may_have_wildcards && is_last;
    return token.bytes > 0;
}

bool weft__subject_is_valid(weft__slice subject, bool may_have_wildcards)
{
    do {
        weft__slice token = subject_token(&subject);
        if (!subject_token_is_valid(token, subject.data == NULL, may_have_wildcards))
            return false;
    } while (subject.data != NULL);
    return true;
}

bool weft__subject_matches(weft__slice pattern, weft__slice subject)
{
    while (pattern.data != NULL && subject.data != NULL) {
        weft__slice expected = subject_token(&pattern);
        if (pattern.data == NULL && weft__slice_is(expected, ">"))
            return true;
        weft__slice token = subject_token(&subject);
        bool is_equal =
            expected.bytes == token.bytes && memcmp(expected.data, token.data, token.bytes) == 0;
        if (!is_equal && !weft__slice_is(expected, "*"))
            return false;
    }
    return pattern.data == NULL && subject.data == NULL;
}
