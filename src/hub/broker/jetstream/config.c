/* Configurations of streams and consumers. See config.h. */
#include "hub/broker/jetstream/config.h"

#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES 64
#define NS_PER_S INT64_C(1000000000)
#define DUPLICATE_WINDOW_NS (120 * NS_PER_S)
#define ACK_WAIT_NS (30 * NS_PER_S)
#define ACK_PENDING_MAX 1000
#define INACTIVE_NS (5 * NS_PER_S) /* of a consumer without a durable name */

typedef enum field_kind { FIELD_INTEGER, FIELD_FLAG, FIELD_CHOICE } field_kind;

typedef struct config_field {
    const char *name;
    field_kind kind;
    int64_t zero_value;         /* the value that 0 stands for */
    const char *const *choices; /* of FIELD_CHOICE; the value is the index; the last one is NULL */
} config_field;

static const char *const retentions[] = {"limits", "interest", "workqueue", NULL};
static const char *const discards[] = {"old", "new", NULL};
static const char *const storages[] = {"file", "memory", NULL};
static const char *const deliver_policies[] = {"all", "last", "new", "by_start_sequence", NULL};
static const char *const ack_policies[] = {"none", "all", "explicit", NULL};
static const char *const replay_policies[] = {"instant", "original", NULL};

static const config_field stream_fields[WEFT__STREAM_FIELDS] = {
    [WEFT__STREAM_RETENTION] = {"retention", FIELD_CHOICE, 0, retentions},
    [WEFT__STREAM_MAX_CONSUMERS] = {"max_consumers", FIELD_INTEGER, -1, NULL},
    [WEFT__STREAM_MAX_MSGS] = {"max_msgs", FIELD_INTEGER, -1, NULL},
    [WEFT__STREAM_MAX_BYTES] = {"max_bytes", FIELD_INTEGER, -1, NULL},
    [WEFT__STREAM_MAX_AGE] = {"max_age", FIELD_INTEGER, 0, NULL},
    [WEFT__STREAM_MAX_MSGS_PER_SUBJECT] = {"max_msgs_per_subject", FIELD_INTEGER, -1, NULL},
    [WEFT__STREAM_MAX_MSG_SIZE] = {"max_msg_size", FIELD_INTEGER, -1, NULL},
    [WEFT__STREAM_DISCARD] = {"discard", FIELD_CHOICE, 0, discards},
    [WEFT__STREAM_DISCARD_NEW_PER_SUBJECT] = {"discard_new_per_subject", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_STORAGE] = {"storage", FIELD_CHOICE, 0, storages},
    [WEFT__STREAM_NUM_REPLICAS] = {"num_replicas", FIELD_INTEGER, 1, NULL},
    [WEFT__STREAM_DUPLICATE_WINDOW] = {"duplicate_window", FIELD_INTEGER, 0, NULL},
    [WEFT__STREAM_NO_ACK] = {"no_ack", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_ALLOW_DIRECT] = {"allow_direct", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_MIRROR_DIRECT] = {"mirror_direct", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_SEALED] = {"sealed", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_DENY_DELETE] = {"deny_delete", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_DENY_PURGE] = {"deny_purge", FIELD_FLAG, 0, NULL},
    [WEFT__STREAM_ALLOW_ROLLUP] = {"allow_rollup_hdrs", FIELD_FLAG, 0, NULL},
};

static const config_field consumer_fields[WEFT__CONSUMER_FIELDS] = {
    [WEFT__CONSUMER_DELIVER_POLICY] = {"deliver_policy", FIELD_CHOICE, 0, deliver_policies},
    [WEFT__CONSUMER_OPT_START_SEQ] = {"opt_start_seq", FIELD_INTEGER, 0, NULL},
    [WEFT__CONSUMER_ACK_POLICY] = {"ack_policy", FIELD_CHOICE, 0, ack_policies},
    [WEFT__CONSUMER_ACK_WAIT] = {"ack_wait", FIELD_INTEGER, 0, NULL},
    [WEFT__CONSUMER_MAX_DELIVER] = {"max_deliver", FIELD_INTEGER, -1, NULL},
    [WEFT__CONSUMER_REPLAY_POLICY] = {"replay_policy", FIELD_CHOICE, 0, replay_policies},
    [WEFT__CONSUMER_MAX_WAITING] = {"max_waiting", FIELD_INTEGER, 512, NULL},
    [WEFT__CONSUMER_MAX_ACK_PENDING] = {"max_ack_pending", FIELD_INTEGER, 0, NULL},
    [WEFT__CONSUMER_INACTIVE_THRESHOLD] = {"inactive_threshold", FIELD_INTEGER, 0, NULL},
    [WEFT__CONSUMER_NUM_REPLICAS] = {"num_replicas", FIELD_INTEGER, 0, NULL},
    [WEFT__CONSUMER_MEM_STORAGE] = {"mem_storage", FIELD_FLAG, 0, NULL},
};

