/* Base64: the vectors of RFC 4648, round trips, and texts that a strict decoder rejects. */
#include "hub/text/base64.h"
#include "support/cases.h"
#include "support/random.h"
#include "support/suite.h"

static const struct {
    const char *data, *code;
} vectors[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="},
               {"fooba", "Zm9vYmE="},
               {"foobar", "Zm9vYmFy"}};

TEST(the_vectors_of_the_rfc_are_encoded_and_decoded)
{
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        char code[WEFT__BASE64_BYTES(6)], data[7];
        size_t bytes = strlen(vectors[i].data);
        ck_assert_uint_eq(weft__base64_encode(vectors[i].data, bytes, code),
                          strlen(vectors[i].code));
        ck_assert_str_eq(code, vectors[i].code);
        ck_assert_int_eq(weft__base64_decode(weft__slice_of(code), data, bytes), (ssize_t)bytes);
        ck_assert_mem_eq(data, vectors[i].data, bytes);
    }
}

TEST(base64url_has_other_characters_and_no_padding)
{
    char code[WEFT__BASE64_BYTES(4)];
    ck_assert_uint_eq(weft__base64_encode("\xfb\xff\xfe\xff", 4, code), 8);
    ck_assert_str_eq(code, "+//+/w==");
    ck_assert_uint_eq(weft__base64url_encode("\xfb\xff\xfe\xff", 4, code), 6);
    ck_assert_str_eq(code, "-__-_w");
}

TEST(all_lengths_survive_a_round_trip_in_memory_of_the_exact_size)
{
    for (size_t bytes = 0; bytes < 200; bytes++) {
        unsigned char data[200];
        for (size_t i = 0; i < bytes; i++)
            data[i] = (unsigned char)random_below(256);
        char *code = malloc(WEFT__BASE64_BYTES(bytes));
        size_t length = weft__base64_encode(data, bytes, code);
        ck_assert_uint_eq(length + 1, WEFT__BASE64_BYTES(bytes));
        weft__slice text = {code, length};
        unsigned char *again = malloc(bytes + 1);
        ck_assert_int_eq(weft__base64_decode(text, again, bytes), (ssize_t)bytes);
        ck_assert_mem_eq(again, data, bytes);
        if (bytes > 0)
            ck_assert_int_eq(weft__base64_decode(text, again, bytes - 1), -EMSGSIZE);
        ck_assert_int_eq(weft__base64_decode(text, code, bytes), (ssize_t)bytes); /* in place */
        ck_assert_mem_eq(code, data, bytes);
        free(again);
        free(code);
    }
}

static void is_rejected(const char *text)
{
    char out[64];
    ck_assert_msg(weft__base64_decode(weft__slice_of(text), out, sizeof out) == -EBADMSG, "%s",
                  text);
}

TEST(a_text_that_no_strict_encoder_writes_is_rejected)
{
    EACH_TEXT(is_rejected, "Z", "Zg", "Zg=", "Zm8", "Zg===", "====", "=",
              "Z===", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "Zm9v\r\n", " Zm9", "Zm9-",
              "Zm_v", "Zm=v", "Z\xc3\xa4v", "Zm9vZ");
    char out[4];
    ck_assert_int_eq(weft__base64_decode((weft__slice){"Zm\0v", 4}, out, 4), -EBADMSG);
}
