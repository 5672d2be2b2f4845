/* Conditional requests: whether to do what they ask for. */
#include "http/condition.h"

#include "http/chars.h"
#include "http/date.h"
#include "http/field.h"

#include <string.h>

/*
 * Entity tags.
 */

typedef struct tag {
    weft__piece opaque; /* with its quotes */
    bool is_weak;
} tag;

static bool is_tag_char(char c)
{
    return weft__char_is(c, WEFT__CHAR_VALUE) && c != '"' && !weft__char_is_blank(c);
}

/* Take one from the front. False if there is none. */
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
    out->opaque = (weft__piece){begin, (size_t)(end + 1 - begin)};
    *text = end + 1;
    return true;
}

static bool is_same(const tag *a, const tag *b, bool is_strong)
{
    if (is_strong && (a->is_weak || b->is_weak))
        return false;
    return a->opaque.bytes == b->opaque.bytes &&
           memcmp(a->opaque.at, b->opaque.at, a->opaque.bytes) == 0;
}

static const char *skip(const char *text, bool (*is_skipped)(char))
{
    while (is_skipped(*text))
        text++;
    return text;
}

static bool is_between(char c)
{
    return weft__char_is_blank(c) || c == ',';
}

/* Is the tag in the list? What comes behind something that is no tag is not in it. */
static bool has_tag(const char *list, const tag *wanted, bool is_strong)
{
    tag item;
    for (list = skip(list, is_between); take_tag(&list, &item); list = skip(list, is_between)) {
        const char *behind = skip(list, weft__char_is_blank);
        if (*behind != ',' && *behind != '\0')
            return false;
        if (is_same(&item, wanted, is_strong))
            return true;
    }
    return false;
}

static bool current_tag(const weft__condition *c, tag *out)
{
    const char *text = c->etag;
    return text != NULL && take_tag(&text, out) && *text == '\0';
}

/* If-Match or If-None-Match: is what there is now among these? */
static bool is_named(const weft__condition *c, const char *list, bool is_strong)
{
    weft__piece all = weft__field_trim(list, strlen(list));
    if (all.bytes == 1 && *all.at == '*')
        return true;
    tag now;
    return current_tag(c, &now) && has_tag(list, &now, is_strong);
}

/*
 * The conditions.
 */

/* Is the date of a field one that can be compared with? */
static bool has_date(const weft__condition *c, const char *value, int64_t *date)
{
    if (value == NULL || c->mtime == WEFT__DATE_NONE)
        return false;
    *date = weft__date_parse(value);
    return *date != WEFT__DATE_NONE;
}

static bool is_reading(const weft__condition *c)
{
    return strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0;
}

static bool is_lost_update(const weft__condition *c)
{
    int64_t date;
    if (c->if_match != NULL)
        return !is_named(c, c->if_match, true);
    return has_date(c, c->if_unmodified_since, &date) && c->mtime > date;
}

static bool is_known(const weft__condition *c)
{
    int64_t date;
    if (c->if_none_match != NULL)
        return is_named(c, c->if_none_match, false);
    return is_reading(c) && has_date(c, c->if_modified_since, &date) && c->mtime <= date;
}

int weft__condition_check(const weft__condition *c)
{
    if (is_lost_update(c))
        return 412;
    if (is_known(c))
        return is_reading(c) ? 304 : 412;
    return 0;
}

bool weft__condition_allows_range(const weft__condition *c)
{
    if (strcmp(c->method, "GET") != 0)
        return false;
    if (c->if_range == NULL)
        return true;
    const char *text = c->if_range;
    tag asked, now;
    int64_t date;
    if (take_tag(&text, &asked))
        return *text == '\0' && current_tag(c, &now) && is_same(&asked, &now, true);
    return has_date(c, c->if_range, &date) && date == c->mtime &&
           (c->now == 0 || c->mtime < c->now);
}
