/* What fields are made of: names, values, words, lists. */
#ifndef WEFT_HTTP_FIELD_H
#define WEFT_HTTP_FIELD_H

#include <stdbool.h>
#include <stddef.h>

/* Some bytes of a text. */
typedef struct weft__piece {
    const char *at;
    size_t bytes;
} weft__piece;

/* Is it a token, as a method or a field's name has to be? The empty one is none. */
bool weft__field_is_token(const char *text, size_t bytes);

/*
 * May it be a field's value? Nothing in it ends the line or is a control character, but tabs. Bytes
 * above ASCII may.
 */
bool weft__field_is_value(const char *text, size_t bytes);

/* Are these bytes that word, whatever the case of letters? */
bool weft__field_is_word(const char *text, size_t bytes, const char *word);

/* Without the blanks around it. */
weft__piece weft__field_trim(const char *text, size_t bytes);

/*
 * The next item of a list, without blanks around it; empty ones are passed over. *rest starts as
 * the list and is moved on. False at its end. Quotes mean nothing: not for lists of quoted strings.
 */
bool weft__field_next(const char **rest, weft__piece *item);

/* The same for a list of so many bytes, of which empty items count. *rest is at NULL at its end. */
bool weft__field_element(weft__piece *rest, weft__piece *element);

/* Is token in a list of tokens, "keep-alive, Upgrade" say? Whatever the case; parameters aside. */
bool weft__field_has_token(const char *list, size_t bytes, const char *token);

#endif
