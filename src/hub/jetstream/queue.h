/* Durable queues: the names that they have in JetStream, and what a worker must know. */
#ifndef WEFT_HUB_JETSTREAM_QUEUE_H
#define WEFT_HUB_JETSTREAM_QUEUE_H

#include "hub/jetstream/api.h"
#include "hub/text/subject.h"

/* All workers of a queue share one consumer. */
#define WEFT__QUEUE_CONSUMER "work"

/* What a worker reads from the servers about a queue. */
typedef struct weft__queue_info {
    double ack_s;
    unsigned deliveries_max;                      /* 0: unlimited */
    char dead_letters[WEFT__TOKEN_BYTES_MAX + 1]; /* "": discard them */
} weft__queue_info;

/* Read the options of a queue. Returns 0, an error of weft__js_api, or -ENOENT. */
int weft__queue_read(weft_hub *hub, const char *queue, weft__queue_info *out);

/* Put an item, like weft_hub_put, without checks of the arguments. */
int weft__queue_put(weft_hub *hub, const char *queue, const char *id, weft__slice data);

#endif
