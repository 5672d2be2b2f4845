/* Placeholder. */
#include <weft/queue.h>
