/* Keys of key-value buckets, for the parts of a hub that store state in them. */
#ifndef WEFT_HUB_JETSTREAM_KEYS_H
#define WEFT_HUB_JETSTREAM_KEYS_H

#include "hub/jetstream/entry.h"

/* Write a key of the bucket of weft_hub_set. *revision is in-out. Does not check the key. */
int weft__key_set(weft_hub *hub, const char *key, weft__slice data, uint64_t *revision);

/* Make a message of an entry. Returns 0 or -ENOMEM. */
int weft__js_entry_message(weft_hub *hub, const weft__js_entry *e, const char *to,
                           weft_hub_msg **out);

#endif
