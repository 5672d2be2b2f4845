#include "text.h"

#include "chat.h"

#include <stdint.h>
#include <string.h>

/* Return the next character, and go beyond it. The text is valid UTF-8. */
static uint32_t next_char(const char **text)
{
    const unsigned char *c = (const unsigned char *)*text;
    int bytes = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = c[0] & masks[bytes];
    for (int i = 1; i < bytes; i++)
        value = value << 6 | (c[i] & 0x3f);
    *text += bytes;
    return value;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Characters without a glyph, which make two names look equal, or reverse the text after them. */
static bool is_invisible(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160},
        {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202f},
        {0x205f, 0x206f}, {0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164},
        {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

bool text_is_name(const char *text)
{
    size_t count = 0, bytes = strlen(text);
    if (bytes == 0 || text[0] == ' ' || text[bytes - 1] == ' ')
        return false;
    while (*text != '\0') {
        uint32_t c = next_char(&text);
        bool is_double_space = c == ' ' && *text == ' ';
        if (is_control(c) || is_invisible(c) || is_double_space || c == 0xa0)
            return false;
        count++;
    }
    return count <= NAME_CHARS_MAX;
}

bool text_is_room(const char *text)
{
    size_t bytes = strlen(text);
    return bytes > 0 && bytes < ROOM_BYTES && text[0] != '-' && text[bytes - 1] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == bytes;
}

bool text_is_client(const char *text)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t bytes = strlen(text);
    return bytes >= 16 && bytes < CLIENT_BYTES && strspn(text, allowed) == bytes;
}

bool text_is_message(const char *text)
{
    bool is_empty = true;
    while (*text != '\0') {
        uint32_t c = next_char(&text);
        if (is_control(c) && c != '\n' && c != '\t')
            return false;
        is_empty = is_empty && (c == ' ' || c == '\n' || c == '\t' || c == 0xa0 || is_invisible(c));
    }
    return !is_empty;
}
