/* Placeholder. */
#include <weft/pool.h>
