/*
 * Fuzz the paths of requests. An accepted path never leads above the root, and equals the result of
 * a slow and simple model.
 */
#include "http/url/path.h"
#include "require.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Require a clean path: only the last segment may be empty, and no segment is "." or "..". */
static void require_clean(const char *path)
{
    REQUIRE(path[0] == '/');
    REQUIRE(strstr(path, "//") == NULL && strstr(path, "/./") == NULL);
    REQUIRE(strstr(path, "/../") == NULL && strchr(path, '\\') == NULL);
    const char *last = strrchr(path, '/');
    REQUIRE(strcmp(last, "/.") != 0 && strcmp(last, "/..") != 0);
    for (const char *c = path; *c != '\0'; c++)
        REQUIRE((unsigned char)*c >= 0x20 && *c != 0x7f);
}

/* Decode all escapes. Return false for %2f, and for characters that a path must not contain. */
static bool decode(const char *from, char *to)
{
    for (; *from != '\0'; from++) {
        unsigned c = (unsigned char)*from;
        if (c == '%') {
            char digits[3] = {from[1], from[1] != '\0' ? from[2] : '\0', '\0'};
            if (strspn(digits, "0123456789abcdefABCDEF") != 2)
                return false;
            c = (unsigned)strtoul(digits, NULL, 16);
            if (c == '/')
                return false;
            from += 2;
        }
        if (c < 0x20 || c == 0x7f || c == '\\')
            return false;
        *to++ = (char)c;
    }
    *to = '\0';
    return true;
}

/* A model of weft__path_clean. Return a new string, or NULL if the path is refused. */
static char *model(const char *path)
{
    size_t bytes = strlen(path);
    char *decoded = malloc(bytes + 1), *out = calloc(1, bytes + 2);
    bool is_good = path[0] == '/' && decode(path, decoded);
    bool is_folder = true;
    char *rest = decoded, *segment;
    while (is_good && (segment = strsep(&rest, "/")) != NULL) {
        bool is_up = strcmp(segment, "..") == 0;
        is_folder = is_up || segment[0] == '\0' || strcmp(segment, ".") == 0;
        if (is_up && out[0] == '\0')
            is_good = false;
        else if (is_up)
            *strrchr(out, '/') = '\0';
        else if (!is_folder)
            strcat(strcat(out, "/"), segment);
    }
    if (is_folder)
        strcat(out, "/");
    free(decoded);
    if (is_good)
        return out;
    free(out);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes);
    char *expected = model(text);
    ssize_t length = weft__path_clean(text);
    REQUIRE((length >= 0) == (expected != NULL));
    if (length >= 0) {
        REQUIRE((size_t)length == strlen(text));
        REQUIRE(strcmp(text, expected) == 0);
        require_clean(text);
        if (strchr(text, '%') == NULL) { /* otherwise a second call decodes more */
            char *again = strdup(text);
            REQUIRE(weft__path_clean(again) == length && strcmp(again, text) == 0);
            free(again);
        }
    }
    free(expected);
    free(text);
    return 0;
}
