/*
 * weft top: show the fibers of a running process, like top(1). One fiber waits for keys, signals
 * and the time of the next refresh. See core/inspect_socket/request.h for the other side.
 */
#include "command/command.h"
#include "command/inspect/target.h"
#include "command/options.h"
#include "command/top/screen.h"
#include "command/top/terminal.h"

#include <weft/io.h>
#include <weft/select.h>
#include <weft/time.h>

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With more fibers, equal fibers have one row. */
#define UNGROUPED_FIBERS_MAX 200
/* Rows of --once. */
#define ONCE_ROWS 2000
/* The width of --once, unless stdout is a terminal. */
#define ONCE_COLUMNS 200

typedef struct top_settings {
    double delay_s;
    bool is_once, is_tree, has_groups, has_no_groups, has_help;
    const char *filter; /* NULL: none */
    top_sort sort;
} top_settings;

typedef struct top_state {
    inspect_client client;
    top_query query;
    top_view view, before;
    top_backtrace *backtrace; /* shown instead of the table; NULL: none */
    size_t backtrace_first;
    bool has_chosen_groups; /* the user has chosen whether to group */
    bool is_paused, is_over, is_filtering;
    uint64_t selected;
    size_t selected_index; /* in the rows of the view */
    char filter[64];       /* the input while is_filtering */
    char message[200];
    double delay_s, due_s;
} top_state;

static int set_sort(void *settings, const command_option *option, char *value)
{
    top_settings *t = settings;
    for (int i = 0; i < TOP_SORTS; i++)
        if (strcmp(value, weft__top_sort_names[i]) == 0) {
            t->sort = (top_sort)i;
            return 0;
        }
    return weft__option_error(option, "%s is not cpu, wait, stack, switches or id", value);
}

#define FIELD(name) offsetof(top_settings, name)

static const command_option top_options[] = {
    {"delay", 'd', "SECONDS", weft__option_set_seconds, FIELD(delay_s),
     "time between two views (1)", NULL},
    {"once", 0, NULL, weft__option_set_flag, FIELD(is_once), "print one view as text, and exit",
     NULL},
    {"sort", 's', "KEY", set_sort, 0, "cpu, wait, stack, switches or id (cpu)", NULL},
    {"tree", 't', NULL, weft__option_set_flag, FIELD(is_tree), "show children below their parents",
     NULL},
    {"group", 'g', NULL, weft__option_set_flag, FIELD(has_groups), "show equal fibers as one row",
     NULL},
    {"no-group", 0, NULL, weft__option_set_flag, FIELD(has_no_groups),
     "show each fiber, also of more than 200", NULL},
    {"filter", 'f', "TEXT", weft__option_set_text, FIELD(filter),
     "show fibers with TEXT in name, function, wait or #id", NULL},
    {"help", 'h', NULL, weft__option_set_flag, FIELD(has_help), "print this help", NULL},
};

static const command_syntax top_syntax = {
    .command = "top",
    .options = top_options,
    .count = sizeof top_options / sizeof *top_options,
};

static void print_top_help(void)
{
    printf("usage: weft top [OPTION...] PID|SOCKET\n\n"
           "Show the fibers of a process that was started with WEFT_INSPECT=SOCKET.\n\n");
    weft__options_print(&top_syntax);
    printf("\nKeys: arrows, page up and down, home, end: select; enter: backtrace; c, w, s, x, i:\n"
           "sort by CPU, wait, stack, switches, id; t: tree; g: group; /: filter; p: pause;\n"
           "q: quit\n");
}

/* Request a view. If there are too many fibers, request groups. */
static int view_refresh(top_state *t)
{
    top_view old = t->before;
    t->before = t->view;
    t->view = old;
    int rc = weft__top_view_get(&t->client, &t->query, &t->view);
    if (rc == 0 && !t->has_chosen_groups &&
        t->query.has_groups != (t->view.fibers > UNGROUPED_FIBERS_MAX)) {
        t->query.has_groups = !t->query.has_groups;
        rc = weft__top_view_get(&t->client, &t->query, &t->view);
    }
    return rc;
}

