/* Snapshots from the copies of cords. See copy.h. */
#include "core/inspect/copy.h"

#include "backend/fd_generation.h"
#include "core/inspect/socket_address.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A snapshot with the memory of its strings and frames. */
typedef struct full_snapshot {
    weft_snapshot snapshot; /* what the caller has */
    weft__frames *frames;   /* NULL: none */
    char (*thread_names)[16];
    char (*names)[WEFT__NAME_BYTES]; /* of the fibers */
    struct socket_names *addresses;  /* a list; NULL: none */
} full_snapshot;

/* The addresses of a socket. */
typedef struct socket_names {
    struct socket_names *next;
    weft__socket_text local, peer;
} socket_names;

/* Get the addresses of the socket of a fiber, unless the descriptor was closed since the copy. */
static int fiber_add_addresses(full_snapshot *to, const weft__fiber_copy *from,
                               weft_snapshot_fiber *fiber)
{
    int fd = fiber->info.fd;
    weft__socket_text local, peer;
    if (fd < 0 || !weft__socket_describe(fd, &local, &peer) ||
        weft__fd_generation(fd) != from->fd_generation)
        return 0;
    socket_names *names = malloc(sizeof *names);
    if (names == NULL)
        return -ENOMEM;
    *names = (socket_names){to->addresses, local, peer};
    to->addresses = names;
    fiber->local = names->local.text;
    fiber->peer = names->peer.text;
    return 0;
}

static int snapshot_add_fiber(full_snapshot *to, const weft__fiber_copy *from, uint32_t cord,
                              bool has_addresses)
{
    size_t index = to->snapshot.fibers_count++;
    weft_snapshot_fiber *fiber = &to->snapshot.fibers[index];
    *fiber = from->fiber;
    fiber->cord = cord;
    fiber->info.name = memcpy(to->names[index], from->name, sizeof from->name);
    if (from->stack.low != NULL)
        fiber->info.stack_used = weft__stack_used(&from->stack);
    return has_addresses ? fiber_add_addresses(to, from, fiber) : 0;
}

static int snapshot_add_cord(full_snapshot *to, weft__cord_copy *copy, bool has_addresses)
{
    uint32_t index = (uint32_t)to->snapshot.cords_count++;
    weft_snapshot_cord *cord = &to->snapshot.cords[index];
    *cord = copy->cord;
    cord->fibers_count = copy->fibers_count;
    cord->name = memcpy(to->thread_names[index], copy->thread_name, sizeof copy->thread_name);
    while (copy->frames != NULL) {
        weft__frames *frames = copy->frames;
        copy->frames = frames->next_of_all;
        frames->next_of_all = to->frames;
        to->frames = frames;
    }
    int rc = 0;
    for (size_t i = 0; i < copy->fibers_count && rc == 0; i++)
        rc = snapshot_add_fiber(to, &copy->fibers[i], index, has_addresses);
    return rc;
}

/* Allocate an array, also if count is 0. */
static void *array_new(size_t count, size_t bytes)
{
    return calloc(count + (count == 0), bytes);
}

static full_snapshot *snapshot_alloc(size_t cords, size_t fibers)
{
    full_snapshot *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->snapshot.cords = array_new(cords, sizeof *s->snapshot.cords);
    s->snapshot.fibers = array_new(fibers, sizeof *s->snapshot.fibers);
    s->thread_names = array_new(cords, sizeof *s->thread_names);
    s->names = array_new(fibers, sizeof *s->names);
    if (s->snapshot.cords != NULL && s->snapshot.fibers != NULL && s->thread_names != NULL &&
        s->names != NULL)
        return s;
    weft_snapshot_free(&s->snapshot);
    return NULL;
}

int weft__snapshot_make(weft__cord_copy **copies, size_t count,
                        const weft_snapshot_options *options, weft_snapshot **out)
{
    size_t fibers = 0;
    for (size_t i = 0; i < count; i++)
        fibers += copies[i]->fibers_count;
    full_snapshot *s = snapshot_alloc(count, fibers);
    if (s == NULL)
        return -ENOMEM;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s->snapshot.taken_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = snapshot_add_cord(s, copies[i], options->has_addresses);
    if (rc < 0)
        weft_snapshot_free(&s->snapshot);
    else
        *out = &s->snapshot;
    return rc;
}

void weft_snapshot_free(weft_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    full_snapshot *s = CONTAINER_OF(snapshot, full_snapshot, snapshot);
    while (s->addresses != NULL) {
        socket_names *names = s->addresses;
        s->addresses = names->next;
        free(names);
    }
    weft__frames_free(s->frames);
    free(s->names);
    free(s->thread_names);
    free(snapshot->fibers);
    free(snapshot->cords);
    free(s);
}
