/* Media types by file name extension, and the types that gzip can compress. */
#include "http/text/mime.h"

#include "http/text/ctype.h"
#include "http/text/field.h"

#include <string.h>

const weft__mime weft__mime_table[] = {
    {"3gp", "video/3gpp"},
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apk", "application/vnd.android.package-archive"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c; charset=utf-8"},
    {"cjs", "text/javascript; charset=utf-8"},
    {"conf", "text/plain; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"deb", "application/vnd.debian.binary-package"},
    {"diff", "text/plain; charset=utf-8"},
    {"dmg", "application/octet-stream"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"eps", "application/postscript"},
    {"epub", "application/epub+zip"},
    {"exe", "application/octet-stream"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"glb", "model/gltf-binary"},
    {"gltf", "model/gltf+json"},
    {"gz", "application/gzip"},
    {"h", "text/x-c; charset=utf-8"},
    {"heic", "image/heic"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/x-icon"},
    {"ics", "text/calendar; charset=utf-8"},
    {"img", "application/octet-stream"},
    {"ini", "text/plain; charset=utf-8"},
    {"iso", "application/x-iso9660-image"},
    {"jar", "application/java-archive"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"log", "text/plain; charset=utf-8"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/mp4"},
    {"map", "application/json"},
    {"markdown", "text/markdown; charset=utf-8"},
    {"md", "text/markdown; charset=utf-8"},
    {"mid", "audio/midi"},
    {"midi", "audio/midi"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpd", "application/dash+xml"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"patch", "text/plain; charset=utf-8"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"py", "text/x-python; charset=utf-8"},
    {"rar", "application/vnd.rar"},
    {"rpm", "application/x-rpm"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"sh", "text/x-shellscript; charset=utf-8"},
    {"shtml", "text/html; charset=utf-8"},
    {"sql", "application/sql"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"text", "text/plain; charset=utf-8"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "video/mp2t"},
    {"tsv", "text/tab-separated-values; charset=utf-8"},
    {"ttc", "font/collection"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"vcf", "text/vcard; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xsl", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};
const size_t weft__mime_count = sizeof weft__mime_table / sizeof weft__mime_table[0];

static const char unknown_type[] = "application/octet-stream";

/* Like strcmp(3), but ignore the case of a. b must be in lower case. */
static int extension_compare(const char *a, const char *b)
{
    while (*a != '\0' && weft__ctype_lower(*a) == *b) {
        a++;
        b++;
    }
    return (unsigned char)weft__ctype_lower(*a) - (unsigned char)*b;
}

/*
 * Return the text after the last dot of a file name. Return NULL if the name has no dot. A dot at
 * the start marks a hidden file and does not start an extension.
 */
static const char *extension_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    if (slash != NULL)
        name = slash + 1;
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot != name ? dot + 1 : NULL;
}

const char *weft__mime_of(const char *name)
{
    const char *extension = extension_of(name);
    if (extension == NULL)
        return unknown_type;
    size_t low = 0, high = weft__mime_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = extension_compare(extension, weft__mime_table[middle].extension);
        if (order == 0)
            return weft__mime_table[middle].type;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return unknown_type;
}

static bool type_begins_with(weft__span text, const char *word)
{
    size_t bytes = strlen(word);
    return text.bytes >= bytes && weft__field_is_word(text.at, bytes, word);
}

static bool type_ends_with(weft__span text, const char *word)
{
    size_t bytes = strlen(word);
    return text.bytes >= bytes && weft__field_is_word(text.at + text.bytes - bytes, bytes, word);
}

bool weft__mime_is_compressible(const char *type)
{
    static const char *const compressible[] = {
        "application/ecmascript",
        "application/javascript",
        "application/json",
        "application/msword",
        "application/postscript",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/vnd.apple.mpegurl",
        "application/wasm",
        "application/vnd.ms-fontobject",
        "application/xml",
        "application/x-tar",
        "application/yaml",
        "application/x-javascript",
        "application/x-ndjson",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/x-icon",
    };
    weft__span name = weft__field_trim(type, strcspn(type, ";"));
    if (type_begins_with(name, "text/"))
        return !weft__field_is_word(name.at, name.bytes, "text/event-stream");
    if (type_ends_with(name, "+json") || type_ends_with(name, "+xml"))
        return true;
    for (size_t i = 0; i < sizeof compressible / sizeof compressible[0]; i++)
        if (weft__field_is_word(name.at, name.bytes, compressible[i]))
            return true;
    return false;
}
