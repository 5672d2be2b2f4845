/* Nkeys: seeds, public keys and signatures. Signatures need OpenSSL. */
#include "hub/text/nkey.h"
#include "support/cases.h"
#include "support/suite.h"

/* The example in the documentation of NATS. */
#define SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
#define PUBLIC "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

static weft__nkey key;

static void assert_has_no_secret(void)
{
    static const weft__nkey empty;
    ck_assert_mem_eq(&key, &empty, sizeof key);
}

static void is_not_seed(const char *text)
{
    memset(&key, 'x', sizeof key);
    ck_assert_msg(weft__nkey_open(&key, weft__slice_of(text)) == -EINVAL, "%s", text);
    assert_has_no_secret();
}

TEST(a_text_that_is_not_the_seed_of_a_user_is_rejected)
{
    EACH_TEXT(
        is_not_seed, "", "SU", "SUACSSL3", PUBLIC,
        /* an account, another CRC, one character changed, too short, too long */
        "SAACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3WY",
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYZCU3VY",
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3V", SEED "A",
        /* bits after the last byte, lower case, padding, white space, a digit not in base32 */
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VZ",
        "suacssl3uahudxkfsnvuzrf5uhpmwz6bfdtj7m6usdxiednppqyyycu3vy", SEED "======", SEED "\n",
        "SUACSSL1UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY");
}

#ifdef WEFT_HAS_TLS

TEST(the_public_key_is_derived_from_the_seed)
{
    ck_assert_int_eq(weft__nkey_open(&key, weft__slice_of(SEED)), 0);
    ck_assert_str_eq(key.public_text, PUBLIC);
    weft__nkey_wipe(&key);
    assert_has_no_secret();
}

/* RFC 8032, 7.1, test 2. */
static const unsigned char rfc_private[] = {
    0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11, 0x4e, 0x0f,
    0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb};
static const unsigned char rfc_signature[] = {
    0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40,
    0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda,
    0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15, 0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c,
    0x38, 0x7b, 0x2e, 0xae, 0xb4, 0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00};

TEST(a_nonce_is_signed_with_ed25519)
{
    char out[WEFT__NKEY_SIGNATURE_TEXT_BYTES], expected[WEFT__NKEY_SIGNATURE_TEXT_BYTES];
    memcpy(key.private_key, rfc_private, sizeof key.private_key);
    ck_assert_int_eq(weft__nkey_sign(&key, (weft__slice){"\x72", 1}, out), 0);
    weft__base64url_encode(rfc_signature, sizeof rfc_signature, expected);
    ck_assert_str_eq(out, expected);
    ck_assert_uint_eq(strlen(out), 86);
}

#else

TEST(without_openssl_nkeys_are_not_supported)
{
    char out[WEFT__NKEY_SIGNATURE_TEXT_BYTES];
    ck_assert_int_eq(weft__nkey_open(&key, weft__slice_of(SEED)), -ENOTSUP);
    assert_has_no_secret();
    ck_assert_int_eq(weft__nkey_sign(&key, weft__slice_of("nonce"), out), -ENOTSUP);
}

#endif
