/*
 * A cluster: several processes of the chat that share their rooms through a hub (weft/hub.h).
 *
 * One process owns a room: it decides the order of the messages, and writes them to the durable log
 * of the room. All processes have a copy of the log in the histories of their rooms. A user reads
 * the copy of the process that it is connected to. If the owner ends, another process takes the
 * room over and continues the log (docs/adr/0078).
 *
 * cluster_none.c replaces these functions in a program without libweft-hub.
 */
#ifndef CHAT_CLUSTER_H
#define CHAT_CLUSTER_H

#include "room.h"

/*
 * Connect to a hub. process is the name of this process for users. Returns 0, an error of
 * weft_hub_open, weft_hub_log or weft_hub_set, or:
 * -ENOTSUP if the program was built without libweft-hub
 */
int cluster_open(const char *where, const char *process);

/* Release the rooms of this process and disconnect. If the cluster is not open, do nothing. */
void cluster_close(void);

bool cluster_is_open(void);

/* The name of this process. */
const char *cluster_process(void);

/* The name that all processes of the cluster, now and later, have in common. */
const char *cluster_epoch(void);

/* Make a room shared, before its fibers run. Returns 0 or -ENOMEM. */
int cluster_share(room *r);

/* Free what a shared room has allocated. Its fibers have ended. */
void cluster_unshare(room *r);

/* Create the fibers that connect a shared room to other processes. Returns 0 or an error. */
int cluster_start(room *r, weft_fiber parent);

/*
 * Tell all processes that a room exists, now and when they start. Returns 0, an error of
 * weft_hub_append, or:
 * -ENOSPC if there are too many rooms
 * -ETIMEDOUT if the hub does not answer
 */
int cluster_add_room(const char *name);

/* Create a fiber that finds the rooms of all processes. Returns 0 or an error. */
int cluster_find_rooms(weft_fiber parent);

#endif
