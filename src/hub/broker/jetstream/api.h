/*
 * The API of JetStream: requests in JSON to subjects that start with $JS.API.
 *
 * A function handles one kind of request. It writes the members of the reply, or returns an error.
 */
#ifndef WEFT_HUB_BROKER_JETSTREAM_API_H
#define WEFT_HUB_BROKER_JETSTREAM_API_H

#include "hub/broker/jetstream/consumer.h"

/* A request. The slices point to the message of the client. */
typedef struct weft__api_call {
    weft_hub_broker *broker;
    weft__slice stream_name;   /* the first token after the kind; empty: none */
    weft__slice consumer_name; /* the second; empty: none */
    weft__stream *stream;      /* with stream_name; NULL: does not exist */
    weft__json_doc doc;        /* the body; empty if the request has none */
    weft__json_out *out;
} weft__api_call;

typedef weft__api_error weft__api_fn(weft__api_call *call);

/* Handle a request. subject is without "$JS.API.". */
void weft__api_handle(weft_hub_broker *b, weft__slice subject, const weft__publication *p);

/*
 * Send a reply. If memory for the JSON was exhausted, send an error, which then does not say
 * whether the request was performed. An empty subject gets no reply.
 */
void weft__api_reply(weft_hub_broker *b, weft__slice reply, const weft__json_out *out);

/* stream_api.c */
weft__api_fn weft__api_account_info;
weft__api_fn weft__api_stream_create;
weft__api_fn weft__api_stream_update;
weft__api_fn weft__api_stream_info;
weft__api_fn weft__api_stream_delete;
weft__api_fn weft__api_stream_purge;
weft__api_fn weft__api_stream_names;
weft__api_fn weft__api_message_get;
weft__api_fn weft__api_message_delete;

/* consumer_api.c */
weft__api_fn weft__api_consumer_create;
weft__api_fn weft__api_consumer_info;
weft__api_fn weft__api_consumer_delete;
weft__api_fn weft__api_consumer_names;

/* Write "success":true. */
void weft__api_write_success(weft__json_out *out);

/* Write the members total, offset, limit, and the name of a list. The caller begins the array. */
void weft__api_write_list(weft__json_out *out, size_t total, const char *name);

#endif
