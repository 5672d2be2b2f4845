/*
 * The parser of the protocol: every operation, every limit, malformed lines, and input that arrives
 * in pieces.
 */
#include "hub/wire/output.h"
#include "hub/wire/parse.h"
#include "support/cases.h"
#include "support/random.h"
#include "support/suite.h"

#define PAYLOAD_MAX 100

static weft__op_line op;
static size_t need;

/* Parse a copy in memory of the exact size, so that ASan finds reads after the end. */
static ssize_t parse_bytes(const char *data, size_t bytes)
{
    static char *copy;
    free(copy);
    copy = malloc(bytes > 0 ? bytes : 1);
    memcpy(copy, data, bytes);
    return weft__wire_parse(copy, bytes, PAYLOAD_MAX, &op, &need);
}

static ssize_t parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

/* Append a slice to the description of an operation. */
static void describe_slice(char *text, const char *name, weft__slice s)
{
    if (s.data != NULL)
        sprintf(text + strlen(text), " %s=%.*s", name, (int)s.bytes, s.data);
}

/* Describe op by its verb and the fields that are set. */
static const char *describe_op(void)
{
    static const char *const names[] = {"INFO", "CONNECT", "PUB",  "SUB", "UNSUB",
                                        "MSG",  "PING",    "PONG", "OK",  "ERR"};
    static char text[2 * WEFT__INFO_BYTES_MAX];
    strcpy(text, names[op.verb]);
    describe_slice(text, "args", op.args);
    describe_slice(text, "subject", op.subject);
    describe_slice(text, "reply", op.reply);
    describe_slice(text, "queue", op.queue);
    if (op.sid != 0)
        sprintf(text + strlen(text), " sid=%llu", (unsigned long long)op.sid);
    if (op.messages_max != 0)
        sprintf(text + strlen(text), " max=%llu", (unsigned long long)op.messages_max);
    describe_slice(text, "headers", op.headers);
    describe_slice(text, "payload", op.payload);
    return text;
}

/* The input is one whole operation. Its beginnings are incomplete, and need more. */
static void is_parsed(const char *input, const char *expected)
{
    size_t bytes = strlen(input);
    for (size_t n = 0; n < bytes; n++) {
        ck_assert_msg(parse_bytes(input, n) == 0, "%zu bytes of %s", n, input);
        ck_assert(need > n && need <= bytes);
    }
    ck_assert_msg(parse(input) == (ssize_t)bytes, "%s", input);
    ck_assert_str_eq(describe_op(), expected);
}

TEST(operations_without_a_payload_are_parsed)
{
    EACH_PAIR(
        is_parsed, "PING\r\n -> PING", "PONG\r\n -> PONG", "+OK\r\n -> OK", "PING \t \r\n -> PING",
        "INFO {\"a\":1}\r\n -> INFO args={\"a\":1}", "INFO \t {} \t \r\n -> INFO args={}",
        "CONNECT {\"a\": 1}\r\n -> CONNECT args={\"a\": 1}",
        "-ERR 'Slow Consumer'\r\n -> ERR args=Slow Consumer", "-ERR x'\r\n -> ERR args=x'",
        "-ERR '\r\n -> ERR args='", "-ERR\r\n -> ERR args=", "-ERR ''\r\n -> ERR args=",
        "SUB a.b 1\r\n -> SUB subject=a.b sid=1", "SUB > q 12\r\n -> SUB subject=> queue=q sid=12",
        "UNSUB 1\r\n -> UNSUB sid=1", "UNSUB 1 5\r\n -> UNSUB sid=1 max=5",
        "UNSUB 9999999999999999999\r\n -> UNSUB sid=9999999999999999999");
}

TEST(messages_are_parsed)
{
    EACH_PAIR(is_parsed, "MSG a.b 9 5\r\nhello\r\n -> MSG subject=a.b sid=9 payload=hello",
              "MSG a 9 in.1 2\r\nhi\r\n -> MSG subject=a reply=in.1 sid=9 payload=hi",
              "MSG a 9 0\r\n\r\n -> MSG subject=a sid=9 payload=",
              "MSG a 0009 002\r\n\r\n\r\n -> MSG subject=a sid=9 payload=\r\n",
              "HMSG a 9 3 5\r\nhhhpp\r\n -> MSG subject=a sid=9 headers=hhh payload=pp",
              "HMSG a 9 r 3 3\r\nhhh\r\n -> MSG subject=a reply=r sid=9 headers=hhh payload=",
              "HMSG a 9 0 2\r\npp\r\n -> MSG subject=a sid=9 payload=pp",
              "PUB a 2\r\npp\r\n -> PUB subject=a payload=pp",
              "PUB a r 2\r\npp\r\n -> PUB subject=a reply=r payload=pp",
              "HPUB a 1 2\r\nhp\r\n -> PUB subject=a headers=h payload=p",
              "HPUB a r 1 2\r\nhp\r\n -> PUB subject=a reply=r headers=h payload=p");
}

