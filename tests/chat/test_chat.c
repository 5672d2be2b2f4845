/*
 * The chat of examples/chat, over WebSocket connections of real clients. If CHAT_IS_SHARED is set,
 * the rooms are shared rooms of a cluster of one process.
 */
#include "hub/hub_support.h"

#include "chat/cluster.h"
#include "chat/house.h"
#include "chat/pages.h"
#include "chat/pulse.h"

#include <netinet/in.h>

static char origin[64], socket_url[64];
static weft_fiber server;
static pages site;
static char page_dir[] = "/tmp/weft-chat-XXXXXX";

static bool is_shared(void)
{
    return getenv("CHAT_IS_SHARED") != NULL;
}

static int port_of_listener(int fd)
{
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    return ntohs(at.sin_port);
}

static weft_value serve(void *arg)
{
    const weft_http_options options = {.drain_s = 0.1, .closes_listener = true};
    return weft_http_serve_fd((int)(intptr_t)arg, weft_http_serve_routes, site.routes, &options);
}

static void open_chat(void)
{
    ck_assert_ptr_nonnull(mkdtemp(page_dir));
    if (is_shared())
        ck_assert_int_eq(cluster_open(hub_where(), "one"), 0);
    ck_assert_int_eq(house_open(), 0);
    int listener = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(pages_open(&site, page_dir), 0);
    int port = port_of_listener(listener);
    snprintf(origin, sizeof origin, "http://127.0.0.1:%d", port);
    snprintf(socket_url, sizeof socket_url, "ws://127.0.0.1:%d/ws", port);
    server = weft_spin(serve, (void *)(intptr_t)listener);
}

static void close_chat(void)
{
    weft_terminate(server, 5.0);
    ck_assert_uint_eq(house_users(), 0);
    house_close();
    cluster_close();
    pages_close(&site);
    rmdir(page_dir);
}

FIXTURE(open_chat, close_chat)

TEST(the_inspector_shows_the_rooms)
{
    weft_fetch *page = NULL;
    char *text;
    ck_assert_int_eq(weft_fetch_get(NULL, format("%s/inspect/", origin), &page), 200);
    ck_assert_int_gt(weft_fetch_read_all(page, &text), 0);
    ck_assert_ptr_nonnull(strstr(text, "inspector.js"));
    weft_fetch_close(page);
    const void *update;
    ck_assert_int_eq(weft_fetch_get(NULL, format("%s/inspect/events?q=lobby", origin), &page), 200);
    ssize_t bytes = weft_fetch_read_piece(page, &update);
    ck_assert_int_gt(bytes, 0);
    ck_assert_ptr_nonnull(memmem(update, (size_t)bytes, "\"matching\":1,", 13));
    weft_fetch_close(page);
}

/* A client: a connection, and the last message of it. */
typedef struct client {
    weft_ws *ws;
    char secret[CLIENT_BYTES];
    weft_ws_message got;
} client;

/* Receive messages until one of this kind. */
static const char *next(client *c, const char *kind)
{
    char begin[32];
    snprintf(begin, sizeof begin, "{\"t\":\"%s\"", kind);
    do {
        int rc = weft_ws_recv(c->ws, &c->got);
        ck_assert_msg(rc == 1, "%d, close code %d, instead of %s", rc, weft_ws_close_code(c->ws),
                      kind);
    } while (strncmp(c->got.data, begin, strlen(begin)) != 0);
    return c->got.data;
}

/* Receive messages of all kinds until the server closes the connection. Return the code. */
static int closed(client *c)
{
    int rc;
    while ((rc = weft_ws_recv(c->ws, &c->got)) > 0)
        ;
    ck_assert_int_eq(rc, 0);
    return weft_ws_close_code(c->ws);
}

static void send_text(client *c, const char *text)
{
    ck_assert_int_eq(weft_ws_send(c->ws, WEFT_WS_TEXT, text, strlen(text)), 0);
}

