/* The headers that requests usually have. Their keys in Ruby are created once. */
#include "bridge.h"

#include <string.h>
#include <strings.h>

const known_field known_fields[] = {
    {"host", "HTTP_HOST"},
    {"user-agent", "HTTP_USER_AGENT"},
    {"accept", "HTTP_ACCEPT"},
    {"accept-encoding", "HTTP_ACCEPT_ENCODING"},
    {"accept-language", "HTTP_ACCEPT_LANGUAGE"},
    {"connection", "HTTP_CONNECTION"},
    {"content-type", "CONTENT_TYPE"},
    {"content-length", "CONTENT_LENGTH"},
    {"cookie", "HTTP_COOKIE"},
    {"referer", "HTTP_REFERER"},
    {"origin", "HTTP_ORIGIN"},
    {"authorization", "HTTP_AUTHORIZATION"},
    {"cache-control", "HTTP_CACHE_CONTROL"},
    {"pragma", "HTTP_PRAGMA"},
    {"if-none-match", "HTTP_IF_NONE_MATCH"},
    {"if-modified-since", "HTTP_IF_MODIFIED_SINCE"},
    {"if-match", "HTTP_IF_MATCH"},
    {"if-range", "HTTP_IF_RANGE"},
    {"range", "HTTP_RANGE"},
    {"te", "HTTP_TE"},
    {"dnt", "HTTP_DNT"},
    {"priority", "HTTP_PRIORITY"},
    {"upgrade", "HTTP_UPGRADE"},
    {"upgrade-insecure-requests", "HTTP_UPGRADE_INSECURE_REQUESTS"},
    {"transfer-encoding", "HTTP_TRANSFER_ENCODING"},
    {"expect", "HTTP_EXPECT"},
    {"sec-fetch-dest", "HTTP_SEC_FETCH_DEST"},
    {"sec-fetch-mode", "HTTP_SEC_FETCH_MODE"},
    {"sec-fetch-site", "HTTP_SEC_FETCH_SITE"},
    {"sec-fetch-user", "HTTP_SEC_FETCH_USER"},
    {"sec-websocket-key", "HTTP_SEC_WEBSOCKET_KEY"},
    {"sec-websocket-version", "HTTP_SEC_WEBSOCKET_VERSION"},
    {"sec-websocket-protocol", "HTTP_SEC_WEBSOCKET_PROTOCOL"},
    {"sec-websocket-extensions", "HTTP_SEC_WEBSOCKET_EXTENSIONS"},
    {"x-csrf-token", "HTTP_X_CSRF_TOKEN"},
    {"x-forwarded-for", "HTTP_X_FORWARDED_FOR"},
    {"x-forwarded-host", "HTTP_X_FORWARDED_HOST"},
    {"x-forwarded-proto", "HTTP_X_FORWARDED_PROTO"},
    {"x-forwarded-port", "HTTP_X_FORWARDED_PORT"},
    {"x-real-ip", "HTTP_X_REAL_IP"},
    {"x-request-id", "HTTP_X_REQUEST_ID"},
    {"x-requested-with", "HTTP_X_REQUESTED_WITH"},
};

const size_t known_fields_count = sizeof known_fields / sizeof *known_fields;

int known_field_find(const char *name, size_t bytes)
{
    char first = (char)(name[0] | 0x20);
    for (size_t i = 0; i < known_fields_count; i++) {
        const char *known = known_fields[i].name;
        if (known[0] == first && strncasecmp(known, name, bytes) == 0 && known[bytes] == '\0')
            return (int)i;
    }
    return -1;
}
