/*
 * Negotiation of extensions (RFC 6455, 9.1; RFC 7692, 7.1). A client offers, in the order of its
 * preference. The server accepts at most one offer of permessage-deflate.
 */
#include "http/text/ctype.h"
#include "http/text/field.h"
#include "ws/deflate.h"

#include <errno.h>
#include <string.h>

#define BITS_MIN 8
#define BITS_MAX 15

/* A parameter. A name or value is a part of the field. */
typedef struct ext_param {
    weft__span name;
    weft__span value; /* at is NULL: none */
} ext_param;

/* The parameters of permessage-deflate as they occur in a field. */
typedef struct deflate_terms {
    bool server_resets;
    bool client_resets;
    bool has_client_bits;
    uint8_t server_bits; /* 0: absent */
    uint8_t client_bits; /* 0: absent, or without a value */
} deflate_terms;

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* Read a token. Returns the position after the token, or NULL. */
static const char *read_token(const char *p, weft__span *token)
{
    token->at = p;
    while (weft__field_is_token(p, 1))
        p++;
    token->bytes = (size_t)(p - token->at);
    return token->bytes > 0 ? p : NULL;
}

/*
 * Read a value: a token, or a quoted string with the content of a token (RFC 6455, 9.1). Returns
 * the position after the value, or NULL.
 */
static const char *read_value(const char *p, weft__span *value)
{
    bool is_quoted = *p == '"';
    p = read_token(p + is_quoted, value);
    if (p == NULL || !is_quoted)
        return p;
    return *p == '"' ? p + 1 : NULL;
}

/* Read "; name" or "; name=value". Returns the position after the parameter, or NULL. */
static const char *read_param(const char *p, ext_param *param)
{
    *param = (ext_param){0};
    p = read_token(skip_blanks(p + 1), &param->name);
    if (p == NULL)
        return NULL;
    const char *after = skip_blanks(p);
    if (*after == '=')
        p = read_value(skip_blanks(after + 1), &param->value);
    return p != NULL ? skip_blanks(p) : NULL;
}

static bool span_is(weft__span s, const char *word)
{
    return weft__field_is_word(s.at, s.bytes, word);
}

/* Return the value of a window size, 8 to 15 without leading zeros. Returns 0 if it is invalid. */
static uint8_t bits_of(weft__span value)
{
    unsigned bits = 0;
    if (value.at == NULL || value.bytes > 2 || value.at[0] == '0')
        return 0;
    for (size_t i = 0; i < value.bytes; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return 0;
        bits = bits * 10 + (unsigned)(value.at[i] - '0');
    }
    return bits >= BITS_MIN && bits <= BITS_MAX ? (uint8_t)bits : 0;
}

/* Add a parameter. Returns false if it is unknown, repeated or invalid (RFC 7692, 7.1). */
static bool terms_add(deflate_terms *t, const ext_param *p)
{
    if (span_is(p->name, "server_no_context_takeover") && !t->server_resets)
        return t->server_resets = p->value.at == NULL;
    if (span_is(p->name, "client_no_context_takeover") && !t->client_resets)
        return t->client_resets = p->value.at == NULL;
    if (span_is(p->name, "server_max_window_bits") && t->server_bits == 0)
        return (t->server_bits = bits_of(p->value)) != 0;
    if (!span_is(p->name, "client_max_window_bits") || t->has_client_bits)
        return false;
    t->has_client_bits = true;
    return p->value.at == NULL || (t->client_bits = bits_of(p->value)) != 0;
}

/* One extension of a field. */
typedef struct extension {
    weft__span name;
    deflate_terms terms;
    bool has_valid_terms; /* all parameters are valid for permessage-deflate */
} extension;

/*
 * Read the next extension. *p is then the rest of the field. Returns 1, 0 at the end, or -EBADMSG.
 */
static int next_extension(const char **p, extension *e)
{
    *e = (extension){.has_valid_terms = true};
    const char *at = *p + strspn(*p, ", \t"); /* empty elements are allowed (RFC 9110, 5.6.1) */
    if (*at == '\0')
        return 0;
    at = read_token(at, &e->name);
    for (at = at != NULL ? skip_blanks(at) : NULL; at != NULL && *at == ';';) {
        ext_param param;
        at = read_param(at, &param);
        if (at != NULL)
            e->has_valid_terms = e->has_valid_terms && terms_add(&e->terms, &param);
    }
    if (at == NULL || (*at != ',' && *at != '\0'))
        return -EBADMSG;
    *p = at;
    return 1;
}