static void dial(client *c)
{
    /* Without compression, the length of a text decides when a connection is full. */
    const weft_ws_options options = {.has_no_deflate = true};
    ck_assert_int_eq(weft_ws_connect(NULL, socket_url, &options, &c->ws), 0);
}

/* Connect as a user. The name is also the secret. */
static void enter(client *c, const char *name)
{
    dial(c);
    snprintf(c->secret, sizeof c->secret, "%s-0123456789abcdef", name);
    send_text(c, format("{\"t\":\"hello\",\"name\":\"%s\",\"client\":\"%s\"}", name, c->secret));
}

static void join(client *c, const char *where, int since)
{
    send_text(c, format("{\"t\":\"join\",\"room\":\"%s\",\"epoch\":\"%s\",\"since\":%d}", where,
                        house_epoch(), since));
}

static void say(client *c, const char *where, int id, const char *text)
{
    send_text(c,
              format("{\"t\":\"say\",\"room\":\"%s\",\"id\":%d,\"text\":\"%s\"}", where, id, text));
}

/* Connect as a user in a room. */
static void visit(client *c, const char *name, const char *where, int since)
{
    enter(c, name);
    join(c, where, since);
    next(c, "joined");
}

static void leave(client *c)
{
    weft_ws_free(c->ws);
    c->ws = NULL;
}

#define ck_assert_contains(text, part)                                                  \
    do {                                                                                \
        const char *ck_text = (text);                                                   \
        ck_assert_msg(strstr(ck_text, part) != NULL, "no %s in %.300s", part, ck_text); \
    } while (0)

#define ck_assert_lacks(text, part)                                                  \
    do {                                                                             \
        const char *ck_text = (text);                                                \
        ck_assert_msg(strstr(ck_text, part) == NULL, "%s in %.300s", part, ck_text); \
    } while (0)

/* Add messages to a room without a user, and without a limit on their rate. */
static void fill(const char *name, int from, int to, const char *text)
{
    room_event e = {.kind = ROOM_SAY, .who = {.name = "Filler", .client = "filler"}};
    room *r = house_room(name, false);
    uint64_t last = r->history.last + (uint64_t)(to - from + 1);
    for (e.id = from; e.id <= to; e.id++)
        ck_assert_int_eq(room_send(r, &e, text), 0);
    while (r->history.last < last)
        ck_assert_int_eq(weft_cond_wait(&r->has_message, NULL), 0);
}

TEST(a_user_is_welcomed_with_all_rooms)
{
    client ada;
    enter(&ada, "Ada");
    const char *welcome = next(&ada, "welcome");
    ck_assert_contains(welcome, house_epoch());
    ck_assert_contains(welcome, "\"name\":\"lobby\"");
    ck_assert_contains(welcome, "\"name\":\"garden\"");
    ck_assert_uint_eq(house_users(), 1);
    leave(&ada);
}

TEST(a_message_reaches_all_members_and_confirms_its_id_to_the_sender)
{
    client ada, ben;
    visit(&ada, "Ada", "lobby", 0);
    visit(&ben, "Ben", "lobby", 0);
    say(&ada, "lobby", 3, "hello <b>\\u00e4</b>");
    ck_assert_contains(next(&ada, "said"), "\"own\":3");
    const char *said = next(&ben, "said");
    ck_assert_contains(said, "\"from\":\"Ada\",\"text\":\"hello <b>\xc3\xa4</b>\"}");
    ck_assert_contains(said, "\"seq\":1");
    ck_assert_lacks(said, ada.secret);
    leave(&ada);
    leave(&ben);
}

