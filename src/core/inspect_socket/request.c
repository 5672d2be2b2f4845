/* Requests of the inspection socket. See request.h. */
#include "core/inspect_socket/request.h"

#include "core/inspect_socket/accounting.h"
#include "core/inspect_socket/profile.h"
#include "core/inspect_socket/view.h"
#include "core/inspect_socket/word.h"

#include <weft/snapshot.h>
#include <weft/version.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAMES_MAX 128
#define BACKTRACE_REPLY_S 0.5
/* Bytes of a dump that are sent. The rest is cut. */
#define DUMP_BYTES_MAX ((off_t)16 << 20)

static unsigned accounting_users; /* clients with has_accounting */

void weft__request_greet(weft__inspect_reply *r)
{
    weft__inspect_reply_print(r, "weft-inspect %d %d %s", WEFT__INSPECT_VERSION, (int)getpid(),
                              weft_version());
    weft__inspect_view_program(r);
    weft__inspect_reply_print(r, "\n.\n");
}

static void reply_error(weft__inspect_reply *r, const char *text)
{
    weft__inspect_reply_print(r, "error");
    weft__inspect_reply_word(r, text);
    weft__inspect_reply_print(r, "\n");
}

static void reply_code(weft__inspect_reply *r, int code)
{
    reply_error(r, strerror(-code));
}

/* If word begins with name, return the rest, else NULL. */
static char *value_of(char *word, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(word, name, bytes) == 0 ? word + bytes : NULL;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *out <= max;
}

static bool parse_sort(const char *text, weft__inspect_view_sort *out)
{
    static const char *const names[] = {"cpu", "wait", "stack", "switches", "id"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (weft__inspect_view_sort)i;
            return true;
        }
    return false;
}

static bool parse_view_word(char *word, weft__inspect_view_options *o)
{
    char *value;
    uint64_t number = 0;
    bool is_valid = true;
    if (strcmp(word, "tree") == 0)
        o->is_tree = true;
    else if (strcmp(word, "group") == 0)
        o->has_groups = true;
    else if ((value = value_of(word, "sort=")) != NULL)
        is_valid = parse_sort(value, &o->sort);
    else if ((value = value_of(word, "limit=")) != NULL) {
        is_valid = parse_number(value, WEFT__INSPECT_ROWS_MAX, &number);
        o->limit = (size_t)number;
    } else if ((value = value_of(word, "offset=")) != NULL) {
        is_valid = parse_number(value, UINT32_MAX, &number);
        o->offset = (size_t)number;
    } else if ((value = value_of(word, "filter=")) != NULL) {
        weft__word_unescape(value);
        o->filter = value;
    } else {
        is_valid = false;
    }
    return is_valid;
}

static void handle_view(char *words, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    weft__inspect_view_options o = {.has_fibers = true, .limit = 100, .filter = ""};
    char *word;
    while ((word = strsep(&words, " ")) != NULL)
        if (*word != '\0' && !parse_view_word(word, &o)) {
            reply_error(r, "view: invalid option");
            return;
        }
    accounting_users += !uses->has_accounting;
    uses->has_accounting = true;
    weft__accounting_start();
    int rc = weft__inspect_view_reply(&o, r);
    if (rc < 0)
        reply_code(r, rc);
}

static void handle_stats(char *words, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    (void)words, (void)uses;
    int rc = weft__inspect_view_reply(&(weft__inspect_view_options){.filter = ""}, r);
    if (rc < 0)
        reply_code(r, rc);
}

static void reply_frame(weft__inspect_reply *r, const void *address)
{
    weft_symbol symbol;
    if (weft_symbol_find(address, &symbol) < 0)
        symbol = (weft_symbol){.function = "", .file = "", .module = ""};
    weft__inspect_reply_print(r, "frame");
    weft__inspect_reply_word(r, symbol.function);
    weft__inspect_reply_word(r, symbol.file);
    weft__inspect_reply_print(r, " %u", symbol.line);
    weft__inspect_reply_word(r, symbol.module);
    weft__inspect_reply_print(r, " 0x%" PRIxPTR "\n", symbol.offset);
}

static void handle_backtrace(char *words, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    (void)uses;
    uint64_t id = 0;
    if (words == NULL || !parse_number(words, UINT64_MAX, &id) || id == 0) {
        reply_error(r, "backtrace: the id is not a number");
        return;
    }
    weft_snapshot *s;
    weft_snapshot_options options = {.fiber = id,
                                     .frames_max = FRAMES_MAX,
                                     .has_addresses = true,
                                     .timeout_s = BACKTRACE_REPLY_S};
    int rc = weft_snapshot_take(&options, &s);
    if (rc < 0) {
        reply_error(r, rc == -ESRCH ? "the fiber has ended" : strerror(-rc));
        return;
    }
    const weft_snapshot_fiber *f = s->fibers;
    if (s->fibers_count == 0 || f->info.id != id) {
        reply_error(r, "the cord does not reply");
    } else {
        weft__inspect_view_fiber(f, r);
        for (uint32_t i = 0; i < f->frames_count; i++)
            reply_frame(r, (char *)f->frames[i] - 1);
    }
    weft_snapshot_free(s);
}

