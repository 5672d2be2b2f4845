/* Helpers for the tests of the inspector: requests to its handler, and facts of its JSON. */
#ifndef TESTS_INSPECT_INSPECT_SUPPORT_H
#define TESTS_INSPECT_INSPECT_SUPPORT_H

#include "support/suite.h"

#include "http/http_support.h"
#include "inspect/inspect.h"

#define TOKEN "correct-horse-battery"

static weft_inspector *inspector;

/* Samples follow each other at once. */
static inline void open_inspector(void)
{
    inspector = weft_inspector_new(
        &(weft_inspector_options){.token = TOKEN, .period_s = 0.01, .cpu_share_max = 1});
    ck_assert_ptr_nonnull(inspector);
}

static inline void close_inspector(void)
{
    weft_inspector_free(inspector);
}

/* Send a request with these lines after the first, and return the response. */
static inline const char *ask_inspector(const char *first, const char *lines)
{
    return client_exchange(&client, weft_http_serve_inspector, inspector, NULL,
                           format("%s HTTP/1.1\r\n%s\r\n", first, lines));
}

static inline const char *get_part(const char *target)
{
    return ask_inspector(format("GET %s", target), "Host: localhost\r\n");
}

/* Begin to watch a view. */
static inline void watch_with(test_client *viewer, const char *query)
{
    client_open(viewer, weft_http_serve_inspector, inspector, NULL);
    client_send(viewer, format("GET /events?%s HTTP/1.1\r\nHost: localhost\r\n\r\n", query));
}

/* Forget what a viewer has received, except an unfinished event. */
static inline void forget_received(test_client *viewer)
{
    char *last = viewer->received, *next;
    while ((next = strstr(last, "\n\n")) != NULL)
        last = next + 2;
    viewer->received_bytes = strlen(last);
    memmove(viewer->received, last, viewer->received_bytes + 1);
}

/* Receive the next complete update. The text is valid until the next call. */
static inline const char *next_update(test_client *viewer)
{
    static char update[sizeof viewer->received];
    client_expect(viewer, "event: update");
    while (strstr(strstr(viewer->received, "event: update"), "\n\n") == NULL)
        ck_assert_int_gt(client_receive_some(viewer), 0);
    const char *begin = strstr(viewer->received, "event: update");
    const char *end = strstr(begin, "\n\n");
    memcpy(update, begin, (size_t)(end - begin));
    update[end - begin] = '\0';
    memmove(viewer->received, end + 2, strlen(end + 2) + 1);
    viewer->received_bytes = strlen(viewer->received);
    return update;
}

/* Leave, and wait until the server has noticed. */
static inline void stop_watching(test_client *viewer)
{
    weft_close(viewer->fd);
    ck_assert_int_eq(weft_await(viewer->fiber), 0);
    viewer->fd = 0;
    viewer->fiber = 0;
}

/* Return the first update of a view. */
static inline const char *view_once(const char *query)
{
    watch_with(&client, query);
    const char *update = next_update(&client);
    stop_watching(&client);
    return update;
}

/* Return the row of the fiber or group with this name, or NULL. */
static inline const char *row_named(const char *update, const char *name)
{
    static char row[1024];
    const char *rows = strstr(update, "\"rows\":[");
    const char *at = rows != NULL ? strstr(rows, format("\"name\":\"%s\"", name)) : NULL;
    if (at == NULL)
        return NULL;
    while (*at != '{')
        at--;
    size_t bytes = strcspn(at, "}");
    ck_assert_uint_lt(bytes, sizeof row);
    memcpy(row, at, bytes);
    row[bytes] = '\0';
    return row;
}

static inline void assert_has(const char *text, const char *part)
{
    ck_assert_msg(text != NULL && strstr(text, part) != NULL, "no %s in %s", part,
                  text != NULL ? text : "NULL");
}

static inline void assert_lacks(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) == NULL, "%s in %s", part, text);
}

/* Return a number of the JSON. */
static inline long long number_in(const char *text, const char *name)
{
    const char *at = text != NULL ? strstr(text, format("\"%s\":", name)) : NULL;
    ck_assert_msg(at != NULL, "no %s in %s", name, text != NULL ? text : "NULL");
    return atoll(at + strlen(name) + 3);
}

#endif