TEST(a_user_gets_only_messages_of_the_room_where_it_is)
{
    client ada, ben;
    visit(&ada, "Ada", "lobby", 0);
    visit(&ben, "Ben", "lobby", 0);
    join(&ben, "garden", 0);
    next(&ben, "joined");
    say(&ada, "lobby", 1, "in the lobby");
    next(&ada, "said");
    say(&ada, "garden", 2, "in the garden");
    ck_assert_contains(next(&ben, "said"), "in the garden");
    ck_assert_contains(next(&ada, "said"), "\"room\":\"garden\""); /* the confirmation */
    leave(&ada);
    leave(&ben);
}

TEST(a_window_that_connects_again_gets_what_it_missed)
{
    client ada, ben;
    visit(&ada, "Ada", "lobby", 0);
    visit(&ben, "Ben", "lobby", 0);
    say(&ada, "lobby", 1, "one");
    next(&ben, "said");
    leave(&ben);
    say(&ada, "lobby", 2, "two");
    say(&ada, "lobby", 3, "three");
    for (int i = 0; i < 3; i++)
        next(&ada, "said");
    enter(&ben, "Ben");
    join(&ben, "lobby", 1);
    const char *joined = next(&ben, "joined");
    ck_assert_contains(joined, "\"complete\":true");
    ck_assert_lacks(joined, "\"one\"");
    ck_assert_contains(joined, "\"two\"");
    ck_assert_contains(joined, "\"three\"");
    leave(&ada);
    leave(&ben);
}

TEST(numbers_of_another_run_or_of_the_distant_past_do_not_count)
{
    client ada;
    fill("lobby", 1, HISTORY_MAX + 3, "old");
    enter(&ada, "Ada");
    send_text(&ada, "{\"t\":\"join\",\"room\":\"lobby\",\"epoch\":\"another\",\"since\":203}");
    ck_assert_contains(next(&ada, "joined"), "\"complete\":false,\"messages\":[{\"seq\":4,");
    join(&ada, "lobby", 2);
    ck_assert_contains(next(&ada, "joined"), "\"complete\":false,\"messages\":[{\"seq\":4,");
    join(&ada, "lobby", 3);
    ck_assert_contains(next(&ada, "joined"), "\"complete\":true,\"messages\":[{\"seq\":4,");
    join(&ada, "lobby", HISTORY_MAX + 3);
    ck_assert_contains(next(&ada, "joined"), "\"complete\":true,\"messages\":[]");
    join(&ada, "lobby", HISTORY_MAX + 4); /* the future */
    ck_assert_contains(next(&ada, "joined"), "\"complete\":false,\"messages\":[{\"seq\":4,");
    leave(&ada);
}

TEST(a_repeated_message_is_stored_once_and_confirmed_again)
{
    client ada, ben;
    visit(&ada, "Ada", "lobby", 0);
    visit(&ben, "Ben", "lobby", 0);
    say(&ada, "lobby", 8, "once");
    next(&ada, "said");
    leave(&ada); /* the confirmation was perhaps lost */
    visit(&ada, "Ada", "lobby", 0);
    ck_assert_contains(ada.got.data, "\"own\":8");
    say(&ada, "lobby", 8, "once");
    ck_assert_contains(next(&ada, "said"), "\"seq\":1");
    say(&ada, "lobby", 9, "twice");
    ck_assert_contains(next(&ada, "said"), "\"seq\":2");
    ck_assert_contains(next(&ben, "said"), "once");
    ck_assert_contains(next(&ben, "said"), "twice");
    fill("lobby", 1, HISTORY_MAX, "later");
    say(&ada, "lobby", 9, "twice");
    ck_assert_contains(next(&ada, "known"), "\"id\":9");
    leave(&ada);
    leave(&ben);
}

