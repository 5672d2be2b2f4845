/*
 * Read JSON (RFC 8259), strictly: UTF-8 without a byte order mark, no comments, no trailing commas,
 * no text after the value, no escapes of single surrogates.
 *
 * A document is an array of nodes in the order of the text. The nodes point into the text, which
 * must outlive the document. Limits bound what a server can make a client allocate.
 */
#ifndef WEFT_HUB_TEXT_JSON_READ_H
#define WEFT_HUB_TEXT_JSON_READ_H

#include "hub/text/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define WEFT__JSON_DEPTH_MAX 32 /* arrays and objects inside of each other */
#define WEFT__JSON_NODES_MAX 4096

typedef enum weft__json_kind {
    WEFT__JSON_NULL,
    WEFT__JSON_FALSE,
    WEFT__JSON_TRUE,
    WEFT__JSON_NUMBER,
    WEFT__JSON_STRING,
    WEFT__JSON_ARRAY,
    WEFT__JSON_OBJECT,
} weft__json_kind;

typedef struct weft__json_node {
    weft__json_kind kind;
    uint32_t end;     /* index of the node after this node and its children */
    weft__slice name; /* of a member, as in the text, without quotes; data NULL: not a member */
    weft__slice text; /* of a number or a string, as in the text, without quotes */
} weft__json_node;

/* All-zero is empty. */
typedef struct weft__json_doc {
    weft__json_node *nodes; /* nodes[0] is the root */
    uint32_t count, capacity;
} weft__json_doc;

/*
 * Read a document. A document that was read before is replaced, and its memory is used again. Free
 * the document with weft__json_free, also after an error. After an error, the document is empty.
 * Returns 0, or:
 * -EBADMSG if the text is not JSON
 * -EMSGSIZE if the text exceeds a limit
 * -ENOMEM if memory is exhausted
 */
int weft__json_parse(weft__json_doc *doc, const char *text, size_t bytes);
void weft__json_free(weft__json_doc *doc);

/*
 * Return a member by its path from the root, for example "config.max_age". Returns NULL if there is
 * none. Of members with equal names, the last one counts. Names are compared as in the text: a name
 * with an escape or a dot has no path.
 */
const weft__json_node *weft__json_find(const weft__json_doc *doc, const char *path);

/* Like weft__json_find, from an object of the document. */
const weft__json_node *weft__json_find_in(const weft__json_doc *doc, const weft__json_node *object,
                                          const char *path);

/* Return the first child of an array or object, or NULL. */
const weft__json_node *weft__json_first(const weft__json_doc *doc, const weft__json_node *parent);

/* Return the next child of the same parent, or NULL. */
const weft__json_node *weft__json_next(const weft__json_doc *doc, const weft__json_node *parent,
                                       const weft__json_node *child);

/* Return the integer at a path. Returns otherwise if there is none, or it does not fit. */
int64_t weft__json_integer(const weft__json_doc *doc, const char *path, int64_t otherwise);

/* Return whether the value at a path is true. */
bool weft__json_is_true(const weft__json_doc *doc, const char *path);

/*
 * Decode the string at a path into out, with a NUL. Returns its length, or:
 * -EBADMSG if the string contains U+0000
 * -EMSGSIZE if the string does not fit
 * -ENOENT if there is no string
 */
int weft__json_copy_string(const weft__json_doc *doc, const char *path, char *out, size_t room);

/* Like weft__json_copy_string, of a node. node may be NULL. */
int weft__json_copy_text(const weft__json_node *node, char *out, size_t room);

#endif