TEST(fields_have_any_blanks_between_them)
{
    EACH_PAIR(is_parsed, "MSG\ta \t 9\t\t2 \t\r\npp\r\n -> MSG subject=a sid=9 payload=pp",
              "INFO\t{}\r\n -> INFO args={}", "UNSUB   3\r\n -> UNSUB sid=3");
}

TEXT_CHECK(is_not_protocol, parse(text) == -EPROTO)

TEST(a_malformed_line_is_rejected)
{
    EACH_TEXT(is_not_protocol, "\r\n", "ping\r\n", "Msg a 9 2\r\n", " \r\n", " PING\r\n", "PIN\r\n",
              "PING\n", "PINGS\r\n", "PING x\r\n", "PING\rx\r\n", "+OK x\r\n", "+OKAY\r\n",
              "OK\r\n", "\x0bOK\r\n", "\rERR\r\n", "INFO\r\n", "INFO  \r\n", "INFO{}\r\n",
              "INFO {}\n", "CONNECT\r\n", "HTTP/1.1 400 Bad Request\r\n", "\x16\x03\x01", "{",
              "SUB\r\n", "SUB a\r\n", "SUB a b c 1\r\n", "SUB a x\r\n", "SUB a -1\r\n",
              "SUB a 10000000000000000000\r\n", "UNSUB\r\n", "UNSUB x\r\n", "UNSUB 1 x\r\n",
              "UNSUB 1 2 3\r\n", "UNSUB 1 10000000000000000000\r\n", "SUB a\rb 1\r\n",
              "SUB a\x01"
              "b 1\r\n",
              "SUB a b c d e f\r\n");
    ck_assert_int_eq(parse_bytes("SUB a\0b 1\r\n", 11), -EPROTO);
    ck_assert_int_eq(parse_bytes("\0", 1), -EPROTO);
}

TEST(a_malformed_message_is_rejected)
{
    EACH_TEXT(is_not_protocol, "MSG\r\n", "MSG a\r\n", "MSG a 9\r\n", "MSG a 9 r 1 2\r\n",
              "MSG a x 2\r\n", "MSG a 9 x\r\n", "MSG a 9 -1\r\n", "MSG a 9 +1\r\n",
              "MSG a 9 1.0\r\n", "MSG a 9 0x1\r\n", "MSG a 9 r s 2\r\n", "HMSG a 9 2\r\n",
              "HMSG a 9 3 2\r\nhhh\r\n", "HMSG a 9 x 2\r\n", "HMSG a 9 1 x\r\n",
              "HMSG a 9 r s 1 2\r\n", "PUB\r\n", "PUB a\r\n", "PUB a r s 1\r\n", "HPUB a 1\r\n",
              "HPUB a r s 1 2\r\n", "MSG a 9 2\n", "MSG a\rb 9 2\r\n", "MSG a 9 2\r\npppp",
              "MSG a 9 2\r\npp\n\n", "MSG a 9 2\r\npp\r\r", "MSG a 9 2\r\nppMSG a 9 2\r\npp\r\n",
              "MSG a 10000000000000000000 2\r\n", "PUB a 1 \x01\r\n");
    ck_assert_int_eq(parse_bytes("MSG a\0 9 2\r\npp\r\n", 17), -EPROTO);
}

TEST(the_limit_of_the_payload_includes_the_headers)
{
    ck_assert_int_eq(parse("MSG a 9 100\r\n"), 0);
    ck_assert_uint_eq(need, 13 + 100 + 2);
    ck_assert_int_eq(parse("HMSG a 9 50 100\r\n"), 0);
    ck_assert_int_eq(parse("MSG a 9 101\r\n"), -EMSGSIZE);
    ck_assert_int_eq(parse("HMSG a 9 50 101\r\n"), -EMSGSIZE);
    ck_assert_int_eq(parse("HMSG a 9 101 100\r\n"), -EMSGSIZE);
    ck_assert_int_eq(parse("PUB a 18446744073709551616\r\n"), -EMSGSIZE);
    ck_assert_int_eq(parse("PUB a 99999999999999999999999999\r\n"), -EMSGSIZE);
    ck_assert_int_eq(weft__wire_parse("MSG a 9 1\r\n", 11, 0, &op, &need), -EMSGSIZE);
    ck_assert_int_eq(weft__wire_parse("MSG a 9 0\r\n\r\n", 13, 0, &op, &need), 13);
}