TEST(a_failed_room_is_restarted_and_the_conversation_goes_on)
{
    client ada, ben, cyd;
    visit(&ada, "Ada", "lobby", 0);
    visit(&ben, "Ben", "lobby", 0);
    visit(&cyd, "Cyd", "garden", 0);
    say(&ada, "lobby", 1, "before");
    next(&ben, "said");
    send_text(&ben, "{\"t\":\"fail\",\"room\":\"lobby\"}");
    ck_assert_contains(next(&ada, "failed"), "\"failures\":1,\"why\":\"Ben pressed the button\"");
    if (!is_shared()) {       /* only the owner of a shared room fails, and members are elsewhere */
        next(&ada, "joined"); /* again, by itself */
        next(&ben, "joined");
    }
    say(&ben, "lobby", 1, "after");
    ck_assert_contains(next(&ada, "said"), "\"seq\":2");
    ck_assert_contains(ada.got.data, "after");
    ck_assert_contains(next(&cyd, "failed"), "\"room\":\"lobby\""); /* the list of rooms shows it */
    say(&cyd, "garden", 1, "quiet here");
    next(&cyd, "said");
    ck_assert_uint_eq(house_room("lobby", false)->failures, 1);
    ck_assert_uint_eq(house_room("garden", false)->failures, 0);
    leave(&ada);
    leave(&ben);
    leave(&cyd);
}

TEST(events_behind_a_failure_are_handled_after_the_restart)
{
    client ada, ben;
    visit(&ada, "Ada", "lobby", 0);
    visit(&ben, "Ben", "lobby", 0);
    for (int i = 0; i < 3; i++) {
        send_text(&ada, "{\"t\":\"fail\",\"room\":\"lobby\"}");
        say(&ada, "lobby", i + 1, format("number %d", i + 1));
    }
    for (int seq = 1; seq <= 3;) { /* in messages, or in the history of a new join */
        ck_assert_int_eq(weft_ws_recv(ben.ws, &ben.got), 1);
        for (; seq <= 3 && strstr(ben.got.data, format("\"seq\":%d,", seq)) != NULL; seq++)
            ck_assert_contains(ben.got.data, format("number %d", seq));
    }
    /* A command to fail is lost if it comes while a shared room has no owner. */
    ck_assert_uint_ge(house_room("lobby", false)->failures, is_shared() ? 1 : 3);
    ck_assert_uint_eq(house_room("lobby", false)->history.last, 3);
    leave(&ada);
    leave(&ben);
}

TEST(members_see_who_is_here_and_who_types)
{
    client ada, ben;
    visit(&ada, "Ada", "lobby", 0);
    ck_assert_contains(next(&ada, "here"), "[\"Ada\"]");
    visit(&ben, "Ben", "lobby", 0);
    ck_assert_contains(next(&ada, "here"), "[\"Ada\",\"Ben\"]");
    send_text(&ben, "{\"t\":\"typing\",\"room\":\"lobby\",\"on\":true}");
    ck_assert_contains(next(&ada, "typing"), "\"from\":\"Ben\",\"on\":true");
    leave(&ben);
    ck_assert_contains(next(&ada, "here"), "[\"Ada\"]");
    leave(&ada);
}

TEST(a_name_is_unique_and_a_window_replaces_its_earlier_connection)
{
    client ada, other, again;
    visit(&ada, "Ada", "lobby", 0);
    dial(&other);
    send_text(&other, "{\"t\":\"hello\",\"name\":\"Ada\",\"client\":\"another-0123456789\"}");
    ck_assert_int_eq(closed(&other), CLOSE_NAME_TAKEN);
    visit(&again, "Ada", "lobby", 0);
    ck_assert_int_eq(closed(&ada), CLOSE_REPLACED);
    leave(&ada);
    leave(&other);
    say(&again, "lobby", 1, "still here");
    next(&again, "said");
    leave(&again);
}

TEST(a_user_that_does_not_read_is_disconnected_and_others_are_not)
{
    static char text[TEXT_BYTES_MAX + 1];
    client slow, ben;
    memset(text, 'x', TEXT_BYTES_MAX);
    visit(&slow, "Slow", "lobby", 0);
    visit(&ben, "Ben", "garden", 0);
    for (int i = 1; house_users() == 2; i++) {
        ck_assert_int_lt(i, 100000);
        fill("lobby", i, i, text);
        weft_snooze();
    }
    ck_assert_int_eq(closed(&slow), CLOSE_TOO_SLOW);
    say(&ben, "garden", 1, "hello");
    next(&ben, "said");
    leave(&slow);
    leave(&ben);
}

