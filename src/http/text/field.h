/* Parts of header fields: tokens, values, words and lists. No function allocates memory. */
#ifndef WEFT_HTTP_TEXT_FIELD_H
#define WEFT_HTTP_TEXT_FIELD_H

#include <stdbool.h>
#include <stddef.h>

/* A range of bytes in a text. If at is NULL, the span is absent. */
typedef struct weft__span {
    const char *at;
    size_t bytes;
} weft__span;

/*
 * Return whether the bytes are a token. A method and the name of a field must be tokens. An empty
 * text is not a token.
 */
bool weft__field_is_token(const char *text, size_t bytes);

/*
 * Return whether the bytes can be the value of a field. A value must not have control characters
 * except tabs. Non-ASCII bytes are allowed.
 */
bool weft__field_is_value(const char *text, size_t bytes);

/* Return whether the bytes match a word. Ignore case. */
bool weft__field_is_word(const char *text, size_t bytes, const char *word);

/* Return the bytes without blanks at both ends. */
weft__span weft__field_trim(const char *text, size_t bytes);

/*
 * Remove the next item from *rest, a comma-separated list. *item is the item without blanks around
 * it. Skip empty items. Return false at the end of the list. The list must not have quoted strings,
 * because the call splits them at commas.
 */
bool weft__field_next(const char **rest, weft__span *item);

/*
 * Like weft__field_next, but the list is a span, and empty items count. After the last item,
 * rest->at is NULL.
 */
bool weft__field_element(weft__span *rest, weft__span *element);

/*
 * Return whether a list of tokens contains a token, for example "keep-alive, Upgrade". Ignore case
 * and the parameters of items.
 */
bool weft__field_has_token(const char *list, size_t bytes, const char *token);

#endif
