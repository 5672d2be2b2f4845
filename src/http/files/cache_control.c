/*
 * Rules for Cache-Control. A rule has patterns and a value. The first rule with a matching pattern
 * applies. The lookup of a file finds the rule, so that a request for a cached lookup costs
 * nothing.
 */
#include "http/files/files.h"
#include "http/text/field.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Return whether text matches a pattern with * and ?. The time is O(pattern.bytes * length). */
static bool glob_match(weft__span pattern, const char *text)
{
    size_t p = 0, star = SIZE_MAX;
    const char *retry = NULL;
    while (*text != '\0') {
        if (p < pattern.bytes && pattern.at[p] == '*') {
            star = p++;
            retry = text;
        } else if (p < pattern.bytes && (pattern.at[p] == '?' || pattern.at[p] == *text)) {
            p++;
            text++;
        } else if (star != SIZE_MAX) { /* let the last * match one more character */
            p = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (p < pattern.bytes && pattern.at[p] == '*')
        p++;
    return p == pattern.bytes;
}

/* A pattern with a slash applies to the whole path. Other patterns apply to the last segment. */
static bool pattern_match(weft__span pattern, const char *name)
{
    if (memchr(pattern.at, '/', pattern.bytes) == NULL) {
        const char *slash = strrchr(name, '/');
        return glob_match(pattern, slash != NULL ? slash + 1 : name);
    }
    if (pattern.at[0] == '/')
        pattern = (weft__span){pattern.at + 1, pattern.bytes - 1};
    return glob_match(pattern, name);
}

bool weft__cache_patterns_match(const char *patterns, const char *name)
{
    weft__span pattern;
    while (weft__field_next(&patterns, &pattern))
        if (pattern_match(pattern, name))
            return true;
    return false;
}

const char *weft__cache_control_of(const weft_http_files_options *options, const char *name)
{
    const char *value = options->cache_control;
    for (size_t i = 0; i < options->cache_rules_count; i++)
        if (weft__cache_patterns_match(options->cache_rules[i].patterns, name)) {
            value = options->cache_rules[i].value;
            break;
        }
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int rule_check(const weft_http_cache_rule *rule)
{
    if (rule->patterns == NULL || rule->patterns[strspn(rule->patterns, " \t,")] == '\0')
        return weft_fail(-EINVAL, "weft_http_files_new: a rule of cache_rules has no pattern");
    if (rule->value == NULL || !weft__field_is_value(rule->value, strlen(rule->value)))
        return weft_fail(-EINVAL,
                         "weft_http_files_new: the value of %s in cache_rules is NULL or has an "
                         "invalid character",
                         rule->patterns);
    return 0;
}

int weft__cache_rules_copy(const weft_http_files_options *options,
                           const weft_http_cache_rule **rules)
{
    size_t count = options->cache_rules_count;
    *rules = NULL;
    for (size_t i = 0; i < count; i++) {
        int rc = rule_check(&options->cache_rules[i]);
        if (rc < 0)
            return rc;
    }
    weft_http_cache_rule *copy = count > 0 ? calloc(count, sizeof *copy) : NULL;
    *rules = copy;
    if (copy == NULL)
        return count > 0 ? -ENOMEM : 0;
    for (size_t i = 0; i < count; i++) {
        copy[i].patterns = strdup(options->cache_rules[i].patterns);
        copy[i].value = strdup(options->cache_rules[i].value);
        if (copy[i].patterns == NULL || copy[i].value == NULL)
            return -ENOMEM;
    }
    return 0;
}

void weft__cache_rules_free(const weft_http_cache_rule *rules, size_t count)
{
    for (size_t i = 0; rules != NULL && i < count; i++) {
        free((char *)(uintptr_t)rules[i].patterns);
        free((char *)(uintptr_t)rules[i].value);
    }
    free((void *)(uintptr_t)rules);
}