static uint8_t smaller_bits(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* Return the window size that the options want for sent messages. */
static uint8_t wanted_bits(const weft_ws_options *o)
{
    return o->deflate_window_bits != 0 ? (uint8_t)o->deflate_window_bits : BITS_MAX;
}

/* Return whether weft can compress, and the options allow it. */
static bool can_deflate(const weft_ws_options *o)
{
#ifdef WEFT_HAS_GZIP
    return !o->has_no_deflate;
#else
    (void)o;
    return false;
#endif
}

/*
 * Choose the parameters for an offer. The server may impose server_no_context_takeover,
 * client_no_context_takeover and server_max_window_bits, which every client supports. The server
 * accepts server_max_window_bits by including the parameter in the reply (RFC 7692, 7.1.2.1).
 */
static weft__ws_deflate_params params_for(const deflate_terms *t, const weft_ws_options *o)
{
    uint8_t server_bits = t->server_bits != 0 ? t->server_bits : BITS_MAX;
    return (weft__ws_deflate_params){
        .send_bits = smaller_bits(server_bits, wanted_bits(o)),
        .recv_bits = t->client_bits != 0 ? t->client_bits : BITS_MAX,
        .resets_send = t->server_resets || o->has_no_context_takeover,
        .resets_recv = t->client_resets || o->has_no_context_takeover,
        .names_send_bits = t->server_bits != 0 || wanted_bits(o) < BITS_MAX,
    };
}

int weft__ws_extensions_accept(const char *fields, const weft_ws_options *options,
                               weft__ws_deflate_params *params)
{
    extension e;
    int rc, is_accepted = 0;
    while ((rc = next_extension(&fields, &e)) > 0)
        if (is_accepted == 0 && can_deflate(options) && e.has_valid_terms &&
            span_is(e.name, "permessage-deflate")) {
            *params = params_for(&e.terms, options);
            is_accepted = 1;
        }
    return rc < 0 ? rc : is_accepted;
}

/* client_max_window_bits is less than 15 only if the client has offered a value. */
void weft__ws_extensions_add_reply(weft__strbuf *w, const weft__ws_deflate_params *params)
{
    weft__strbuf_printf(w, "permessage-deflate");
    if (params->resets_send)
        weft__strbuf_printf(w, "; server_no_context_takeover");
    if (params->resets_recv)
        weft__strbuf_printf(w, "; client_no_context_takeover");
    if (params->names_send_bits)
        weft__strbuf_printf(w, "; server_max_window_bits=%d", params->send_bits);
    if (params->recv_bits < BITS_MAX)
        weft__strbuf_printf(w, "; client_max_window_bits=%d", params->recv_bits);
}

void weft__ws_extensions_add_offer(weft__strbuf *w, const weft_ws_options *options)
{
    if (!can_deflate(options))
        return;
    weft__strbuf_printf(w, "permessage-deflate");
    if (options->has_no_context_takeover)
        weft__strbuf_printf(w, "; server_no_context_takeover; client_no_context_takeover");
    weft__strbuf_printf(w, "; client_max_window_bits");
    if (wanted_bits(options) < BITS_MAX)
        weft__strbuf_printf(w, "=%d", wanted_bits(options));
}

/*
 * Return whether the terms of a reply fit the offer. The offer has client_max_window_bits, so a
 * reply may have it, with a value that is not larger (RFC 7692, 7.1.2.2). A server that accepts an
 * offer with server_no_context_takeover includes the parameter (RFC 7692, 7.1.1.1).
 */
static bool terms_fit_offer(const deflate_terms *t, const weft_ws_options *o)
{
    bool has_valid_bits = t->client_bits != 0 && t->client_bits <= wanted_bits(o);
    return (!t->has_client_bits || has_valid_bits) &&
           (!o->has_no_context_takeover || t->server_resets);
}

int weft__ws_extensions_check(const char *fields, const weft_ws_options *options,
                              weft__ws_deflate_params *params)
{
    extension e, second;
    int rc = next_extension(&fields, &e);
    if (rc <= 0)
        return rc;
    if (!can_deflate(options) || !span_is(e.name, "permessage-deflate") || !e.has_valid_terms ||
        !terms_fit_offer(&e.terms, options) || next_extension(&fields, &second) != 0)
        return -EBADMSG;
    uint8_t client_bits = e.terms.client_bits != 0 ? e.terms.client_bits : BITS_MAX;
    *params = (weft__ws_deflate_params){
        .send_bits = smaller_bits(client_bits, wanted_bits(options)),
        .recv_bits = e.terms.server_bits != 0 ? e.terms.server_bits : BITS_MAX,
        .resets_send = e.terms.client_resets || options->has_no_context_takeover,
        .resets_recv = e.terms.server_resets,
    };
    return 1;
}
