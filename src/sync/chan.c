/* Placeholder. */
#include <weft/chan.h>