static screen_text screen_new(unsigned columns, bool has_controls)
{
    return (screen_text){
        .columns = columns,
        .has_controls = has_controls,
        .is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
    };
}

/* Keep the selection on its fiber, or on its line if the fiber has no row any more. */
static void selection_update(top_state *t)
{
    const top_view *v = &t->view;
    for (size_t i = 0; i < v->rows_count; i++)
        if (v->rows[i].id == t->selected)
            t->selected_index = i;
    if (t->selected_index >= v->rows_count)
        t->selected_index = v->rows_count > 0 ? v->rows_count - 1 : 0;
    t->selected = v->rows_count > 0 ? v->rows[t->selected_index].id : 0;
}

/* Draw the screen in one write, so that it does not flicker. */
static void screen_draw(top_state *t)
{
    unsigned columns, rows;
    weft__terminal_size(&columns, &rows);
    screen_text s = screen_new(columns, true);
    char prompt[80];
    snprintf(prompt, sizeof prompt, "filter: %s_", t->filter);
    top_table table = {&t->view,
                       &t->before,
                       &t->query,
                       t->selected,
                       rows,
                       t->is_paused,
                       t->is_filtering ? prompt : t->message};
    weft__screen_style(&s, "\033[H");
    if (t->backtrace != NULL)
        weft__screen_backtrace(&s, t->backtrace, t->backtrace_first, rows);
    else
        weft__screen_table(&s, &table);
    weft__screen_style(&s, "\033[0m\033[J");
    if (!s.has_failed)
        (void)weft_write_all(STDOUT_FILENO, s.data, s.bytes);
    free(s.data);
}

/* Get a new view, unless the view is paused. Draw the screen. */
static void top_refresh(top_state *t, bool is_forced)
{
    unsigned columns, rows;
    weft__terminal_size(&columns, &rows);
    t->query.limit = weft__screen_rows_room(&t->view, rows);
    if (!t->is_paused || is_forced) {
        int rc = view_refresh(t);
        if (rc == -EPIPE)
            t->is_over = true;
        snprintf(t->message, sizeof t->message, "%s",
                 rc == 0          ? ""
                 : rc == -EBADMSG ? t->client.error
                                  : strerror(-rc));
        t->query.offset = t->view.row_first;
        selection_update(t);
    }
    screen_draw(t);
}

/* Move the selection by a number of rows, and scroll if necessary. */
static void selection_move(top_state *t, long by)
{
    const top_view *v = &t->view;
    long all = (long)v->rows_all, count = (long)v->rows_count;
    long at = (long)v->row_first + (long)t->selected_index + by;
    at = at >= all ? all - 1 : at;
    at = at < 0 ? 0 : at;
    long first = (long)v->row_first;
    if (at < first || at >= first + count) {
        t->query.offset = (size_t)(at < first ? at : at - count + 1);
        t->selected = 0;
        t->selected_index = (size_t)(at - (long)t->query.offset);
        top_refresh(t, true);
        return;
    }
    t->selected_index = (size_t)(at - first);
    t->selected = count > 0 ? v->rows[t->selected_index].id : 0;
    screen_draw(t);
}

static void backtrace_open(top_state *t)
{
    if (t->selected == 0 || (t->backtrace = malloc(sizeof *t->backtrace)) == NULL)
        return;
    int rc = weft__top_backtrace_get(&t->client, t->selected, t->backtrace);
    t->backtrace_first = 0;
    if (rc != 0) {
        free(t->backtrace);
        t->backtrace = NULL;
        snprintf(t->message, sizeof t->message, "%s",
                 rc == -EBADMSG ? t->client.error : strerror(-rc));
        t->is_over = rc == -EPIPE;
    }
    screen_draw(t);
}

