/* Placeholder. */
#include <weft/sync.h>
