/* Placeholder. */
#include <weft/time.h>