/* Parse a line of before, x and after, with a length in all. Its first n bytes arrive. */
static ssize_t parse_line(const char *before, const char *after, size_t bytes, size_t n)
{
    static char line[WEFT__INFO_BYTES_MAX + 8];
    memset(line, 'x', sizeof line);
    memcpy(line, before, strlen(before));
    memcpy(line + bytes - strlen(after), after, strlen(after));
    return parse_bytes(line, n);
}

static const struct {
    const char *before, *after;
    size_t max;
} limits[] = {{"SUB ", " 1\r\n", WEFT__LINE_BYTES_MAX}, {"UNSUB 1 ", "1\r\n", WEFT__LINE_BYTES_MAX},
              {"-ERR ", "\r\n", WEFT__LINE_BYTES_MAX},  {"MSG ", " 1 2\r\n", WEFT__LINE_BYTES_MAX},
              {"INFO ", "\r\n", WEFT__INFO_BYTES_MAX},  {"CONNECT ", "\r\n", WEFT__INFO_BYTES_MAX}};

TEST_ROWS(a_line_is_limited_whether_its_end_has_arrived_or_not, limits)
{
    const char *before = limits[_i].before, *after = limits[_i].after;
    size_t max = limits[_i].max;
    ck_assert_int_ne(parse_line(before, after, max, max), -EMSGSIZE);
    ck_assert_int_eq(parse_line(before, after, max, max - 1), 0);
    ck_assert_int_eq(parse_line(before, after, max + 1, max - 1), 0);
    ck_assert_int_eq(parse_line(before, after, max + 1, max), -EMSGSIZE);
    ck_assert_int_eq(parse_line(before, after, max + 1, max + 1), -EMSGSIZE);
}

TEST(an_unknown_verb_is_rejected_before_its_line_is_complete)
{
    EACH_TEXT(is_not_protocol, "G", "GET / HT", "X", "PX", "MSGS", "HX", "INFO{", "INFOS", "+K",
              "--", "\n");
    ck_assert_int_eq(parse("MSG"), 0);
    ck_assert_int_eq(parse("H"), 0);
    ck_assert_int_eq(parse("P"), 0);
}

TEST(an_incomplete_message_needs_its_whole_size)
{
    ck_assert_int_eq(parse("MSG a 9 50\r\n"), 0);
    ck_assert_uint_eq(need, 12 + 50 + 2);
    ck_assert_int_eq(parse("MSG a 9 5\r\nhello\r"), 0);
    ck_assert_uint_eq(need, 18);
    ck_assert_int_eq(weft__wire_parse(NULL, 0, PAYLOAD_MAX, &op, &need), 0);
    ck_assert_uint_eq(need, 1);
}

TEST(the_bytes_after_an_operation_are_left_alone)
{
    ck_assert_int_eq(parse("PING\r\nGARBAGE"), 6);
    ck_assert_int_eq(parse("MSG a 9 2\r\npp\r\nPING\r\n"), 15);
    ck_assert_int_eq(parse("SUB a 1\r\n\r\n"), 9);
}

/* Fields of all lengths, so that their ends are at all offsets in a word. */
TEST(fields_of_all_lengths_are_found)
{
    for (int subject = 1; subject < 40; subject++)
        for (int reply = 1; reply < 20; reply++) {
            char line[128];
            int bytes = snprintf(
                line, sizeof line, "MSG %.*s 77 %.*s 1\r\n!\r\n", subject,
                "sssssssssssssssssssssssssssssssssssssssss", reply,
                "\xff\x80\x21\x7e\xff\x80\x21\x7e\xff\x80\x21\x7e\xff\x80\x21\x7e\xff\x80\x21");
            ck_assert_int_eq(parse(line), bytes);
            ck_assert_int_eq((int)op.subject.bytes, subject);
            ck_assert_int_eq((int)op.reply.bytes, reply);
            ck_assert(op.sid == 77 && weft__slice_is(op.payload, "!"));
        }
}

/*
 * A property: the operations of an input do not depend on how the input is split.
 */

#define STREAM_OPERATIONS 60

