/* What fields are made of. */
#include "http/field.h"

#include "http/chars.h"

#include <string.h>

static bool is_all(const char *text, size_t bytes, unsigned kind)
{
    for (size_t i = 0; i < bytes; i++)
        if (!weft__char_is(text[i], kind))
            return false;
    return true;
}

bool weft__field_is_token(const char *text, size_t bytes)
{
    return bytes > 0 && is_all(text, bytes, WEFT__CHAR_TOKEN);
}

bool weft__field_is_value(const char *text, size_t bytes)
{
    return is_all(text, bytes, WEFT__CHAR_VALUE);
}

bool weft__field_is_word(const char *text, size_t bytes, const char *word)
{
    return strlen(word) == bytes && weft__chars_match(text, word, bytes);
}

weft__piece weft__field_trim(const char *text, size_t bytes)
{
    while (bytes > 0 && weft__char_is_blank(text[bytes - 1]))
        bytes--;
    while (bytes > 0 && weft__char_is_blank(text[0])) {
        text++;
        bytes--;
    }
    return (weft__piece){text, bytes};
}

bool weft__field_next(const char **rest, weft__piece *item)
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

bool weft__field_element(weft__piece *rest, weft__piece *element)
{
    if (rest->at == NULL)
        return false;
    const char *comma = memchr(rest->at, ',', rest->bytes);
    size_t bytes = comma != NULL ? (size_t)(comma - rest->at) : rest->bytes;
    *element = weft__field_trim(rest->at, bytes);
    *rest =
        comma != NULL ? (weft__piece){comma + 1, rest->bytes - bytes - 1} : (weft__piece){NULL, 0};
    return true;
}

bool weft__field_has_token(const char *list, size_t bytes, const char *token)
{
    weft__piece rest = {list, bytes}, element;
    while (weft__field_element(&rest, &element)) {
        const char *parameters = memchr(element.at, ';', element.bytes);
        if (parameters != NULL)
            element = weft__field_trim(element.at, (size_t)(parameters - element.at));
        if (weft__field_is_word(element.at, element.bytes, token))
            return true;
    }
    return false;
}
