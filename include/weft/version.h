/* The version of these headers, and of the library that a program runs with. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include <weft/base.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

WEFT_BEGIN

/**
 * The version of the library in use, as "major.minor.patch"; compare it with the macros above
 * to see whether a shared library is the one that the program was built with.
 */
WEFT_API const char *weft_version(void);

WEFT_END

#endif