#define CROWD 32

static int crowd_ready; /* number of users in the room */

/* Say as much as the burst allows, and read the messages of all. */
static weft_value talk_in_crowd(void *arg)
{
    int number = *(int *)arg, each = (int)COMMANDS_BURST - 2; /* after hello and join */
    char name[16];
    client c;
    snprintf(name, sizeof name, "user-%d", number);
    visit(&c, name, "lobby", 0);
    for (crowd_ready++; crowd_ready < CROWD;)
        weft_snooze();
    for (int i = 1; i <= each; i++)
        say(&c, "lobby", i, "hello");
    for (int seq = 1; seq <= CROWD * each; seq++)
        ck_assert_contains(next(&c, "said"), format("\"seq\":%d,", seq));
    leave(&c);
    return 0;
}

TEST(a_burst_of_many_users_reaches_all_of_them)
{
    int numbers[CROWD], rc;
    WEFT_GROUP(crowd, rc) {
        for (int i = 0; i < CROWD; i++) {
            numbers[i] = i;
            weft_group_spin(&crowd, talk_in_crowd, &numbers[i]);
        }
    }
    ck_assert_int_eq(rc, 0);
}

static const char *const bad_commands[] = {
    "hello",
    "{\"t\":\"dance\"}",
    "{\"t\":\"ping\",\"id\":1,\"id\":2}",
    "{\"t\":\"join\",\"room\":\"../etc\",\"epoch\":\"\",\"since\":0}",
    "{\"t\":\"hello\",\"name\":\"Eve\",\"client\":\"0123456789abcdef\"}", /* a second time */
};

TEST_ROWS(a_bad_command_closes_the_connection, bad_commands)
{
    client ada;
    visit(&ada, "Ada", "lobby", 0);
    send_text(&ada, bad_commands[_i]);
    ck_assert_int_eq(closed(&ada), CLOSE_BAD_COMMAND);
    leave(&ada);
}

TEST(the_first_command_is_a_valid_hello)
{
    client eve;
    dial(&eve);
    send_text(&eve, "{\"t\":\"ping\",\"id\":1}");
    ck_assert_int_eq(closed(&eve), CLOSE_BAD_COMMAND);
    leave(&eve);
    dial(&eve);
    send_text(&eve, "{\"t\":\"hello\",\"name\":\" \",\"client\":\"0123456789abcdef\"}");
    ck_assert_int_eq(closed(&eve), CLOSE_BAD_COMMAND);
    leave(&eve);
    ck_assert_uint_eq(house_users(), 0);
}

TEST(a_burst_beyond_the_rate_arrives_whole_and_in_order)
{
    client ada;
    visit(&ada, "Ada", "lobby", 0);
    int count = (int)COMMANDS_BURST + 4;
    for (int i = 1; i <= count; i++)
        say(&ada, "lobby", i, "fast");
    for (int i = 1; i <= count; i++)
        ck_assert_contains(next(&ada, "said"), format("\"own\":%d}", i));
    leave(&ada);
}

TEST(users_create_rooms_up_to_a_limit)
{
    client ada;
    enter(&ada, "Ada");
    for (int i = 0; i < ROOMS_MAX - 4; i++) {
        join(&ada, format("room-%d", i), 0);
        ck_assert_contains(next(&ada, "joined"), format("\"room-%d\"", i));
    }
    ck_assert_contains(next(&ada, "here"), "Ada");
    join(&ada, "one-more", 0);
    ck_assert_contains(next(&ada, "refused"), "too many rooms");
    say(&ada, "one-more", 1, "hello");
    ck_assert_contains(next(&ada, "refused"), "\"id\":1,\"why\":\"there is no such room\"");
    /* A room that a user has created is supervised, too. */
    send_text(&ada, "{\"t\":\"fail\",\"room\":\"room-0\"}");
    next(&ada, "failed");
    say(&ada, "room-0", 2, "hello");
    ck_assert_contains(next(&ada, "said"), "\"seq\":1");
    leave(&ada);
}

