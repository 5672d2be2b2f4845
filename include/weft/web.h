/*
 * The public headers of libweft-web: HTTP servers, clients and proxies, WebSocket, TLS and URLs.
 *
 * This header includes <weft.h>. `pkg-config --cflags --libs weft-web` prints the build flags.
 */
#ifndef WEFT_WEB_H
#define WEFT_WEB_H

#include <weft.h>
#include <weft/fetch.h>
#include <weft/http.h>
#include <weft/http_files.h>
#include <weft/http_metrics.h>
#include <weft/http_options.h>
#include <weft/http_proxy.h>
#include <weft/http_route.h>
#include <weft/inspect.h>
#include <weft/tls.h>
#include <weft/url.h>
#include <weft/ws.h>

#endif
