#include "command.h"

#include "json.h"
#include "text.h"

#include <errno.h>
#include <string.h>

#define VALUES_MAX 16

/* Read one member. Each function returns 0 or an error. */

static int read_text(const json_value *v, char *out, size_t capacity, bool (*rule)(const char *))
{
    ssize_t n = json_decode(v, out, capacity);
    if (n < 0)
        return (int)n;
    return rule == NULL || rule(out) ? 0 : -EINVAL;
}

static int read_count(const json_value *v, int64_t *out)
{
    int rc = json_integer(v, out);
    return rc == 0 && *out < 0 ? -EINVAL : rc;
}

static int read_on(const json_value *v, bool *out)
{
    if (v == NULL || (v->kind != JSON_TRUE && v->kind != JSON_FALSE))
        return -EINVAL;
    *out = v->kind == JSON_TRUE;
    return 0;
}

/* The members of each kind, without "t". */
typedef struct kind_rule {
    const char *name;
    const char *members[4];
} kind_rule;

static const kind_rule rules[] = {
    [COMMAND_HELLO] = {"hello", {"name", "client"}},
    [COMMAND_JOIN] = {"join", {"room", "epoch", "since"}},
    [COMMAND_SAY] = {"say", {"room", "id", "text"}},
    [COMMAND_TYPING] = {"typing", {"room", "on"}},
    [COMMAND_FAIL] = {"fail", {"room"}},
    [COMMAND_PING] = {"ping", {"id"}},
};

static int read_member(command *c, const char *name, const json_value *v)
{
    if (strcmp(name, "name") == 0)
        return read_text(v, c->name, sizeof c->name, text_is_name);
    if (strcmp(name, "client") == 0)
        return read_text(v, c->client, sizeof c->client, text_is_client);
    if (strcmp(name, "room") == 0)
        return read_text(v, c->room, sizeof c->room, text_is_room);
    if (strcmp(name, "epoch") == 0)
        return read_text(v, c->epoch, sizeof c->epoch, NULL);
    if (strcmp(name, "text") == 0)
        return read_text(v, c->text, sizeof c->text, text_is_message);
    if (strcmp(name, "on") == 0)
        return read_on(v, &c->is_on);
    return read_count(v, strcmp(name, "id") == 0 ? &c->id : &c->since);
}

/* Return the number of members of an object. */
static size_t count_members(const json_value *values)
{
    size_t count = 0;
    for (size_t i = 1; i < values[0].count; i += 1 + values[i + 1].count)
        count++;
    return count;
}

int command_read(command *c, const char *text, size_t bytes)
{
    json_value values[VALUES_MAX];
    char kind[16];
    ssize_t n = json_read(values, VALUES_MAX, text, bytes);
    if (n < 0)
        return (int)n;
    if (json_decode(json_member(values, "t"), kind, sizeof kind) < 0)
        return -EINVAL;
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        if (strcmp(rules[k].name, kind) != 0)
            continue;
        size_t members = 0;
        c->kind = (command_kind)k;
        for (; members < 4 && rules[k].members[members] != NULL; members++) {
            const char *name = rules[k].members[members];
            int rc = read_member(c, name, json_member(values, name));
            if (rc < 0)
                return rc;
        }
        return count_members(values) == members + 1 ? 0 : -EINVAL;
    }
    return -EINVAL;
}
