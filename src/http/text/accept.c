/* What a client accepts. */
#include "http/accept.h"

#include "http/chars.h"
#include "http/field.h"

#include <string.h>

#define UNNAMED (-1)

/* "0.125" in thousandths. What is malformed is taken for a refusal. */
static int quality_of(weft__piece text)
{
    if (text.bytes == 0 || text.bytes > 5 || (text.at[0] != '0' && text.at[0] != '1'))
        return 0;
    int quality = (text.at[0] - '0') * 1000;
    if (text.bytes > 1 && text.at[1] != '.')
        return 0;
    int weight = 100;
    for (size_t i = 2; i < text.bytes; i++, weight /= 10) {
        if (!weft__char_is(text.at[i], WEFT__CHAR_DIGIT))
            return 0;
        quality += (text.at[i] - '0') * weight;
    }
    return quality <= 1000 ? quality : 0;
}

/* Take what is before the next semicolon from the front. */
static weft__piece take_part(weft__piece *text)
{
    const char *end = memchr(text->at, ';', text->bytes);
    size_t bytes = end != NULL ? (size_t)(end - text->at) : text->bytes;
    weft__piece part = weft__field_trim(text->at, bytes);
    size_t used = bytes + (end != NULL);
    *text = (weft__piece){text->at + used, text->bytes - used};
    return part;
}

/* The q among an item's parameters; without one it is 1. */
static int quality_among(weft__piece parameters)
{
    while (parameters.bytes > 0) {
        weft__piece one = take_part(&parameters);
        if (one.bytes >= 2 && weft__field_is_word(one.at, 2, "q="))
            return quality_of((weft__piece){one.at + 2, one.bytes - 2});
    }
    return 1000;
}

static bool is(weft__piece name, const char *word)
{
    return weft__field_is_word(name.at, name.bytes, word);
}

bool weft__accept_gzip(const char *value)
{
    int gzip = UNNAMED, any = UNNAMED, identity = UNNAMED;
    weft__piece item;
    while (value != NULL && weft__field_next(&value, &item)) {
        weft__piece name = take_part(&item);
        int quality = quality_among(item);
        if (is(name, "gzip") || is(name, "x-gzip"))
            gzip = quality;
        else if (is(name, "identity"))
            identity = quality;
        else if (is(name, "*"))
            any = quality;
    }
    if (gzip == UNNAMED)
        gzip = any;
    return gzip > 0 && gzip >= identity;
}