TEST(the_pulse_counts_users_fibers_and_deliveries)
{
    client ada;
    visit(&ada, "Ada", "lobby", 0);
    say(&ada, "lobby", 1, "hello");
    next(&ada, "said");
    ck_assert_int_eq(pulse_beat(NULL), 0);
    const char *beat = next(&ada, "pulse");
    ck_assert_contains(beat, "\"users\":1,\"delivered\":1,\"meanMicroseconds\":");
    ck_assert_contains(beat, "\"name\":\"lobby\",");
    leave(&ada);
}

static int get(const char *path, char **body, weft_fetch **fetch)
{
    int status = weft_fetch_get(NULL, format("%s%s", origin, path), fetch);
    ck_assert_int_gt(status, 0);
    if (body != NULL)
        ck_assert_int_ge(weft_fetch_read_all(*fetch, body), 0);
    return status;
}

TEST(programs_read_the_history_as_lines)
{
    weft_fetch *fetch;
    char *body;
    fill("lobby", 1, 3, "a \"quoted\" text");
    ck_assert_int_eq(get("/rooms/lobby/history?since=1", &body, &fetch), 200);
    ck_assert_str_eq(weft_fetch_header(fetch, "content-type"), "application/x-ndjson");
    ck_assert_int_eq(strncmp(body, "{\"seq\":2,\"at\":", 14), 0);
    ck_assert_contains(body,
                       "\"from\":\"Filler\",\"text\":\"a \\u0022quoted\\u0022 text\"}\n{\"seq\":3");
    ck_assert_lacks(body, "filler");
    weft_fetch_close(fetch);
    ck_assert_int_eq(get("/rooms/none/history", NULL, &fetch), 404);
    weft_fetch_close(fetch);
    ck_assert_int_eq(get("/rooms", &body, &fetch), 200);
    ck_assert_contains(body, "\"name\":\"lobby\",\"topic\"");
    weft_fetch_close(fetch);
}

TEST(programs_read_messages_as_events)
{
    weft_fetch *fetch;
    char got[256] = "";
    fill("lobby", 1, 2, "early");
    ck_assert_int_eq(get("/rooms/lobby/events?since=1", NULL, &fetch), 200);
    fill("lobby", 3, 3, "late");
    while (strstr(got, "late") == NULL) {
        const void *piece;
        ssize_t n = weft_fetch_read_piece(fetch, &piece);
        ck_assert_int_gt(n, 0);
        strncat(got, piece, (size_t)n < sizeof got - strlen(got) ? (size_t)n : 0);
    }
    ck_assert_contains(got, "data: {\"seq\":2,");
    ck_assert_lacks(got, "\"seq\":1,");
    weft_fetch_close(fetch);
}

TEST(the_page_may_load_nothing_from_elsewhere)
{
    weft_fetch *fetch;
    int fd = open(format("%s/index.html", page_dir), O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, "page", 4), 4);
    close(fd);
    ck_assert_int_eq(get("/", NULL, &fetch), 200);
    ck_assert_contains(weft_fetch_header(fetch, "content-security-policy"), "default-src 'none'");
    weft_fetch_close(fetch);
    unlink(format("%s/index.html", page_dir));
}

TEST(the_end_of_the_server_closes_all_connections)
{
    client ada;
    visit(&ada, "Ada", "lobby", 0);
    weft_cancel(server);
    ck_assert_int_eq(closed(&ada), WEFT_WS_GOING_AWAY);
    leave(&ada);
}
