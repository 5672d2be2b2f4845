/* Search in fields and trailers. See head.h. */
#include "http/message/head.h"
#include "http/text/ctype.h"

#include <string.h>
#include <strings.h>

const weft__field *weft__head_field(const weft__head *head, const char *name, uint32_t *index)
{
    size_t bytes = strlen(name);
    for (uint32_t i = *index; i < head->fields_count; i++) {
        const weft__field *f = &head->fields[i];
        if (f->name.bytes == bytes && weft__ctype_match(head->text + f->name.at, name, bytes)) {
            *index = i + 1;
            return f;
        }
    }
    *index = head->fields_count;
    return NULL;
}

const char *weft__trailers_next(const weft__trailers *trailers, const char *name,
                                const char **value)
{
    const char *at = trailers->text;
    if (at == NULL)
        return NULL;
    if (name != NULL) {
        at = name + strlen(name) + 1;
        at += strlen(at) + 1;
    }
    if (at >= trailers->text + trailers->bytes)
        return NULL;
    *value = at + strlen(at) + 1;
    return at;
}

const char *weft__trailers_find(const weft__trailers *trailers, const char *name)
{
    const char *at = NULL, *value;
    while ((at = weft__trailers_next(trailers, at, &value)) != NULL)
        if (strcasecmp(at, name) == 0)
            return value;
    return NULL;
}
