/* The parts of examples/chat that need no connection: rules for texts, commands, rates, history. */
#include "chat/command.h"
#include "chat/history.h"
#include "chat/rate.h"
#include "chat/text.h"
#include "support/suite.h"

static const struct {
    const char *text;
    bool is_name;
} names[] = {
    {"Ada", true},
    {"Ada Lovelace", true},
    {"\xc3\x84\xc3\xb6", true},
    {"\xf0\x9f\x8c\xb8", true},
    {"abcdefghijklmnopqrstuvwx", true},
    {"abcdefghijklmnopqrstuvwxy", false},
    {"", false},
    {" ", false},
    {" Ada", false},
    {"Ada ", false},
    {"Ada  L", false},
    {"A\nB", false},
    {"A\x7f", false},
    {"A\xc2\x85", false},
    {"A\xe2\x80\x8b"
     "B",
     false}, /* zero width space */
    {"\xe2\x80\xae"
     "abc",
     false}, /* right-to-left override */
    {"A\xc2\xa0"
     "B",
     false},
    {"\xe3\x80\x80", false},
};

TEST_ROWS(names_have_visible_characters, names)
{
    ck_assert_msg(text_is_name(names[_i].text) == names[_i].is_name, "%s", names[_i].text);
}

TEST(rooms_clients_and_messages_follow_their_rules)
{
    ck_assert(text_is_room("night-shift-2") && text_is_room("a"));
    ck_assert(!text_is_room("") && !text_is_room("-a") && !text_is_room("a-") &&
              !text_is_room("A"));
    ck_assert(!text_is_room("abcdefghijklmnopqrstuvwxy") && !text_is_room("a/b"));
    ck_assert(text_is_client("0123456789abcdef") && text_is_client("ABC-_6789abcdef0"));
    ck_assert(!text_is_client("0123456789abcde") && !text_is_client("0123456789abcde!"));
    ck_assert(text_is_message("a") && text_is_message("a\n\tb") &&
              text_is_message("\xf0\x9f\x8e\x89"));
    ck_assert(!text_is_message("") && !text_is_message(" \n\t") && !text_is_message("a\x1b[0m"));
    ck_assert(!text_is_message("\xe2\x80\x8b"));
}

