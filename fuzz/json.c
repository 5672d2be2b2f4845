/*
 * Fuzz the JSON reader and writer of examples/chat. A text that the reader accepts is written again
 * from its values. The reader must read the same values from the new text.
 */
#include "chat/json.h"
#include "require.h"

#include <errno.h>

#define VALUES_MAX 128

/* Write a value and all values inside of it. Return the index of the next value. */
static size_t write_value(json_writer *w, const json_value *values, size_t index, char *text,
                          size_t capacity)
{
    const json_value *v = &values[index];
    int64_t number;
    bool is_object = v->kind == JSON_OBJECT;
    switch (v->kind) {
    case JSON_STRING:
        REQUIRE(json_decode(v, text, capacity) >= 0);
        REQUIRE(strlen(text) <= v->bytes);
        json_string(w, text);
        break;
    case JSON_NUMBER:
        json_number(w, json_integer(v, &number) == 0 ? number : 0);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        json_open(w, is_object ? '{' : '[');
        for (size_t i = index + 1; i < index + v->count;) {
            if (is_object) {
                REQUIRE(values[i].kind == JSON_STRING && values[i].count == 1);
                REQUIRE(json_decode(&values[i], text, capacity) >= 0);
                REQUIRE(json_member(v, text) == &values[i + 1]);
                json_name(w, text);
                i++;
            }
            i = write_value(w, values, i, text, capacity);
        }
        json_close(w, is_object ? '}' : ']');
        break;
    default:
        json_bool(w, v->kind == JSON_TRUE);
    }
    return index + v->count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    json_value values[VALUES_MAX], again[VALUES_MAX];
    char *input = malloc(bytes + 1), *text = malloc(bytes + 1);
    REQUIRE(input != NULL && text != NULL);
    if (bytes > 0)
        memcpy(input, data, bytes);
    ssize_t count = json_read(values, VALUES_MAX, input, bytes);
    REQUIRE(count > 0 || count == -EBADMSG || count == -EMSGSIZE);
    REQUIRE(count <= VALUES_MAX);
    if (count > 0) {
        json_writer w = {0};
        REQUIRE(write_value(&w, values, 0, text, bytes + 1) == (size_t)count);
        REQUIRE(!w.has_failed);
        REQUIRE(json_read(again, VALUES_MAX, w.text, w.bytes) == count);
        for (ssize_t i = 0; i < count; i++) {
            REQUIRE(again[i].count == values[i].count);
            REQUIRE(again[i].kind == values[i].kind || values[i].kind == JSON_NULL);
        }
        free(w.text);
    }
    free(text);
    free(input);
    return 0;
}
