/* Parse the Range field of a request. See range.h. */
#include "http/text/range.h"

#include "http/text/ctype.h"
#include "http/text/field.h"

#include <stdbool.h>
#include <string.h>

/*
 * Remove a number from the start of *text. A number above UINT64_MAX becomes UINT64_MAX. Return
 * false if *text does not start with a digit.
 */
static bool take_number(weft__span *text, uint64_t *number)
{
    const char *begin = text->at;
    *number = 0;
    for (; text->bytes > 0 && weft__ctype_is(*text->at, WEFT__CTYPE_DIGIT);
         text->at++, text->bytes--) {
        unsigned digit = (unsigned)(*text->at - '0');
        bool has_overflowed = __builtin_mul_overflow(*number, 10, number) ||
                              __builtin_add_overflow(*number, digit, number);
        if (has_overflowed)
            *number = UINT64_MAX;
    }
    return text->at != begin;
}

/* Return the range of the last bytes of a resource. */
static weft__range suffix_range(uint64_t bytes, uint64_t size)
{
    if (bytes > size)
        bytes = size;
    return (weft__range){size - bytes, bytes};
}

/*
 * Return the range from first to last, limited to the resource. If first is after the end of the
 * resource, the range is empty.
 */
static weft__range closed_range(uint64_t first, uint64_t last, uint64_t size)
{
    if (first >= size)
        return (weft__range){0, 0};
    if (last >= size)
        last = size - 1;
    return (weft__range){first, last - first + 1};
}

/*
 * Parse "1-2", "1-" or "-1". If the range cannot be satisfied, *range is empty. Return false if the
 * text is malformed.
 */
static bool parse_range(weft__span text, uint64_t size, weft__range *range)
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
    *range = has_first ? closed_range(first, last, size) : suffix_range(last, size);
    return true;
}

static bool ranges_overlap(const weft__range *a, const weft__range *b)
{
    return a->first < b->first + b->bytes && b->first < a->first + a->bytes;
}

/* Append a range. Return false if the range overlaps an earlier range. */
static bool ranges_add(weft__ranges *ranges, const weft__range *range)
{
    for (size_t i = 0; i < ranges->count; i++)
        if (ranges_overlap(&ranges->at[i], range))
            return false;
    ranges->at[ranges->count++] = *range;
    return true;
}

/* Parse all ranges. Return false if the server must ignore the whole field. */
static bool parse_range_list(weft__ranges *ranges, const char *list, uint64_t size)
{
    size_t requested = 0;
    weft__span item;
    while (weft__field_next(&list, &item)) {
        weft__range range;
        if (++requested > WEFT__RANGES_MAX || !parse_range(item, size, &range))
            return false;
        if (range.bytes > 0 && !ranges_add(ranges, &range))
            return false;
    }
    return requested > 0;
}

int weft__ranges_parse(weft__ranges *ranges, const char *value, uint64_t size)
{
    ranges->count = 0;
    if (value == NULL || size == 0)
        return 200;
    size_t unit_bytes = strcspn(value, "=");
    bool is_valid = value[unit_bytes] == '=' && weft__field_is_word(value, unit_bytes, "bytes") &&
                    parse_range_list(ranges, value + unit_bytes + 1, size);
    if (is_valid)
        return ranges->count > 0 ? 206 : 416;
    ranges->count = 0;
    return 200;
}
