/* The version of the headers and of the library. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include <weft/base.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

WEFT_BEGIN

/**
 * Return the version of the library in use.
 *
 * The result has the form "major.minor.patch". Compare the result with the macros above to detect a
 * shared library of another version.
 */
WEFT_API const char *weft_version(void);

WEFT_END

#endif
