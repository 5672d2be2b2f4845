#include "hub/client/credentials.h"

#include "hub/text/creds.h"
#include "hub/text/nkey.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define CREDS_BYTES_MAX (64 * 1024)

static int member_write(weft__buffer *out, const char *name, const char *value)
{
    int rc = weft__output_printf(out, ",\"%s\":", name);
    return rc == 0 ? weft__output_json_string(out, value) : rc;
}

static int password_write(weft__buffer *out, const char *user, const char *password)
{
    int rc = member_write(out, "user", user);
    return rc == 0 ? member_write(out, "pass", password) : rc;
}

/* Append the signature of the nonce, and the JWT, or without a JWT the public key. */
static int signature_write(weft__buffer *out, weft__slice seed, weft__slice jwt, const char *nonce)
{
    weft__nkey key;
    char signature[WEFT__NKEY_SIGNATURE_TEXT_BYTES];
    if (nonce[0] == '\0')
        return weft_fail(-EACCES, "the server does not accept nkeys: its INFO has no nonce");
    int rc = weft__nkey_open(&key, seed);
    if (rc < 0)
        return weft_fail(rc, "the seed of the nkey cannot be used");
    rc = weft__nkey_sign(&key, weft__slice_of(nonce), signature);
    if (rc == 0 && jwt.bytes > 0)
        rc = weft__output_printf(out, ",\"jwt\":\"%.*s\"", (int)jwt.bytes, jwt.data);
    else if (rc == 0)
        rc = member_write(out, "nkey", key.public_text);
    weft__nkey_wipe(&key);
    return rc == 0 ? member_write(out, "sig", signature) : rc;
}

/* Read a whole file into text. Returns its length or an error. */
static ssize_t creds_read(const char *path, char text[CREDS_BYTES_MAX])
{
    int fd = weft_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return weft_fail(-EINVAL, "cannot open the credentials %s: %s", path, strerror(-fd));
    ssize_t n = weft_read_full(fd, text, CREDS_BYTES_MAX);
    weft_close(fd);
    if (n == CREDS_BYTES_MAX)
        return weft_fail(-EINVAL, "the credentials %s are larger than %d bytes", path,
                         CREDS_BYTES_MAX);
    return n;
}

static int creds_write_text(weft__buffer *out, weft__slice text, const char *path,
                            const char *nonce)
{
    weft__creds creds;
    if (weft__creds_parse(&creds, text) < 0)
        return weft_fail(-EINVAL, "the credentials %s have no JWT or no seed", path);
    return signature_write(out, creds.seed, creds.jwt, nonce);
}

static int creds_write(weft__buffer *out, const char *path, const char *nonce)
{
    char *text = malloc(CREDS_BYTES_MAX);
    if (text == NULL)
        return -ENOMEM;
    ssize_t n = creds_read(path, text);
    int rc = n < 0 ? (int)n : creds_write_text(out, (weft__slice){text, (size_t)n}, path, nonce);
    explicit_bzero(text, CREDS_BYTES_MAX);
    free(text);
    return rc;
}

static int user_write(weft__buffer *out, const char *text, const char *colon)
{
    char *user = strndup(text, (size_t)(colon - text));
    if (user == NULL)
        return -ENOMEM;
    int rc = password_write(out, user, colon + 1);
    free(user);
    return rc;
}

static int url_write(weft__buffer *out, const weft__server *server)
{
    if (server->user == NULL)
        return 0;
    if (server->password == NULL)
        return member_write(out, "auth_token", server->user);
    return password_write(out, server->user, server->password);
}

static bool is_seed(const char *text)
{
    return strncmp(text, "SU", 2) == 0 && strlen(text) == WEFT__NKEY_SEED_CHARACTERS;
}

int weft__credentials_write(weft__buffer *out, const char *text, const weft__server *server,
                            const char *nonce)
{
    if (text == NULL)
        return url_write(out, server);
    if (strchr(text, '/') != NULL)
        return creds_write(out, text, nonce);
    if (is_seed(text))
        return signature_write(out, weft__slice_of(text), (weft__slice){0}, nonce);
    const char *colon = strchr(text, ':');
    return colon != NULL ? user_write(out, text, colon) : member_write(out, "auth_token", text);
}
