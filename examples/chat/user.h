/* A user: a WebSocket, a fiber that reads commands and a fiber that writes packets. */
#ifndef CHAT_USER_H
#define CHAT_USER_H

#include <weft/web.h>

/* GET /ws. A handler. */
int user_serve(weft_http_request *request, void *ctx);

#endif
