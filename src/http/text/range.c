/* The Range field of a request. */
#include "http/range.h"

#include "http/chars.h"
#include "http/field.h"

#include <stdbool.h>
#include <string.h>

/* A number; what is beyond 64 bits is as good as their last. False if there is none. */
static bool take_number(weft__piece *text, uint64_t *number)
{
    const char *begin = text->at;
    *number = 0;
    for (; text->bytes > 0 && weft__char_is(*text->at, WEFT__CHAR_DIGIT);
         text->at++, text->bytes--) {
        unsigned digit = (unsigned)(*text->at - '0');
        bool is_over = __builtin_mul_overflow(*number, 10, number) ||
                       __builtin_add_overflow(*number, digit, number);
        if (is_over)
            *number = UINT64_MAX;
    }
    return text->at != begin;
}

/* The last so many bytes. */
static weft__range last_bytes(uint64_t bytes, uint64_t size)
{
    if (bytes > size)
        bytes = size;
    return (weft__range){size - bytes, bytes};
}

/* From first to last, or as far as there is. */
static weft__range between(uint64_t first, uint64_t last, uint64_t size)
{
    if (first >= size)
        return (weft__range){0, 0};
    if (last >= size)
        last = size - 1;
    return (weft__range){first, last - first + 1};
}

/* "1-2", "1-" or "-1". No bytes if it cannot be satisfied; false if it is none of these. */
static bool parse_range(weft__piece text, uint64_t size, weft__range *range)
{
    uint64_t first, last = UINT64_MAX;
    bool has_first = take_number(&text, &first);
    if (text.bytes == 0 || *text.at != '-')
        return false;
    text.at++;
    text.bytes--;
    bool has_last = text.bytes > 0;
    if (has_last && (!take_number(&text, &last) || text.bytes > 0))
        return false;
    if (!has_first && !has_last)
        return false;
    if (has_first && first > last)
        return false;
    *range = has_first ? between(first, last, size) : last_bytes(last, size);
    return true;
}

static bool overlaps(const weft__range *a, const weft__range *b)
{
    return a->first < b->first + b->bytes && b->first < a->first + a->bytes;
}

/* False: it asks for bytes that others ask for already. */
static bool add(weft__ranges *ranges, const weft__range *range)
{
    for (size_t i = 0; i < ranges->count; i++)
        if (overlaps(&ranges->at[i], range))
            return false;
    ranges->at[ranges->count++] = *range;
    return true;
}

/* False: the whole field is to be ignored. */
static bool parse_list(weft__ranges *ranges, const char *list, uint64_t size)
{
    size_t asked = 0;
    weft__piece item;
    while (weft__field_next(&list, &item)) {
        weft__range range;
        if (++asked > WEFT__RANGES_MAX || !parse_range(item, size, &range))
            return false;
        if (range.bytes > 0 && !add(ranges, &range))
            return false;
    }
    return asked > 0;
}

int weft__ranges_parse(weft__ranges *ranges, const char *value, uint64_t size)
{
    ranges->count = 0;
    if (value == NULL || size == 0)
        return 200;
    size_t unit_bytes = strcspn(value, "=");
    bool is_ok = value[unit_bytes] == '=' && weft__field_is_word(value, unit_bytes, "bytes") &&
                 parse_list(ranges, value + unit_bytes + 1, size);
    if (is_ok)
        return ranges->count > 0 ? 206 : 416;
    ranges->count = 0;
    return 200;
}
