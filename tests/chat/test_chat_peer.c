/* Messages between processes of the chat, and entries of its log. */
#include "chat/peer_message.h"
#include "support/suite.h"

static json_writer written;

/* Write a message, and read it. */
static peer_message read_written(const peer_message *m)
{
    peer_message copy;
    free(written.text);
    written = (json_writer){0};
    peer_message_write(&written, m);
    ck_assert(!written.has_failed);
    ck_assert_int_eq(peer_message_read(&copy, written.text, written.bytes), 0);
    return copy;
}

TEST(a_message_of_a_user_passes_through_the_log)
{
    char text[] = "line\n\"quoted\" \xf0\x9f\x8c\xb8";
    const message said = {
        .seq = 7, .at_ms = 1700000000123, .id = 3, .from = "Ada", .client = "secret", .text = text};
    peer_message entry = peer_message_of(&said);
    peer_message copy = read_written(&entry);
    ck_assert_int_eq(copy.kind, PEER_ENTRY);
    message m = peer_message_said(&copy);
    ck_assert(m.seq == 7 && m.at_ms == said.at_ms && m.id == 3);
    ck_assert_str_eq(m.from, "Ada");
    ck_assert_str_eq(m.client, "secret");
    ck_assert_str_eq(m.text, text);
    free(copy.text);
    free(written.text);
}

TEST(fields_that_are_not_set_are_not_written)
{
    peer_message copy = read_written(&(peer_message){.kind = PEER_TYPING, .is_on = true});
    ck_assert_str_eq(written.text, "{\"t\":\"typing\",\"on\":true}");
    ck_assert(copy.is_on && !copy.is_new && copy.id == 0);
    ck_assert_str_eq(copy.from, "");
    ck_assert_str_eq(copy.text, "");
    free(copy.text);
    free(written.text);
}

static const char *const bad_messages[] = {
    "",
    "[]",
    "{}",
    "{\"t\":\"dance\"}",
    "{\"t\":\"say\",\"id\":-1}",
    "{\"t\":\"say\",\"id\":\"1\"}",
    "{\"t\":\"say\",\"text\":1}",
    "{\"t\":\"room\",\"room\":\"abcdefghijklmnopqrstuvwxyz\"}",
};

TEST_ROWS(a_text_that_is_not_a_message_is_refused, bad_messages)
{
    peer_message m;
    ck_assert_int_eq(peer_message_read(&m, bad_messages[_i], strlen(bad_messages[_i])), -EBADMSG);
}
