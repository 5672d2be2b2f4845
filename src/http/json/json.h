/* Write JSON. */
#ifndef WEFT_HTTP_JSON_JSON_H
#define WEFT_HTTP_JSON_JSON_H

#include "base/json_text.h"
#include "http/text/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A writer. All-zero is empty. The caller frees text.data. */
typedef struct weft__json {
    weft__strbuf text; /* has_failed: memory is exhausted */
    bool needs_comma;
} weft__json;

/* Write '{' or '['. */
void weft__json_open(weft__json *w, char bracket);

/* Write '}' or ']'. */
void weft__json_close(weft__json *w, char bracket);

/* Write the name of the next member. name needs no escapes. */
void weft__json_name(weft__json *w, const char *name);

/* Write a string, cut to WEFT__JSON_STRING_BYTES_MAX. text may be NULL. */
#define WEFT__JSON_STRING_BYTES_MAX 512
void weft__json_string(weft__json *w, const char *text);

void weft__json_number(weft__json *w, int64_t number);
void weft__json_bool(weft__json *w, bool is_true);

/* Write a number as a string, because JavaScript rounds integers above 2^53. */
void weft__json_id(weft__json *w, uint64_t id);

/* Write a value that is JSON already. */
void weft__json_raw(weft__json *w, const char *text, size_t bytes);

/* Write a member of an object: its name and its value. */
void weft__json_name_string(weft__json *w, const char *name, const char *text);
void weft__json_name_number(weft__json *w, const char *name, int64_t number);
void weft__json_name_bool(weft__json *w, const char *name, bool is_true);
void weft__json_name_id(weft__json *w, const char *name, uint64_t id);

#endif
