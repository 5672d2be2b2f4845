/* Parse the parts of header fields. See field.h. */
#include "http/text/field.h"

#include "http/text/ctype.h"

#include <stdint.h>
#include <string.h>

static bool span_is_all(const char *text, size_t bytes, unsigned kind)
{
    for (size_t i = 0; i < bytes; i++)
        if (!weft__ctype_is(text[i], kind))
            return false;
    return true;
}

bool weft__field_is_token(const char *text, size_t bytes)
{
    return bytes > 0 && span_is_all(text, bytes, WEFT__CTYPE_TOKEN);
}

/* Return true if none of 8 bytes is a control character. The result is false for a tab, too. */
static bool word_is_plain(const char *text)
{
    const uint64_t ones = UINT64_MAX / 255, high = ones * 128;
    uint64_t word, del;
    memcpy(&word, text, sizeof word);
    del = word ^ (ones * 127); /* a zero byte for each DEL */
    return (((word - ones * 32) & ~word & high) | ((del - ones) & ~del & high)) == 0;
}

bool weft__field_is_value(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at + 8 <= bytes && word_is_plain(text + at))
        at += 8;
    if (at > 0 && at + 8 > bytes && word_is_plain(text + bytes - 8)) /* words may overlap */
        return true;
    return span_is_all(text + at, bytes - at, WEFT__CTYPE_VALUE);
}

bool weft__field_is_word(const char *text, size_t bytes, const char *word)
{
    return strlen(word) == bytes && weft__ctype_match(text, word, bytes);
}

weft__span weft__field_trim(const char *text, size_t bytes)
{
    while (bytes > 0 && weft__ctype_is_blank(text[bytes - 1]))
        bytes--;
    while (bytes > 0 && weft__ctype_is_blank(text[0])) {
        text++;
        bytes--;
    }
    return (weft__span){text, bytes};
}

bool weft__field_next(const char **rest, weft__span *item)
{
    while (**rest != '\0') {
        size_t bytes = strcspn(*rest, ",");
        *item = weft__field_trim(*rest, bytes);
        *rest += bytes + ((*rest)[bytes] == ',');
        if (item->bytes > 0)
            return true;
    }
    return false;
}

bool weft__field_element(weft__span *rest, weft__span *element)
{
    if (rest->at == NULL)
        return false;
    const char *comma = memchr(rest->at, ',', rest->bytes);
    size_t bytes = comma != NULL ? (size_t)(comma - rest->at) : rest->bytes;
    *element = weft__field_trim(rest->at, bytes);
    *rest =
        comma != NULL ? (weft__span){comma + 1, rest->bytes - bytes - 1} : (weft__span){NULL, 0};
    return true;
}

bool weft__field_has_token(const char *list, size_t bytes, const char *token)
{
    weft__span rest = {list, bytes}, element;
    while (weft__field_element(&rest, &element)) {
        const char *parameters = memchr(element.at, ';', element.bytes);
        if (parameters != NULL)
            element = weft__field_trim(element.at, (size_t)(parameters - element.at));
        if (weft__field_is_word(element.at, element.bytes, token))
            return true;
    }
    return false;
}
