/* Parse Accept-Encoding and Accept, and choose a content coding. */
#include "http/text/accept.h"

#include "http/text/ctype.h"
#include "http/text/field.h"

#include <string.h>

#define NOT_LISTED (-1)

/*
 * Parse a quality value, for example "0.125". Return the value in thousandths. A malformed value
 * counts as 0, so that the coding is not used.
 */
static int parse_quality(weft__span text)
{
    if (text.bytes == 0 || text.bytes > 5 || (text.at[0] != '0' && text.at[0] != '1'))
        return 0;
    int quality = (text.at[0] - '0') * 1000;
    if (text.bytes > 1 && text.at[1] != '.')
        return 0;
    int weight = 100;
    for (size_t i = 2; i < text.bytes; i++, weight /= 10) {
        if (!weft__ctype_is(text.at[i], WEFT__CTYPE_DIGIT))
            return 0;
        quality += (text.at[i] - '0') * weight;
    }
    return quality <= 1000 ? quality : 0;
}

/*
 * Remove the text up to the next semicolon from *text, and the semicolon. Return the removed text
 * without blanks at its ends.
 */
static weft__span take_until_semicolon(weft__span *text)
{
    const char *end = memchr(text->at, ';', text->bytes);
    size_t bytes = end != NULL ? (size_t)(end - text->at) : text->bytes;
    weft__span part = weft__field_trim(text->at, bytes);
    size_t used = bytes + (end != NULL);
    *text = (weft__span){text->at + used, text->bytes - used};
    return part;
}

/* Return the q parameter of an item, in thousandths. If the item has no q, return 1000. */
static int find_quality(weft__span parameters)
{
    while (parameters.bytes > 0) {
        weft__span parameter = take_until_semicolon(&parameters);
        if (parameter.bytes >= 2 && weft__field_is_word(parameter.at, 2, "q="))
            return parse_quality((weft__span){parameter.at + 2, parameter.bytes - 2});
    }
    return 1000;
}

static bool name_is(weft__span name, const char *word)
{
    return weft__field_is_word(name.at, name.bytes, word);
}

static weft__coding coding_of(weft__span name)
{
    if (name_is(name, "gzip") || name_is(name, "x-gzip"))
        return WEFT__CODING_GZIP;
    if (name_is(name, "br"))
        return WEFT__CODING_BROTLI;
    return name_is(name, "identity") ? WEFT__CODING_IDENTITY : WEFT__CODINGS;
}

weft__coding weft__accept_choose(const char *value, unsigned codings)
{
    int quality[WEFT__CODINGS + 1], any = NOT_LISTED; /* the last item is for other codings */
    for (int i = 0; i <= WEFT__CODINGS; i++)
        quality[i] = NOT_LISTED;
    weft__span item;
    while (value != NULL && weft__field_next(&value, &item)) {
        weft__span name = take_until_semicolon(&item);
        *(name_is(name, "*") ? &any : &quality[coding_of(name)]) = find_quality(item);
    }
    for (int i = 0; i < WEFT__CODINGS; i++)
        quality[i] = quality[i] == NOT_LISTED ? any : quality[i];
    int best = WEFT__CODING_IDENTITY;
    for (int i = best + 1; i < WEFT__CODINGS; i++)
        if ((codings & 1u << i) != 0 && quality[i] > 0 && quality[i] >= quality[best])
            best = i;
    return (weft__coding)best;
}

bool weft__accept_gzip(const char *value)
{
    return weft__accept_choose(value, 1u << WEFT__CODING_GZIP) == WEFT__CODING_GZIP;
}

bool weft__accept_html(const char *value)
{
    weft__span item;
    while (value != NULL && weft__field_next(&value, &item)) {
        weft__span name = take_until_semicolon(&item);
        if (name_is(name, "text/html"))
            return find_quality(item) > 0;
    }
    return false;
}
