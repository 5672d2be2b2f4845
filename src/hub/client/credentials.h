/* Credentials: what CONNECT says about the user. */
#ifndef WEFT_HUB_CLIENT_CREDENTIALS_H
#define WEFT_HUB_CLIENT_CREDENTIALS_H

#include "hub/client/servers.h"
#include "hub/wire/output.h"

/*
 * Append the members of CONNECT that authenticate the client, each after a comma.
 *
 * text are the credentials of weft_hub_options, or NULL: those of the URL of the server. nonce is
 * of the INFO of the server. Reads the file of a path, so that a new file applies to the next
 * connection. A switchpoint. Returns 0, an error of read(2), or:
 * -EACCES if a nonce is needed and the server has sent none
 * -EINVAL if the credentials are not valid
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if weft was built without OpenSSL and a signature is needed
 */
int weft__credentials_write(weft__buffer *out, const char *text, const weft__server *server,
                            const char *nonce);

#endif