static const struct {
    const char *text;
    int rc;
} commands[] = {
    {"{\"t\":\"hello\",\"name\":\"Ada\",\"client\":\"0123456789abcdef\"}", 0},
    {"{\"since\":3,\"room\":\"lobby\",\"epoch\":\"\",\"t\":\"join\"}", 0},
    {"{\"t\":\"say\",\"room\":\"lobby\",\"id\":1,\"text\":\"hi\"}", 0},
    {"{\"t\":\"typing\",\"room\":\"lobby\",\"on\":false}", 0},
    {"{\"t\":\"fail\",\"room\":\"lobby\"}", 0},
    {"{\"t\":\"ping\",\"id\":0}", 0},
    {"hello", -EBADMSG},
    {"[]", -EINVAL},
    {"{}", -EINVAL},
    {"{\"t\":1}", -EINVAL},
    {"{\"t\":\"dance\"}", -EINVAL},
    {"{\"t\":\"fail\"}", -EINVAL},
    {"{\"t\":\"fail\",\"room\":\"Lobby\"}", -EINVAL},
    {"{\"t\":\"fail\",\"room\":\"lobby\",\"more\":1}", -EINVAL},
    {"{\"t\":\"ping\",\"id\":-1}", -EINVAL},
    {"{\"t\":\"ping\",\"id\":1.5}", -EINVAL},
    {"{\"t\":\"typing\",\"room\":\"lobby\",\"on\":1}", -EINVAL},
    {"{\"t\":\"say\",\"room\":\"lobby\",\"id\":1,\"text\":\"\"}", -EINVAL},
    {"{\"t\":\"hello\",\"name\":\"Ada\",\"client\":\"short\"}", -EINVAL},
    {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", -EMSGSIZE},
};

TEST_ROWS(commands_have_exactly_their_members, commands)
{
    command c;
    ck_assert_int_eq(command_read(&c, commands[_i].text, strlen(commands[_i].text)),
                     commands[_i].rc);
}

TEST(a_text_of_a_message_is_limited)
{
    char text[TEXT_BYTES_MAX + 64], letters[TEXT_BYTES_MAX + 2];
    command c;
    memset(letters, 'a', sizeof letters);
    for (int excess = 0; excess < 2; excess++) {
        int n =
            snprintf(text, sizeof text, "{\"t\":\"say\",\"room\":\"a\",\"id\":1,\"text\":\"%.*s\"}",
                     TEXT_BYTES_MAX + excess, letters);
        ck_assert_int_eq(command_read(&c, text, (size_t)n), excess == 0 ? 0 : -EMSGSIZE);
    }
}

TEST(a_rate_allows_a_burst_and_then_delays)
{
    rate r = {.per_s = 2, .burst = 3, .tokens = 3, .at_s = 100};
    for (int i = 0; i < 3; i++)
        ck_assert(rate_take(&r, 100) == 0);
    ck_assert(rate_take(&r, 100) == 0.5);
    ck_assert(rate_take(&r, 100) == 1.0);
    ck_assert(rate_take(&r, 101.5) == 0);
    ck_assert(rate_take(&r, 1000) == 0);
    ck_assert(r.tokens == 2); /* the bucket was full, not more */
}

static history *past;

static int add(const char *client, int64_t id, const message **out)
{
    char text[32];
    snprintf(text, sizeof text, "%s %lld", client, (long long)id);
    message m = {.id = id, .from = "Ada", .text = text};
    snprintf(m.client, sizeof m.client, "%s", client);
    return history_add(past, &m, out);
}

static void open_history(void)
{
    past = calloc(1, sizeof *past);
}

static void close_history(void)
{
    for (size_t i = 0; i < HISTORY_MAX; i++)
        free(past->ring[i].text);
    free(past);
}

FIXTURE(open_history, close_history)

TEST(a_history_keeps_the_last_messages)
{
    const message *m;
    ck_assert_uint_eq(history_first(past), 1);
    for (int i = 1; i <= HISTORY_MAX + 5; i++) {
        ck_assert_int_eq(add("client", i, &m), 0);
        ck_assert_uint_eq(m->seq, (unsigned)i);
    }
    ck_assert_uint_eq(history_first(past), 6);
    ck_assert_str_eq(history_at(past, 6)->text, "client 6");
    ck_assert_str_eq(history_at(past, HISTORY_MAX + 5)->text, format("client %d", HISTORY_MAX + 5));
}

TEST(a_repetition_is_detected_even_after_its_message_is_gone)
{
    const message *m;
    ck_assert_int_eq(add("a", 5, &m), 0);
    ck_assert_int_eq(add("b", 5, &m), 0);
    ck_assert_int_eq(add("a", 7, &m), 0);
    ck_assert_int_eq(add("a", 5, &m), -EEXIST);
    ck_assert_uint_eq(m->seq, 1);
    for (int i = 0; i < HISTORY_MAX; i++)
        ck_assert_int_eq(add("b", 10 + i, &m), 0);
    ck_assert_int_eq(add("a", 7, &m), -EEXIST);
    ck_assert_ptr_null(m);
    ck_assert_int_eq(add("a", 8, &m), 0);
}

TEST(the_window_that_was_silent_for_longest_is_forgotten_first)
{
    const message *m;
    for (int i = 0; i < CLIENTS_MAX; i++)
        ck_assert_int_eq(add(format("client %d", i), 1, &m), 0);
    ck_assert_int_eq(add("client 0", 2, &m), 0);
    ck_assert_int_eq(add("one more", 1, &m), 0);
    ck_assert_int_eq(add("client 0", 2, &m), -EEXIST);
    ck_assert_int_eq(add("client 2", 1, &m), -EEXIST);
    ck_assert_int_eq(add("client 1", 1, &m), 0);
}

TEST(only_the_sender_of_a_message_learns_its_id)
{
    const message *m;
    json_writer own = {0}, other = {0};
    ck_assert_int_eq(add("the secret of Ada", 77, &m), 0);
    history_write(&own, m, "the secret of Ada");
    history_write(&other, m, "");
    ck_assert_ptr_nonnull(strstr(own.text, "\"own\":77"));
    ck_assert_ptr_null(strstr(other.text, "77,"));
    ck_assert_ptr_null(strstr(other.text, "own"));
    free(own.text);
    free(other.text);
}

TEST(a_copy_of_a_history_detects_the_same_repetitions)
{
    const message *m;
    message late = {.seq = 41, .id = 9, .from = "Ada", .client = "a", .text = "forty-one"};
    ck_assert_int_eq(add("b", 1, &m), 0);
    ck_assert_ptr_nonnull(history_put(past, &late)); /* messages 2 to 40 are missing */
    ck_assert_uint_eq(history_first(past), 41);
    ck_assert_uint_eq(past->last, 41);
    ck_assert(history_has(past, "a", 9, &m) && m->seq == 41);
    ck_assert(history_has(past, "a", 8, &m) && m == NULL);
    ck_assert(!history_has(past, "a", 10, &m));
    ck_assert(history_has(past, "b", 1, &m) && m == NULL); /* message 1 is not shown any more */
    ck_assert_int_eq(add("a", 10, &m), 0);
    ck_assert_uint_eq(m->seq, 42);
    ck_assert_uint_eq(history_first(past), 41);
}
