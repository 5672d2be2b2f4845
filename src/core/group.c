/* Placeholder. */
#include <weft/group.h>
