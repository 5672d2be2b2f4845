/*
 * The terminal of `weft top`: its mode, its size and its keys. The terminal gets its earlier state
 * back when the process exits, also by a signal.
 */
#ifndef WEFT_COMMAND_TOP_TERMINAL_H
#define WEFT_COMMAND_TOP_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Keys beyond characters. */
typedef enum terminal_key {
    KEY_NONE = -1,
    KEY_ENTER = '\r',
    KEY_ESCAPE = 0x1b,
    KEY_BACKSPACE = 0x7f,
    KEY_UP = 0x100,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_UNKNOWN,
} terminal_key;

/*
 * Switch the terminal to the alternate screen, without echo and line buffering. Return false if
 * stdin or stdout is not a terminal.
 */
bool weft__terminal_enter(void);

/* Restore the terminal. If it is not in the mode of weft__terminal_enter, do nothing. */
void weft__terminal_leave(void);

/* Set the mode again, after the process was stopped and continued. */
void weft__terminal_resume(void);

/* Get the size of the terminal of stdout. The default is 80 columns and 24 rows. */
void weft__terminal_size(unsigned *columns, unsigned *rows);

/*
 * Take the first key from the bytes that were read. Return KEY_NONE if there is none. *taken is the
 * number of bytes of the key.
 */
int weft__terminal_next_key(const char *bytes, size_t count, size_t *taken);

#endif
