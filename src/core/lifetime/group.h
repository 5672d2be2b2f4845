/* The part of groups that the exit of a fiber needs. weft/group.h declares the public functions. */
#ifndef WEFT_CORE_LIFETIME_GROUP_H
#define WEFT_CORE_LIFETIME_GROUP_H

#include "core/fiber/fiber.h"

/*
 * Drop the groups that a fiber has not closed. Do not access the memory of the groups, which may be
 * invalid. The members become ordinary children. Raise the error of a failed member in the fiber.
 */
void weft__groups_drop(weft__fiber *f);

#endif