static void append_random_message(weft__buffer *stream)
{
    static const char bytes[] =
        "MSG a 1 2\r\nPING\r\n\r\n\0\xff PUB b 3\r\n-ERR 'x'\r\nNATS/1.0\r\n\r\n";
    weft__publication p = {.subject = weft__slice_of("orders.paid.eu")};
    p.subject.bytes = 1 + random_below(14);
    if (p.subject.data[p.subject.bytes - 1] == '.')
        p.subject.bytes--;
    if (random_below(2) == 0)
        p.reply = weft__slice_of("_INBOX.7");
    if (random_below(3) == 0)
        p.headers = (weft__slice){bytes, 1 + random_below(sizeof bytes)};
    p.payload = (weft__slice){bytes, random_below(sizeof bytes)};
    int rc = random_below(2) == 0 ? weft__output_msg(stream, &p, random_bits() >> 1)
                                  : weft__output_pub(stream, &p);
    ck_assert_int_eq(rc, 0);
}

static void append_random_line(weft__buffer *stream)
{
    static const char *const lines[] = {"PING\r\n",
                                        "PONG\r\n",
                                        "+OK\r\n",
                                        "-ERR 'Slow Consumer'\r\n",
                                        "INFO {\"a\":[1,2]}\r\n",
                                        "UNSUB 4\r\n",
                                        "UNSUB 4 9\r\n",
                                        "CONNECT {\"b\":0}\r\n",
                                        "SUB a.> q 3\r\n"};
    ck_assert_int_eq(weft__output_text(stream, lines[random_below(COUNT_OF(lines))]), 0);
}

/* Sometimes the end of the stream is not an operation. */
static void append_random_end(weft__buffer *stream)
{
    static const char *const ends[] = {"",
                                       "",
                                       "MSG a 1 5\r\nhello",
                                       "MSG a 1 5\r\nhello!\r\n",
                                       "HTTP/1.1",
                                       "PUB a 101\r\n",
                                       "MSG a b c d e f\r\n",
                                       "PING\n",
                                       "INFO {"};
    ck_assert_int_eq(weft__output_text(stream, ends[random_below(COUNT_OF(ends))]), 0);
}

static void add_to_hash(uint64_t *hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
}

static void add_slice_to_hash(uint64_t *hash, weft__slice s)
{
    add_to_hash(hash, &s.bytes, sizeof s.bytes);
    add_to_hash(hash, s.data, s.bytes);
}

static void add_op_to_hash(uint64_t *hash, const weft__op_line *o)
{
    const weft__slice slices[] = {o->args, o->subject, o->reply, o->queue, o->headers, o->payload};
    const uint64_t numbers[] = {o->verb, o->sid, o->messages_max};
    for (size_t i = 0; i < COUNT_OF(slices); i++)
        add_slice_to_hash(hash, slices[i]);
    add_to_hash(hash, numbers, sizeof numbers);
}

/*
 * Parse a stream that arrives in pieces of at most piece_max bytes, 0: as a whole. Return the hash
 * of all operations and of the final result: an error, or an incomplete operation.
 */
static uint64_t hash_of_pieces(const weft__buffer *stream, unsigned piece_max)
{
    uint64_t hash = 1;
    size_t arrived = 0, parsed = 0, needed = 0;
    for (;;) {
        ssize_t rc = parse_bytes(stream->data + parsed, arrived - parsed);
        if (rc > 0) {
            ck_assert_uint_ge(parsed + (size_t)rc, needed); /* *need was not too much */
            add_op_to_hash(&hash, &op);
            parsed += (size_t)rc;
        } else if (rc < 0 || arrived == stream->bytes) {
            add_to_hash(&hash, &rc, sizeof rc);
            add_to_hash(&hash, &parsed, sizeof parsed);
            return hash;
        } else {
            ck_assert_uint_gt(need, arrived - parsed);
            needed = parsed + need;
            size_t more = piece_max > 0 ? 1 + random_below(piece_max) : SIZE_MAX;
            arrived += more < stream->bytes - arrived ? more : stream->bytes - arrived;
        }
    }
}

TEST_LOOP(the_operations_do_not_depend_on_how_the_input_is_split, 50)
{
    static const unsigned pieces[] = {1, 2, 3, 7, 16, 64, 500};
    random_state = (uint64_t)_i + 1;
    weft__buffer stream = {0};
    for (int i = 0; i < STREAM_OPERATIONS; i++)
        random_below(4) > 0 ? append_random_message(&stream) : append_random_line(&stream);
    append_random_end(&stream);
    uint64_t hash = hash_of_pieces(&stream, 0);
    for (size_t i = 0; i < COUNT_OF(pieces); i++)
        ck_assert_uint_eq(hash_of_pieces(&stream, pieces[i]), hash);
    weft__buffer_free(&stream);
}
