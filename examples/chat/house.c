#include "house.h"

#include "cluster.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_ROOMS 4
#define RESTART_DELAY_S 0.02    /* of a room that fails for the first time in a while */
#define RESTART_DELAY_MAX_S 1.0 /* of a room that fails again and again */

static const char *const first_rooms[FIRST_ROOMS][2] = {
    {"lobby", "Say hello. Everybody starts here."},
    {"workshop", "What are you building?"},
    {"garden", "Slow talk, long messages."},
    {"night-shift", "For people who are still awake."},
};

static struct {
    room *rooms[ROOMS_MAX];
    size_t rooms_count;
    user *users[USERS_MAX];
    size_t users_count;
    weft_fiber supervisor;
    char epoch[EPOCH_BYTES];
} house;

static room *room_new(const char *name, const char *topic)
{
    room *r = calloc(1, sizeof *r);
    if (r == NULL || (r->inbox = weft_chan_new(INBOX_MAX)) == NULL) {
        free(r);
        return NULL;
    }
    snprintf(r->name, sizeof r->name, "%s", name);
    r->topic = topic;
    r->route = room_put;
    if (cluster_is_open() && cluster_share(r) < 0) {
        weft_chan_free(r->inbox);
        free(r);
        return NULL;
    }
    house.rooms[house.rooms_count++] = r;
    return r;
}

static void room_free(room *r)
{
    weft_value e;
    cluster_unshare(r);
    while (!weft_is_error(e = weft_chan_try_recv(r->inbox)))
        free((room_event *)e);
    weft_chan_free(r->inbox);
    for (size_t i = 0; i < HISTORY_MAX; i++)
        free(r->history.ring[i].text);
    free(r);
}

void house_room_failed(room *r, const char *why, bool members_are_lost)
{
    r->failures++;
    json_writer w = {0};
    json_open(&w, '{');
    json_name_string(&w, "t", "failed");
    json_name_string(&w, "room", r->name);
    json_name_number(&w, "failures", r->failures);
    json_name_string(&w, "why", why);
    json_close(&w, '}');
    packet *p = packet_new(&w);
    if (p != NULL) {
        p->room = r;
        p->is_failure = members_are_lost;
    }
    house_tell_all(p);
}

/* A room has failed: tell all users. Members join again when the supervisor has restarted it. */
static void on_exit_of_room(weft_fiber child, weft_value value, void *arg)
{
    (void)arg;
    for (size_t i = 0; weft_is_error(value) && i < house.rooms_count; i++) {
        room *r = house.rooms[i];
        if (r->fiber != child && r->link != child)
            continue;
        fprintf(stderr, "room %s failed (%s) and restarts\n", r->name, weft_error()->message);
        house_room_failed(r, weft_error()->message, r->fiber == child);
    }
}

/* Create the fibers of a room. */
static int start_room(room *r, weft_fiber parent)
{
    const weft_spin_options options = {.name = r->name, .parent = parent};
    weft_fiber fiber = weft_spin_with(room_run, r, &options);
    int rc = fiber != 0 ? 0 : weft_error()->code;
    if (rc == 0 && r->shared != NULL && (rc = cluster_start(r, parent)) < 0)
        weft_terminate(fiber, 1.0);
    return rc;
}

/* The supervisor restarts only the room that has failed. Other rooms do not notice. */
static weft_value supervise_rooms(void *arg)
{
    (void)arg;
    const weft_supervise_options options = {
        .strategy = WEFT_ONE_FOR_ONE,
        .restart = WEFT_ON_ERROR,
        .restarts_max = UINT_MAX,
        .backoff_s = RESTART_DELAY_S,
        .backoff_max_s = RESTART_DELAY_MAX_S,
        .on_exit = on_exit_of_room,
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < FIRST_ROOMS; i++)
        rc = start_room(house.rooms[i], weft_self());
    if (rc == 0 && cluster_is_open())
        rc = cluster_find_rooms(weft_self());
    return rc == 0 ? weft_supervise(NULL, 0, &options) : rc;
}

/* A chat in one process has forgotten all messages of its last run. A cluster has a log. */
static int choose_epoch(void)
{
    uint64_t random;
    if (cluster_is_open()) {
        snprintf(house.epoch, sizeof house.epoch, "%s", cluster_epoch());
        return 0;
    }
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return weft_fail(-EIO, "no random numbers");
    snprintf(house.epoch, sizeof house.epoch, "%016llx", (unsigned long long)random);
    return 0;
}

