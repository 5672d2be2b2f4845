/* The terminal of `weft top`. See terminal.h. */
#include "command/top/terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Switch to the alternate screen and hide the cursor. */
#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

static struct termios before;
static volatile sig_atomic_t is_entered;

static void write_sequence(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        return; /* the terminal is gone */
}

static void set_mode(void)
{
    struct termios raw = before;
    raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    write_sequence(ENTER);
}

/* Both functions below are async-signal-safe. */
void weft__terminal_leave(void)
{
    if (!is_entered)
        return;
    is_entered = 0;
    write_sequence(LEAVE);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void leave_and_die(int number)
{
    weft__terminal_leave();
    signal(number, SIG_DFL);
    raise(number); /* blocked until the handler returns */
}

bool weft__terminal_enter(void)
{
    static const int deadly[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGABRT, SIGPIPE};
    static bool is_registered;
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) < 0)
        return false;
    if (!is_registered)
        atexit(weft__terminal_leave);
    is_registered = true;
    is_entered = 1;
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        sigaction(deadly[i], &(struct sigaction){.sa_handler = leave_and_die}, NULL);
    set_mode();
    return true;
}

void weft__terminal_resume(void)
{
    if (is_entered)
        set_mode();
}

void weft__terminal_size(unsigned *columns, unsigned *rows)
{
    struct winsize size;
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    *columns = is_known ? size.ws_col : 80;
    *rows = is_known && size.ws_row > 0 ? size.ws_row : 24;
}

static const struct {
    const char *sequence; /* after the escape character */
    int key;
} sequences[] = {
    {"[A", KEY_UP},    {"OA", KEY_UP},   {"[B", KEY_DOWN},     {"OB", KEY_DOWN},
    {"[H", KEY_HOME},  {"OH", KEY_HOME}, {"[F", KEY_END},      {"OF", KEY_END},
    {"[1~", KEY_HOME}, {"[4~", KEY_END}, {"[5~", KEY_PAGE_UP}, {"[6~", KEY_PAGE_DOWN},
};

/* Return the length of an unknown control sequence: parameters, and a final letter or ~. */
static size_t sequence_length(const char *bytes, size_t count)
{
    size_t length = 1;
    while (length < count && (bytes[length] < '@' || bytes[length] > '~'))
        length++;
    return length < count ? length + 1 : count;
}

int weft__terminal_next_key(const char *bytes, size_t count, size_t *taken)
{
    *taken = count > 0;
    if (count == 0)
        return KEY_NONE;
    if (bytes[0] == '\n')
        return KEY_ENTER;
    if (bytes[0] == '\b')
        return KEY_BACKSPACE;
    if (bytes[0] != KEY_ESCAPE || count == 1)
        return (unsigned char)bytes[0];
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        size_t length = strlen(sequences[i].sequence);
        if (count > length && memcmp(bytes + 1, sequences[i].sequence, length) == 0) {
            *taken = 1 + length;
            return sequences[i].key;
        }
    }
    if (bytes[1] != '[' && bytes[1] != 'O')
        return KEY_ESCAPE;
    *taken = 1 + sequence_length(bytes + 1, count - 1);
    return KEY_UNKNOWN;
}
