/* INFO: what a server says about itself. */
#include "hub/client/hub.h"

#include "hub/text/json_read.h"

#include <stdio.h>

/* Servers that do not say otherwise permit this. */
#define PAYLOAD_BYTES_DEFAULT (1024 * 1024)
#define PAYLOAD_BYTES_MAX (1024 * 1024 * 1024)

static size_t info_payload_max(const weft__json_doc *doc)
{
    int64_t bytes = weft__json_integer(doc, "max_payload", PAYLOAD_BYTES_DEFAULT);
    return bytes < 0 ? 0 : bytes > PAYLOAD_BYTES_MAX ? PAYLOAD_BYTES_MAX : (size_t)bytes;
}

static void info_read_server(weft__hub_server *server, const weft__json_doc *doc)
{
    if (weft__json_copy_string(doc, "server_name", server->name, sizeof server->name) < 0)
        server->name[0] = '\0';
    if (weft__json_copy_string(doc, "version", server->version, sizeof server->version) < 0)
        server->version[0] = '\0';
    int rc = weft__json_copy_string(doc, "cluster", server->cluster, sizeof server->cluster);
    if (rc < 0)
        snprintf(server->cluster, sizeof server->cluster, "%s", rc == -EMSGSIZE ? "?" : "");
}

const weft__hub_server *weft__hub_server_of(const weft_hub *hub)
{
    return &hub->info.server;
}

/* A later INFO may omit the nonce and the name of the cluster. */
static int info_read_texts(weft__server_info *info, const weft__json_doc *doc)
{
    int rc = weft__json_copy_string(doc, "nonce", info->nonce, sizeof info->nonce);
    if (rc == -EMSGSIZE)
        return weft_fail(-EPROTO, "the nonce of the server is too long");
    info_read_server(&info->server, doc);
    return 0;
}

static int info_read_doc(weft_hub *hub, const weft__json_doc *doc)
{
    weft__server_info info = {
        .payload_bytes_max = info_payload_max(doc),
        .has_headers = weft__json_is_true(doc, "headers"),
        .needs_tls = weft__json_is_true(doc, "tls_required"),
        .has_tls = weft__json_is_true(doc, "tls_available"),
        .is_lame = weft__json_is_true(doc, "ldm"),
    };
    int rc = info_read_texts(&info, doc);
    if (rc < 0)
        return rc;
    hub->info = info;
    weft__servers_announce(&hub->servers, doc, hub->session.server);
    return 0;
}

int weft__info_read(weft_hub *hub, weft__slice json)
{
    weft__json_doc doc = {0};
    int rc = weft__json_parse(&doc, json.data, json.bytes);
    if (rc == -ENOMEM)
        rc = weft_fail(rc, "no memory for INFO");
    else if (rc < 0 || doc.count == 0 || doc.nodes[0].kind != WEFT__JSON_OBJECT)
        rc = weft_fail(-EPROTO, "the INFO of the server is not a JSON object");
    else
        rc = info_read_doc(hub, &doc);
    weft__json_free(&doc);
    return rc;
}
