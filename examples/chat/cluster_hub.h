/* The connection of a cluster, for the files that use the hub. */
#ifndef CHAT_CLUSTER_HUB_H
#define CHAT_CLUSTER_HUB_H

#include "peer_message.h"

#include <weft/hub.h>

/* Return the open hub. */
weft_hub *cluster_hub(void);

/* Write the name of a room in the hub: of its owner, or of the copy in this process. */
void cluster_owner_name(const char *room_name, char out[ADDRESS_BYTES]);
void cluster_address(const char *room_name, char out[ADDRESS_BYTES]);

/*
 * Append an entry to a key of the log. *number is the last entry of the key that the caller has
 * read, and becomes the number of the new entry. A shield delays the error of a lost lease, which
 * is
 * -ESTALE, too. Returns 0, an error of weft_hub_append, or:
 * -ESTALE if the key has later entries
 * -ETIMEDOUT if the hub does not answer in time; the entry may have been stored
 */
int cluster_append(const char *key, const peer_message *m, uint64_t *number);

/*
 * Read the entry of a key after *number, and advance *number. The caller frees out->text.
 * Returns 1, 0 if there is no later entry, or an error of weft_hub_next.
 */
int cluster_read(const char *key, uint64_t *number, peer_message *out);

/* Send a message to a name, at most once. Returns 0 or an error of weft_hub_tell. */
int cluster_tell(const char *to, const peer_message *m);

/*
 * Call a name, and wait for the reply for a limited time. The caller frees reply->text. Returns 0,
 * an error of weft_hub_call, or:
 * -EBADMSG if the reply is not a message
 * -ETIMEDOUT if there is no reply in time; the call may have taken effect
 */
int cluster_call(const char *to, const peer_message *m, peer_message *reply);

/* Reply to a call. Returns 0 or an error of weft_hub_reply. */
int cluster_reply(weft_hub_msg *call, const peer_message *m);

#endif
