#include "http/json/json.h"

#include <string.h>

/* Separate a value from the value before it. */
static void begin_json_value(weft__json *w)
{
    if (w->needs_comma)
        weft__strbuf_add(&w->text, ",", 1);
    w->needs_comma = true;
}

void weft__json_open(weft__json *w, char bracket)
{
    begin_json_value(w);
    weft__strbuf_add(&w->text, &bracket, 1);
    w->needs_comma = false;
}

void weft__json_close(weft__json *w, char bracket)
{
    weft__strbuf_add(&w->text, &bracket, 1);
    w->needs_comma = true;
}

void weft__json_name(weft__json *w, const char *name)
{
    begin_json_value(w);
    weft__strbuf_add(&w->text, "\"", 1);
    weft__strbuf_add(&w->text, name, strlen(name));
    weft__strbuf_add(&w->text, "\":", 2);
    w->needs_comma = false;
}

void weft__json_string(weft__json *w, const char *text)
{
    char escaped[WEFT__JSON_ESCAPE_BYTES_MAX * WEFT__JSON_STRING_BYTES_MAX + 5];
    escaped[0] = '"';
    char *end = weft__json_put_text(escaped + 1, text, WEFT__JSON_STRING_BYTES_MAX);
    *end++ = '"';
    weft__json_raw(w, escaped, (size_t)(end - escaped));
}

void weft__json_number(weft__json *w, int64_t number)
{
    begin_json_value(w);
    weft__strbuf_printf(&w->text, "%lld", (long long)number);
}

void weft__json_bool(weft__json *w, bool is_true)
{
    weft__json_raw(w, is_true ? "true" : "false", is_true ? 4 : 5);
}

void weft__json_id(weft__json *w, uint64_t id)
{
    begin_json_value(w);
    weft__strbuf_printf(&w->text, "\"%llu\"", (unsigned long long)id);
}

void weft__json_raw(weft__json *w, const char *text, size_t bytes)
{
    begin_json_value(w);
    weft__strbuf_add(&w->text, text, bytes);
}

void weft__json_name_string(weft__json *w, const char *name, const char *text)
{
    weft__json_name(w, name);
    weft__json_string(w, text);
}

void weft__json_name_number(weft__json *w, const char *name, int64_t number)
{
    weft__json_name(w, name);
    weft__json_number(w, number);
}

void weft__json_name_bool(weft__json *w, const char *name, bool is_true)
{
    weft__json_name(w, name);
    weft__json_bool(w, is_true);
}

void weft__json_name_id(weft__json *w, const char *name, uint64_t id)
{
    weft__json_name(w, name);
    weft__json_id(w, id);
}
