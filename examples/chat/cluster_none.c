/* A chat that was built without libweft-hub runs in one process. */
#include "cluster.h"

#include <errno.h>

int cluster_open(const char *where, const char *process)
{
    (void)where;
    (void)process;
    return weft_fail(-ENOTSUP, "this chat was built without libweft-hub");
}

void cluster_close(void)
{
}

bool cluster_is_open(void)
{
    return false;
}

const char *cluster_process(void)
{
    return "";
}

const char *cluster_epoch(void)
{
    return "";
}

int cluster_share(room *r)
{
    (void)r;
    return -ENOTSUP;
}

void cluster_unshare(room *r)
{
    (void)r;
}

int cluster_start(room *r, weft_fiber parent)
{
    (void)r;
    (void)parent;
    return -ENOTSUP;
}

int cluster_add_room(const char *name)
{
    (void)name;
    return -ENOTSUP;
}

int cluster_find_rooms(weft_fiber parent)
{
    (void)parent;
    return -ENOTSUP;
}
