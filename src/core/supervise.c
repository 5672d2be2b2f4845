/* Placeholder. */
#include <weft/supervise.h>