static void backtrace_key(top_state *t, int key)
{
    if (key == KEY_DOWN && t->backtrace_first + 1 < t->backtrace->count) {
        t->backtrace_first++;
    } else if (key == KEY_UP && t->backtrace_first > 0) {
        t->backtrace_first--;
    } else if (key != KEY_UP && key != KEY_DOWN && key != KEY_UNKNOWN) {
        free(t->backtrace);
        t->backtrace = NULL;
    }
    screen_draw(t);
}

/* Handle a key while the user enters a filter. */
static void filter_key(top_state *t, int key)
{
    size_t bytes = strlen(t->filter);
    if (key == KEY_ENTER || key == KEY_ESCAPE) {
        t->is_filtering = false;
        if (key == KEY_ESCAPE)
            t->filter[0] = '\0';
        snprintf(t->query.filter, sizeof t->query.filter, "%s", t->filter);
        t->query.offset = 0;
        top_refresh(t, true);
        return;
    }
    if (key == KEY_BACKSPACE) {
        while (bytes > 0 && ((unsigned char)t->filter[bytes - 1] & 0xc0) == 0x80)
            t->filter[--bytes] = '\0';
        if (bytes > 0)
            t->filter[bytes - 1] = '\0';
    } else if (key >= ' ' && key < 0x100 && bytes + 1 < sizeof t->filter) {
        t->filter[bytes] = (char)key;
        t->filter[bytes + 1] = '\0';
    }
    screen_draw(t);
}

static void sort_by(top_state *t, top_sort sort)
{
    t->query.sort = sort;
    t->query.is_tree = false;
    t->query.offset = 0;
    t->selected = 0;
    t->selected_index = 0;
    top_refresh(t, true);
}

/* Handle a key that moves the selection. Return false for other keys. */
static bool move_key(top_state *t, int key)
{
    long page = (long)t->view.rows_count;
    switch (key) {
    case KEY_UP:
    case 'k':
        selection_move(t, -1);
        return true;
    case KEY_DOWN:
    case 'j':
        selection_move(t, 1);
        return true;
    case KEY_PAGE_UP:
        selection_move(t, -page);
        return true;
    case KEY_PAGE_DOWN:
        selection_move(t, page);
        return true;
    case KEY_HOME:
        selection_move(t, -(long)t->view.rows_all);
        return true;
    case KEY_END:
        selection_move(t, (long)t->view.rows_all);
        return true;
    default:
        return false;
    }
}

static bool sort_key(top_state *t, int key)
{
    static const char keys[TOP_SORTS] = {'c', 'w', 's', 'x', 'i'};
    for (int i = 0; i < TOP_SORTS; i++)
        if (key == keys[i]) {
            sort_by(t, (top_sort)i);
            return true;
        }
    return false;
}

static void table_key(top_state *t, int key)
{
    switch (key) {
    case 'q':
        t->is_over = true;
        return;
    case KEY_ENTER:
        backtrace_open(t);
        return;
    case 't':
        t->query.is_tree = !t->query.is_tree;
        break;
    case 'g':
        t->query.has_groups = !t->query.has_groups;
        t->has_chosen_groups = true;
        break;
    case 'p':
    case ' ':
        t->is_paused = !t->is_paused;
        break;
    case '/':
        t->is_filtering = true;
        screen_draw(t);
        return;
    default:
        return;
    }
    top_refresh(t, true);
}

static void top_key(top_state *t, int key)
{
    if (t->backtrace != NULL)
        backtrace_key(t, key);
    else if (t->is_filtering)
        filter_key(t, key);
    else if (!move_key(t, key) && !sort_key(t, key))
        table_key(t, key);
}

static void top_read_keys(top_state *t)
{
    char bytes[256];
    ssize_t got = weft_read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0) {
        t->is_over = true;
        return;
    }
    for (size_t at = 0, taken; at < (size_t)got && !t->is_over; at += taken)
        top_key(t, weft__terminal_next_key(bytes + at, (size_t)got - at, &taken));
}

