#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 256

static void append(json_writer *w, const char *text, size_t bytes)
{
    if (w->has_failed)
        return;
    if (w->capacity - w->bytes <= bytes) { /* keep space for the NUL */
        size_t wanted = w->bytes + bytes + 1;
        size_t capacity = w->capacity < CAPACITY_MIN ? CAPACITY_MIN : w->capacity;
        while (capacity < wanted)
            capacity *= 2;
        char *larger = realloc(w->text, capacity);
        if (larger == NULL) {
            w->has_failed = true;
            return;
        }
        w->text = larger;
        w->capacity = capacity;
    }
    memcpy(w->text + w->bytes, text, bytes);
    w->bytes += bytes;
    w->text[w->bytes] = '\0';
}

/* Separate a value from the value before it. */
static void begin_value(json_writer *w)
{
    if (w->needs_comma)
        append(w, ",", 1);
    w->needs_comma = true;
}

void json_open(json_writer *w, char bracket)
{
    begin_value(w);
    append(w, &bracket, 1);
    w->needs_comma = false;
}

void json_close(json_writer *w, char bracket)
{
    append(w, &bracket, 1);
    w->needs_comma = true;
}

void json_name(json_writer *w, const char *name)
{
    json_string(w, name);
    append(w, ":", 1);
    w->needs_comma = false;
}

void json_string(json_writer *w, const char *text)
{
    begin_value(w);
    append(w, "\"", 1);
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        append(w, text, plain);
        text += plain;
        if (*text == '\0')
            break;
        char escape[8];
        int bytes = snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text++);
        append(w, escape, (size_t)bytes);
    }
    append(w, "\"", 1);
}

void json_number(json_writer *w, int64_t number)
{
    char digits[24];
    begin_value(w);
    append(w, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
}

void json_bool(json_writer *w, bool is_true)
{
    begin_value(w);
    append(w, is_true ? "true" : "false", is_true ? 4 : 5);
}

void json_line(json_writer *w)
{
    append(w, "\n", 1);
    w->needs_comma = false;
}