/* Append a file as lines "text LINE". */
static void reply_file(weft__inspect_reply *r, int fd)
{
    off_t bytes = lseek(fd, 0, SEEK_END);
    bytes = bytes < DUMP_BYTES_MAX ? bytes : DUMP_BYTES_MAX;
    char *text = malloc((size_t)bytes + 1), *rest = text, *line;
    ssize_t got = text != NULL ? pread(fd, text, (size_t)bytes, 0) : -1;
    if (got < 0) {
        free(text);
        reply_code(r, -ENOMEM);
        return;
    }
    text[got] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (rest == NULL && *line == '\0')
            break;
        weft__inspect_reply_print(r, "text");
        weft__inspect_reply_word(r, line);
        weft__inspect_reply_print(r, "\n");
    }
    free(text);
}

static void handle_dump(char *words, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    (void)words, (void)uses;
    int fd = memfd_create("weft-dump", MFD_CLOEXEC);
    int rc = fd < 0 ? -errno : weft_dump(fd);
    if (rc < 0)
        reply_code(r, rc);
    else
        reply_file(r, fd);
    if (fd >= 0)
        close(fd);
}

static void profile_begin(char *words, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    bool has_cpu = false, has_waits = false;
    uint64_t hz = WEFT__PROFILE_HZ_DEFAULT;
    char *word, *value;
    while ((word = strsep(&words, " ")) != NULL) {
        if (strcmp(word, "cpu") == 0)
            has_cpu = true;
        else if (strcmp(word, "wait") == 0)
            has_waits = true;
        else if ((value = value_of(word, "hz=")) == NULL ||
                 !parse_number(value, WEFT__PROFILE_HZ_MAX, &hz) || hz == 0) {
            reply_error(r, "profile start: invalid option");
            return;
        }
    }
    bool is_all = !has_cpu && !has_waits;
    int rc = weft__profile_start(has_cpu || is_all, has_waits || is_all, (unsigned)hz);
    if (rc == -EALREADY)
        reply_error(r, "another profile runs");
    else if (rc == -EBUSY)
        reply_error(r, "the process uses all real-time signals");
    else if (rc < 0)
        reply_code(r, rc);
    else
        uses->has_profile = true;
}

static void handle_profile(char *words, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    char *word = strsep(&words, " ");
    if (word != NULL && strcmp(word, "start") == 0) {
        profile_begin(words, uses, r);
    } else if (!uses->has_profile) {
        reply_error(r, "no profile runs");
    } else if (word != NULL && strcmp(word, "read") == 0) {
        weft__profile_read(r, false);
    } else if (word != NULL && strcmp(word, "stop") == 0) {
        weft__profile_read(r, true);
        weft__profile_stop();
        uses->has_profile = false;
    } else {
        reply_error(r, "profile: expected start, read or stop");
    }
}

static const struct request_type {
    const char *name;
    void (*handle)(char *words, weft__inspect_uses *uses, weft__inspect_reply *r);
} request_types[] = {
    {"backtrace", handle_backtrace}, {"dump", handle_dump}, {"profile", handle_profile},
    {"stats", handle_stats},         {"view", handle_view},
};

void weft__request_handle(char *line, weft__inspect_uses *uses, weft__inspect_reply *r)
{
    char *rest = line, *name = strsep(&rest, " ");
    for (size_t i = 0; i < sizeof request_types / sizeof *request_types; i++)
        if (strcmp(name, request_types[i].name) == 0) {
            request_types[i].handle(rest, uses, r);
            weft__inspect_reply_print(r, ".\n");
            return;
        }
    reply_error(r, "unknown request");
    weft__inspect_reply_print(r, ".\n");
}

void weft__request_flush(weft__inspect_uses *uses, weft__inspect_reply *r)
{
    if (!uses->has_profile)
        return;
    weft__profile_read(r, false);
    weft__inspect_reply_print(r, ".\n");
    weft__profile_stop();
    uses->has_profile = false;
}

void weft__request_release(weft__inspect_uses *uses)
{
    if (uses->has_profile)
        weft__profile_stop();
    if (uses->has_accounting && --accounting_users == 0)
        weft__accounting_stop();
    *uses = (weft__inspect_uses){0};
}

void weft__request_after_fork(void)
{
    accounting_users = 0;
    weft__accounting_after_fork();
    weft__profile_after_fork();
}
