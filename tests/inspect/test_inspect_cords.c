/* The inspector with several cords: stalled cords, viewers in several cords, a cord of its own. */
#include "inspect/inspect_support.h"

#include "support/cord_support.h"

#include <semaphore.h>

FIXTURE(open_inspector, close_inspector)

static sem_t may_continue;

static weft_value stall(void *arg)
{
    weft_tell(arg_id(arg), 1);
    sem_wait(&may_continue);
    return 0;
}

static weft_value cord_that_stalls(void *arg)
{
    weft_fiber fiber = spin_named(stall, arg, "staller");
    return weft_await(fiber);
}

TEST(a_stalled_cord_is_shown_as_stalled_and_does_not_block_the_page)
{
    sem_init(&may_continue, 0, 0);
    weft_cord cord = weft_cord_start(cord_that_stalls, id_arg(weft_self()),
                                     &(weft_cord_options){.name = "stuck"});
    ck_assert_int_eq(weft_receive(), 1);
    watch_with(&client, "");
    const char *update = next_update(&client);
    assert_has(strstr(update, "\"name\":\"stuck\""), "\"stalledMs\":");
    ck_assert_ptr_nonnull(row_named(update, "staller"));
    assert_lacks(strstr(update, "\"name\":\"main\""), "\"stalledMs\":0");
    next_update(&client);
    sem_post(&may_continue);
    do
        update = next_update(&client);
    while (strstr(update, "\"cords\":") == NULL || strstr(update, "\"stalledMs\"") != NULL);
    stop_watching(&client);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

static weft_value child_of_cord(void *arg)
{
    weft_tell(arg_id(arg), (weft_value)weft_self());
    return weft_sleep(INFINITY);
}

static weft_value cord_with_child(void *arg)
{
    weft_fiber child = spin_named(child_of_cord, arg, "far child");
    (void)weft_await(child);
    return 7;
}

TEST(fibers_of_other_cords_have_details_and_can_be_stopped)
{
    weft_cord cord = start_cord(cord_with_child, id_arg(weft_self()));
    weft_fiber child = (weft_fiber)weft_receive();
    unsigned long long id = child;
    assert_has(body_of(get_part(format("/fiber?id=%llu", id))), "\"name\":\"far child\"");
    ck_assert_ptr_nonnull(row_named(view_once(""), "far child"));
    char body[32];
    int bytes = snprintf(body, sizeof body, "id=%llu", id);
    const char *response = client_exchange(
        &client, weft_http_serve_inspector, inspector, NULL,
        format("POST /stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " TOKEN "\r\n"
               "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
               bytes, body));
    ck_assert_int_eq(status_of(response), 200);
    ck_assert_int_eq(weft_cord_join(cord), 7);
}

/* Watch in a cord of its own, and leave after some updates. */
static weft_value watch_in_cord(void *arg)
{
    test_client *own = calloc(1, sizeof *own);
    watch_with(own, (intptr_t)arg % 2 == 0 ? "" : "mode=list&sort=stack");
    for (int updates = 0; updates < 20;) {
        ck_assert_int_gt(client_receive_some(own), 0);
        updates += (int)count_in(own->received, "event: update");
        own->received_bytes = 0;
    }
    stop_watching(own);
    free(own);
    return 0;
}

TEST(viewers_in_several_cords_share_an_inspector)
{
    weft_cord cords[4];
    for (size_t n = 0; n < COUNT_OF(cords); n++)
        cords[n] = start_cord(watch_in_cord, as_arg((weft_value)n));
    for (size_t n = 0; n < COUNT_OF(cords); n++)
        ck_assert_int_eq(weft_cord_join(cords[n]), 0);
    ck_assert_uint_eq(inspector->viewers, 0);
    ck_assert_ptr_null(inspector->latest);
}

static int port_of_page;

static weft_value serve_page(void *arg)
{
    endpoint address;
    int listener = listen_tcp(&address, 16);
    port_of_page = ntohs(address.u.in.sin_port);
    weft_tell(arg_id(arg), 1);
    const weft_http_options options = {.drain_s = 0.1, .closes_listener = true};
    return weft_http_serve_fd(listener, weft_http_serve_inspector, inspector, &options);
}

/* A client on a plain thread, because the cord of the test is stalled. */
static void *fetch_first_update(void *arg)
{
    static char text[32 << 10];
    size_t bytes = 0;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port_of_page),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const char request[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        send(fd, request, strlen(request), 0) > 0)
        while (strstr(text, "\"rows\":") == NULL && bytes + 1 < sizeof text) {
            ssize_t n = recv(fd, text + bytes, sizeof text - 1 - bytes, 0);
            if (n <= 0)
                break;
            bytes += (size_t)n;
        }
    close(fd);
    return text;
}

TEST(an_inspector_in_a_cord_of_its_own_works_while_all_others_are_stalled)
{
    weft_cord cord = start_cord(serve_page, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    pthread_t thread = start_thread(fetch_first_update, NULL);
    const char *text = join_thread(thread); /* blocks this cord */
    assert_has(text, "\"stalledMs\":");
    assert_has(text, "event: update");
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    ck_assert_uint_eq(inspector->viewers, 0);
}
