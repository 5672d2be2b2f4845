/*
 * The version of the headers and of the library.
 *
 * Before version 1.0, weft promises no ABI. Compile programs again for each version. All versions
 * 0.x have the soname libweft.so.0, so a package must depend on the exact version.
 *
 * From version 1.0 on, programs need not be compiled again:
 *   - Results such as weft_counters gain fields at their end. The functions that fill a result get
 *     its size. A field that an older library does not know is 0.
 *   - Grown options, grown elements of arrays such as weft_clause, and changed signatures get a new
 *     symbol version.
 *   - Objects in the caller's memory such as weft_scope keep their size.
 *
 * Bindings of other languages call the exported functions that get a size, for example weft__stats.
 * docs/adr/0046 has the details.
 */
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
