/*
 * Fuzz the JSON reader, base64, nkeys and .creds files. The first byte selects the parser. The rest
 * is the text.
 */
#include "hub/text/base64.h"
#include "hub/text/creds.h"
#include "hub/text/json_read.h"
#include "hub/text/nkey.h"
#include "hub/wire/output.h"
#include "require.h"

#include <errno.h>

static bool has_children(const weft__json_node *node)
{
    return node->kind == WEFT__JSON_ARRAY || node->kind == WEFT__JSON_OBJECT;
}

/* A decoded string without NUL, written as JSON and read again, is the same string. */
static void fuzz_string(const weft__json_node *node)
{
    size_t room = node->text.bytes + 1; /* decoding never needs more */
    char *text = malloc(room), *again = malloc(room);
    int length = weft__json_copy_text(node, text, room);
    REQUIRE(length >= 0 || length == -EBADMSG);
    if (length >= 0) {
        weft__buffer out = {0};
        weft__json_doc doc = {0};
        REQUIRE(weft__output_json_string(&out, text) == 0);
        REQUIRE(weft__json_parse(&doc, out.data, out.bytes) == 0 && doc.count == 1);
        REQUIRE(weft__json_copy_text(doc.nodes, again, room) == length);
        REQUIRE(strcmp(text, again) == 0);
        weft__json_free(&doc);
        weft__buffer_free(&out);
    }
    free(text);
    free(again);
}

/* The nodes form a tree, in the order of the text. */
static void require_tree(const weft__json_doc *doc)
{
    REQUIRE(doc->nodes[0].end == doc->count);
    for (uint32_t i = 0; i < doc->count; i++) {
        const weft__json_node *node = &doc->nodes[i];
        REQUIRE(node->end > i && node->end <= doc->count);
        REQUIRE(has_children(node) || node->end == i + 1);
        for (const weft__json_node *child = weft__json_first(doc, node); child != NULL;
             child = weft__json_next(doc, node, child)) {
            REQUIRE(child->end <= node->end);
            REQUIRE((child->name.data != NULL) == (node->kind == WEFT__JSON_OBJECT));
        }
        if (node->kind == WEFT__JSON_STRING)
            fuzz_string(node);
    }
}

static void fuzz_json(const char *text, size_t bytes)
{
    weft__json_doc doc = {0};
    int rc = weft__json_parse(&doc, text, bytes);
    REQUIRE(rc == 0 || rc == -EBADMSG || rc == -EMSGSIZE);
    REQUIRE((rc == 0) == (doc.count > 0) && doc.count <= WEFT__JSON_NODES_MAX);
    if (rc == 0)
        require_tree(&doc);
    (void)weft__json_integer(&doc, "a.b", 0);
    (void)weft__json_is_true(&doc, "a");
    weft__json_free(&doc);
}

/* The decoder accepts only what the encoder writes. */
static void fuzz_base64(const char *text, size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);
    char *again = malloc(WEFT__BASE64_BYTES(bytes));
    ssize_t decoded = weft__base64_decode((weft__slice){text, bytes}, data, bytes);
    REQUIRE(decoded == -EBADMSG || (decoded >= 0 && (size_t)decoded <= bytes));
    if (decoded >= 0) {
        REQUIRE(weft__base64_encode(data, (size_t)decoded, again) == bytes);
        REQUIRE(bytes == 0 || memcmp(again, text, bytes) == 0);
    }
    free(data);
    free(again);
}

static void fuzz_creds(const char *text, size_t bytes)
{
    weft__creds creds;
    int rc = weft__creds_parse(&creds, (weft__slice){text, bytes});
    REQUIRE(rc == 0 || rc == -EINVAL);
    if (rc < 0)
        return;
    REQUIRE(creds.jwt.bytes > 0 && creds.jwt.data + creds.jwt.bytes <= text + bytes);
    REQUIRE(creds.seed.bytes > 0 && creds.seed.data + creds.seed.bytes <= text + bytes);
}

static void fuzz_nkey(const char *text, size_t bytes)
{
    weft__nkey key;
    int rc = weft__nkey_open(&key, (weft__slice){text, bytes});
    REQUIRE(rc == 0 || rc == -EINVAL || rc == -ENOTSUP);
    REQUIRE(rc < 0 || (bytes == WEFT__NKEY_SEED_CHARACTERS && key.public_text[0] == 'U'));
    weft__nkey_wipe(&key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    /* Of the exact size, so that ASan finds reads after its end. */
    char *text = malloc(bytes > 1 ? bytes - 1 : 1);
    REQUIRE(text != NULL);
    memcpy(text, data + 1, bytes - 1);
    switch (data[0]) {
    case 'b':
        fuzz_base64(text, bytes - 1);
        break;
    case 'c':
        fuzz_creds(text, bytes - 1);
        break;
    case 'n':
        fuzz_nkey(text, bytes - 1);
        break;
    default:
        fuzz_json(text, bytes - 1);
    }
    free(text);
    return 0;
}
