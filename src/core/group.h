/* What the end of a fiber means to the groups that it has left open. */
#ifndef WEFT_CORE_GROUP_H
#define WEFT_CORE_GROUP_H

#include "core/fiber.h"

/*
 * The fiber ends without having closed its groups, whose memory may be gone: their members are its
 * children like any other from now on, and an error that one had is its own.
 */
void weft__groups_drop(weft__fiber *f);

#endif
