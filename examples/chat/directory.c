/*
 * The directory: rooms that users have created, as entries of one key of the log. A process that
 * adds a room has read all earlier entries, because its append is fenced.
 */
#include "cluster.h"
#include "cluster_hub.h"
#include "house.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DIRECTORY_KEY "_rooms" /* not a name of a room */
#define FIND_S 1.0             /* between two looks */
#define ADD_S 5.0              /* then the user is refused */

static uint64_t directory_number; /* the last entry that this process has read */

/* Create the rooms of new entries. Two fibers may read at the same time. */
static int read_directory(void)
{
    int rc;
    peer_message entry;
    uint64_t number = directory_number;
    while ((rc = cluster_read(DIRECTORY_KEY, &number, &entry)) > 0) {
        if (entry.kind == PEER_ROOM && text_is_room(entry.room))
            house_found_room(entry.room);
        free(entry.text);
        if (number > directory_number)
            directory_number = number;
    }
    return rc;
}

static int add_entry(const char *name)
{
    peer_message entry = {.kind = PEER_ROOM};
    snprintf(entry.room, sizeof entry.room, "%s", name);
    int rc;
    do {
        if ((rc = read_directory()) < 0 || house_room(name, false) != NULL)
            return rc;
        if (house_is_full())
            return -ENOSPC;
        uint64_t number = directory_number;
        rc = cluster_append(DIRECTORY_KEY, &entry, &number);
    } while (rc == -ESTALE); /* another process has added a room */
    return rc;
}

int cluster_add_room(const char *name)
{
    int rc = 0, timed_out;
    WEFT_CANCEL_AFTER(ADD_S, timed_out) {
        rc = add_entry(name);
    }
    return timed_out < 0 ? -ETIMEDOUT : rc;
}

static weft_value find_rooms(void *arg)
{
    (void)arg;
    int rc;
    do {
        rc = read_directory();
        if (rc == 0)
            rc = weft_sleep(FIND_S);
    } while (rc == 0);
    return rc;
}

int cluster_find_rooms(weft_fiber parent)
{
    const weft_spin_options options = {.name = "directory", .parent = parent};
    return weft_spin_with(find_rooms, NULL, &options) != 0 ? 0 : weft_error()->code;
}
