/*
 * Direct gets: read a message of a stream without JSON in the reply. Clients of NATS read keys so,
 * if the stream permits it (allow_direct).
 */
#ifndef WEFT_HUB_BROKER_JETSTREAM_DIRECT_GET_H
#define WEFT_HUB_BROKER_JETSTREAM_DIRECT_GET_H

#include "hub/broker/jetstream/stream.h"

/* Return the message that a request asks for (seq, next_by_subj, last_by_subj). */
weft__api_error weft__stored_msg_select(const weft__stream *stream, const weft__json_doc *doc,
                                        weft__stored_msg **out);

/*
 * Reply with the last message of a subject, or if the subject is empty, with what the body names.
 */
void weft__direct_get(weft_hub_broker *b, weft__slice stream_name, weft__slice subject,
                      const weft__publication *p);

#endif