int house_open(void)
{
    int rc = choose_epoch();
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < FIRST_ROOMS; i++)
        if (room_new(first_rooms[i][0], first_rooms[i][1]) == NULL)
            return weft_fail(-ENOMEM, "no memory for the rooms");
    const weft_spin_options options = {.name = "supervisor"};
    house.supervisor = weft_spin_with(supervise_rooms, NULL, &options);
    return house.supervisor != 0 ? 0 : weft_error()->code;
}

void house_close(void)
{
    if (house.supervisor != 0)
        weft_terminate(house.supervisor, 5.0);
    while (house.rooms_count > 0)
        room_free(house.rooms[--house.rooms_count]);
    house.supervisor = 0;
}

const char *house_epoch(void)
{
    return house.epoch;
}

static void tell_rooms(void)
{
    json_writer w = {0};
    json_open(&w, '{');
    json_name_string(&w, "t", "rooms");
    house_write_rooms(&w);
    json_close(&w, '}');
    house_tell_all(packet_new(&w));
}

static room *find_room(const char *name)
{
    for (size_t i = 0; i < house.rooms_count; i++)
        if (strcmp(house.rooms[i]->name, name) == 0)
            return house.rooms[i];
    return NULL;
}

bool house_is_full(void)
{
    return house.rooms_count == ROOMS_MAX;
}

room *house_found_room(const char *name)
{
    room *r = find_room(name);
    if (r != NULL || house_is_full() || (r = room_new(name, "")) == NULL)
        return r;
    if (start_room(r, house.supervisor) < 0) {
        room_free(house.rooms[--house.rooms_count]);
        return NULL;
    }
    tell_rooms();
    return r;
}

room *house_room(const char *name, bool may_create)
{
    room *r = find_room(name);
    if (r != NULL || !may_create || house_is_full())
        return r;
    if (cluster_is_open() && cluster_add_room(name) < 0)
        return NULL;
    return house_found_room(name);
}

/* Make the reader of a user close the connection. The reader may be busy: it looks later, too. */
static void disconnect(user *u, int close_code)
{
    if (u->close_code != 0)
        return;
    u->close_code = close_code;
    weft_interrupt(u->reader, -ECANCELED);
}

int house_enter(user *u)
{
    for (size_t i = 0; i < house.users_count; i++) {
        user *other = house.users[i];
        if (strcmp(other->self.client, u->self.client) == 0)
            disconnect(other, CLOSE_REPLACED);
        else if (strcmp(other->self.name, u->self.name) == 0 && other->close_code == 0)
            return CLOSE_NAME_TAKEN;
    }
    if (house.users_count == USERS_MAX)
        return CLOSE_FULL;
    house.users[house.users_count++] = u;
    return 0;
}

void house_leave(user *u)
{
    for (size_t i = 0; i < house.users_count; i++) {
        if (house.users[i] == u) {
            house.users[i] = house.users[--house.users_count];
            return;
        }
    }
}

size_t house_users(void)
{
    return house.users_count;
}

int house_tell(weft_fiber writer, packet *p)
{
    int rc = packet_tell(writer, p);
    for (size_t i = 0; rc == -EAGAIN && i < house.users_count; i++)
        if (house.users[i]->self.writer == writer)
            disconnect(house.users[i], CLOSE_TOO_SLOW);
    return rc;
}

void house_tell_all(packet *p)
{
    for (size_t i = 0; p != NULL && i < house.users_count; i++)
        house_tell(house.users[i]->self.writer, p);
    packet_release(p);
}

void house_write_rooms(json_writer *w)
{
    json_name(w, "rooms");
    json_open(w, '[');
    for (size_t i = 0; i < house.rooms_count; i++) {
        const room *r = house.rooms[i];
        json_open(w, '{');
        json_name_string(w, "name", r->name);
        json_name_string(w, "topic", r->topic);
        json_name_number(w, "last", (int64_t)r->history.last);
        json_name_number(w, "people", (int64_t)r->people);
        json_name_number(w, "failures", r->failures);
        if (r->shared != NULL)
            json_name_string(w, "owner", r->owner);
        json_close(w, '}');
    }
    json_close(w, ']');
}
