/* Rules for the texts that users choose. The texts are UTF-8. */
#ifndef CHAT_TEXT_H
#define CHAT_TEXT_H

#include <stdbool.h>

/* 1 to NAME_CHARS_MAX visible characters, without spaces at the ends. */
bool text_is_name(const char *text);

/* Lower-case letters, digits and hyphens. */
bool text_is_room(const char *text);

/* A secret: 16 to 32 letters, digits, '-' and '_'. */
bool text_is_client(const char *text);

/* Not only white space, and no control characters except tabs and line breaks. */
bool text_is_message(const char *text);

#endif
