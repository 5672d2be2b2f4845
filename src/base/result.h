/*
 * Results that may gain fields: structs of the caller that a function fills (docs/adr/0046).
 *
 * The caller passes the size of its struct, because its header may be older or newer than the
 * library. New fields are added at the end only.
 */
#ifndef WEFT_BASE_RESULT_H
#define WEFT_BASE_RESULT_H

#include <stddef.h>
#include <string.h>

/*
 * Copy a result between structs of different sizes. Omit the fields that `to` does not have. Set
 * the fields that `from` does not have to 0.
 */
static inline void weft__result_copy(void *to, size_t to_size, const void *from, size_t from_size)
{
    size_t common = to_size < from_size ? to_size : from_size;
    memcpy(to, from, common);
    memset((char *)to + common, 0, to_size - common);
}

#endif
