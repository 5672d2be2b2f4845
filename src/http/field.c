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
    for (size_t i = 0; i < bytes; i++)
        if (word[i] == '\0' || weft__char_lower(text[i]) != weft__char_lower(word[i]))
            return false;
    return word[bytes] == '\0';
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
