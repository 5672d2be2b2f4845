/* Evaluate the conditions of a request, with entity tags and dates. */
#include "http/text/conditional.h"

#include "http/text/ctype.h"
#include "http/text/date.h"
#include "http/text/field.h"

#include <string.h>

/*
 * Entity tags.
 */

typedef struct tag {
    weft__span opaque; /* with its quotes */
    bool is_weak;
} tag;

static bool is_tag_char(char c)
{
    return weft__ctype_is(c, WEFT__CTYPE_VALUE) && c != '"' && !weft__ctype_is_blank(c);
}

/* Remove an entity tag from the start of *text. Return false if *text does not start with a tag. */
static bool take_tag(const char **text, tag *out)
{
    out->is_weak = (*text)[0] == 'W' && (*text)[1] == '/';
    const char *begin = *text + (out->is_weak ? 2 : 0);
    if (*begin != '"')
        return false;
    const char *end = begin + 1;
    while (is_tag_char(*end))
        end++;
    if (*end != '"')
        return false;
    out->opaque = (weft__span){begin, (size_t)(end + 1 - begin)};
    *text = end + 1;
    return true;
}

static bool tag_matches(const tag *a, const tag *b, bool is_strong)
{
    if (is_strong && (a->is_weak || b->is_weak))
        return false;
    return a->opaque.bytes == b->opaque.bytes &&
           memcmp(a->opaque.at, b->opaque.at, a->opaque.bytes) == 0;
}

static const char *skip_chars(const char *text, bool (*is_skipped)(char))
{
    while (is_skipped(*text))
        text++;
    return text;
}

static bool is_list_separator(char c)
{
    return weft__ctype_is_blank(c) || c == ',';
}

/* Return whether a list contains a tag. Ignore the rest of the list after a malformed item. */
static bool has_tag(const char *list, const tag *wanted, bool is_strong)
{
    tag item;
    for (list = skip_chars(list, is_list_separator); take_tag(&list, &item);
         list = skip_chars(list, is_list_separator)) {
        const char *after = skip_chars(list, weft__ctype_is_blank);
        if (*after != ',' && *after != '\0')
            return false;
        if (tag_matches(&item, wanted, is_strong))
            return true;
    }
    return false;
}

static bool current_tag(const weft__conditional *c, tag *out)
{
    const char *text = c->etag;
    return text != NULL && take_tag(&text, out) && *text == '\0';
}

/* Return whether the current entity tag matches the list of If-Match or If-None-Match. */
static bool tag_is_listed(const weft__conditional *c, const char *list, bool is_strong)
{
    weft__span all = weft__field_trim(list, strlen(list));
    if (all.bytes == 1 && *all.at == '*')
        return true;
    tag current;
    return current_tag(c, &current) && has_tag(list, &current, is_strong);
}

/*
 * Conditions.
 */

/* Parse the date of a field. Return false if the date or mtime is missing or invalid. */
static bool has_date(const weft__conditional *c, const char *value, int64_t *date)
{
    if (value == NULL || c->mtime == WEFT__DATE_NONE)
        return false;
    *date = weft__date_parse(value);
    return *date != WEFT__DATE_NONE;
}

static bool is_get_or_head(const weft__conditional *c)
{
    return strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0;
}

static bool is_lost_update(const weft__conditional *c)
{
    int64_t date;
    if (c->if_match != NULL)
        return !tag_is_listed(c, c->if_match, true);
    return has_date(c, c->if_unmodified_since, &date) && c->mtime > date;
}

static bool is_unmodified(const weft__conditional *c)
{
    int64_t date;
    if (c->if_none_match != NULL)
        return tag_is_listed(c, c->if_none_match, false);
    return is_get_or_head(c) && has_date(c, c->if_modified_since, &date) && c->mtime <= date;
}

int weft__conditional_check(const weft__conditional *c)
{
    if (is_lost_update(c))
        return 412;
    if (is_unmodified(c))
        return is_get_or_head(c) ? 304 : 412;
    return 0;
}

bool weft__conditional_allows_range(const weft__conditional *c)
{
    if (strcmp(c->method, "GET") != 0)
        return false;
    if (c->if_range == NULL)
        return true;
    const char *text = c->if_range;
    tag requested, current;
    int64_t date;
    if (take_tag(&text, &requested))
        return *text == '\0' && current_tag(c, &current) && tag_matches(&requested, &current, true);
    return has_date(c, c->if_range, &date) && date == c->mtime &&
           (c->now == 0 || c->mtime < c->now);
}