/* Wait for a key, a signal or the next refresh, and handle it. */
static void top_step(top_state *t, const sigset_t *signals)
{
    double left_s = t->due_s - weft_now();
    weft_clause clauses[] = {
        weft_clause_fd(STDIN_FILENO, POLLIN),
        weft_clause_signal(signals),
        weft_clause_time(left_s > 0 ? left_s : 0),
    };
    int ready = weft_select(clauses, 3);
    if (ready == 0) {
        top_read_keys(t);
    } else if (ready == 1) {
        weft__terminal_resume();
        top_refresh(t, false);
    } else if (ready == 2) {
        if (t->backtrace == NULL)
            top_refresh(t, false);
        t->due_s = weft_now() + t->delay_s;
    } else {
        t->is_over = true;
    }
}

static int top_run(top_state *t)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGWINCH);
    sigaddset(&signals, SIGCONT);
    if (!weft__terminal_enter())
        return weft__target_fail("top", "stdin or stdout is not a terminal; use --once");
    t->query.limit = 1;
    t->due_s = weft_now() + t->delay_s;
    top_refresh(t, true);
    top_refresh(t, true); /* with the number of rows that the cords leave */
    while (!t->is_over)
        top_step(t, &signals);
    weft__terminal_leave();
    free(t->backtrace);
    return t->message[0] != '\0'
               ? weft__target_fail("top", "%s (%d) has ended", t->client.program, t->client.pid)
               : EXIT_SUCCESS;
}

/* Print one view. The first request only starts to measure the CPU time. */
static int top_print_once(top_state *t)
{
    unsigned columns, rows;
    weft__terminal_size(&columns, &rows);
    t->query.limit = ONCE_ROWS;
    int rc = view_refresh(t);
    if (rc == 0)
        weft_sleep(t->delay_s);
    if (rc == 0)
        rc = view_refresh(t);
    if (rc < 0)
        return weft__target_fail("top", "%s", rc == -EBADMSG ? t->client.error : strerror(-rc));
    screen_text s = screen_new(isatty(STDOUT_FILENO) ? columns : ONCE_COLUMNS, false);
    weft__screen_table(&s, &(top_table){&t->view, &t->before, &t->query, 0, 0, false, ""});
    ssize_t written = weft_write_all(STDOUT_FILENO, s.data, s.bytes);
    free(s.data);
    return s.has_failed || written < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int top_connected(const top_settings *settings, const char *target)
{
    char path[WEFT__SOCKET_PATH_BYTES];
    static top_state t;
    int status = weft__target_find("top", target, path);
    if (status == 0)
        status = weft__inspect_connect(&t.client, "top", path);
    if (status != 0)
        return status;
    t.delay_s = settings->delay_s;
    t.query.sort = settings->sort;
    t.query.is_tree = settings->is_tree;
    t.query.has_groups = settings->has_groups;
    t.has_chosen_groups = settings->has_groups || settings->has_no_groups;
    snprintf(t.query.filter, sizeof t.query.filter, "%s",
             settings->filter != NULL ? settings->filter : "");
    status = settings->is_once ? top_print_once(&t) : top_run(&t);
    weft__inspect_close(&t.client);
    weft__top_view_free(&t.view);
    weft__top_view_free(&t.before);
    return status;
}

int weft__command_top(int argc, char **argv)
{
    top_settings settings = {.delay_s = 1};
    unsetenv("WEFT_INSPECT"); /* of the process to inspect, not of this one */
    setlocale(LC_CTYPE, "");
    int status = weft__options_read(&top_syntax, &settings, argc, argv);
    if (status != 0)
        return status;
    if (settings.has_help) {
        print_top_help();
        return EXIT_SUCCESS;
    }
    if (argc - optind != 1)
        return weft__command_usage_error("top: expected one process id or socket (see weft top "
                                         "--help)");
    return top_connected(&settings, argv[optind]);
}
