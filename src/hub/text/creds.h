/*
 * The text of a .creds file of NATS: a JWT and the seed of an nkey (nkey.h), each on a line between
 * a line with BEGIN and a line with END:
 *
 *     -----BEGIN NATS USER JWT-----
 *     eyJ0...
 *     ------END NATS USER JWT------
 *
 *     -----BEGIN USER NKEY SEED-----
 *     SUAM...
 *     ------END USER NKEY SEED------
 */
#ifndef WEFT_HUB_TEXT_CREDS_H
#define WEFT_HUB_TEXT_CREDS_H

#include "hub/text/slice.h"

/* The slices point into the text. The caller wipes the text after use. */
typedef struct weft__creds {
    weft__slice jwt;  /* letters, digits, '-', '_', '=' and '.' */
    weft__slice seed; /* letters and digits */
} weft__creds;

/*
 * Find the JWT and the seed. Returns 0, or:
 * -EINVAL if one of them is missing or has other characters
 */
int weft__creds_parse(weft__creds *creds, weft__slice text);

#endif