/* Return the index of the choice, or -EBADMSG. */
static int choice_read(const weft__json_node *node, const char *const *choices)
{
    for (int i = 0; node->kind == WEFT__JSON_STRING && choices[i] != NULL; i++)
        if (weft__slice_is(node->text, choices[i]))
            return i;
    return -EBADMSG;
}

static int field_read(const config_field *field, const weft__json_doc *doc, const char *path,
                      int64_t *value)
{
    const weft__json_node *node = weft__json_find(doc, path);
    *value = field->zero_value;
    if (node == NULL || node->kind == WEFT__JSON_NULL)
        return 0;
    int64_t number;
    if (field->kind == FIELD_INTEGER)
        number = weft__json_integer(doc, path, INT64_MIN);
    else if (field->kind == FIELD_CHOICE)
        number = choice_read(node, field->choices);
    else
        number = node->kind == WEFT__JSON_TRUE;
    bool is_flag = node->kind == WEFT__JSON_TRUE || node->kind == WEFT__JSON_FALSE;
    if (number == INT64_MIN || (field->kind == FIELD_CHOICE && number < 0) ||
        (field->kind == FIELD_FLAG && !is_flag))
        return -EBADMSG;
    *value = number == 0 ? field->zero_value : number;
    return 0;
}

/* prefix is the path of the object, with its dot. */
static int fields_read(const config_field *fields, size_t count, const weft__json_doc *doc,
                       const char *prefix, int64_t *values)
{
    for (size_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s%s", prefix, fields[i].name);
        int rc = field_read(&fields[i], doc, path, &values[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void fields_write(const config_field *fields, size_t count, const int64_t *values,
                         weft__json_out *out)
{
    for (size_t i = 0; i < count; i++) {
        const config_field *f = &fields[i];
        weft__json_out_name(out, f->name);
        if (f->kind == FIELD_INTEGER)
            weft__json_out_integer(out, values[i]);
        else if (f->kind == FIELD_FLAG)
            weft__json_out_flag(out, values[i] != 0);
        else
            weft__json_out_text(out, f->choices[values[i]]);
    }
}

/* Read a string. A missing string is "". */
static int string_read(const weft__json_doc *doc, const char *path, char *out, size_t room)
{
    int rc = weft__json_copy_string(doc, path, out, room);
    if (rc == -ENOENT)
        out[0] = '\0';
    return rc < 0 && rc != -ENOENT ? rc : 0;
}

static int subject_add(weft__stream_config *config, const weft__json_node *node)
{
    char subject[WEFT__CONFIG_SUBJECT_BYTES_MAX + 1];
    int rc = weft__json_copy_text(node, subject, sizeof subject);
    if (rc < 0)
        return rc == -ENOENT ? -EBADMSG : rc;
    char *copy = strdup(subject);
    if (copy == NULL)
        return -ENOMEM;
    config->subjects[config->subject_count++] = copy;
    return 0;
}

static size_t children_count(const weft__json_doc *doc, const weft__json_node *array)
{
    size_t count = 0;
    for (const weft__json_node *n = weft__json_first(doc, array); n != NULL;
         n = weft__json_next(doc, array, n))
        count++;
    return count;
}

static int subjects_read(weft__stream_config *config, const weft__json_doc *doc)
{
    const weft__json_node *array = weft__json_find(doc, "subjects");
    if (array != NULL && array->kind != WEFT__JSON_ARRAY && array->kind != WEFT__JSON_NULL)
        return -EBADMSG;
    size_t count = array == NULL ? 0 : children_count(doc, array);
    config->subjects = calloc(count + 1, sizeof(char *));
    if (config->subjects == NULL)
        return -ENOMEM;
    if (count == 0) { /* the name of the stream is its subject */
        config->subjects[0] = strdup(config->name);
        config->subject_count = config->subjects[0] != NULL;
        return config->subjects[0] != NULL ? 0 : -ENOMEM;
    }
    int rc = 0;
    for (const weft__json_node *n = weft__json_first(doc, array); rc == 0 && n != NULL;
         n = weft__json_next(doc, array, n))
        rc = subject_add(config, n);
    return rc;
}

int weft__stream_config_read(weft__stream_config *config, const weft__json_doc *doc)
{
    *config = (weft__stream_config){0};
    int rc = string_read(doc, "name", config->name, sizeof config->name);
    if (rc == 0)
        rc = string_read(doc, "description", config->description, sizeof config->description);
    if (rc == 0)
        rc = fields_read(stream_fields, WEFT__STREAM_FIELDS, doc, "", config->values);
    if (rc == 0)
        rc = subjects_read(config, doc);
    if (rc < 0) {
        weft__stream_config_free(config);
        return rc;
    }
    int64_t *window = &config->values[WEFT__STREAM_DUPLICATE_WINDOW];
    int64_t age = config->values[WEFT__STREAM_MAX_AGE];
    if (*window == 0)
        *window = age > 0 && age < DUPLICATE_WINDOW_NS ? age : DUPLICATE_WINDOW_NS;
    return 0;
}

void weft__stream_config_free(weft__stream_config *config)
{
    for (size_t i = 0; i < config->subject_count; i++)
        free(config->subjects[i]);
    free(config->subjects);
    config->subjects = NULL;
    config->subject_count = 0;
}

bool weft__stream_config_is_equal(const weft__stream_config *a, const weft__stream_config *b)
{
    if (strcmp(a->name, b->name) != 0 || strcmp(a->description, b->description) != 0 ||
        a->subject_count != b->subject_count || memcmp(a->values, b->values, sizeof a->values) != 0)
        return false;
    for (size_t i = 0; i < a->subject_count; i++)
        if (strcmp(a->subjects[i], b->subjects[i]) != 0)
            return false;
    return true;
}

static void string_write(weft__json_out *out, const char *name, const char *text)
{
    if (text[0] != '\0')
        weft__json_out_text_member(out, name, text);
}

void weft__stream_config_write(const weft__stream_config *config, weft__json_out *out)
{
    weft__json_out_begin(out, '{');
    weft__json_out_text_member(out, "name", config->name);
    string_write(out, "description", config->description);
    weft__json_out_name(out, "subjects");
    weft__json_out_begin(out, '[');
    for (size_t i = 0; i < config->subject_count; i++)
        weft__json_out_text(out, config->subjects[i]);
    weft__json_out_end(out, ']');
    fields_write(stream_fields, WEFT__STREAM_FIELDS, config->values, out);
    weft__json_out_end(out, '}');
}

static void consumer_config_fill(weft__consumer_config *config)
{
    int64_t *v = config->values;
    if (v[WEFT__CONSUMER_ACK_POLICY] != WEFT__ACK_NONE) {
        if (v[WEFT__CONSUMER_ACK_WAIT] == 0)
            v[WEFT__CONSUMER_ACK_WAIT] = ACK_WAIT_NS;
        if (v[WEFT__CONSUMER_MAX_ACK_PENDING] == 0)
            v[WEFT__CONSUMER_MAX_ACK_PENDING] = ACK_PENDING_MAX;
    }
    if (config->durable_name[0] == '\0' && v[WEFT__CONSUMER_INACTIVE_THRESHOLD] == 0)
        v[WEFT__CONSUMER_INACTIVE_THRESHOLD] = INACTIVE_NS;
}

int weft__consumer_config_read(weft__consumer_config *config, const weft__json_doc *doc)
{
    *config = (weft__consumer_config){0};
    int rc =
        string_read(doc, "config.durable_name", config->durable_name, sizeof config->durable_name);
    if (rc == 0)
        rc = string_read(doc, "config.name", config->name, sizeof config->name);
    if (rc == 0)
        rc = string_read(doc, "config.filter_subject", config->filter, sizeof config->filter);
    if (rc == 0)
        rc = fields_read(consumer_fields, WEFT__CONSUMER_FIELDS, doc, "config.", config->values);
    if (rc == 0)
        consumer_config_fill(config);
    return rc;
}

void weft__consumer_config_write(const weft__consumer_config *config, weft__json_out *out)
{
    weft__json_out_begin(out, '{');
    string_write(out, "durable_name", config->durable_name);
    string_write(out, "name", config->name);
    string_write(out, "filter_subject", config->filter);
    fields_write(consumer_fields, WEFT__CONSUMER_FIELDS, config->values, out);
    weft__json_out_end(out, '}');
}
