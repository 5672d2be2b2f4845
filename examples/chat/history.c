#include "history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Return the mark of a window, or the mark that was not used for the longest time. */
static client_mark *find_mark(history *h, const char *client)
{
    client_mark *oldest = &h->marks[0];
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        if (strcmp(h->marks[i].client, client) == 0)
            return &h->marks[i];
        if (h->marks[i].used < oldest->used)
            oldest = &h->marks[i];
    }
    return oldest;
}

static const message *find_message(const history *h, const char *client, int64_t id)
{
    for (uint64_t seq = history_first(h); seq <= h->last; seq++) {
        const message *m = history_at(h, seq);
        if (m->id == id && strcmp(m->client, client) == 0)
            return m;
    }
    return NULL;
}

bool history_has(history *h, const char *client, int64_t id, const message **out)
{
    const client_mark *mark = find_mark(h, client);
    bool has = strcmp(mark->client, client) == 0 && id <= mark->id;
    *out = has ? find_message(h, client, id) : NULL;
    return has;
}

static void set_mark(history *h, const message *m)
{
    client_mark *mark = find_mark(h, m->client);
    strcpy(mark->client, m->client);
    mark->id = m->id;
    mark->used = ++h->mark_uses;
}

const message *history_put(history *h, const message *m)
{
    char *text = strdup(m->text);
    if (text == NULL)
        return NULL;
    message *place = &h->ring[(m->seq - 1) % HISTORY_MAX];
    free(place->text);
    *place = *m;
    place->text = text;
    if (m->seq != h->last + 1)
        h->skipped = m->seq - 1;
    h->last = m->seq;
    set_mark(h, m);
    return place;
}

int history_add(history *h, const message *m, const message **out)
{
    if (history_has(h, m->client, m->id, out))
        return -EEXIST;
    message numbered = *m;
    numbered.seq = h->last + 1;
    *out = history_put(h, &numbered);
    return *out != NULL ? 0 : -ENOMEM;
}

uint64_t history_first(const history *h)
{
    uint64_t removed = h->last > HISTORY_MAX ? h->last - HISTORY_MAX : 0;
    return (removed > h->skipped ? removed : h->skipped) + 1;
}

const message *history_at(const history *h, uint64_t seq)
{
    return &h->ring[(seq - 1) % HISTORY_MAX];
}

void history_write(json_writer *w, const message *m, const char *reader)
{
    json_open(w, '{');
    json_name_number(w, "seq", (int64_t)m->seq);
    json_name_number(w, "at", m->at_ms);
    json_name_string(w, "from", m->from);
    json_name_string(w, "text", m->text);
    if (strcmp(m->client, reader) == 0)
        json_name_number(w, "own", m->id);
    json_close(w, '}');
}
