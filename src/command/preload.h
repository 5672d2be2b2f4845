/* Where the command finds libweft-preload. */
#ifndef WEFT_COMMAND_PRELOAD_H
#define WEFT_COMMAND_PRELOAD_H

#include <limits.h>
#include <stdbool.h>

/*
 * Find libweft-preload beside the command, as in the build folder, or in the library directory of
 * the installation. path has PATH_MAX bytes. Return false if the library does not exist.
 */
bool weft__preload_find(char *path);

#endif
